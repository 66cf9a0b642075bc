"""Mistakes of the lane: it forgets to forget, or nobody asks it whom it has heard.

Not here, but in tests/leader/test_lane.py and test_lane_members.py: a lane that remembers, or holds, through
the end of its leadership (it has no lease then, and what changes until it leads again comes by records, which
make it forget as well), or through a new image (no seed brings one to a member that the lane is just
answering, and rights are not in this world); and one that tells the timers nothing when it forgets (members
here speak again too soon).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from actors.coordinator.ground.kind import kinds_of
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request, Result
from actors.leader.lane.memory import HELD, Memory, Repetition
from storage.raft.raft import FOREVER, Raft


class RemembersChangedGroups(Memory):
    """What concerns a group has the lane forget the answers to all of its members."""

    def _changed(self, group_id: Any) -> None:
        if group_id is None:
            super()._changed(group_id)


class HearsOfRequestsOnly(Memory):
    """Records, events and timers change groups, not requests alone."""

    def written(self, records: Iterable[Any]) -> None:
        return

    def told(self, events: Sequence[Any]) -> None:
        return

    def fired(self, key: tuple[Any, ...]) -> None:
        return


class HoldsOnThroughNews(Memory):
    """What the lane holds is given back before anything that may be news for the member."""

    def _withdraw(self, repetition: Repetition) -> None:
        self.facts[repetition.place][HELD] = 0
        super()._withdraw(repetition)


class RepeatsWithoutLease(Raft):
    """The lane answers only while the leader surely is the only one."""

    @property
    def lease_until(self) -> float:
        return FOREVER


class RepeatsWhatMayChange(CoordinatorShard):
    """Only a heartbeat that has nothing to wait for is repeated."""

    def repeats(self, request: Request, now_ms: int) -> tuple[Hashable, int] | None:
        keys = (
            k.held[request.api_key].session_key for k in kinds_of(self.state) if request.api_key in k.held
        )
        return super().repeats(request, now_ms) or (next(keys)(request), 1)


class EndsSessionsOfWhoWasHeard(CoordinatorShard):
    """Before a session ends, the lane is asked whether it has heard the member."""

    def expire(self, now_ms: int) -> Result:
        heard, self.heard = self.heard, None
        result = super().expire(now_ms)
        self.heard = heard
        return result
