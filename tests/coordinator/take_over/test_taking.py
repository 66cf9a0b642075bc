"""Kafka's log becomes the state of an offsets partition, which serves when all of it is here."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.take_over.fold import foreign_types
from actors.coordinator.take_over.inside import (
    SERVE,
    TAKE,
    LogPiece,
    ServeRequest,
    TakeRequest,
)
from actors.ground.records import TAKEN_LOG
from actors.upstream.offsets_log.reading import pieces
from tests.coordinator.driver import Driver, image_of
from tests.coordinator.take_over.taker import TOPIC_ID, Taker
from tests.upstream.offsets_log.logs import (
    OFFSET,
    TIME_MS,
    KafkaLog,
    classic_group,
    commit,
    foreign,
    no_classic_group,
    no_offset,
    packed,
    record,
)

NOT_COORDINATOR = int(ErrorCode.not_coordinator)
PRODUCER, OTHER_PRODUCER = (7, 0), (8, 4)


@pytest.fixture
def taker() -> Taker:
    return Taker()


def by_batch(log: KafkaLog) -> list[LogPiece]:
    """Return a piece for each batch."""
    return [piece for batch in log.batches for piece in pieces(packed(batch), batch.base_offset)]


def test_nobody_is_served_before_all_of_the_log_is_here(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1", "m2"]), commit("g", 0, 17)])
    taker.take(log.raw())
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    assert taker.serve(log.end + 1).error_code == ErrorCode.offset_out_of_range
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    assert taker.serve(log.end).error_code == 0
    assert (taker.heartbeat("g", 5, "m1"), taker.heartbeat("g", 5, "m2")) == (0, 0)
    assert taker.offsets("g") == {("t", 0): 17}


def test_a_taken_group_goes_on_where_it_was(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 4, ["m1", "m2"])])
    log.append([classic_group("g", 5, ["m2", "m3"])])
    taker.take_over(log)
    told = taker.describe("g")
    assert (told.group_state, told.protocol_type, told.protocol_data) == ("Stable", "consumer", "range")
    assert {each.member_id: each.member_assignment for each in told.members} == {
        "m2": b"5: m2",
        "m3": b"5: m3",
    }
    assert taker.heartbeat("g", 4, "m2") == ErrorCode.illegal_generation
    assert taker.heartbeat("g", 5, "m1") == ErrorCode.unknown_member_id
    assert taker.commit_offsets("g", generation=5, member_id="m3") == {0: 0}


def test_sessions_begin_anew_when_the_groups_are_served(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1", "m2"])])
    taker.take(log.raw())
    taker.advance(60_000)
    taker.serve()
    taker.advance(9_000)
    assert taker.heartbeat("g", 5, "m1") == 0
    taker.advance(2_000)
    assert taker.heartbeat("g", 5, "m1") == ErrorCode.rebalance_in_progress, "the silent one has gone"


def test_a_failover_in_the_middle_goes_on_where_the_log_was(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1"])])
    log.append([commit("g", 0, 1)])
    first, second = by_batch(log)
    taker.take_piece(first)
    taker.fail_over()
    assert taker.next_offset == 1
    assert taker.heartbeat("g", 5, "m1") == NOT_COORDINATOR
    taker.take_piece(second)
    taker.serve(2)
    taker.fail_over()
    assert taker.heartbeat("g", 5, "m1") == 0
    assert taker.offsets("g") == {("t", 0): 1}


def test_who_leads_next_serves_what_its_predecessor_had_begun_to_serve(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1"])])
    taker.take(log.raw())
    taker.send(SERVE, ServeRequest(TOPIC_ID, log.end), 0)
    taker.replica.run_timers(taker.now_ms)
    taker.commit()
    assert taker.take_piece(LogPiece(1, 2, 0)).error_code == ErrorCode.invalid_request
    taker.fail_over()
    assert taker.heartbeat("g", 5, "m1") == 0


def test_what_was_not_committed_is_fetched_again(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1"]), commit("g", 0, 1), foreign(9, "share")])
    [piece] = pieces(log.raw(), 0)
    before = taker.records()
    taker.send(TAKE, TakeRequest(TOPIC_ID, piece), 0)
    assert taker.next_offset == 3
    taker.fall()
    assert taker.records() == before
    assert taker.next_offset == 0


def test_a_piece_that_comes_twice_changes_nothing(taker: Taker) -> None:
    log = KafkaLog()
    log.append([commit("g", 0, 1)])
    log.append([commit("g", 0, 2)])
    [whole] = pieces(log.raw(), 0)
    taker.take_piece(whole)
    before = taker.records()
    late = whole._replace(next_offset=1, records=whole.records[:1])
    assert taker.take_piece(late).next_offset == 2
    assert taker.records() == before


def test_a_hole_in_the_log_is_refused(taker: Taker) -> None:
    answer = taker.take_piece(LogPiece(5, 6, 0))
    assert answer.error_code == ErrorCode.offset_out_of_range
    assert answer.message == "offsets 0 to 4 of Kafka's log are missing"


def test_the_log_of_another_topic_is_refused_until_the_first_is_removed(taker: Taker) -> None:
    """Somebody has deleted the topic and made it anew meanwhile."""
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1"]), commit("g", 0, 1), foreign(9, "share")])
    log.pend(PRODUCER, commit("g", 1, 9))
    taker.take(log.raw())
    other = b"another topic id"
    assert taker.take_piece(LogPiece(4, 5, 0), other).error_code == ErrorCode.inconsistent_topic_id
    assert taker.drop_taken().error_code == 0
    assert taker.records() == {}
    assert taker.take_piece(LogPiece(0, 1, 0), other).error_code == 0


def test_a_removal_that_did_not_end_has_to_end_first(taker: Taker) -> None:
    log = KafkaLog()
    log.append([commit("g", partition, 1) for partition in range(8)])
    taker.take(log.raw())
    taker.begin_to_drop()
    taker.fail_over()
    assert taker.take_piece(LogPiece(8, 9, 0)).error_code == ErrorCode.invalid_request
    assert taker.serve().error_code == ErrorCode.invalid_request
    assert taker.drop_taken().error_code == 0
    assert taker.records() == {}


def test_what_kafka_counts_on_is_taken_again_before_anybody_is_served(taker: Taker) -> None:
    """The replicas were in sync when the log turned out to be another one: until they have it, no broker of
    the tier may lead, whoever leads the tier's partition."""
    log = KafkaLog()
    log.append([commit("g", 0, 1)])
    log.append([commit("g", 1, 2)])
    taker.take(log.raw())
    taker.begin_to_drop(2)
    taker.fail_over()
    assert taker.drop_taken(0).error_code == 0
    assert [key[0] for key in taker.records()] == [TAKEN_LOG]
    assert taker.serve().error_code == ErrorCode.offset_out_of_range
    first, second = map(packed, log.batches)
    taker.take(first)
    taker.fail_over()
    answer = taker.serve()
    assert answer.error_code == ErrorCode.offset_out_of_range
    assert answer.message == "Kafka counts on all before 2, and it is taken up to 1"
    assert taker.drop_taken(1).error_code == 0, "it is another log once more"
    taker.take(first)
    assert taker.serve().error_code == ErrorCode.offset_out_of_range
    taker.take(second)
    assert taker.serve().error_code == 0
    assert taker.offsets("g") == {("t", 0): 1, ("t", 1): 2}


def test_what_kafka_does_not_count_on_any_more_leaves_nothing(taker: Taker) -> None:
    log = KafkaLog()
    log.append([commit("g", 0, 1)])
    taker.take(log.raw())
    assert taker.drop_taken(1).error_code == 0
    assert taker.drop_taken().error_code == 0
    assert taker.records() == {}
    assert taker.serve().error_code == 0


def test_groups_that_are_served_are_neither_taken_nor_removed(taker: Taker) -> None:
    log = KafkaLog()
    log.append([commit("g", 0, 1)])
    taker.take_over(log)
    assert taker.serve().error_code == 0, "to ask again is to be told again"
    assert taker.take_piece(LogPiece(1, 2, 0)).error_code == ErrorCode.invalid_request
    assert taker.drop_taken().error_code == ErrorCode.invalid_request
    assert taker.offsets("g") == {("t", 0): 1}


def test_a_tier_with_groups_of_its_own_takes_nothing_over() -> None:
    driver = Driver(image_of(1, t=1))
    answer = driver.ask(TAKE, TakeRequest(TOPIC_ID, LogPiece(0, 1, 0)), 0)
    assert answer.error_code == ErrorCode.invalid_request
    assert "only an empty tier takes over" in answer.message


def test_a_tier_at_an_old_level_takes_nothing_over() -> None:
    taker = Taker(image_of(1, t=1))
    answer = taker.take_piece(LogPiece(0, 1, 0))
    assert answer.error_code == ErrorCode.unsupported_version
    assert answer.message is not None
    assert "groupd.version" in answer.message


# What records mean.


def test_a_tombstone_deletes_a_classic_group_with_its_members(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1", "m2"]), classic_group("h", 1, [])])
    log.append([no_classic_group("g")])
    taker.take_over(log)
    assert [group.group_id for group in taker.list_groups()] == ["h"]
    assert taker.describe("h").group_state == "Empty"


def test_of_several_records_of_a_group_in_one_batch_the_last_counts(taker: Taker) -> None:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1", "m2"]), no_classic_group("g"), classic_group("g", 7, ["m3"])])
    log.append([classic_group("h", 1, ["m"]), no_classic_group("h")])
    taker.take_over(log)
    assert [each.member_id for each in taker.describe("g").members] == ["m3"]
    assert [group.group_id for group in taker.list_groups()] == ["g"]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_every_version_are_taken(taker: Taker, version: int) -> None:
    log = KafkaLog()
    log.append([commit("g", partition, 10 + partition, version=version) for partition in range(3)])
    log.append([commit("g", 3, 5, metadata="why", version=version)])
    taker.take_over(log)
    assert taker.offsets("g") == {("t", 0): 10, ("t", 1): 11, ("t", 2): 12, ("t", 3): 5}
    [kept] = [value for key, value in taker.records().items() if key[0] == OFFSET and key[3] == 3]
    assert (kept.metadata, kept.commit_timestamp_ms) == ("why", TIME_MS)


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(taker: Taker) -> None:
    log = KafkaLog()
    log.append(
        [commit("g", 0, 1), commit("g", 1, 2), commit("g", 0, 3), no_offset("g", 1), commit("g", 2, 4)]
    )
    taker.take_over(log)
    assert taker.offsets("g") == {("t", 0): 3, ("t", 2): 4}


def test_offsets_before_0_9_are_offsets(taker: Taker) -> None:
    key, _ = commit("g", 0, 0)
    _, value = commit("g", 0, 8, version=0)
    log = KafkaLog()
    log.append([(b"\0\0" + key[2:], value)])
    taker.take_over(log)
    assert taker.offsets("g") == {("t", 0): 8}


def test_topic_metadata_that_kafka_reads_no_more_is_passed_over(taker: Taker) -> None:
    log = KafkaLog()
    log.append([record(4, {"groupId": "g"}, {"topics": []}), record(4, {"groupId": "g"}, None)])
    taker.take_over(log)
    assert [key[0] for key in taker.records()] == [TAKEN_LOG]


def test_records_of_unknown_types_are_kept_byte_for_byte(taker: Taker) -> None:
    log = KafkaLog()
    gone, kept = foreign(15, "a"), foreign(9, "share group")
    log.append([gone, kept, foreign(9, "share group", b"\0\0newer"), foreign(17, "streams"), (gone[0], None)])
    taker.take_over(log)
    taker.fail_over()
    found = {key: value.content for key, value in taker.state.from_kafka.foreign.items()}
    assert found == {kept[0]: b"\0\0newer", foreign(17, "streams")[0]: b"\0\0whatever"}
    assert foreign_types(found) == {9: 1, 17: 1}
    assert taker.state.from_kafka.foreign_bytes == sum(len(key) + len(value) for key, value in found.items())


def test_too_many_unknown_records_are_refused_by_type(taker: Taker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.coordinator.take_over.fold.FOREIGN_BYTES_MAX", 100)
    log = KafkaLog()
    log.append([foreign(11, "small")])
    log.append([foreign(12, "x" * 100)])
    first, second = by_batch(log)
    taker.take_piece(first)
    answer = taker.take_piece(second)
    assert answer.error_code == ErrorCode.invalid_record
    assert answer.message is not None
    assert "offset 1 of Kafka's log cannot be taken over: 1 records of type 11" in answer.message


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ((b"\0", b""), "its key has 1 bytes"),
        ((commit("g", 0, 1)[0][:-1], commit("g", 0, 1)[1]), "OffsetCommit key cannot be read"),
        ((commit("g", 0, 1)[0], b"\0\5" + bytes(30)), "value version 5: this groupd reads 0 to 4"),
        ((commit("g", 0, 1)[0], b"\0\4" + bytes(12) + b"\x05a"), "cannot be read"),
        ((classic_group("g", 1, [])[0], b"\0\7"), "GroupMetadata value version 7"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_and_nothing_is_taken(
    taker: Taker, pair: tuple[bytes, bytes], why: str
) -> None:
    log = KafkaLog()
    log.append([commit("g", 0, 1), pair, commit("g", 1, 1)])
    before = taker.records()
    answer = taker.take_piece(next(iter(pieces(log.raw(), 0))))
    assert answer.error_code == ErrorCode.invalid_record
    assert answer.message is not None
    assert "the record at offset 1 of Kafka's log" in answer.message
    assert why in answer.message
    assert taker.records() == before


# Transactions.


def test_an_offset_of_a_transaction_counts_when_its_marker_has_come(taker: Taker) -> None:
    log = KafkaLog()
    log.append([commit("g", 0, 1), commit("g", 1, 1)])
    log.pend(PRODUCER, commit("g", 0, 50))
    log.pend(OTHER_PRODUCER, commit("g", 1, 60))
    log.mark((7, 1), committed=True)
    log.mark(OTHER_PRODUCER, committed=False)
    taker.take_over(log)
    assert taker.offsets("g") == {("t", 0): 50, ("t", 1): 1}


def test_an_open_transaction_is_ended_by_a_marker_that_comes_later(taker: Taker) -> None:
    """KIP-890: the marker of the second generation of transactions carries the next epoch."""
    log = KafkaLog()
    log.append([commit("g", 0, 1)])
    log.pend(PRODUCER, commit("g", 0, 50))
    taker.take_over(log)
    assert taker.offsets("g") == {("t", 0): 1}
    assert taker.mark((7, 1), transaction_version=2) == 0
    assert taker.offsets("g") == {("t", 0): 50}


def test_a_zombies_marker_and_commit_are_refused_as_before(taker: Taker) -> None:
    log = KafkaLog()
    log.mark((7, 5), committed=True, coordinator_epoch=9)
    taker.take_over(log)
    assert taker.mark((7, 5), term=8) == ErrorCode.transaction_coordinator_fenced
    assert taker.mark((7, 4), term=9) == ErrorCode.invalid_producer_epoch


def test_a_plain_commit_behind_a_pending_one_is_newer(taker: Taker) -> None:
    log = KafkaLog()
    log.pend(PRODUCER, commit("g", 0, 50))
    log.append([commit("g", 0, 7, time_ms=TIME_MS + 1)])
    log.mark(PRODUCER, committed=True)
    taker.take_over(log)
    assert taker.offsets("g") == {("t", 0): 7}


def test_a_tombstone_takes_what_is_pending_with_it(taker: Taker) -> None:
    log = KafkaLog()
    log.pend(PRODUCER, commit("g", 0, 50), commit("g", 1, 60))
    log.append([no_offset("g", 0)])
    log.mark(PRODUCER, committed=True)
    taker.take_over(log)
    assert taker.offsets("g") == {("t", 1): 60}


def test_of_two_open_transactions_the_later_one_wins_whichever_ends_first(taker: Taker) -> None:
    for first, last in ((PRODUCER, OTHER_PRODUCER), (OTHER_PRODUCER, PRODUCER)):
        log = KafkaLog()
        log.pend(PRODUCER, commit("g", 0, 50, time_ms=TIME_MS))
        log.pend(OTHER_PRODUCER, commit("g", 0, 60, time_ms=TIME_MS + 1))
        log.mark(first, committed=True)
        log.mark(last, committed=True)
        other = Taker()
        other.take_over(log)
        assert other.offsets("g") == {("t", 0): 60}
