"""One life of one fake consumer: what classic and KIP-848 members have in common.

One greenlet does everything in turn, as a consumer's network thread does; what the plan does to it wakes it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Final, NamedTuple, NoReturn

import gevent
from gevent.event import Event

from bench.member import member
from bench.member.requests import Request
from bench.swarm.members.asking import (
    ASLEEP,
    ENDED,
    JOINING,
    STABLE,
    CoordinatorLost,
    GaveUp,
    NotYet,
)
from bench.swarm.members.flight import Flight
from bench.swarm.members.processing import Processor
from bench.swarm.planning.plan import SLEEP, MemberPlan
from bench.swarm.rows.board import UNSETTLED
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.connection import Closed, TimedOut
from bench.swarm.wire.exchange import Question, Read
from cluster.tier_file import TierError
from storage.history.calls import Call

LEAVE_TIMEOUT_S: Final = 5.0
LONG_S: Final = 2.0
"""A member that processes for so long counts as asleep: it keeps its group waiting, and the coordinator is
not blamed for that."""
NEVER_S: Final = float("inf")


class Heartbeat(NamedTuple):
    """A heartbeat to be sent, and how its answer is read."""

    request: Request
    call: Call
    read: Read[Any]
    timeout_s: float


class Leaving(gevent.GreenletExit):  # type: ignore[misc]  # gevent has no types
    """Ends a member as an application that closes its consumer."""


class Member(Processor, ABC):
    """One life of a consumer. Subclasses say how it joins, sends heartbeats and leaves. Spawn `run`."""

    def __init__(self, plan: MemberPlan, life: int, shared: Shared, member: member.Member) -> None:
        super().__init__(plan, life, shared, member)
        self.is_ending = False
        """The member has been told to end."""
        self._news = Event()
        self._awake_at = 0.0
        self._backoff_s = self._backoff_min_s = self.software.backoff_ms[0] / 1000
        self._backoff_max_s = self.software.backoff_ms[1] / 1000
        self._failures = 0
        """How many tries have failed since the coordinator last answered without an error."""
        self.beat_at = 0.0
        self._flights: deque[Flight] = deque()
        """The heartbeats that are not answered yet, the oldest first."""
        first_s = plan.commit_interval_ms / 1000 * self.chance.uniform(0.5, 1.5)
        self._commit_at = time.monotonic() + first_s

    # What a subclass is.

    @abstractmethod
    def settle(self) -> bool:
        """Join, or go on joining; False if there is nothing to do."""

    @property
    @abstractmethod
    def is_member(self) -> bool:
        """Whether it has a membership that heartbeats keep alive."""

    @abstractmethod
    def heartbeat(self) -> Heartbeat:
        """The next heartbeat."""

    @abstractmethod
    def beat_interval_s(self) -> float:
        """The time from one heartbeat to the next; 0: it is not known yet."""

    @abstractmethod
    def beaten(self, told: Any) -> None:
        """Do what a heartbeat's answer asks for. Raises what `check` raises."""

    @abstractmethod
    def lose(self) -> None:
        """Forget the membership and all owned partitions: the group has gone on without this member."""

    @abstractmethod
    def say_goodbye(self) -> bool:
        """Leave the group; False if a client of its kind just ends. Raises what `ask` raises."""

    # What the plan does to it.

    def run(self) -> None:
        """Live until the greenlet is killed. Killed with Leaving it leaves its group, otherwise it is gone
        without a LeaveGroup."""
        is_gone = True
        self.shared.recorder.turn(self.plan.group_id, self.plan.name, UNSETTLED)
        try:
            self._live()
        except Leaving:
            is_gone = not self._leave()
        except GaveUp as error:
            self.shared.words.append(f"{self.client} gave up: {error}")
        finally:
            if is_gone:
                self.shared.recorder.gone(self.client)
            self._end()

    def sleep_for(self, seconds: float) -> None:
        """Process for so long, and poll again only then."""
        self._awake_at = time.monotonic() + seconds
        self._news.set()

    def cut(self) -> None:
        """End the member's connection."""
        if self._line is not None:
            self._line.close("cut")

    # How it lives.

    @property
    def is_asleep(self) -> bool:
        return self._awake_at > time.monotonic()

    def _live(self) -> NoReturn:
        while True:
            try:
                if self.is_asleep:
                    self._doze()
                elif not self.settle():
                    self._next_duty()
                self._backoff_s, self._failures = self._backoff_min_s, 0
            except (CoordinatorLost, Closed, TimedOut):
                self._forget_coordinator()
                self._fail()
            except NotYet:
                self._without_service()
                self._fail()
            except TierError as error:
                raise GaveUp(str(error)) from error

    def _next_duty(self) -> None:
        """Wait for what is due first and do it: act on a heartbeat's answer, commit, or send the next
        heartbeat."""
        if self._land():
            return
        stands = bool(self._flights) and not self.software.goes_on
        has_commits = self.plan.commit_interval_ms > 0 and bool(self.owned) and not stands
        beat_at = self.beat_at if self._may_beat() else NEVER_S
        has_records = self._polling is not None and not stands and self._polling.has_records
        due_at = min(beat_at, self._commit_at) if has_commits else beat_at
        if self._wait(0.0 if has_records else due_at):
            return
        now = time.monotonic()
        if has_commits and now >= self._commit_at:
            self._commit_at = now + self.plan.commit_interval_ms / 1000
            self.commit(self._next_part())
        if now >= self.beat_at and self._may_beat():
            self._take_off()
        if has_records:
            self._work()

    def wake(self) -> None:
        self._news.set()

    def _work(self) -> None:
        """Poll and process what the poll returned. Meanwhile the member only sends heartbeats."""
        assert self._polling is not None, "it has records"
        seconds = self._polling.poll()
        is_long = seconds >= LONG_S
        if is_long:
            self.shared.recorder.fault(SLEEP, self.plan.name, seconds)
        self._awake_at = max(self._awake_at, time.monotonic() + seconds)
        self._doze(is_seen=is_long)
        self._polling.is_processed()

    def _may_beat(self) -> bool:
        return not self._flights or (self.software.beats_again and not self.is_consumer)

    def _take_off(self) -> None:
        """Send a heartbeat and go on. Raises what finding the coordinator raises."""
        self.beat_at = time.monotonic() + self.beat_interval_s()
        if not self.is_member:
            return
        line, beat = self._connected(), self.heartbeat()

        def ask() -> Any:
            return self._ask_on(line, Question(beat.request, beat.read, beat.timeout_s), beat.call)

        self._flights.append(Flight(self.epoch, ask, self._news.set))

    def _land(self) -> bool:
        """Do what a heartbeat's answer asks for; False if no answer is there. Raises what asking raises."""
        if not self._flights or not self._flights[0].has_landed:
            return False
        flight = self._flights.popleft()
        told = flight.result()
        if flight.epoch == self.epoch:  # an answer to an earlier membership does not concern this one
            if self.software.beats_from_answer:
                self.beat_at = time.monotonic() + self.beat_interval_s()
            self.beaten(told)
        return True

    def _drop_flights(self) -> None:
        flights, self._flights = self._flights, deque()
        for flight in flights:
            flight.drop()

    def _forget_coordinator(self) -> None:
        super()._forget_coordinator()
        self._drop_flights()

    def _doze(self, *, is_seen: bool = True) -> None:
        """Process without polling. Heartbeats go on until the member has not polled for max.poll.interval.ms:
        then it leaves, and joins again when it is done."""
        late_at = time.monotonic() + self.plan.rebalance_timeout_ms / 1000
        if is_seen:
            self.become(ASLEEP)
        while self.is_asleep and time.monotonic() < late_at:
            beat_at = self.beat_at if self.software.beats_asleep and not self._flights else NEVER_S
            self._wait(min(beat_at, self._awake_at, late_at))
            self._beat_anyway()
        if self.is_asleep:
            self._leave()
            self.lose()
            while self.is_asleep:
                self._wait(self._awake_at)
            is_seen = True
        if is_seen:
            self.become(STABLE if self.owned else JOINING)

    def _beat_anyway(self) -> None:
        """Send heartbeats and take their answers while the member is asleep."""
        try:
            is_due = time.monotonic() >= self.beat_at and self.software.beats_asleep and not self._flights
            if not self._land() and is_due:
                self._take_off()
        except (CoordinatorLost, Closed, TimedOut):
            self._forget_coordinator()
            self.beat_at = time.monotonic() + self._backoff_max_s
        except NotYet:
            self.beat_at = time.monotonic() + self._backoff_max_s

    def _wait(self, until: float) -> bool:
        """Wait until a time. True: something happened meanwhile that the member has to look at."""
        if self._news.wait(None if until == NEVER_S else max(0.0, until - time.monotonic())):
            self._news.clear()
            return True
        return False

    def _fail(self) -> None:
        """Wait before it tries again; a client that has tried too often takes its partitions for lost."""
        self._failures += 1
        if self._failures == self.software.gives_up_after:
            self.lose()
        if self.is_consumer or not self.software.retries_at_interval:
            self.beat_at = time.monotonic()
        gevent.sleep(self._backoff_s * self.chance.uniform(0.8, 1.2))
        self._backoff_s = min(2 * self._backoff_s, self._backoff_max_s)

    def _leave(self) -> bool:
        """Leave the group; False if the coordinator was not told."""
        try:
            if not self.software.closes_at_once:
                for flight in self._flights:
                    flight.wait(self.software.heartbeat_timeout_ms / 1000)
            with gevent.Timeout(LEAVE_TIMEOUT_S, TimedOut()):
                return self.say_goodbye()
        except (CoordinatorLost, NotYet, Closed, TimedOut, TierError):
            return False

    def _end(self) -> None:
        self._drop_flights()
        if self._polling is not None:
            self._polling.close()
        self.state = ENDED
        self._give_line_back()
        self.shared.recorder.turn(self.plan.group_id, self.plan.name, None)

    # What it tells others of itself.

    def become(self, state: str, gained: int = 0) -> None:
        """Have a new state; others are told only of changes."""
        if state != self.state or gained or state == STABLE:
            self.state = state
            epoch = self.epoch if state == STABLE else UNSETTLED
            self.shared.recorder.turn(self.plan.group_id, self.plan.name, epoch, gained)
