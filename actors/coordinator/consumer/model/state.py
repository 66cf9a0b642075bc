"""What a shard keeps for consumer groups: the groups themselves, and a leader's work on them."""

from __future__ import annotations

from typing import Any

from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.volatile import Asker, Forming, Job, Resolution
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CONSUMER


class ConsumerState:
    """All consumer groups of one shard."""

    __slots__ = (
        "assignment_jobs",
        "computations",
        "forming",
        "groups",
        "interval_floor_ms",
        "members",
        "regex_askers",
        "regex_resolutions",
    )

    def __init__(self) -> None:
        # Replicated.
        self.groups: dict[str, ConsumerGroup] = {}
        self.members = 0
        """How many members all groups have together."""
        self.interval_floor_ms = 0
        """KIP-848: no member is told a shorter interval, as far as its group's bounds allow; follows from the
        number of members (`group_settings`)."""
        self._begin_volatile()

    def _begin_volatile(self) -> None:
        self.regex_askers: dict[str, Asker] = {}
        """Group id -> who last asked what the group's regexes match (M24)."""
        self.regex_resolutions: dict[str, Resolution] = {}
        """Group id -> the resolution that is under way."""
        self.assignment_jobs: dict[str, Job] = {}
        """Group id -> what a plug-in was last asked to assign."""
        self.computations: dict[str, Any] = {}
        """Group id -> the `client_assignors.job.Computation` of its next target by one of its members."""
        self.forming: dict[str, Forming] = {}
        """Group id -> the joins of a consumer group that wait for more of them."""

    def count(self) -> int:
        return self.members + len(self.groups)

    def owns(self, group_id: str) -> bool:
        """A conversion to a consumer group writes the metadata record last, one to a classic group takes it
        away first."""
        group = self.groups.get(group_id)
        return group is not None and group.metadata is not None

    def drop_volatile(self) -> None:
        self._begin_volatile()
        for group in self.groups.values():
            group.drop_volatile()

    def drop_volatile_of(self, group_id: str) -> None:
        volatile: tuple[dict[str, Any], ...] = (
            self.regex_askers,
            self.regex_resolutions,
            self.assignment_jobs,
            self.computations,
            self.forming,
        )
        for of_groups in volatile:
            of_groups.pop(group_id, None)
        if group_id in self.groups:
            self.groups[group_id].drop_volatile()


def kept(state: ShardState) -> ConsumerState:
    found: ConsumerState = state.of[CONSUMER]
    return found


def consumer_groups(state: ShardState) -> dict[str, ConsumerGroup]:
    """The consumer groups by id."""
    return kept(state).groups
