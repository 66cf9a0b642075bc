"""A shard behind a log: propose, park replies, release on commit, roll back on a fall (design.md section 4).

`Replica` is synchronous and does no I/O: the log (storage.raft.Raft) calls it with committed entries and
changes of role, the actor calls it with requests and the time. What keeps the promises:

* a reply leaves only when every record before it that concerns its group is committed;
* records are applied when they are decided (speculation) and undone, newest first, if leadership is lost;
* a reply that needs no commit leaves only while the leader holds its lease, so nobody reads what another
  leader has already overwritten;
* an entry carries the term it was decided in; one that surfaces in any other term is ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgpack
from kio.schema.errors import ErrorCode

from actors.contract import Key, Record, Reply, Request, Result, Shard, Token, Value
from actors.limits import RAFT_BATCH_BYTES_MAX, RAFT_PENDING_BYTES_MAX
from actors.metadata.image import MetadataImage
from storage.errors import Busy, NotLeader

FORMAT_VERSION = 1
READABLE_VERSIONS = frozenset({1})
ENTRIES_IN_FLIGHT_MAX = 2
"""With so many entries under way the batch grows until one of them is committed: an entry costs the same
whether it carries one commit or fifty, and what comes while disks sync could not be synced sooner anyway."""
TIMERS_PER_TURN_MAX = 256
"""Timers fired before requests get their turn again."""


class Log(Protocol):
    """What a replica needs of Raft."""

    @property
    def is_leader(self) -> bool: ...
    @property
    def term(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...
    def propose(self, command: bytes) -> int: ...
    def has_lease(self) -> bool: ...


class RecordType(NamedTuple):
    """How a record that came as plain tuples becomes NamedTuples again."""

    key: Callable[..., Key]
    value: Callable[..., Value]


class _Proposal:
    """One uncommitted entry: what to undo, whom to answer."""

    __slots__ = ("groups", "index", "replies", "undo")

    def __init__(self) -> None:
        self.index = 0
        self.undo: list[tuple[Key, Value | None]] = []
        self.replies: list[Reply] = []
        self.groups: set[Any] = set()


class Replica:
    """One copy of a shard. `release(token, body)` sends an answer that was not given at once.

    `new_shard` makes an empty shard (again after a snapshot arrives). `record_types` maps a record's kind
    to its classes. `on_events` receives what `Result.events` holds. Implements storage.raft.StateMachine.
    """

    def __init__(
        self,
        *,
        new_shard: Callable[[], Shard],
        record_types: dict[int, RecordType],
        release: Callable[[Token, Any], None],
        clock_ms: Callable[[], int],
        on_events: Callable[[Sequence[Any]], None],
    ) -> None:
        self.shard = new_shard()
        self.log: Log | None = None
        """Set once, right after the log has been made (each needs the other)."""
        self.serving = False
        self._new_shard = new_shard
        self._record_types = record_types
        self._release = release
        self._clock_ms = clock_ms
        self._on_events = on_events
        self._image: MetadataImage | None = None
        self._packer = msgpack.Packer(autoreset=False)
        self._batch = _Proposal()
        self._uncommitted: deque[_Proposal] = deque()
        self._dirty: dict[Any, _Proposal] = {}
        """Group id -> the newest uncommitted entry that concerns it."""
        self._open: dict[Token, Request] = {}
        """Requests whose answer is still owed: parked by the shard, or waiting for a commit or the lease."""
        self._leaseless: list[Reply] = []
        self._is_full = False
        """As of the last flush: what waits for its commit has reached its bound."""

    # Requests.

    def submit(self, request: Request, now_ms: int) -> Any | None:
        """Decide one request. Returns its response body if it may leave at once, else None.

        None means that `release` will be called for its token later, exactly once.
        """
        log = self.log
        assert log is not None
        if not self.serving:
            code = ErrorCode.coordinator_load_in_progress if log.is_leader else ErrorCode.not_coordinator
            return self.shard.refusal(request, code)
        if self._is_full:
            return self.shard.refusal(request, ErrorCode.coordinator_not_available)
        result = self.shard.handle(request, now_ms)
        replies = result.replies
        if not result.records and not result.events and len(replies) == 1:
            reply = replies[0]
            if reply.token == request.token and self._is_clean(reply.group_id) and log.has_lease():
                return reply.body
        self._open[request.token] = request
        self._take(result)
        return None

    def run_timers(self, now_ms: int) -> None:
        """Fire due timers, a bounded number a turn."""
        if not self.serving:
            return
        for _ in range(TIMERS_PER_TURN_MAX):
            deadline_ms = self.shard.next_deadline_ms
            if deadline_ms is None or deadline_ms > now_ms:
                return
            self._take(self.shard.expire(now_ms))

    @property
    def next_deadline_ms(self) -> int | None:
        return self.shard.next_deadline_ms if self.serving else None

    def flush(self) -> None:
        """End of a loop iteration: the batch becomes one Raft entry, unless enough of them are under way;
        replies that wait for the lease go."""
        if self._leaseless:
            self._release_leaseless()
        if self.can_flush:
            self._propose()
        assert self.log is not None
        self._is_full = (
            self.log.pending_bytes > RAFT_PENDING_BYTES_MAX // 2
            or len(self._packer.getbuffer()) > RAFT_BATCH_BYTES_MAX
        )

    @property
    def can_flush(self) -> bool:
        """`flush` would make an entry now."""
        return bool(self._batch.undo) and len(self._uncommitted) < ENTRIES_IN_FLIGHT_MAX

    @property
    def is_settled(self) -> bool:
        """Nothing decided here is still uncommitted."""
        return not self._uncommitted and not self._batch.undo

    @property
    def owed(self) -> int:
        """Requests that still wait for their answer."""
        return len(self._open)

    def on_metadata(self, image: MetadataImage, now_ms: int) -> None:
        if self._image is not None and image.version < self._image.version:
            return
        self._image = image
        result = self.shard.on_metadata(image, now_ms)
        if self.serving:
            self._take(result)

    # storage.raft.StateMachine.

    def apply(self, index: int, term: int, command: bytes) -> None:
        """A committed entry. Its records are already applied if this leader decided them."""
        if self._uncommitted and self._uncommitted[0].index == index:
            self._commit(self._uncommitted.popleft())
            return
        decided_in, records = self._unpack(command)
        if decided_in != term:
            return
        for key, value in records:
            self.shard.apply(key, value)

    def snapshot(self) -> bytes:
        """Every live record as committed: what is only decided is taken back for as long as this lasts."""
        decided = self._undo_all()
        packer = msgpack.Packer(autoreset=False)
        packer.pack((FORMAT_VERSION, 0))
        for record in self.shard.records():
            packer.pack(record)
        for key, value in reversed(decided):
            self.shard.apply(key, value)
        return bytes(packer.bytes())

    def restore(self, data: bytes) -> None:
        shard = self._new_shard()
        for key, value in self._unpack(data)[1]:
            shard.apply(key, value)
        self.shard = shard
        if self._image is not None:
            shard.on_metadata(self._image, self._clock_ms())

    def on_leading(self, term: int) -> None:
        """Elected, and every earlier entry is applied: the state is as the last leader left it."""
        assert self.is_settled
        self.serving = True
        self._take(self.shard.on_elected(self._clock_ms()))

    def on_fallen(self) -> None:
        """Undo what was not committed, refuse whoever waits, forget what only a leader knows."""
        self.serving = False
        self._undo_all()
        self._batch = _Proposal()
        self._uncommitted.clear()
        self._dirty.clear()
        self._leaseless.clear()
        self._packer.reset()
        owed, self._open = self._open, {}
        self.shard.on_resigned()
        for token, request in owed.items():
            self._release(token, self.shard.refusal(request, ErrorCode.not_coordinator))

    # Inside.

    def _undo_all(self) -> list[tuple[Key, Value | None]]:
        """Take back every uncommitted record, newest first; returns what a redo must apply, in reverse."""
        taken_back = []
        for proposal in (self._batch, *reversed(self._uncommitted)):
            for key, value in reversed(proposal.undo):
                taken_back.append((key, self.shard.apply(key, value)))
        return taken_back

    def _take(self, result: Result) -> None:
        """Carry out a Result: apply and batch its records, park or release its replies."""
        batch = self._batch
        for key, value in result.records:
            if not batch.undo:
                assert self.log is not None
                self._packer.pack((FORMAT_VERSION, self.log.term))
            batch.undo.append((key, self.shard.apply(key, value)))
            batch.groups.add(key[1])
            self._packer.pack((key, value))
            if len(self._packer.getbuffer()) > RAFT_BATCH_BYTES_MAX:
                # Only a Result of megabytes (a huge group deleted) is ever cut over two entries; its
                # replies wait for the last one.
                self._propose()
                if not self.serving:
                    return
                batch = self._batch
        for reply in result.replies:
            self._park(reply)
        if result.events:
            self._on_events(result.events)

    def _park(self, reply: Reply) -> None:
        group_id = reply.group_id
        batch = self._batch
        if batch.undo and (group_id is None or group_id in batch.groups):
            batch.replies.append(reply)
            return
        if group_id is None:
            waits_for = self._uncommitted[-1] if self._uncommitted else None
        else:
            waits_for = self._dirty.get(group_id)
        if waits_for is not None:
            waits_for.replies.append(reply)
            return
        self._leaseless.append(reply)
        self._release_leaseless()

    def _is_clean(self, group_id: Any) -> bool:
        if group_id is None:
            return self.is_settled
        return group_id not in self._dirty and group_id not in self._batch.groups

    def _propose(self) -> None:
        assert self.log is not None
        batch = self._batch
        try:
            batch.index = self.log.propose(self._packer.bytes())
        except NotLeader:
            self.on_fallen()
            return
        except Busy:
            return  # leadership is being handed over, or the bound is reached: tried again next turn
        self._batch = _Proposal()
        self._packer.reset()
        self._uncommitted.append(batch)
        for group_id in batch.groups:
            self._dirty[group_id] = batch

    def _commit(self, proposal: _Proposal) -> None:
        for group_id in proposal.groups:
            if self._dirty.get(group_id) is proposal:
                del self._dirty[group_id]
        for reply in proposal.replies:
            self._send(reply)

    def _release_leaseless(self) -> None:
        assert self.log is not None
        if not self.log.has_lease():
            return
        replies, self._leaseless = self._leaseless, []
        for reply in replies:
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        if self._open.pop(reply.token, None) is not None:
            self._release(reply.token, reply.body)

    def _unpack(self, command: bytes) -> tuple[int, Iterable[Record]]:
        unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
        unpacker.feed(command)
        version, term = unpacker.unpack()
        if version not in READABLE_VERSIONS:
            raise ValueError(
                f"entry of format version {version}; this release reads {sorted(READABLE_VERSIONS)}"
            )
        return term, self._typed(unpacker)

    def _typed(self, unpacker: Iterable[Any]) -> Iterable[Record]:
        for key, value in unpacker:
            record_type = self._record_types.get(key[0])
            if record_type is None:
                continue  # a record type of a newer release: skipped, as Kafka's loader does (R6)
            yield Record(
                _named(record_type.key, key), None if value is None else _named(record_type.value, value)
            )


def _named(cls: Any, values: tuple[Any, ...]) -> Any:
    """A NamedTuple of plain values; fields that an older release did not write get their defaults."""
    # Every record of every follower comes through here: tuple.__new__ costs half of what the class does.
    return tuple.__new__(cls, values) if len(values) == len(cls._fields) else cls(*values)
