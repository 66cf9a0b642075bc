"""A coordinator as tests use it: a real replica that leads alone, a clock that the test moves, and its
answers.

A test reads each answer when it is decided. The replica sends it later, when the log has committed the
records that it rests on: `commit` lets the log do that, and what was not committed is lost in a `fall`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import msgpack
from kio.schema.errors import ErrorCode

from actors.coordinator.ground.state import ShardState
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Token, Value
from actors.ground.image import MetadataImage
from actors.ground.settings import GroupSettings
from actors.replica.log_level import FORMAT_VERSION
from actors.replica.replica import Replica
from tests.coordinator.alone import KeptLog, commit, lead, new_replica
from tests.coordinator.batches import one_by_one
from tests.coordinator.shards import new_shard


class _Eye:
    """The replica's watcher: it tells the host what was decided, before it is committed."""

    next_deadline_ms = None

    def __init__(self, host: Host) -> None:
        self._host = host

    def happened(self, result: Result) -> None:
        self._host.saw(result)

    def image_changed(self) -> None:
        """A new image changes nothing here."""

    def run(self, now_ms: int) -> None:
        """Do nothing: the watcher has no work in a turn."""

    def refuse_all(self) -> None:
        """Do nothing: no request waits for the watcher."""


class Host:
    """A coordinator that leads; `fail_over` puts the next leader's in its place."""

    keeps_log = False
    """Whether the log keeps its entries, for those who read what is committed."""

    def __init__(self, settings: GroupSettings, image: MetadataImage, now_ms: int, ids: str) -> None:
        """`ids` is the pattern of the member ids that the coordinator makes."""
        self.settings = settings
        self.image = image
        self.now_ms = now_ms
        self.replies: dict[Token, Any] = {}
        """The first answer to each request, as it was decided."""
        self.events: list[Any] = []
        self.last = Result()
        """The result of the last decision."""
        self.committed: dict[Key, Value] = {}
        """Every live record, as of the last call of `commit`."""
        self._ids, self._numbers = ids, count(1)
        self._tokens = count(1)
        self._open: dict[Token, Request] = {}
        self._answered: dict[Token, Request] = {}
        self.replica = self._new_replica()
        self.lead()

    @property
    def shard(self) -> CoordinatorShard:
        shard = self.replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    @property
    def state(self) -> ShardState:
        return self.shard.state

    # Requests.

    def send(self, api_key: int, body: Any, version: int, client_id: str = "client") -> Token:
        """Submit a request. Its answer is in `replies`, now or later."""
        return self.submit(Request(self.new_token(), api_key, version, client_id, "/127.0.0.1", body))

    def new_token(self) -> Token:
        return next(self._tokens)

    def submit(self, request: Request) -> Token:
        self._open[request.token] = request
        answer = self.replica.submit(request, self.now_ms)
        if answer is not None:
            self.last = Result()
            self._note(request.token, answer)
        return request.token

    def ask(self, api_key: int, body: Any, version: int, client_id: str = "client") -> Any:
        """Submit a request that is answered at once."""
        token = self.send(api_key, body, version, client_id)
        assert token in self.replies, f"no answer yet to {body}"
        return self.replies[token]

    @property
    def parked(self) -> int:
        """How many requests are not decided yet."""
        return len(self._open)

    # Time and faults.

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing each timer when it is due."""
        until_ms = self.now_ms + by_ms
        while (deadline_ms := self.replica.next_deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.replica.run_timers(self.now_ms)
        self.now_ms = until_ms

    def commit(self) -> None:
        """Commit what was decided so far: it cannot be undone any more."""
        commit(self.replica)
        self.committed = self.records()

    def fall(self) -> None:
        """Lose leadership: what is not committed is undone, newest first, and waiting requests are
        refused."""
        self.replica.on_fallen()
        assert self.records() == self.committed, "undoing did not restore what was committed"
        assert not self._open, "everybody was refused"

    def lead(self) -> None:
        """Make this coordinator the leader."""
        self.replica.watcher = _Eye(self)
        lead(self.replica, KeptLog() if self.keeps_log else None)
        while not self.replica.serving:
            self.replica.run_timers(self.now_ms)

    def fail_over(self, settings: GroupSettings | None = None) -> None:
        """Let another replica take over, which has the committed records and nothing else."""
        self.fall()
        self.settings = settings or self.settings
        self.begin_with(self.shard.records())

    def begin_with(self, records: Iterable[Record]) -> None:
        """Let a replica lead that has these records, all of them committed."""
        self.replica = self._restored(records)
        self.committed = self.records()
        self.lead()

    def set_image(self, image: MetadataImage) -> None:
        self.image = image
        self.replica.on_metadata(image, self.now_ms)

    # State.

    def records(self) -> dict[Key, Value]:
        """Return every live record by its key."""
        live: dict[Key, Value] = {}
        for key, value in one_by_one(self.shard.records()):
            assert key not in live, f"{key} is in the snapshot twice"
            assert value is not None, f"{key}: a tombstone in the snapshot"
            live[key] = value
        return live

    def restored(self, records: Iterable[Record] | None = None) -> CoordinatorShard:
        """The shard of a follower that was given the records as they travel, packed and unpacked."""
        shard = self._restored(self.shard.records() if records is None else records).shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    def check_snapshot(self) -> None:
        """Check that a shard restored from the snapshot holds the same records."""
        assert dict(one_by_one(self.restored().records())) == self.records()

    def new_shard(self) -> CoordinatorShard:
        """Make an empty shard, as every replica begins with."""
        return new_shard(self.settings, self.image, new_id=self.new_id)

    # What the replica tells.

    def saw(self, result: Result) -> None:
        """Note a decision; answers that need no commit have been sent already."""
        if result == NOTHING:
            return  # a timer that was moved on
        self.last = result
        for reply in result.replies:
            if isinstance(reply, Reply) and self.replies.get(reply.token) is not reply.body:
                self._note(reply.token, reply.body)

    def _released(self, token: Token, body: Any) -> None:
        """Note the replica's final answer: as it was decided, or a refusal of what is lost or undecided."""
        if token in self._open:
            self._note(token, body)
            return
        answered = self.replies[token]
        is_refusal = body == self.shard.refusal(self._answered[token], ErrorCode.not_coordinator)
        assert body is answered or is_refusal, f"decided was {answered}, sent is {body}"

    def _note(self, token: Token, body: Any) -> None:
        assert token not in self.replies, f"answered twice: {body}"
        assert token in self._open, f"answered nobody: {body}"
        self._answered[token] = self._open.pop(token)
        self.replies[token] = body

    def _new_replica(self) -> Replica:
        return new_replica(
            self.new_shard,
            self._released,
            clock_ms=lambda: self.now_ms,
            on_events=lambda events: self.on_events(events),
        )

    def on_events(self, events: Sequence[Any]) -> None:
        self.events.extend(events)

    def new_id(self) -> str:
        return self._ids.format(next(self._numbers))

    def _restored(self, records: Iterable[Record]) -> Replica:
        replica = self._new_replica()
        pack = msgpack.Packer().pack
        replica.restore(b"".join(map(pack, ((FORMAT_VERSION, 0), *records))))
        return replica
