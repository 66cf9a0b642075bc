"""One turn of a replica: what it does, in which order, and when the next one comes.

Whatever happens to a replica (a request, a peer's message, a finished sync, a timer) asks for a turn; however
many ask within one iteration of the event loop, one turn answers them all. The host takes turns on asyncio's
loop and the simulation on virtual time: both run this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

TURN_LATE_MS = 1
"""How many ms a turn comes after a deadline of the shard, which counts whole milliseconds."""
NOT_AT_ALL = float("inf")


class Timer(Protocol):
    """A callback that the loop holds for later."""

    def cancel(self) -> None:
        """Take the callback back: it will not be called any more."""


class Loop(Protocol):
    """What a turn needs of an event loop; asyncio's is one."""

    def time(self) -> float:
        """Return the loop's time in seconds, in which Raft's deadlines are given."""

    def call_soon(self, callback: Callable[[], None]) -> Any:
        """Call `callback` after what is ready in this iteration."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` when the loop's clock shows `when`."""


class Ticking(Protocol):
    """The part of Raft that moves with time."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def next_tick_at(self) -> float:
        """Return when Raft needs a turn that nobody else asks for, by the loop's clock; inf for never."""

    @property
    def is_settled(self) -> bool:
        """Return whether a tick would find nothing to do."""

    @property
    def only_commits(self) -> bool:
        """Return whether a tick would find nothing to do but to apply what is committed."""

    def apply_committed(self) -> None:
        """Apply what is committed."""

    def tick(self) -> None:
        """Send, commit and apply what can be, and start an election if one is due."""


class Deciding(Protocol):
    """The part of a replica that decides: its shard's timers, and the proposal of what was decided."""

    @property
    def next_deadline_ms(self) -> int | None:
        """Return the shard's earliest timer, by `now_ms`; None without one."""

    @property
    def awaits_log(self) -> bool:
        """Return whether something waits for what a message from a peer may bring: a commit or the lease."""

    def run_timers(self, now_ms: int) -> None:
        """Let the shard decide on every timer that is due."""

    def flush(self) -> None:
        """Propose what was decided since the last flush as one Raft entry."""


class Turns:
    """The turns of one replica, one after the other.

    `run(turn)` is the shell's (the host's, or the simulation's): it calls `turn`, deals with what that
    raises, and returns whether the replica goes on after it.
    """

    def __init__(
        self,
        loop: Loop,
        raft: Ticking,
        replica: Deciding,
        now_ms: Callable[[], int],
        run: Callable[[Callable[[], None]], bool],
    ) -> None:
        self._loop = loop
        self._raft = raft
        self._replica = replica
        self._now_ms = now_ms
        self._run = run
        self._is_due = self._in_turn = self._is_over = False
        self._timer: Timer | None = None
        self._timer_at = NOT_AT_ALL
        self._armed_for_ms: int | None = None
        """The earliest timer of the shard for which the timer that is set is early enough; None: none is
        known."""

    def wake(self) -> None:
        """Ask for a turn at the end of this loop iteration."""
        if not self._is_due and not self._is_over:
            self._is_due = True
            self._loop.call_soon(self._take)

    def heard(self) -> None:
        """Take or ask for a turn because a peer's message has arrived.

        A follower has its turn at once, which is cheaper and sooner. A leader, or whoever is in the middle of
        a turn, waits for what else this loop iteration brings. A heartbeat that changes nothing, or the
        answer to one, takes no turn: a timer that was set stays where it was, and is early at worst.
        """
        if self._timer is not None and not self._is_due and not self._in_turn:
            if self._raft.only_commits:
                self._commit()
                return
            if self._raft.is_settled and not self._replica.awaits_log:
                return
        if self._is_due or self._in_turn or self._raft.is_leader:
            self.wake()
        elif not self._is_over:
            self._take()

    def _commit(self) -> None:
        """Take a turn in which there is nothing to do but to apply what is committed."""
        self._in_turn = True
        goes_on = not self._is_over and self._run(self._raft.apply_committed)
        self._in_turn = False
        if not goes_on:
            return
        if self._replica.awaits_log:
            self.wake()
            return
        # Raft's next turn is where it was; the shard's may have come nearer by what was released.
        deadline_ms, before_ms = self._replica.next_deadline_ms, self._armed_for_ms
        if deadline_ms is not None and (before_ms is None or deadline_ms < before_ms):
            self.arm()

    def arm(self) -> None:
        """See that a turn comes when the next timer is due, Raft's or the shard's."""
        if self._is_due:
            return  # a turn comes anyway, and arms when it is over
        at = self._raft.next_tick_at
        deadline_ms, before_ms = self._replica.next_deadline_ms, self._armed_for_ms
        if (
            self._timer is not None
            and self._timer_at <= at
            and (deadline_ms is None or (before_ms is not None and before_ms <= deadline_ms))
        ):
            return  # the timer that is set is early enough
        now = self._loop.time()
        if deadline_ms is not None:
            in_ms = deadline_ms - self._now_ms() + TURN_LATE_MS
            deadline = now + (in_ms if in_ms > TURN_LATE_MS else TURN_LATE_MS) / 1000
            if deadline < at:
                at = deadline
        if at <= now:
            self.wake()
            return
        self._armed_for_ms = deadline_ms
        if at == NOT_AT_ALL or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._fire)

    def end(self) -> None:
        """Take no further turn."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _take(self) -> None:
        self._is_due = False
        if self._is_over:
            return
        self._in_turn = True
        goes_on = self._run(self._turn)
        self._in_turn = False
        if goes_on:
            self.arm()

    def _turn(self) -> None:
        """Fire timers, propose what they and the requests decided, let Raft send and commit, and propose what
        the commits decided."""
        self._replica.run_timers(self._now_ms())
        self._replica.flush()
        self._raft.tick()
        self._replica.flush()

    def _fire(self) -> None:
        """Ask for a turn, after the loop has read its sockets: whoever was held up is late with everything,
        and must not campaign against a leader whose heartbeats wait to be read."""
        self._timer = None
        self._loop.call_soon(self.wake)
