"""What the coordinator sends to its consumers, and how long it waits for each answer (D4, D5, D6)."""

from __future__ import annotations

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.partitions import unpack
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push.group import (
    FAIL_TIMER,
    PING_PARTS,
    PING_TIMER,
    WATCH_TIMER,
    Consumer,
    PushGroup,
)
from actors.coordinator.push.state import kept
from actors.ground.contract import Push
from actors.ground.records import PushOwnershipValue
from actors.protocol.api_keys import PING, START_FETCHER, STOP_FETCHER
from actors.protocol.push_messages import (
    BrokerPlace,
    Hangup,
    Owned,
    PingRequest,
    Pushed,
    StartFetcherRequest,
    StartPosition,
    StopFetcherRequest,
)

_Body = PingRequest | StopFetcherRequest | StartFetcherRequest


def ping(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Ping a consumer that can be reached, unless it still owes the answer to a ping (D4)."""
    if consumer.channel is not None and PING not in consumer.owed:
        body = PingRequest(group.group_id, consumer.consumer_id, consumer.missed)
        _send(outcome, group, consumer, PING, body)


def stop(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Have a consumer stop its fetchers. What it was asked before of its fetchers counts no more."""
    forget_owed(outcome.state, group, consumer, START_FETCHER)
    _send(outcome, group, consumer, STOP_FETCHER, StopFetcherRequest(group.group_id, consumer.consumer_id))


def start(outcome: Outcome, group: PushGroup, consumer: Consumer, threads: tuple[Owned, ...]) -> None:
    """Have a consumer start its fetchers with what it owns."""
    image = outcome.state.image
    brokers = tuple(
        BrokerPlace(node.node_id, node.host, node.port) for node in image.nodes.values() if node.alive
    )
    body = StartFetcherRequest(group.group_id, consumer.consumer_id, group.epoch, threads, brokers)
    _send(outcome, group, consumer, START_FETCHER, body)
    consumer.may_read = True


def positions(
    state: ShardState, group_id: str, consumer_id: str, owned: PushOwnershipValue | None
) -> tuple[Owned, ...]:
    """What a consumer owns, with the committed offsets to start from. What does not exist any longer is left
    out."""
    committed = state.offsets.get(group_id, NO_OFFSETS)
    threads = []
    for number, thread in enumerate(() if owned is None else owned.threads):
        found = []
        for topic_id, packed in thread:
            topic = state.image.topics_by_id.get(topic_id)
            if topic is None:
                continue
            for partition in unpack(packed):
                value = committed.get((topic.name, partition))
                found.append(StartPosition(topic.name, partition, -1 if value is None else value.offset))
        if found:
            threads.append(Owned(f"{consumer_id}-{number}", tuple(found)))
    return tuple(threads)


def _send(outcome: Outcome, group: PushGroup, consumer: Consumer, api_key: int, body: _Body) -> None:
    """Send a request to a consumer that can be reached, and watch for the answer for two thirds of the
    session (D4)."""
    assert consumer.channel is not None
    groups = kept(outcome.state)
    number = groups.last_number = groups.last_number + 1
    now_ms = outcome.now_ms
    consumer.owed[api_key] = number
    consumer.sent_ms = now_ms
    pushed = Pushed(api_key, number, now_ms + consumer.margin_ms, body)
    outcome.replies.append(Push(consumer.channel, pushed, group.group_id))
    watch = (WATCH_TIMER, group.group_id, consumer.consumer_id, api_key)
    outcome.state.timers.schedule(watch, now_ms + 2 * consumer.session_ms // PING_PARTS)


def schedule_ping(state: ShardState, group: PushGroup, consumer: Consumer, now_ms: int) -> None:
    key = (PING_TIMER, group.group_id, consumer.consumer_id)
    state.timers.schedule(key, now_ms + consumer.session_ms // PING_PARTS)


def forget_owed(state: ShardState, group: PushGroup, consumer: Consumer, api_key: int) -> None:
    """Wait no longer for the answer to a request, which was given or does not matter any more."""
    if consumer.owed.pop(api_key, None) is not None:
        state.timers.cancel((WATCH_TIMER, group.group_id, consumer.consumer_id, api_key))


def lose(state: ShardState, group: PushGroup, consumer: Consumer, now_ms: int) -> None:
    """Go on without the consumer's connection. The consumer is removed when it has certainly stopped, unless
    it has registered again by then."""
    consumer.channel = None
    consumer.is_started = consumer.may_read = False
    for api_key in list(consumer.owed):
        forget_owed(state, group, consumer, api_key)
    state.timers.cancel((PING_TIMER, group.group_id, consumer.consumer_id))
    fail = (FAIL_TIMER, group.group_id, consumer.consumer_id)
    state.timers.schedule(fail, max(now_ms, consumer.silent_until_ms))


def hang_up(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Close the connection of a consumer that has missed too many requests."""
    assert consumer.channel is not None
    reason = (
        f"consumer {consumer.consumer_id} of group {group.group_id} has left"
        f" {consumer.missed} of its coordinator's requests unanswered"
    )
    outcome.replies.append(Push(consumer.channel, Hangup(reason), group.group_id))
    lose(outcome.state, group, consumer, outcome.now_ms)


def dismiss(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
    """Close the connection of a consumer that was removed from its group after it had stopped."""
    if consumer.channel is not None:
        reason = f"consumer {consumer.consumer_id} was removed from group {group.group_id}"
        outcome.replies.append(Push(consumer.channel, Hangup(reason), group.group_id))


def forget_timers(state: ShardState, group: PushGroup, consumer: Consumer) -> None:
    """Cancel all that is scheduled for a consumer that has gone."""
    for timer in (PING_TIMER, FAIL_TIMER):
        state.timers.cancel((timer, group.group_id, consumer.consumer_id))
    for api_key in list(consumer.owed):
        forget_owed(state, group, consumer, api_key)
