"""The events that tell what a push group decided, in the words of all groups' history."""

from __future__ import annotations

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.push.group import Consumer, PushGroup, Step
from actors.coordinator.push.ownership import Ownership, whole
from actors.coordinator.push.state import PUSH, stored_of
from actors.coordinator.told import rebalances
from actors.coordinator.told.events import (
    MemberExpired,
    MemberJoined,
    MemberLeft,
    RebalanceBegan,
    RebalanceFailed,
    StateChanged,
)
from actors.coordinator.told.moves import consumer_moves

RANGE = "range"
"""What the design's division of partitions is called elsewhere."""


def tell_joined(outcome: Outcome, group: PushGroup, consumer: Consumer, software: str | None) -> None:
    value = consumer.value
    outcome.events.append(
        MemberJoined(
            outcome.now_ms,
            group.group_id,
            PUSH,
            group.epoch,
            consumer.consumer_id,
            None,
            value.client_id,
            value.client_host,
            None,
            group.size,
            software,
            value.session_timeout_ms,
        )
    )


def tell_gone(
    outcome: Outcome,
    group: PushGroup,
    gone: type[MemberExpired] | type[MemberLeft],
    consumer: Consumer,
    why: tuple[str, str],
) -> None:
    """Tell that a consumer is in the group no more. `why`: the cause and its rule."""
    value = consumer.value
    outcome.events.append(
        gone(
            outcome.now_ms,
            group.group_id,
            PUSH,
            group.epoch,
            consumer.consumer_id,
            None,
            value.client_id,
            value.client_host,
            None,
            *why,
            None,
            group.size,
        )
    )
    rebalance = rebalances.of(outcome.state, group.group_id, PUSH)
    owned = whole(stored_of(outcome.state, group.group_id).ownership.get(consumer.consumer_id))
    rebalance.before.setdefault(consumer.consumer_id, owned)
    if gone is MemberExpired:
        rebalance.late[consumer.consumer_id] = None


def tell_began(outcome: Outcome, group: PushGroup, why: str) -> None:
    """Tell that a rebalance begins, or begins anew. The first cause of it stays its cause."""
    cause, rule, consumer_id = group.cause or (why, "D8", None)
    rebalance = rebalances.of(outcome.state, group.group_id, PUSH)
    consumer = group.consumers.get(consumer_id or "")
    client: tuple[str | None, str | None] = (None, None)
    if consumer is not None:
        client = consumer.value.client_id, consumer.value.client_host
    event = RebalanceBegan(
        outcome.now_ms,
        group.group_id,
        PUSH,
        group.epoch,
        f"{cause}: {why}" if group.cause else why,
        rule,
        consumer_id,
        *client,
        None,
        group.size,
    )
    if rebalance.began is None:
        rebalance.began = event
        ownership = stored_of(outcome.state, group.group_id).ownership
        for owner, value in ownership.items():
            rebalance.before.setdefault(owner, whole(value))
    outcome.events.append(event)


def move(outcome: Outcome, group: PushGroup, step: Step) -> None:
    """Move the group, and tell of it."""
    before = group.state
    group.move(step, outcome.now_ms)
    if group.state is not before:
        outcome.events.append(
            StateChanged(
                outcome.now_ms,
                group.group_id,
                PUSH,
                group.epoch,
                before.value,
                group.state.value,
                group.size,
            )
        )


def note_divided(outcome: Outcome, group: PushGroup, ownership: Ownership) -> None:
    """Note that the new ownership stands."""
    rebalance = rebalances.of(outcome.state, group.group_id, PUSH)
    rebalance.assigned_ms, rebalance.assignor = outcome.now_ms, RANGE
    after = {consumer_id: whole(value) for consumer_id, value in ownership.items()}
    moves = consumer_moves(rebalance.before, after, outcome.state.image)
    rebalance.partitions = sum(len(packed) // 4 for owned in after.values() for _, packed in owned)
    rebalance.moved, rebalance.moves = (None, None) if moves is None else moves


def tell_ended(outcome: Outcome, group: PushGroup) -> None:
    """Tell that the group is Stable or Empty, if a rebalance has been told of."""
    rebalance = rebalances.of(outcome.state, group.group_id, PUSH)
    if rebalance.began is not None:
        ended = rebalance.ended(outcome.now_ms, group.epoch, group.state.value, group.size)
        outcome.events.append(ended)
    rebalances.drop(outcome.state, group.group_id, PUSH)


def tell_failed(outcome: Outcome, group: PushGroup, why: str) -> None:
    """Tell of the design's ConsumerRebalanceFailedException."""
    outcome.events.append(
        RebalanceFailed(
            outcome.now_ms,
            group.group_id,
            PUSH,
            group.epoch,
            f"ConsumerRebalanceFailed: {why}",
            "D8",
            group.size,
            group.state.value,
        )
    )
