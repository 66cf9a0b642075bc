"""Offsets never start again: what was given out before a restart is not given out after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ground.image import MetadataImage, TopicImage
from actors.ground.spec import BrokerSettings
from actors.topics.floor import BLOCK, FORMAT, FloorFile, OffsetsFloor
from actors.topics.logs import Produced, TopicLogs
from tests.topics.batches import batch
from tests.topics.store import Memory

TOPIC = TopicImage(b"\1" * 16, "t", (1, 1))
OTHER = TopicImage(b"\2" * 16, "u", (1,))


def test_after_a_restart_a_log_starts_above_all_offsets_it_gave_out(tmp_path: Path) -> None:
    first = TopicLogs(BrokerSettings(), str(tmp_path))
    for _ in range(3):
        first.append(TOPIC, 1, Produced(batch(b"x")), 0)
    second = TopicLogs(BrokerSettings(), str(tmp_path))
    log = second.log(TOPIC, 1)
    assert log.log_start_offset == log.end_offset == BLOCK
    assert second.append(TOPIC, 1, Produced(batch(b"y")), 0).base_offset == BLOCK
    assert second.log(TOPIC, 0).end_offset == 0


def test_after_a_clean_stop_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    """A consumer that had read everything has no lag and no OFFSET_OUT_OF_RANGE after it."""
    first = TopicLogs(BrokerSettings(), str(tmp_path))
    for _ in range(3):
        first.append(TOPIC, 1, Produced(batch(b"x")), 0)
    first.append(TOPIC, 0, Produced(batch(b"x")), 0)
    first.close()
    second = TopicLogs(BrokerSettings(), str(tmp_path))
    assert second.log(TOPIC, 1).log_start_offset == second.log(TOPIC, 1).end_offset == 3
    second.close()
    third = TopicLogs(BrokerSettings(), str(tmp_path))
    assert third.log(TOPIC, 0).end_offset == 1, "its log was not used in between"
    third.append(TOPIC, 0, Produced(batch(b"y")), 0)
    assert TopicLogs(BrokerSettings(), str(tmp_path)).log(TOPIC, 0).end_offset == BLOCK, "no clean stop"


def test_appends_after_a_clean_stop_are_reserved_again(tmp_path: Path) -> None:
    logs = TopicLogs(BrokerSettings(), str(tmp_path))
    logs.append(TOPIC, 0, Produced(batch(b"x")), 0)
    logs.close()
    logs.append(TOPIC, 0, Produced(batch(b"late")), 0)
    assert TopicLogs(BrokerSettings(), str(tmp_path)).log(TOPIC, 0).end_offset == BLOCK


def test_a_restart_without_appends_moves_nothing(tmp_path: Path) -> None:
    TopicLogs(BrokerSettings(), str(tmp_path)).append(TOPIC, 0, Produced(batch(b"x")), 0)
    for _ in range(3):
        assert TopicLogs(BrokerSettings(), str(tmp_path)).log(TOPIC, 0).end_offset == BLOCK


def test_a_log_that_comes_back_to_its_broker_goes_on_rising(tmp_path: Path) -> None:
    logs = TopicLogs(BrokerSettings(), str(tmp_path))
    logs.append(TOPIC, 0, Produced(batch(b"x")), 0)
    elsewhere = TOPIC._replace(partition_leaders=(2, 2))
    logs.retain(MetadataImage(topics=(elsewhere,)), 1)
    assert logs.log(TOPIC, 0).log_start_offset == BLOCK


def test_an_entry_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    floor = OffsetsFloor(FloorFile(str(tmp_path)))
    floor.reserve(TOPIC.topic_id, 0, 1)
    floor.reserve(TOPIC.topic_id, 1, 1)
    path = tmp_path / "offsets-floor"
    path.write_bytes(path.read_bytes()[:-3])
    again = OffsetsFloor(FloorFile(str(tmp_path)))
    assert again.start_offset(TOPIC.topic_id, 0) == BLOCK
    assert again.start_offset(TOPIC.topic_id, 1) == 0
    again.reserve(TOPIC.topic_id, 1, 1)
    assert OffsetsFloor(FloorFile(str(tmp_path))).start_offset(TOPIC.topic_id, 1) == BLOCK


def test_a_file_of_an_unknown_format_stops_the_broker_rather_than_its_offsets(tmp_path: Path) -> None:
    (tmp_path / "offsets-floor").write_bytes(b"something else")
    with pytest.raises(ValueError, match="offsets floor"):
        OffsetsFloor(FloorFile(str(tmp_path)))


def test_deleted_topics_leave_the_file(tmp_path: Path) -> None:
    floor = OffsetsFloor(FloorFile(str(tmp_path)))
    floor.reserve(TOPIC.topic_id, 0, 1)
    floor.reserve(OTHER.topic_id, 0, 1)
    floor.forget_topics(but={OTHER.topic_id})
    assert floor.start_offset(TOPIC.topic_id, 0) == 0
    for number in range(5_000):
        floor.reserve(OTHER.topic_id, 0, number * BLOCK)
    assert (tmp_path / "offsets-floor").stat().st_size < 5_000 * 32 + len(FORMAT)
    assert OffsetsFloor(FloorFile(str(tmp_path))).start_offset(OTHER.topic_id, 0) == 4_999 * BLOCK


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3 * BLOCK)), max_size=30), st.booleans())
def test_whatever_is_reserved_is_below_every_later_start(
    reservations: list[tuple[int, int]], torn: bool
) -> None:
    store = Memory()
    floor = OffsetsFloor(store)
    given_out: dict[int, int] = {}
    for partition, end_offset in reservations:
        floor.reserve(TOPIC.topic_id, partition, end_offset)
        given_out[partition] = max(given_out.get(partition, 0), end_offset)
    later = OffsetsFloor(Memory(store.content + (b"\0" * 31 if torn else b"")))
    for partition, end_offset in given_out.items():
        assert end_offset <= later.start_offset(TOPIC.topic_id, partition) <= end_offset + BLOCK


def test_a_log_can_be_told_to_begin_where_groups_stand(tmp_path: Path) -> None:
    """A restored topic is empty, and must not give out offsets that its groups take for old ones."""
    logs = TopicLogs(BrokerSettings(), str(tmp_path))
    logs.begin_at(TOPIC.topic_id, 1, 1_234)
    logs.begin_at(TOPIC.topic_id, 1, 99)
    assert logs.append(TOPIC, 1, Produced(batch(b"x")), 0).base_offset == 1_234
