"""One life of one fake consumer: what classic and KIP-848 members have in common.

One greenlet does everything in turn, as a consumer's network thread does; what the plan does to it wakes it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Final, NoReturn

import gevent
from gevent.event import Event

from bench.swarm.board import UNSETTLED
from bench.swarm.connection import Closed, TimedOut
from bench.swarm.members.asking import (
    ASLEEP,
    ENDED,
    JOINING,
    STABLE,
    CoordinatorLost,
    GaveUp,
    NotYet,
)
from bench.swarm.members.processing import Processor
from bench.swarm.members.shared import Shared
from bench.swarm.plan import MemberPlan
from cluster.tier_file import TierError

BACKOFF_MIN_S: Final = 0.1
BACKOFF_MAX_S: Final = 1.0
"""retry.backoff.ms and retry.backoff.max.ms of Kafka's clients."""
LEAVE_TIMEOUT_S: Final = 5.0


class Leaving(gevent.GreenletExit):  # type: ignore[misc]  # gevent has no types
    """It is closed as an application closes its consumer."""


class Member(Processor, ABC):
    """Subclasses say how it joins, beats and leaves. Spawn `run`."""

    def __init__(self, plan: MemberPlan, life: int, shared: Shared) -> None:
        super().__init__(plan, life, shared)
        self.is_ending = False
        """It has been told to."""
        self._news = Event()
        self._awake_at = 0.0
        self._backoff_s = BACKOFF_MIN_S
        self.beat_at = 0.0
        first_s = plan.commit_interval_ms / 1000 * self.chance.uniform(0.5, 1.5)
        self._commit_at = time.monotonic() + first_s

    # What a subclass is.

    @abstractmethod
    def settle(self) -> bool:
        """Join, or go on joining; False if there is nothing to do."""

    @abstractmethod
    def beat(self) -> None:
        """One heartbeat, and what its answer asks for."""

    @abstractmethod
    def lose(self) -> None:
        """It is no member any more; what it owned is lost."""

    @abstractmethod
    def say_goodbye(self) -> bool:
        """Leave the group; False if a client of its kind just ends. Raises what `ask` raises."""

    # What the plan does to it.

    def run(self) -> None:
        """Until it is killed: with Leaving to leave, else to be gone without a word."""
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
        """It processes, and polls again only then."""
        self._awake_at = time.monotonic() + seconds
        self._news.set()

    def cut(self) -> None:
        """Its connection ends."""
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
                self._backoff_s = BACKOFF_MIN_S
            except (CoordinatorLost, Closed, TimedOut):
                self._forget_coordinator()
                self._pause()
            except NotYet:
                self._without_service()
                self._pause()
            except TierError as error:
                raise GaveUp(str(error)) from error

    def _next_duty(self) -> None:
        has_commits = self.plan.commit_interval_ms > 0 and bool(self.owned)
        due_at = min(self.beat_at, self._commit_at) if has_commits else self.beat_at
        if self._wait(due_at):
            return
        now = time.monotonic()
        if has_commits and now >= self._commit_at:
            self._commit_at = now + self.plan.commit_interval_ms / 1000
            self.commit(self._next_part())
        if now >= self.beat_at:
            self.beat()

    def _doze(self) -> None:
        """Its heartbeats go on without it, until it has not polled for max.poll.interval.ms: then it leaves,
        and joins again when it is back."""
        late_at = time.monotonic() + self.plan.rebalance_timeout_ms / 1000
        self.become(ASLEEP)
        while self.is_asleep and time.monotonic() < late_at:
            if (
                not self._wait(min(self.beat_at, self._awake_at, late_at))
                and time.monotonic() >= self.beat_at
            ):
                self._beat_anyway()
        if self.is_asleep:
            self._leave()
            self.lose()
            while self.is_asleep:
                self._wait(self._awake_at)
        self.become(STABLE if self.owned else JOINING)

    def _beat_anyway(self) -> None:
        try:
            self.beat()
        except (CoordinatorLost, Closed, TimedOut):
            self._forget_coordinator()
            self.beat_at = time.monotonic() + BACKOFF_MAX_S
        except NotYet:
            self.beat_at = time.monotonic() + BACKOFF_MAX_S

    def _wait(self, until: float) -> bool:
        """True: the plan did something to it meanwhile."""
        if self._news.wait(max(0.0, until - time.monotonic())):
            self._news.clear()
            return True
        return False

    def _pause(self) -> None:
        gevent.sleep(self._backoff_s * self.chance.uniform(0.8, 1.2))
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_MAX_S)

    def _leave(self) -> bool:
        """False if nobody was told."""
        try:
            with gevent.Timeout(LEAVE_TIMEOUT_S, TimedOut()):
                return self.say_goodbye()
        except (CoordinatorLost, NotYet, Closed, TimedOut, TierError):
            return False

    def _end(self) -> None:
        self.state = ENDED
        self._give_line_back()
        self.shared.recorder.turn(self.plan.group_id, self.plan.name, None)

    # What it tells others of itself.

    def become(self, state: str, gained: int = 0) -> None:
        """Only news are told."""
        if state != self.state or gained or state == STABLE:
            self.state = state
            epoch = self.epoch if state == STABLE else UNSETTLED
            self.shared.recorder.turn(self.plan.group_id, self.plan.name, epoch, gained)
