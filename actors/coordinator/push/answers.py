"""What consumers answer, or do not answer in time: the three purgatories, and handleConsumerFailure (D6,
D7)."""

from __future__ import annotations

from collections.abc import Callable

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push import sending
from actors.coordinator.push.committed import commit
from actors.coordinator.push.group import STABLE, STARTING, STOPPING, Consumer, PushGroup
from actors.coordinator.push.rebalance import (
    attempt_failed,
    connection_lost,
    remove,
    set_due,
    started,
    stopped,
)
from actors.coordinator.push.state import push_groups
from actors.coordinator.told.events import MemberExpired, MemberLeft
from actors.ground.contract import NOTHING, Request, Result
from actors.protocol.api_keys import PING, START_FETCHER, STOP_FETCHER
from actors.protocol.push_messages import ChannelClosed, ConsumerAnswer

LEFT = ("shut down", "D11")
SILENT = ("session timeout", "D4")


def answered(state: ShardState, request: Request, now_ms: int) -> Result:
    """Take a consumer's answer. One that came too late, or on a connection that the consumer has no more,
    changes nothing."""
    body: ConsumerAnswer = request.body
    group = push_groups(state).get(body.group_id)
    consumer = None if group is None else group.consumers.get(body.consumer_id)
    if group is None or consumer is None or consumer.channel != body.session:
        return NOTHING
    if consumer.owed.get(request.api_key) != body.number:
        return NOTHING
    outcome = Outcome(state, now_ms)
    sending.forget_owed(state, group, consumer, request.api_key)
    consumer.missed = 0
    _TAKE[request.api_key](outcome, group, consumer, body)
    return outcome.result()


def _pinged(outcome: Outcome, group: PushGroup, consumer: Consumer, answer: ConsumerAnswer) -> None:
    """Take the offsets of a ping's answer, unless the consumer has told newer ones since, when it stopped.
    They count though its answer to the start came too late, or never: it reads, and would go back else.
    Who shuts down waits for one more ping, which leaves when these offsets are committed (D11); who has none
    to wait for goes at once."""
    if consumer.may_read:
        commit(outcome, group, consumer, answer.offsets)
    if not answer.is_shutting_down:
        return
    if consumer.value.auto_commit and not consumer.is_closing:
        consumer.is_closing = True
        sending.ping(outcome, group, consumer)
        return
    remove(outcome, group, consumer, MemberLeft, LEFT)


def _stopped(outcome: Outcome, group: PushGroup, consumer: Consumer, answer: ConsumerAnswer) -> None:
    """Commit what a consumer has read before it stopped: whoever is started next begins there."""
    commit(outcome, group, consumer, answer.offsets)
    if answer.error_code and group.state is STOPPING:
        attempt_failed(outcome, group, f"consumer {consumer.consumer_id} could not stop its fetchers")
    else:
        stopped(outcome, group, consumer)


def _started(outcome: Outcome, group: PushGroup, consumer: Consumer, answer: ConsumerAnswer) -> None:
    if not answer.error_code:
        started(outcome, group, consumer)
    else:
        _not_started(outcome, group, consumer)


def _not_started(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Try again with a consumer that has not started."""
    if group.state is STARTING:
        attempt_failed(outcome, group, f"consumer {consumer.consumer_id} has not started its fetchers")
    elif group.state is STABLE:
        delay_ms = outcome.state.settings.group_push_rebalance_backoff_ms
        set_due(outcome.state, group, outcome.now_ms + delay_ms)


_TAKE: dict[int, Callable[[Outcome, PushGroup, Consumer, ConsumerAnswer], None]] = {
    PING: _pinged,
    STOP_FETCHER: _stopped,
    START_FETCHER: _started,
}


def channel_closed(state: ShardState, request: Request, now_ms: int) -> Result:
    """Note that the connection of a consumer has gone. It stays in the group as long as its session lasts: it
    may register again."""
    body: ChannelClosed = request.body
    group = push_groups(state).get(body.group_id)
    consumer = None if group is None else group.consumers.get(body.consumer_id)
    if group is None or consumer is None or consumer.channel != body.session:
        return NOTHING
    outcome = Outcome(state, now_ms)
    sending.lose(state, group, consumer, now_ms)
    connection_lost(outcome, group, consumer)
    return outcome.result()


# Timers.


def _found(state: ShardState, key: tuple[object, ...]) -> tuple[PushGroup, Consumer] | None:
    group = push_groups(state).get(str(key[1]))
    consumer = None if group is None else group.consumers.get(str(key[2]))
    return None if group is None or consumer is None else (group, consumer)


def on_ping_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Ping a consumer, a third of its session after the last time (D4)."""
    found = _found(state, key)
    if found is None or found[1].channel is None:
        return NOTHING
    outcome = Outcome(state, now_ms)
    sending.ping(outcome, *found)
    sending.schedule_ping(state, *found, now_ms)
    return outcome.result()


def on_watch_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Note that a consumer has not answered in time. Too often, and it has failed: nothing more is sent to
    it, and it is removed when it must have noticed that itself."""
    found = _found(state, key)
    api_key = key[3]
    if found is None or not isinstance(api_key, int) or api_key not in found[1].owed:
        return NOTHING
    group, consumer = found
    outcome = Outcome(state, now_ms)
    sending.forget_owed(state, group, consumer, api_key)
    consumer.missed += 1
    if consumer.missed >= state.settings.group_push_pings_missed_max:
        sending.hang_up(outcome, group, consumer)
    if api_key == STOP_FETCHER and group.state is STOPPING:
        attempt_failed(outcome, group, f"consumer {consumer.consumer_id} did not stop its fetchers in time")
    elif api_key == START_FETCHER:
        _not_started(outcome, group, consumer)
    elif consumer.channel is None:
        connection_lost(outcome, group, consumer)
    else:
        sending.ping(outcome, group, consumer)
    return outcome.result()


def on_fail_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Remove a consumer that cannot be reached and has certainly stopped (D10)."""
    found = _found(state, key)
    if found is None or found[1].channel is not None:
        return NOTHING
    outcome = Outcome(state, now_ms)
    remove(outcome, *found, MemberExpired, SILENT)
    return outcome.result()
