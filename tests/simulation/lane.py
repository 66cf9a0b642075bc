"""The lane of one simulated process: a twin of `actors.leader.lane.compiled` and `sockets` in plain Python,
and its judge.

In the place of bytes it compares requests without their tokens. What it answers, at once or when its hold is
over, the shard has to answer the same at this very moment; and nobody may lose a member that the lane has
heard in time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.held import AT_ONCE, Terms
from actors.ground.contract import Request
from actors.ground.records import OFFSET_BATCH, OFFSET_COMMIT, OFFSET_ROWS, PENDING_TXN_OFFSET
from actors.leader.held_heartbeats import HeldHeartbeats, Holding
from actors.leader.lane.memory import ARMED, CAME_MS, FACTS, HEARD_MS, HELD, SPACING_MS, Repetition
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process

HEARTBEATS = (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)
OFFSETS = (OFFSET_COMMIT, OFFSET_BATCH, OFFSET_ROWS, PENDING_TXN_OFFSET)
Asked = tuple[Any, ...]
"""A request without its token."""
Give = Callable[[int, Any], None]


class _Repeated(Repetition):
    """One heartbeat that a connection repeats."""

    def __init__(self, lane: Lane, connection: str, asked: Asked, place: int) -> None:
        super().__init__()
        self.place = place
        self.connection = connection
        self.asked = asked
        self.body: Any = None
        self.terms = AT_ONCE
        self.holding: Holding | None = None
        self.held: Request | None = None
        """The heartbeat whose answer is held; None: none is."""
        self.until_ms = 0
        self._lane = lane

    def give_back(self, came_ms: int, spacing_ms: int) -> None:
        self._lane.give_back(self)

    def withdrawn(self) -> None:
        self._lane.withdrawn(self)


class _Heard(NamedTuple):
    """When the lane heard a member last."""

    key: Hashable
    until_ms: int


class Lane:
    def __init__(
        self,
        process: Process,
        replica: Any,
        held: HeldHeartbeats,
        give: Give,
        waiting: dict[int, tuple[str, str]],
    ) -> None:
        self._waiting = waiting
        """The connection and the client of each request that Python owes an answer, by its token."""
        self._process = process
        self._replica = replica
        self._held = held
        self._give = give
        self._facts: list[list[int]] = []
        self._memory = process.world.code.memory(replica, self._facts)
        replica.repeats = self._memory
        self._repeated: dict[str, dict[Asked, _Repeated]] = {}
        """What each connection repeats."""
        self._holds: dict[str, _Repeated] = {}
        """The heartbeat of each connection whose answer is held here."""
        self._heard: dict[str, _Heard] = {}
        self.answered = 0
        self.held = 0

    # -- requests -----------------------------------------------------------------------------------

    def submit(self, client: str, connection: str, request: Request) -> tuple[bool, Any]:
        """Answer or hold the request, if it is a repetition on a connection to which nothing is owed. Return
        whether it is, and the answer, which is None if it is held. What is held there ends first."""
        now_ms, before = self._process.now_ms(), self._holds.get(connection)
        if before is not None:
            self._end(before, by_request=1)
        repeated = self._repeated.get(connection, {}).get(request[1:])
        if repeated is None or not self._facts[repeated.place][ARMED] or not self._is_leased():
            return False, None
        assert repeated.place is not None
        fact, terms = self._facts[repeated.place], repeated.terms
        spacing_ms = now_ms - fact[CAME_MS]
        if terms.hold_ms and not terms.spacing_ms_min <= spacing_ms <= terms.spacing_ms_max:
            return False, None
        fact[HEARD_MS] = fact[CAME_MS] = now_ms
        fact[SPACING_MS] = spacing_ms
        self._heard[client] = _Heard(repeated.key, now_ms + repeated.session_ms)
        if not terms.hold_ms:
            self.answered += 1
            self._judge(request, repeated.body, now_ms)
            return True, repeated.body
        self._hold(repeated, request, now_ms)
        return True, None

    def passed_over(self, client: str) -> None:
        """Learn that Python decides a request of the client, which may leave by it."""
        self._heard.pop(client, None)

    def _hold(self, repeated: _Repeated, request: Request, now_ms: int) -> None:
        self._facts[repeated.place][HELD] = 1
        repeated.held, repeated.until_ms = request, now_ms + repeated.terms.hold_ms
        self._holds[repeated.connection] = repeated
        self.held += 1
        self._held.lane_counts(1, 0, 0)
        self._process.world.after(repeated.terms.hold_ms / 1_000, lambda: self._due(repeated, request))

    def _due(self, repeated: _Repeated, request: Request) -> None:
        """End a hold whose time is over, if it still is one and this process still runs."""
        process = self._process
        if not process.is_alive or repeated.held is not request:
            return
        if process.host.paused_until > process.world.now:
            process.world.at(process.host.paused_until, lambda: self._due(repeated, request))
            return
        process.host.guard(lambda: self._end(repeated, over=1))
        process.wake()

    def _end(self, repeated: _Repeated, over: int = 0, by_request: int = 0) -> None:
        """Answer what is held; without a lease it is given back."""
        if not self._is_leased():
            self._memory.forget(repeated)
            return
        request, repeated.held = repeated.held, None
        assert request is not None
        del self._holds[repeated.connection]
        self._facts[repeated.place][HELD] = 0
        self.answered += 1
        self._held.lane_counts(0, over, by_request)
        self._judge(request, repeated.body, self._process.now_ms())
        self._give(request.token, repeated.body)

    def _is_leased(self) -> bool:
        return bool(self._process.host.clock() < self._process.raft.lease_until)

    # -- what is remembered -------------------------------------------------------------------------

    def decided(self, connection: str, request: Request, body: Any) -> None:
        """Remember a heartbeat that has been answered at once, sooner than in a tier, where it has to come
        twice."""
        if request.api_key in HEARTBEATS and body.error_code == ErrorCode.none:
            self._remember(connection, request, body)

    def ended(self, holding: Holding, request: Request, terms: Terms, response: Any) -> None:
        if holding.kept is None or holding.kept[1] is not request:
            return
        repeated = self._remember(holding.kept[0], request, response)
        if repeated is not None:
            repeated.terms, repeated.holding = terms, holding
            fact = self._facts[repeated.place]
            fact[CAME_MS], fact[SPACING_MS] = holding.beat_at_ms or 0, holding.spacing_ms

    def submitted(self, holding: Holding, group_id: str, session_key: Hashable) -> None:
        self._memory.forget_member(group_id, session_key)
        if holding.kept is not None:
            for repeated in list(self._repeated.get(holding.kept[0], {}).values()):
                self._memory.forget(repeated)

    def _remember(self, connection: str, request: Request, body: Any) -> _Repeated | None:
        repeated = self._repeated.get(connection, {}).get(request[1:])
        if repeated is None:
            repeated = _Repeated(self, connection, request[1:], len(self._facts))
            self._facts.append([0] * FACTS)
        if not self._memory.remember(repeated, request, self._process.now_ms()):
            return None
        self._repeated.setdefault(connection, {})[request[1:]] = repeated
        repeated.body = body
        self._facts[repeated.place][ARMED] = 1
        return repeated

    def give_back(self, repeated: _Repeated) -> None:
        request, repeated.held = repeated.held, None
        assert request is not None
        assert repeated.holding is not None
        del self._holds[repeated.connection]
        self._tell(repeated)
        self._waiting[request.token] = repeated.connection, repeated.connection
        self._held.take_in(repeated.holding, request, repeated.until_ms)
        self._process.wake()

    def withdrawn(self, repeated: _Repeated) -> None:
        self._tell(repeated)
        self._repeated.get(repeated.connection, {}).pop(repeated.asked, None)

    def _tell(self, repeated: _Repeated) -> None:
        """Tell Python when the last heartbeat came that was held here."""
        fact, holding = self._facts[repeated.place], repeated.holding
        if holding is not None and fact[CAME_MS] > (holding.beat_at_ms or 0):
            holding.beat_at_ms, holding.spacing_ms = fact[CAME_MS], fact[SPACING_MS]

    def tell(self, connection: str) -> None:
        """Tell Python when the last heartbeat of a connection came."""
        for repeated in self._repeated.get(connection, {}).values():
            self._tell(repeated)

    def closed(self, connection: str) -> None:
        """Forget a connection that is closed."""
        for repeated in list(self._repeated.get(connection, {}).values()):
            self._memory.forget(repeated)

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
