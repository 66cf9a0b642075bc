"""What a shard keeps for push groups: as stored, and as they live on the leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.coordinator.ground.slices import AT_ONCE_MAX
from actors.coordinator.ground.state import ShardState
from actors.ground.records import PushConsumerValue, PushGroupValue, PushOwnershipValue

if TYPE_CHECKING:
    from actors.coordinator.push.group import PushGroup

PUSH: Final = "push"
"""The name of this kind of group."""


class StoredPushGroup:
    """The replicated half of a push group."""

    __slots__ = ("consumers", "ownership", "value")

    def __init__(self) -> None:
        self.value: PushGroupValue | None = None
        self.consumers: dict[str, PushConsumerValue] = {}
        self.ownership: dict[str, PushOwnershipValue] = {}

    @property
    def is_blank(self) -> bool:
        return self.value is None and not (self.consumers or self.ownership)


class PushGroups:
    """All push groups of one shard."""

    __slots__ = ("groups", "groups_of_topic", "last_number", "stored", "wildcard_groups")

    def __init__(self) -> None:
        self.stored: dict[str, StoredPushGroup] = {}
        self.groups: dict[str, PushGroup] = {}
        """The live groups of the leader."""
        self.groups_of_topic: dict[str, dict[str, None]] = {}
        """Topic -> the groups of which a consumer has named it (D9)."""
        self.wildcard_groups: dict[str, None] = {}
        """The groups of which a consumer has a wildcard."""
        self.last_number = 0
        """The number of the last request to a consumer."""

    def count(self) -> int:
        groups = len(self.stored)
        if groups > AT_ONCE_MAX:
            return groups
        return groups + sum(len(stored.consumers) for stored in self.stored.values())

    def owns(self, group_id: str) -> bool:
        return False

    def drop_volatile(self) -> None:
        self.groups.clear()
        self.groups_of_topic.clear()
        self.wildcard_groups.clear()

    def drop_volatile_of(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        self.wildcard_groups.pop(group_id, None)
        for topic in group.topics:
            of_topic = self.groups_of_topic[topic]
            del of_topic[group_id]
            if not of_topic:
                del self.groups_of_topic[topic]

    def note_interest(self, group: PushGroup, value: PushConsumerValue) -> None:
        """Note what a consumer of the group is interested in. What no consumer wants any more stays until the
        group has gone: it costs a look that finds nothing to do."""
        for topic, is_wildcard, _ in value.topic_counts:
            if is_wildcard:
                self.wildcard_groups[group.group_id] = None
            elif topic not in group.topics:
                group.topics[topic] = None
                self.groups_of_topic.setdefault(topic, {})[group.group_id] = None


def kept(state: ShardState) -> PushGroups:
    found: PushGroups = state.of[PUSH]
    return found


def push_groups(state: ShardState) -> dict[str, PushGroup]:
    """The live push groups by id."""
    return kept(state).groups


def stored_of(state: ShardState, group_id: str) -> StoredPushGroup:
    """The replicated half of a group; a blank one if nothing is stored."""
    return kept(state).stored.get(group_id) or StoredPushGroup()
