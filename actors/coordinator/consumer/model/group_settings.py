"""What is in force for one group: its own configs within the broker's bounds, else the broker's settings.

A group's config may be out of bounds once the broker's settings have changed; it then counts as the bound
(KIP-1240). A change is in force from the group's next heartbeat on (A19).

The heartbeat interval adapts: a leader that has more KIP-848 members than its budget of heartbeats a second
allows tells them a longer one, in whole seconds, so that a member that comes or goes does not change it.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.coordinator.consumer.model.group import ConsumerGroup, EffectiveGroupSettings
from actors.coordinator.consumer.model.state import kept
from actors.coordinator.ground.alike import shared
from actors.coordinator.ground.state import ShardState
from actors.ground.settings import GroupSettings
from actors.metadata.group_config_names import (
    ASSIGNMENT_INTERVAL,
    GROUP_CONFIGS,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    bounds,
    default_value,
)

FLOOR_STEP_MS = 1_000


def of(state: ShardState, group_id: str) -> EffectiveGroupSettings:
    """The group's settings by the metadata image that the shard has now. Who asks with each heartbeat keeps
    the answer until the image changes (`ConsumerGroup.settings`)."""
    own = state.image.group_configs.get(group_id)
    settings = state.settings
    if own is None:
        return EffectiveGroupSettings(
            settings.group_consumer_session_timeout_ms,
            settings.group_consumer_heartbeat_interval_ms,
            settings.group_consumer_assignment_interval_ms,
        )
    return EffectiveGroupSettings(
        _in_force(SESSION_TIMEOUT, own, settings),
        _in_force(HEARTBEAT_INTERVAL, own, settings),
        _in_force(ASSIGNMENT_INTERVAL, own, settings),
    )


def note_checked(state: ShardState, group: ConsumerGroup) -> EffectiveGroupSettings:
    """Note that the group has been looked at with the present image, and keep what is in force for it."""
    group.checked_image_version = state.image.version
    group.settings = shared(of(state, group.group_id))
    return group.settings


def count_members(state: ShardState, change: int) -> None:
    """Count members that came or went. Part of applying a record: the floor is the same on every replica."""
    kept(state).members += change
    budget = state.settings.group_heartbeat_budget_per_second
    needed_ms = kept(state).members * 1_000 // budget
    steps = 0 if needed_ms < FLOOR_STEP_MS else needed_ms // FLOOR_STEP_MS + 1
    kept(state).interval_floor_ms = steps * FLOOR_STEP_MS


def told_interval_ms(state: ShardState, in_force: EffectiveGroupSettings) -> int:
    """What a member that waits for nothing is told: the group's interval, stretched to the floor, but not
    over what may be configured, nor so far that three heartbeats do not fit a session."""
    session_ms, interval_ms, _ = in_force
    highest_ms = min(state.settings.group_consumer_max_heartbeat_interval_ms, session_ms // 3)
    return max(interval_ms, min(kept(state).interval_floor_ms, highest_ms))


def _in_force(name: str, own: Mapping[str, str], settings: GroupSettings) -> int:
    definition = GROUP_CONFIGS[name]
    if name not in own:
        return int(default_value(definition, settings))
    low, high = bounds(definition, settings)
    assert low is not None
    assert high is not None
    return min(max(int(own[name]), low), high)
