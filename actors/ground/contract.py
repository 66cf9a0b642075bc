"""The contract between a shard (pure decisions) and its host, `actors.replica.replica.Replica`.

A shard is a replicated state machine. `handle`, `expire`, `on_elected` and `on_metadata` decide and
return a `Result`; only `apply` changes replicated state. Time is an argument (`now_ms`, milliseconds
since the epoch that never run backwards), ids come from an injected source, every output is a value.

Duties of the host, in this order, for each `Result`:
1. `apply` every record of it at once (speculation) and keep the replaced value for an undo;
2. append the records to the batch that becomes one Raft command at the end of the loop iteration;
3. release each reply when every record before it that concerns its group is committed (at once if
   there is none: a steady heartbeat costs no Raft message);
4. after a fall from leadership: undo newest first, refuse every parked request, call `on_resigned`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from actors.ground.image import MetadataImage

Key = tuple[Any, ...]
"""A record's key: a NamedTuple whose first field `kind` is Kafka's record type and whose second is the group
id (or the topic, for the metadata shard). It has only str, int, bytes, None and tuples of these, so that
msgpack carries it."""
Value = tuple[Any, ...]
"""A record's value: a NamedTuple of the same plain types. None in its place is a tombstone."""
Token = int
"""The number of one request inside one actor until its reply is given; it is never reused."""


class Record(NamedTuple):
    """One change of replicated state: an upsert, or a tombstone when value is None."""

    key: Key
    value: Value | None


class Request(NamedTuple):
    """One decoded request, with who asks."""

    token: Token
    api_key: int
    api_version: int
    client_id: str
    client_host: str
    """The client's address as Kafka shows it in describe: "/127.0.0.1"."""
    body: Any
    """The decoded request: one of `actors.protocol.messages` (coordinator) or `actors.metadata.commands`
    (controller)."""
    principal: str = "User:ANONYMOUS"
    """The user as whom the client has authenticated."""
    software_name: str = ""
    software_version: str = ""
    """The version that the client's library calls itself by, as `software_name` is its name (KIP-511); empty:
    it has not said."""

    @property
    def client_software(self) -> str | None:
        """Return name and version of the client's library as history shows them; None if it has not said."""
        return f"{self.software_name} {self.software_version}".strip() or None


class Reply(NamedTuple):
    """An answer to one request, perhaps one that came in earlier and was parked."""

    token: Token
    body: Any
    """The response of `actors.protocol.messages` that belongs to the request."""
    group_id: str | None = None
    """The one group that the answer speaks of: the reply waits only for this group's uncommitted records.
    None: it waits for every uncommitted record."""


class Push(NamedTuple):
    """What a coordinator sends of its own accord, on the connection on which a consumer has registered. It
    stands among the replies and leaves as one of them does, when the records before it are committed."""

    token: Token
    """The token of the request by which the consumer registered."""
    body: Any
    """A `Pushed` or `Hangup` of `actors.protocol.push_messages`."""
    group_id: str


class Result(NamedTuple):
    """What a decision asks for. Its records are to be applied before the next decision is made."""

    records: tuple[Record, ...] | list[Record] = ()
    replies: tuple[Reply | Push, ...] | list[Reply | Push] = ()
    events: tuple[Any, ...] | list[Any] = ()
    work: Iterator[Result] | None = None
    """The work of a decision that is too long for one piece, so that requests are served in between: each
    `next` does a few milliseconds of it, never raises for what became of the state meanwhile, and gives what
    it decided. An answer that is to come of it is in the last piece. It is dropped when leadership is
    lost."""


NOTHING = Result()
new_tuple: Any = tuple.__new__
"""The constructor of tuples, which makes a NamedTuple from all its fields in half the time of a call of its
class."""


def answered(token: Token, body: Any, group_id: str) -> Result:
    """Return a Result of one answer and nothing else. Heartbeats need it, therefore it is cheap."""
    result: Result = new_tuple(Result, ((), (new_tuple(Reply, (token, body, group_id)),), (), None))
    return result


class Shard(Protocol):
    """A replicated state machine as its host sees it."""

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when `expire` has something to do, in ms; None if nothing is scheduled."""

    def handle(self, request: Request, now_ms: int) -> Result:
        """Decide one request. It changes nothing replicated, and never raises for anything that a client
        sent."""

    def expire(self, now_ms: int) -> Result:
        """Carry out ONE due timer (the host calls again while `next_deadline_ms <= now_ms`)."""

    def apply(self, key: Key, value: Value | None) -> Value | None:
        """Write a value of replicated state; nobody else does. It never raises. Returns the value that it
        replaced; given back as `value`, that undoes the write."""

    def singles(self, key: Key, replaced: Value | None) -> Iterable[tuple[Key, Value | None]]:
        """Return what `apply` returned for `key`, by the keys that `records` gives: one record of the log may
        stand for several of the state."""

    def one_by_one(self, key: Key, value: Value) -> Iterable[tuple[Key, Value]]:
        """Return the records that a record of `records` stands for to those who know no packed ones: releases
        of level 1, and readers of copies."""

    def records(self) -> Iterator[Record]:
        """Yield the snapshot: every live record, which `apply` takes in any order. It goes on after `apply`
        is called between two records: what was not written since the first record is given, once and as it
        is; of what was written, any part may be missing. To give a record is bounded work."""

    def on_elected(self, now_ms: int) -> Result:
        """Build volatile state from replicated state: live groups, timers (A21, C26, M26). If it gives
        `work`, that is all of it, and the shard is not to be asked anything until it is done."""

    def on_resigned(self) -> None:
        """Drop all volatile state; the host has answered whoever was parked (C27)."""

    def on_metadata(self, image: MetadataImage, now_ms: int) -> Result:
        """Take a newer metadata image (called on leaders and followers)."""

    def refusal(self, request: Request, error_code: int) -> Any:
        """Return the response body that refuses `request` with `error_code` (NOT_COORDINATOR, ...)."""
