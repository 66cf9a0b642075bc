"""The lane of one simulated process: a twin of `actors.leader.lane.compiled` in plain Python, and its judge.

In the place of bytes it compares requests without their tokens. What it answers, the shard has to answer the
same at this very moment; and nobody may lose a member that the lane has heard in time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request
from actors.ground.records import OFFSET_BATCH, OFFSET_COMMIT, OFFSET_ROWS, PENDING_TXN_OFFSET
from actors.leader.lane.memory import ARMED, FACTS, HEARD_MS, Repetition
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process

HEARTBEATS = (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)
OFFSETS = (OFFSET_COMMIT, OFFSET_BATCH, OFFSET_ROWS, PENDING_TXN_OFFSET)


class _Last(NamedTuple):
    """The last heartbeat of a connection, and its answer."""

    asked: tuple[Any, ...]
    body: Any


class _Heard(NamedTuple):
    """When the lane heard a member last."""

    key: Hashable
    until_ms: int


class Lane:
    def __init__(self, process: Process, replica: Any) -> None:
        self._process = process
        self._replica = replica
        self._facts: list[list[int]] = []
        self._memory = process.world.code.memory(replica, self._facts)
        replica.repeats = self._memory
        self._repetitions: dict[str, Repetition] = {}
        """What each client's connection repeats."""
        self._last: dict[str, _Last] = {}
        self._heard: dict[str, _Heard] = {}
        self.answered = 0

    def submit(self, client: str, request: Request) -> Any:
        """Answer the request, or have the replica answer it. Returns None if the answer comes later."""
        process, now_ms = self._process, self._process.now_ms()
        repetition = self._repetitions.get(client)
        if repetition is not None:
            body = self._repeated(client, repetition, request, now_ms)
            if body is not None:
                return body
            self._memory.forget(repetition)
        self._heard.pop(client, None)
        body = process.machine.submit(request, now_ms)
        if body is not None and request.api_key in HEARTBEATS and body.error_code == ErrorCode.none:
            self._remember(client, request, body, now_ms)
        else:
            self._last.pop(client, None)
        return body

    def closed(self, client: str) -> None:
        """Forget a connection that is closed."""
        self._last.pop(client, None)
        repetition = self._repetitions.pop(client, None)
        if repetition is not None:
            self._memory.forget(repetition)

    def _remember(self, client: str, request: Request, body: Any, now_ms: int) -> None:
        """Remember a heartbeat that has been answered, and arm its connection: sooner than in a tier, where
        it has to come twice."""
        self._last[client] = _Last(request[1:], body)
        repetition = self._repetitions.get(client)
        if repetition is None:
            repetition = self._repetitions[client] = Repetition()
            repetition.place = len(self._facts)
            self._facts.append([0] * FACTS)
        if self._memory.remember(repetition, request, now_ms):
            assert repetition.place is not None
            self._facts[repetition.place][ARMED] = 1

    def _repeated(self, client: str, repetition: Repetition, request: Request, now_ms: int) -> Any:
        """Return the remembered answer, or None: what `compiled.repeat` does."""
        assert repetition.place is not None
        fact, last, process = self._facts[repetition.place], self._last.get(client), self._process
        if not fact[ARMED] or last is None or last.asked != request[1:]:
            return None
        if not process.host.clock() < process.raft.lease_until:
            return None
        fact[HEARD_MS] = now_ms
        self.answered += 1
        self._heard[client] = _Heard(repetition.key, now_ms + repetition.session_ms)
        self._judge(request, last.body, now_ms)
        return last.body

    # -- the judge ----------------------------------------------------------------------------------

    def _judge(self, request: Request, body: Any, now_ms: int) -> None:
        """Decide the request, and leave its session's timer as it was. Raises Violation."""
        replica, name = self._replica, self._process.name
        if not replica.serving or not self._process.raft.has_lease():
            raise Violation(f"lane: {name} repeats an answer and is not the leader, or has no lease")
        timers = replica.shard.state.timers
        found = replica.shard.repeats(request, now_ms)
        if found is None:
            raise Violation(f"lane: {name} repeats {body}, which may not be repeated: {request}")
        ends_ms = timers.deadline_ms(found[0])
        result = replica.shard.handle(request, now_ms)
        if ends_ms is not None:
            timers.schedule(found[0], ends_ms)
        if result.records or result.events or [reply.body for reply in result.replies] != [body]:
            raise Violation(f"lane: {name} repeats {body}, where the shard decides {result}")
        group_id = request.body.group_id
        for entry in replica._uncommitted:
            for key, _ in entry.undo:
                if key[1] == group_id and key[0] not in OFFSETS:
                    raise Violation(f"lane: {name} repeats {body} before {key} is committed")

    def turned(self) -> None:
        """Check that no session has ended of a member that the lane has heard. Raises Violation."""
        if not self._replica.serving:
            self._heard.clear()
            return
        timers, now_ms = self._replica.shard.state.timers, self._process.now_ms()
        for client, heard in list(self._heard.items()):
            if now_ms >= heard.until_ms:
                del self._heard[client]
            elif heard.key not in timers:
                raise Violation(f"lane: {self._process.name} ends the session of {heard.key}, which it heard")
