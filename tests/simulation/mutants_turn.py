"""Mistakes of the turn: what it does, in which order, and when the next one comes.

What only makes a turn late is not here: in this world something else always wakes a replica soon, and no seed
met a timer that was lost or kept too long (tests/replica/test_turn.py holds those rules).
"""

from __future__ import annotations

from actors.replica.turn import Turns


class ProposesNothing(Turns):
    """A turn proposes what was decided before Raft sends."""

    def _turn(self) -> None:
        self._replica.run_timers(self._now_ms())
        self._raft.tick()


class RunsNoTimers(Turns):
    """A turn lets the shard decide on the timers that are due."""

    def _turn(self) -> None:
        self._replica.flush()
        self._raft.tick()
        self._replica.flush()


class TakesTheTimeOfItsFirstTurn(Turns):
    """A turn decides by the time that it is, not by the one of an earlier turn."""

    _first_ms: int | None = None

    def _turn(self) -> None:
        if self._first_ms is None:
            self._first_ms = self._now_ms()
        first_ms = self._first_ms
        self._now_ms = lambda: first_ms
        super()._turn()


class TurnsOnce(Turns):
    """Whoever has had a turn may ask for the next one."""

    def _take(self) -> None:
        super()._take()
        self._is_due = True


class HearsNothingAsFollower(Turns):
    """A follower acts on a peer's message without waiting for its own timer."""

    def heard(self) -> None:
        if self._raft.is_leader:
            super().heard()
