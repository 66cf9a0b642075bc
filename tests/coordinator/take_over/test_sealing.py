"""Groups that go back to brokers are sealed: nothing of them changes, until brokers lead or the seal is taken
back."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.offsets.delete import AT_ONCE_MAX
from actors.coordinator.take_over.inside import DROP_TAKEN, SEAL_SERVED, DropTakenRequest, SealServedRequest
from actors.ground.image import TopicImage
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest
from tests.coordinator.alone import KeptLog
from tests.coordinator.take_over.given import Given
from tests.coordinator.take_over.taker import Taker, newest
from tests.upstream.offsets_log.logs import KafkaLog, classic_group, commit

NOT_COORDINATOR = int(ErrorCode.not_coordinator)
SESSION_MS = 10_000
LED_EPOCH = 8
RETENTION_MS = 8 * 24 * 3_600_000


@pytest.fixture
def taker() -> Taker:
    """Groups that were taken over and are served."""
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1", "m2"]), commit("g", 0, 17)])
    taker = Taker()
    taker.take_over(log)
    return taker


def test_that_brokers_have_all_is_known_to_the_next_leader_and_ends_with_the_seal(taker: Taker) -> None:
    taker.seal()
    taker.release(LED_EPOCH)
    taker.fail_over()
    assert taker.state.from_kafka.log is not None
    assert taker.state.from_kafka.log.released_epoch == LED_EPOCH
    taker.unseal()
    taker.seal()
    assert taker.drop_taken().error_code == ErrorCode.invalid_request


def test_sealed_groups_are_served_by_nobody(taker: Taker) -> None:
    assert taker.seal().error_code == 0
    before = taker.records()
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    assert taker.commit_offsets("g", generation=5, member_id="m1") == {0: NOT_COORDINATOR}
    assert taker.mark((7, 0)) == ErrorCode.not_leader_or_follower, "coordinators of transactions come again"
    taker.advance(10 * SESSION_MS)
    assert taker.records() == before
    assert taker.seal().error_code == 0


def test_who_waits_is_refused(taker: Taker) -> None:
    waiting = taker.send_join("g", "m1")
    taker.seal()
    assert waiting not in taker.replies
    taker.replica.refuse(taker.shard.is_elsewhere)
    taker.commit()
    assert taker.replies[waiting].error_code == ErrorCode.not_coordinator


def test_the_next_leader_holds_the_seal(taker: Taker) -> None:
    taker.seal()
    taker.fail_over()
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    assert taker.serve(taker.next_offset).error_code == ErrorCode.invalid_request
    assert taker.unseal().error_code == 0
    assert taker.heartbeat("g", 5, "m1") == 0


def test_a_seal_that_is_not_committed_is_none(taker: Taker) -> None:
    taker.commit()
    taker.send(SEAL_SERVED, SealServedRequest(), 0)
    taker.replica.run_timers(taker.now_ms)
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    taker.fail_over()
    assert taker.heartbeat("g", 5, "m1") == 0


def test_unsealed_groups_go_on_with_full_sessions(taker: Taker) -> None:
    taker.seal()
    taker.advance(60_000)
    assert taker.unseal().error_code == 0
    taker.advance(SESSION_MS - 1)
    assert (taker.heartbeat("g", 5, "m1"), taker.heartbeat("g", 5, "m2")) == (0, 0)
    assert taker.offsets("g") == {("t", 0): 17}
    assert taker.commit_offsets("g", offsets={0: 18}, generation=5, member_id="m1") == {0: 0}
    assert taker.unseal().error_code == 0


def test_consumer_groups_keep_their_epochs_over_a_seal(taker: Taker) -> None:
    joined = ConsumerGroupHeartbeatRequest("new", "m", 0, None, None, 9_000, ("t",), topic_partitions=())
    epoch = taker.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, joined, 1).member_epoch
    taker.seal()
    taker.unseal()
    beat = ConsumerGroupHeartbeatRequest("new", "m", epoch)
    answer = taker.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, beat, 1)
    assert (answer.error_code, answer.member_epoch) == (0, epoch)


def test_the_log_ends_with_the_seal(taker: Taker) -> None:
    given = Given(taker)
    taker.commit_offsets("g", offsets={1: 1}, generation=5, member_id="m1")
    taker.seal()
    assert given.made.is_sealed
    end = given.made.log.end_offset
    assert taker.unseal().error_code == 0
    assert not given.made.is_sealed
    taker.commit_offsets("g", offsets={1: 2}, generation=5, member_id="m1")
    taker.commit()
    assert given.made.log.end_offset == end + 1, "it goes on if brokers do not lead"


def test_a_log_of_sealed_groups_has_them(taker: Taker) -> None:
    taker.seal()
    given = Given(taker)
    assert given.made.is_sealed
    back = Taker()
    back.take(given.raw())
    back.serve()
    assert back.heartbeat("g", 5, "m1") == 0


def test_what_brokers_lead_is_removed(taker: Taker) -> None:
    assert taker.drop_taken().error_code == ErrorCode.invalid_request, "it is served"
    assert taker.release(LED_EPOCH).error_code == ErrorCode.invalid_request
    taker.seal()
    given = Given(taker)
    end = given.made.log.end_offset
    assert taker.drop_taken().error_code == ErrorCode.invalid_request, "nobody has said that they have all"
    assert taker.release(LED_EPOCH).error_code == 0
    assert taker.drop_taken().error_code == 0
    assert taker.records() == {}
    assert (given.made.is_over, given.made.log.end_offset) == (True, end), "brokers are not told of that"
    assert taker.unseal().error_code == ErrorCode.invalid_request
    taker.take(given.raw())
    assert taker.serve().error_code == 0
    assert taker.offsets("g") == {("t", 0): 17}


@pytest.mark.parametrize("falls", [False, True])
def test_rows_of_offsets_are_removed_as_they_are_kept(falls: bool) -> None:
    """An offset that is taken out of its rows costs as much as all of them, on every replica. A leader that
    falls in the midst of it has all of them again."""
    partitions, groups = 100, 15
    taker = Taker(newest(TopicImage(bytes(16), "t", (0,) * (partitions + 1))))
    log = KafkaLog()
    for number in range(groups):
        log.append([commit(f"g{number}", partition, 1) for partition in range(partitions)])
        log.append([commit(f"g{number}", partitions, 2, metadata="why")])
    taker.take_over(log)
    taker.seal()
    taker.release(LED_EPOCH)
    if falls:
        taker.send(DROP_TAKEN, DropTakenRequest(), 0)
        taker.replica.run_timers(taker.now_ms)
        taker.replica.run_timers(taker.now_ms)
        assert taker.records() != taker.committed
        taker.fail_over()
    kept = taker.replica.log
    assert isinstance(kept, KeptLog)
    before = sum(map(len, kept.commands))
    assert taker.drop_taken().error_code == 0
    assert taker.records() == {}
    assert sum(map(len, kept.commands)) - before < groups * partitions, "less than a byte for each offset"


def test_the_deletion_of_a_large_group_is_ended_first() -> None:
    """Kafka would take what is left of it for the offsets of a group without members."""
    partitions = AT_ONCE_MAX + 1
    taker = Taker(newest(TopicImage(bytes(16), "t", (0,) * partitions)))
    log = KafkaLog()
    log.append([commit("g", partition, 1) for partition in range(partitions)])
    taker.take_over(log)
    given = Given(taker)
    assert taker.delete_groups("g") == {"g": 0}
    assert taker.state.dying
    assert taker.seal().error_code == 0
    assert not taker.state.dying
    back = Taker(taker.image)
    back.take(given.raw())
    assert back.state.offsets == {}


@pytest.mark.parametrize("is_sealed", [True, False])
def test_long_work_ends_where_the_seal_finds_it(is_sealed: bool) -> None:
    """What it decided later would not be in the log that brokers have."""
    taker = Taker()
    log = KafkaLog()
    log.append([commit(f"g{number}", 0, 1) for number in range(5_000)])
    taker.take_over(log)
    taker.now_ms += RETENTION_MS
    while len(taker.records()) > 5_000:
        taker.replica.run_timers(taker.now_ms)
    if is_sealed:
        assert taker.seal().error_code == 0
    left = taker.records()
    for _ in range(100):
        taker.now_ms += 1
        taker.replica.run_timers(taker.now_ms)
        taker.commit()
    assert (taker.records() == left) == is_sealed
