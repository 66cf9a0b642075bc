"""RegisterConsumer (D3), and what follows of it: handleNewGroup and handleAddedConsumer (D7)."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground import regex
from actors.coordinator.ground.kind import hand_on
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push import history, sending
from actors.coordinator.push.group import FAIL_TIMER, Consumer, PushGroup
from actors.coordinator.push.rebalance import set_due, stopped
from actors.coordinator.push.state import kept, push_groups
from actors.coordinator.push.store import group_record
from actors.ground.contract import Record, Request, Result
from actors.ground.features import GROUPD_VERSION, PUSH_LEVEL
from actors.ground.records import PUSH_CONSUMER, PushConsumerKey, PushConsumerValue
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR
from actors.protocol.push_messages import RESETS, RegisterConsumerRequest, RegisterConsumerResponse

STREAMS_MAX: Final = 1_000
"""How many streams a consumer may read a topic with: each is a thread that may own partitions."""
TOPICS_MAX: Final = 10_000
"""How many topics and wildcards a consumer may name."""


def register_consumer(state: ShardState, request: Request, now_ms: int) -> Result:
    """Take a consumer into its group, on the connection that the request came on. A consumer that is known
    and has no connection any more is the same one: it has registered again.

    Raises GroupError: 24, 42, 26, 128 for what the request says, 111 while another connection has the id, 81
    for a full group, 69 for a group of another kind, 35 as long as the tier writes logs of level 1.
    """
    body: RegisterConsumerRequest = request.body
    _check(state, body)
    groups = push_groups(state)
    group = groups.get(body.group_id)
    if group is None:
        message = f"Group {body.group_id} is not a push group."
        hand_on(state, body.group_id, GroupError(ErrorCode.group_id_not_found, message))
    consumer = None if group is None else group.consumers.get(body.consumer_id)
    if consumer is not None and consumer.channel is not None:
        message = f"Consumer {body.consumer_id} is registered on another connection."
        raise GroupError(ErrorCode.unreleased_instance_id, message)
    size = 0 if group is None else group.size
    if consumer is None and size >= state.settings.group_max_size:
        raise GroupError(ErrorCode.group_max_size_reached, f"Group {body.group_id} is full.")
    outcome = Outcome(state, now_ms)
    if group is None:
        group = groups[body.group_id] = PushGroup(body.group_id, now_ms)
        outcome.records.append(group_record(group))
    _accept(outcome, group, request)
    outcome.answer(request.token, RegisterConsumerResponse(NO_ERROR), body.group_id)
    return outcome.result()


def _check(state: ShardState, body: RegisterConsumerRequest) -> None:
    if body.group_id == "":
        raise GroupError(ErrorCode.invalid_group_id, "The group id is empty.")
    if state.image.features.level(GROUPD_VERSION) < PUSH_LEVEL:
        message = f"The tier's {GROUPD_VERSION} is below {PUSH_LEVEL}: finalize the upgrade first."
        raise GroupError(ErrorCode.unsupported_version, message)
    wrong = _what_is_wrong(body)
    if wrong is not None:
        raise GroupError(ErrorCode.invalid_request, wrong)
    low, high = state.settings.group_min_session_timeout_ms, state.settings.group_max_session_timeout_ms
    if not low <= body.session_timeout_ms <= high:
        message = f"SessionTimeoutMs must be {low} to {high} (group.min and group.max.session.timeout.ms)."
        raise GroupError(ErrorCode.invalid_session_timeout, message)
    for topic, is_wildcard, _ in body.topic_counts:
        if is_wildcard:
            regex.compiled(topic)


def _what_is_wrong(body: RegisterConsumerRequest) -> str | None:
    if not body.consumer_id.strip():
        return "ConsumerId is empty."
    if body.auto_offset_reset not in RESETS:
        return f"AutoOffsetReset must be one of {', '.join(RESETS)}."
    if not 0 < len(body.topic_counts) <= TOPICS_MAX:
        return f"TopicCounts must name 1 to {TOPICS_MAX} topics or wildcards."
    if any(not each.topic for each in body.topic_counts):
        return "A topic's name is empty."
    if any(not 0 < each.streams <= STREAMS_MAX for each in body.topic_counts):
        return f"Streams must be 1 to {STREAMS_MAX}."
    if len({each[:2] for each in body.topic_counts}) < len(body.topic_counts):
        return "TopicCounts names a topic twice."
    return None


def _accept(outcome: Outcome, group: PushGroup, request: Request) -> None:
    """Take in a consumer that is new, or that has registered again."""
    state, now_ms = outcome.state, outcome.now_ms
    body: RegisterConsumerRequest = request.body
    value = PushConsumerValue(
        request.client_id,
        request.client_host,
        body.session_timeout_ms,
        int(body.auto_commit),
        body.auto_offset_reset,
        tuple(
            sorted((topic, int(is_wildcard), streams) for topic, is_wildcard, streams in body.topic_counts)
        ),
    )
    consumer = group.consumers.get(body.consumer_id)
    is_new = consumer is None
    if consumer is None:
        consumer = group.consumers[body.consumer_id] = Consumer(body.consumer_id, value, now_ms)
        history.tell_joined(outcome, group, consumer, request.client_software)
    if is_new or consumer.value != value:
        key = PushConsumerKey(PUSH_CONSUMER, group.group_id, body.consumer_id)
        outcome.records.append(Record(key, value))
    consumer.value = value
    consumer.channel = request.token
    consumer.missed, consumer.sent_ms = 0, now_ms
    consumer.is_closing = False
    kept(state).note_interest(group, value)
    state.timers.cancel((FAIL_TIMER, group.group_id, body.consumer_id))
    sending.schedule_ping(state, group, consumer, now_ms)
    what = "consumer registered" if is_new else "consumer registered again"
    set_due(state, group, now_ms, (what, "D7", body.consumer_id))
    stopped(outcome, group, consumer)
