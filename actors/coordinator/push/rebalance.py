"""The rebalance of a push group (D8): is it necessary, stop, wait, start, wait, write.

Law: no consumer is told to start before every consumer of the group has stopped. One has stopped when it says
so, when it registers anew, which a consumer does with its fetchers stopped, or when it was silent for longer
than its session (D10). The new ownership is written before it is told, so that the next leader knows who may
have started; the end of the rebalance is written when all have.
"""

from __future__ import annotations

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push import history, sending
from actors.coordinator.push.group import (
    REBALANCE_TIMER,
    STABLE,
    STARTING,
    STOPPING,
    Consumer,
    PushGroup,
    Step,
)
from actors.coordinator.push.ownership import Ownership, divided, why_necessary
from actors.coordinator.push.state import push_groups, stored_of
from actors.coordinator.push.store import consumer_tombstones, group_record
from actors.coordinator.told.events import MemberExpired, MemberLeft
from actors.ground.contract import NOTHING, Record, Result
from actors.ground.records import PUSH_OWNERSHIP, PushConsumerKey
from actors.protocol.api_keys import START_FETCHER, STOP_FETCHER

Gone = type[MemberExpired] | type[MemberLeft]


def set_due(
    state: ShardState, group: PushGroup, now_ms: int, cause: tuple[str, str, str | None] | None = None
) -> None:
    """Set the group's rebalance bit (D9). However much happens while it is set makes one rebalance; what
    happens in the midst of one makes the next."""
    if not group.is_due:
        group.is_due, group.cause = True, cause
        if not group.is_moving:
            state.timers.schedule((REBALANCE_TIMER, group.group_id), now_ms)


def on_rebalance_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Take a group out of the queue: look whether it has to rebalance, try again after a back-off, or go on
    once all have stopped."""
    group = push_groups(state).get(str(key[1]))
    if group is None or not group.consumers or group.state is STARTING:
        return NOTHING
    outcome = Outcome(state, now_ms)
    if group.state is STOPPING:
        if group.awaited is None:
            _begin_attempt(outcome, group)
        elif not group.awaited:
            _all_stopped(outcome, group)
        return outcome.result()
    group.is_due = False
    why = _why_necessary(state, group)
    if any(consumer.is_leaving for consumer in group.consumers.values()):
        why = why or "partitions of a consumer that is to leave"
    if why is None:
        group.cause = None
        _start_those_who_wait(outcome, group)
        return outcome.result()
    history.tell_began(outcome, group, why)
    group.cause = None
    history.move(outcome, group, Step.REBALANCE)
    group.attempts = 0
    outcome.records.append(group_record(group))
    _begin_attempt(outcome, group)
    return outcome.result()


def _why_necessary(state: ShardState, group: PushGroup) -> str | None:
    """Why a rebalance is necessary; None: it is not. The partitions are not divided again as long as nothing
    has changed of all that this depends on: the consumers of a large group come back one by one (D10)."""
    stored = stored_of(state, group.group_id)
    basis = state.image.version, dict(stored.consumers), dict(stored.ownership)
    if basis == group.found_settled:
        return None
    why = why_necessary(stored.ownership, divided(stored.consumers, state.image), state.image)
    group.found_settled = basis if why is None else None
    return why


def _start_those_who_wait(outcome: Outcome, group: PushGroup) -> None:
    """Let those go on who have registered again and own what they owned: nobody else has to stop for them
    (D10)."""
    for consumer in group.consumers.values():
        if consumer.channel is not None and not consumer.is_started and START_FETCHER not in consumer.owed:
            owned = stored_of(outcome.state, group.group_id).ownership.get(consumer.consumer_id)
            threads = sending.positions(outcome.state, group.group_id, consumer.consumer_id, owned)
            sending.start(outcome, group, consumer, threads)


def _begin_attempt(outcome: Outcome, group: PushGroup) -> None:
    """Stop all fetchers. Who cannot be reached is waited for: it registers again, or its session ends."""
    group.awaited = dict.fromkeys(group.consumers)
    for consumer in group.consumers.values():
        if consumer.channel is not None:
            sending.stop(outcome, group, consumer)


def stopped(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Note that a consumer has stopped its fetchers. If all have, what they are to own is decided next, as
    soon as the offsets are there with which they stopped."""
    consumer.is_started = consumer.may_read = False
    if group.state is STOPPING:
        _awaits_no_more(outcome, group, consumer)


def _awaits_no_more(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    if group.awaited is not None and consumer.consumer_id in group.awaited:
        del group.awaited[consumer.consumer_id]
        if not group.awaited and group.state is STOPPING:
            outcome.state.timers.schedule((REBALANCE_TIMER, group.group_id), outcome.now_ms)
        elif not group.awaited:
            _all_started(outcome, group)


def _all_stopped(outcome: Outcome, group: PushGroup) -> None:
    """Decide the ownership anew, write it and have all consumers start. Who came since the rebalance began is
    among them."""
    state, group_id = outcome.state, group.group_id
    for consumer in [each for each in group.consumers.values() if each.is_leaving]:
        _take_out(outcome, group, consumer, MemberLeft, ("member left", "D11"))
        sending.dismiss(outcome, group, consumer)
    if not group.consumers:
        _last_gone(outcome, group)
        return
    group.is_due = False
    group.cause = None
    ownership = divided({each.consumer_id: each.value for each in group.consumers.values()}, state.image)
    group.epoch += 1
    history.move(outcome, group, Step.ALL_STOPPED)
    outcome.records += _ownership_records(state, group, ownership)
    outcome.records.append(group_record(group))
    history.note_divided(outcome, group, ownership)
    group.awaited = {}
    for consumer in group.consumers.values():
        if consumer.channel is not None:
            group.awaited[consumer.consumer_id] = None
            owned = ownership.get(consumer.consumer_id)
            threads = sending.positions(state, group_id, consumer.consumer_id, owned)
            sending.start(outcome, group, consumer, threads)
    if not group.awaited:
        _all_started(outcome, group)


def _ownership_records(state: ShardState, group: PushGroup, new: Ownership) -> list[Record]:
    """What makes the stored ownership equal to the new one; only what differs."""
    before, group_id = stored_of(state, group.group_id).ownership, group.group_id
    records = [
        Record(PushConsumerKey(PUSH_OWNERSHIP, group_id, consumer_id), None)
        for consumer_id in before
        if consumer_id not in new
    ]
    for consumer_id, value in new.items():
        if before.get(consumer_id) != value:
            records.append(Record(PushConsumerKey(PUSH_OWNERSHIP, group_id, consumer_id), value))
    return records


def started(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Note that a consumer has started its fetchers."""
    consumer.is_started = True
    if group.state is STARTING:
        _awaits_no_more(outcome, group, consumer)


def _all_started(outcome: Outcome, group: PushGroup) -> None:
    """End the rebalance. What has happened meanwhile is looked at next."""
    history.move(outcome, group, Step.ALL_STARTED)
    group.attempts, group.awaited = 0, None
    outcome.records.append(group_record(group))
    history.tell_ended(outcome, group)
    is_waited = any(each.channel is not None and not each.is_started for each in group.consumers.values())
    if group.is_due or is_waited:
        outcome.state.timers.schedule((REBALANCE_TIMER, group.group_id), outcome.now_ms)


def attempt_failed(outcome: Outcome, group: PushGroup, why: str) -> None:
    """Try again after a back-off. When that was done often enough the rebalance has failed, which is told;
    the next attempt comes with the next change, or after the longest session (D13)."""
    state, now_ms = outcome.state, outcome.now_ms
    for consumer in group.consumers.values():
        sending.forget_owed(state, group, consumer, STOP_FETCHER)
        sending.forget_owed(state, group, consumer, START_FETCHER)
    group.awaited = None
    group.attempts += 1
    history.move(outcome, group, Step.FAILED)
    delay_ms = state.settings.group_push_rebalance_backoff_ms
    if group.attempts > state.settings.group_push_rebalance_retries_max:
        history.tell_failed(outcome, group, why)
        group.attempts = 0
        delay_ms = max(delay_ms, *(each.session_ms for each in group.consumers.values()))
    state.timers.schedule((REBALANCE_TIMER, group.group_id), now_ms + delay_ms)


def connection_lost(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Go on after a consumer's connection has gone: it is started when it has registered again, and whoever
    waits for it to stop waits for that, or for the end of its session."""
    if group.state is STARTING:
        _awaits_no_more(outcome, group, consumer)


def remove(outcome: Outcome, group: PushGroup, consumer: Consumer, gone: Gone, why: tuple[str, str]) -> None:
    """Remove a consumer that has certainly stopped, and have the others rebalance (D7)."""
    _take_out(outcome, group, consumer, gone, why)
    if not group.consumers:
        _last_gone(outcome, group)
        return
    if group.state is STARTING:
        attempt_failed(outcome, group, f"consumer {consumer.consumer_id} has gone")
    elif group.state is STABLE:
        set_due(outcome.state, group, outcome.now_ms, (*why, consumer.consumer_id))
    else:
        _awaits_no_more(outcome, group, consumer)


def _take_out(
    outcome: Outcome, group: PushGroup, consumer: Consumer, gone: Gone, why: tuple[str, str]
) -> None:
    del group.consumers[consumer.consumer_id]
    history.tell_gone(outcome, group, gone, consumer, why)
    sending.forget_timers(outcome.state, group, consumer)
    stored = stored_of(outcome.state, group.group_id)
    outcome.records += consumer_tombstones(stored, group.group_id, consumer.consumer_id)


def _last_gone(outcome: Outcome, group: PushGroup) -> None:
    group.is_due, group.cause, group.attempts, group.awaited = False, None, 0, None
    outcome.state.timers.cancel((REBALANCE_TIMER, group.group_id))
    history.move(outcome, group, Step.LAST_GONE)
    outcome.records.append(group_record(group))
    history.tell_ended(outcome, group)
