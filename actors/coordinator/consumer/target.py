"""The target assignment of a consumer group: when it is computed, how, and what is written (M7 to M10)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kio.schema.errors import ErrorCode

from actors.assignors.registry import AssignorError, PlugIn, named
from actors.coordinator.consumer.asking_members import ask as ask_member
from actors.coordinator.consumer.asking_members import concerns
from actors.coordinator.consumer.assignment_jobs import ask, target_records
from actors.coordinator.consumer.decision import Decision
from actors.coordinator.consumer.history import computed
from actors.coordinator.consumer.model import group_settings
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.state import kept
from actors.coordinator.consumer.target_arrays import group_of, partition_racks
from actors.coordinator.ground.batching import longest_ms
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import AssignmentComputed, AssignmentDelayed
from actors.coordinator.told.events import CONSUMER
from actors.ground.settings import GroupSettings
from actors.protocol.errors import GroupError


def update_target(decision: Decision) -> None:
    """Compute a new target if the group epoch is ahead and the assignment interval is over (M8).

    Until then members keep the old target: joins and leaves in between are taken together. So they do while a
    plug-in computes it. Raises GroupError(unknown_server_error) if no plug-in can be had.
    """
    if decision.assignment_epoch >= decision.group_epoch:
        return
    if not is_interval_over(decision.state, decision.group, decision.now_ms):
        if decision.group_epoch > decision.group.group_epoch:
            interval_ms = assignment_interval_ms(decision.state, decision.group, decision.now_ms)
            group_id = decision.group.group_id
            decision.events.append(
                AssignmentDelayed(group_id, decision.group_epoch, interval_ms, decision.now_ms)
            )
        return
    if concerns(decision) and ask_member(decision):
        return
    settings = decision.state.settings
    name = preferred_assignor(_votes(decision), settings)
    assignor = named(settings.group_consumer_assignors)[name]
    if isinstance(assignor, PlugIn):
        ask(decision, name)
        return
    began_us = decision.state.clock_us()
    group = group_of(decision)
    racks_of = partial(partition_racks, decision.state.image) if assignor.by_rack else None
    changes = assignor.assign(group, racks_of).changes()
    duration_us = decision.state.clock_us() - began_us
    group_id = decision.group.group_id
    decision.records += target_records(group_id, changes, decision.group_epoch, decision.now_ms)
    decision.group.storm.rebalanced(decision.now_ms)
    decision.assignment_epoch = decision.group_epoch
    decision.target = changes.get(decision.member_id, decision.target)
    topics = decision.state.image.topics_by_id
    partitions = sum(topics[topic_id].partition_count for topic_id in group.topic_ids)
    event = AssignmentComputed(
        decision.now_ms,
        group_id,
        CONSUMER,
        decision.group_epoch,
        decision.group_epoch,
        name,
        duration_us,
        len(group.slots),
        partitions,
    )
    decision.computed = computed(decision.state, decision.group, changes, event)
    decision.events.append(decision.computed)


def preferred_assignor(votes: Mapping[str, int], settings: GroupSettings) -> str:
    """M7: the name most members ask for, the first configured one if none does; of equals the one
    configured first."""
    names = assignor_names(settings)
    return max(names, key=lambda name: (votes.get(name, 0), -names.index(name)))


def changes_assignor(decision: Decision) -> bool:
    """Whether the request makes another assignor the group's (M5, M7). Raises GroupError, as
    `assignor_names` does."""
    before, settings = decision.group.votes, decision.state.settings
    votes = _votes(decision)
    return votes is not before and preferred_assignor(votes, settings) != preferred_assignor(before, settings)


def assignor_names(settings: GroupSettings) -> tuple[str, ...]:
    """What members may ask for, the default first (A22). Raises GroupError(unknown_server_error) if a plug-in
    cannot be had on this node."""
    try:
        return tuple(named(settings.group_consumer_assignors))
    except AssignorError as error:
        raise GroupError(ErrorCode.unknown_server_error, str(error)) from error


def is_interval_over(state: ShardState, group: ConsumerGroup, now_ms: int) -> bool:
    """Whether a new target may be computed (M8)."""
    return due_in_ms(state, group, now_ms) == 0


def due_in_ms(state: ShardState, group: ConsumerGroup, now_ms: int) -> int:
    """How long until a new target may be computed. One that a member is to compute is not put off (A11)."""
    last = group.target_metadata
    if last is None or group.group_id in kept(state).computations:
        return 0
    since_ms = now_ms - last.assignment_timestamp_ms
    if since_ms < 0:
        # A leader whose clock is behind its predecessor's must not wait for it to catch up.
        return 0
    return max(assignment_interval_ms(state, group, now_ms) - since_ms, 0)


def assignment_interval_ms(state: ShardState, group: ConsumerGroup, now_ms: int) -> int:
    """The least time between two targets: as configured, and longer in a storm of changes (`batching`),
    though never above the upper bound of what may be configured. 0 stays 0."""
    settings = state.settings
    configured_ms = group_settings.of(state, group.group_id).assignment_interval_ms
    if configured_ms <= 0:
        return 0
    bound_ms = min(settings.group_rebalance_batch_max_ms, settings.group_consumer_max_assignment_interval_ms)
    most_ms = longest_ms(bound_ms, group.size)
    # A change that has waited for the longest time of all is not yet the first after a calm.
    return max(configured_ms, group.storm.delay_ms(now_ms, most_ms, calm_ms=2 * most_ms))


def _votes(decision: Decision) -> Mapping[str, int]:
    old, new = decision.previous.server_assignor, decision.metadata.server_assignor
    if old == new:
        return decision.group.votes
    votes = dict(decision.group.votes)
    if old is not None:
        votes[old] = votes.get(old, 0) - 1
    if new is not None:
        votes[new] = votes.get(new, 0) + 1
    return votes
