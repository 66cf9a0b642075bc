"""Consumer groups come with epochs and assignments, and find out if their topics have changed."""

from __future__ import annotations

import pytest

from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.driver import image_of, topic_id
from tests.coordinator.take_over.taker import Taker, newest
from tests.upstream.offsets_log.logs import KafkaLog, record

GROUP, KAFKAS_HASH = {"groupId": "g"}, -4_711
EPOCH = 7


def group_log(partitions: int, *, assignment_epoch: int = EPOCH, regex: str = "") -> KafkaLog:
    """A settled group of one member that has so many partitions of topic t."""
    member = GROUP | {"memberId": "m"}
    owned = [{"topicId": topic_id(1), "partitions": list(range(partitions))}]
    subscribed = {"subscribedTopicNames": [] if regex else ["t"], "subscribedTopicRegex": regex}
    epochs = {"memberEpoch": assignment_epoch, "previousMemberEpoch": assignment_epoch}
    current = epochs | {"state": 0, "assignedPartitions": owned}
    log = KafkaLog()
    log.append(
        [
            record(5, member, {"clientId": "c", "clientHost": "/h", "rebalanceTimeoutMs": 9} | subscribed),
            record(3, GROUP, {"epoch": EPOCH, "metadataHash": KAFKAS_HASH}),
            record(6, GROUP, {"assignmentEpoch": assignment_epoch}),
            record(7, member, {"topicPartitions": owned}),
            record(8, member, current | {"partitionsPendingRevocation": []}),
        ]
    )
    if regex:
        key = GROUP | {"regularExpression": regex}
        log.append([record(16, key, {"topics": ["t"], "version": 1, "timestamp": 1})])
    return log


def beat(taker: Taker, epoch: int = EPOCH) -> ConsumerGroupHeartbeatResponse:
    body = ConsumerGroupHeartbeatRequest("g", "m", epoch)
    answer = taker.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert answer.error_code == 0
    return answer


def group_epoch(taker: Taker) -> int:
    asked = {"group_ids": ["g"], "include_authorized_operations": False}
    [group] = taker.serve_raw("consumer_group_describe", 1, **asked)["groups"]
    epoch: int = group["group_epoch"]
    return epoch


@pytest.mark.parametrize("regex", ["", "t.*"])
def test_a_settled_group_is_told_nothing_new(regex: str) -> None:
    taker = Taker()
    taker.take_over(group_log(8, regex=regex))
    answer = beat(taker)
    assert (answer.member_epoch, answer.assignment) == (EPOCH, None)
    taker.fail_over()
    assert beat(taker).member_epoch == EPOCH


def test_a_group_that_has_no_target_yet_gets_it_in_its_epoch() -> None:
    """There is nothing to find out: the target is computed with the topics of now."""
    taker = Taker()
    taker.take_over(group_log(4, assignment_epoch=EPOCH - 1))
    taker.advance(2_000)
    assert beat(taker, EPOCH - 1).member_epoch == EPOCH
    assert group_epoch(taker) == EPOCH


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(group_log(4), id="the topic has grown"),
        pytest.param(group_log(9), id="the topic was made anew, with fewer partitions"),
    ],
)
def test_a_group_whose_topics_may_have_changed_rebalances_once(log: KafkaLog) -> None:
    taker = Taker()
    taker.take_over(log)
    assert group_epoch(taker) == EPOCH
    beat(taker)
    assert group_epoch(taker) == EPOCH + 1


def test_a_topic_of_another_id_is_another_topic() -> None:
    """Somebody has deleted it and made it anew under its name."""
    [topic] = image_of(1, t=8).topics.values()
    taker = Taker(newest(topic._replace(topic_id=topic_id(2))))
    taker.take_over(group_log(8))
    beat(taker)
    assert group_epoch(taker) == EPOCH + 1
