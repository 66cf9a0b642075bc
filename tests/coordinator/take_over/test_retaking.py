"""A broker was made to lead what is served here: what both have acknowledged survives."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.take_over.inside import RETAKE, RetakeRequest
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest
from tests.coordinator.take_over.taker import TOPIC_ID, Taker
from tests.upstream.offsets_log.logs import KafkaLog, classic_group, commit, packed

NOT_COORDINATOR = int(ErrorCode.not_coordinator)
UNKNOWN_MEMBER = int(ErrorCode.unknown_member_id)
SERVED_EPOCH = 7
THEIRS = 10
"""Nodes of ours led in between, too."""


@pytest.fixture
def taker() -> Taker:
    """Groups that were taken over, are served, and go on."""
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1", "m2"]), commit("g", 0, 17), commit("g", 1, 4)])
    taker = Taker()
    taker.take(log.raw())
    assert taker.serve(log.end, leader_epoch=SERVED_EPOCH).error_code == 0
    assert taker.commit_offsets("g", offsets={0: 20}, generation=5, member_id="m1") == {0: 0}
    return taker


def test_what_both_have_acknowledged_survives(taker: Taker) -> None:
    """The broker knew nothing: a member has begun its group anew there, and went on from elsewhere."""
    log = KafkaLog()
    log.append([classic_group("g", 1, ["theirs"]), commit("g", 1, 6)], leader_epoch=THEIRS)
    assert taker.retake(THEIRS).error_code == 0
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    taker.take(log.raw())
    assert taker.serve(log.end, leader_epoch=THEIRS + 1).error_code == 0
    assert taker.offsets("g") == {("t", 0): 20, ("t", 1): 6}
    assert taker.heartbeat("g", 1, "theirs") == 0
    assert taker.heartbeat("g", 5, "m1") == UNKNOWN_MEMBER


def test_batches_that_brokers_have_from_here_are_not_taken_for_newer_ones(taker: Taker) -> None:
    """It had followed for a while before it was made to lead."""
    log = KafkaLog()
    log.append([commit("g", 0, 18), commit("g", 1, 3)], leader_epoch=SERVED_EPOCH)
    log.append([commit("g", 1, 6)], leader_epoch=THEIRS)
    taker.retake(THEIRS)
    taker.take(log.raw())
    assert taker.serve(log.end, leader_epoch=THEIRS + 1).error_code == 0
    assert taker.offsets("g") == {("t", 0): 20, ("t", 1): 6}


def test_what_brokers_wrote_while_nobody_here_looked_is_taken(taker: Taker) -> None:
    """Two of them led, one after the other."""
    log = KafkaLog()
    log.append([commit("g", 1, 5)], leader_epoch=THEIRS)
    log.append([commit("g", 2, 1)], leader_epoch=THEIRS + 1)
    assert taker.retake(THEIRS + 1).error_code == 0
    taker.take(log.raw())
    taker.serve(log.end, leader_epoch=THEIRS + 2)
    assert taker.offsets("g") == {("t", 0): 20, ("t", 1): 5, ("t", 2): 1}


@pytest.mark.parametrize("epoch", [SERVED_EPOCH - 1, SERVED_EPOCH])
def test_that_a_broker_led_before_the_groups_came_is_no_news(taker: Taker, epoch: int) -> None:
    before = taker.records()
    answer = taker.retake(epoch)
    assert answer.error_code == ErrorCode.fenced_leader_epoch
    assert answer.message == "that brokers lead is old news: what is here is of epoch 7"
    assert taker.heartbeat("g", 5, "m1") == 0
    assert taker.records() == before


def test_the_log_of_another_topic_is_not_put_on_top(taker: Taker) -> None:
    assert taker.retake(THEIRS, topic_id=b"another topic id").error_code == ErrorCode.fenced_leader_epoch
    assert taker.heartbeat("g", 5, "m1") == 0


def test_what_a_broker_lacks_of_sealed_groups_survives(taker: Taker) -> None:
    """It had followed the log for a while, and was elected before it had all of it."""
    log = KafkaLog()
    log.append([commit("g", 0, 17), commit("g", 1, 4)], leader_epoch=SERVED_EPOCH)
    log.append([commit("g", 1, 6)], leader_epoch=THEIRS)
    taker.seal()
    taker.fail_over()
    assert taker.retake(THEIRS).error_code == 0
    taker.take(log.raw())
    assert taker.serve(log.end, leader_epoch=THEIRS + 1).error_code == 0
    assert taker.offsets("g") == {("t", 0): 20, ("t", 1): 6}


def test_what_kafka_had_acknowledged_before_it_came_here_survives() -> None:
    """It was not served yet when a broker was elected that knew nothing of it."""
    first, second = KafkaLog(), KafkaLog()
    first.append([classic_group("g", 5, ["m1"]), commit("g", 0, 17), commit("g", 1, 4)], leader_epoch=5)
    second.append([commit("g", 1, 6)], leader_epoch=THEIRS)
    taker = Taker()
    taker.take(first.raw(), high_watermark=first.end)
    assert taker.retake(5).error_code == ErrorCode.fenced_leader_epoch
    assert taker.retake(THEIRS).next_offset == 0
    taker.take(second.raw())
    assert taker.serve(second.end, leader_epoch=THEIRS + 1).error_code == 0
    assert taker.offsets("g") == {("t", 0): 17, ("t", 1): 6}
    assert taker.heartbeat("g", 5, "m1") == UNKNOWN_MEMBER


def test_what_kafka_had_acknowledged_is_noted_as_far_as_it_is_here() -> None:
    log = KafkaLog()
    log.append([commit("g", 0, 1), commit("g", 0, 2)])
    log.append([commit("g", 0, 3)])
    first, second = map(packed, log.batches)
    taker = Taker()
    for fetched, high_watermark, noted in ((first, 1, 1), (second, 0, 1), (b"", 3, 1)):
        taker.take(fetched, high_watermark)
        assert taker.state.from_kafka.log is not None
        assert taker.state.from_kafka.log.acknowledged_offset == noted
    taker = Taker()
    taker.take(first, 3)
    assert taker.state.from_kafka.log is not None
    assert taker.state.from_kafka.log.acknowledged_offset == 2


def test_it_may_be_asked_for_again(taker: Taker) -> None:
    log = KafkaLog()
    log.append([commit("g", 1, 6)], leader_epoch=THEIRS)
    taker.retake(THEIRS)
    taker.take(log.raw())
    assert taker.retake(THEIRS).next_offset == log.end


def test_who_waits_is_refused(taker: Taker) -> None:
    waiting = taker.send_join("g", "m1")
    taker.retake(THEIRS)
    taker.replica.refuse(taker.shard.is_elsewhere)
    taker.commit()
    assert taker.replies[waiting].error_code == ErrorCode.not_coordinator


def test_the_next_leader_goes_on_with_it(taker: Taker) -> None:
    log = KafkaLog()
    log.append([commit("g", 1, 6)], leader_epoch=THEIRS)
    taker.retake(THEIRS)
    taker.fail_over()
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    taker.take(log.raw())
    taker.fail_over()
    assert taker.serve(log.end).error_code == 0
    assert taker.offsets("g") == {("t", 0): 20, ("t", 1): 6}


def test_what_was_not_committed_is_asked_for_again(taker: Taker) -> None:
    taker.commit()
    taker.send(RETAKE, RetakeRequest(TOPIC_ID, THEIRS), 0)
    taker.replica.run_timers(taker.now_ms)
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    taker.fail_over()
    assert taker.heartbeat("g", 5, "m1") == 0
    assert taker.retake(THEIRS).error_code == 0


def test_a_log_that_took_another_way_takes_nothing_of_ours_with_it(taker: Taker) -> None:
    """The broker's successor lacks some of its log: what is here begins to follow anew, and only that."""
    log, other = KafkaLog(), KafkaLog()
    log.append([commit("g", 1, 6), commit("g", 1, 7)], leader_epoch=THEIRS)
    other.append([commit("g", 1, 6), commit("g", 2, 2)], leader_epoch=THEIRS + 1)
    taker.retake(THEIRS)
    taker.take(log.raw())
    assert taker.drop_taken(owed_offset=1).next_offset == 0
    assert taker.serve(0).error_code == ErrorCode.offset_out_of_range
    taker.take(other.raw())
    assert taker.serve(other.end).error_code == 0
    assert taker.offsets("g") == {("t", 0): 20, ("t", 1): 6, ("t", 2): 2}


def test_consumer_groups_begin_anew(taker: Taker) -> None:
    joined = ConsumerGroupHeartbeatRequest("new", "m", 0, None, None, 9_000, ("t",), topic_partitions=())
    epoch = taker.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, joined, 1).member_epoch
    taker.retake(THEIRS)
    assert taker.serve(0).error_code == 0
    beat = ConsumerGroupHeartbeatRequest("new", "m", epoch)
    answer = taker.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, beat, 1)
    assert answer.error_code == UNKNOWN_MEMBER, "which has every client join anew"
    assert taker.commit_offsets("new", generation=epoch, member_id="m") == {0: UNKNOWN_MEMBER}
    assert taker.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, joined, 1).error_code == 0
