"""Texts of resets: topics, times and plans as they are typed (B10)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster.groups.requests import TopicPartition
from cluster.groups.reset import Reset, from_csv, parse_datetime, parse_duration, parse_topic, to_csv
from cluster.tier_file import TierError

OFFSETS = {TopicPartition("orders", 0): 5, TopicPartition("a,b", 11): 0}


def test_a_topic_may_name_its_partitions() -> None:
    assert parse_topic("orders") == "orders"
    assert parse_topic("orders:0,12") == [TopicPartition("orders", 0), TopicPartition("orders", 12)]


@pytest.mark.parametrize("text", ["orders:", "orders:a", "orders:1,", "orders:-1", "orders:1:2"])
def test_a_topic_with_other_partitions_is_refused(text: str) -> None:
    with pytest.raises(TierError, match="TOPIC or TOPIC:0,1,2 is expected"):
        parse_topic(text)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-02T00:00:00.000", 86_400_000),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T02:00:00.000+02:00", 0),
        ("1970-01-01T00:00:00", 0),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, time_ms: int) -> None:
    assert parse_datetime(text) == time_ms


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("P1D", timedelta(days=1)),
        ("PT1H30M", timedelta(minutes=90)),
        ("P2DT0.5S", timedelta(days=2, milliseconds=500)),
        ("pt5m", timedelta(minutes=5)),
    ],
)
def test_durations_are_iso_8601(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1M", "P1DT", "PT1D", "five minutes"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(TierError, match="PnDTnHnMnS is expected"):
        parse_duration(text)


def test_offsets_are_read_as_they_were_printed() -> None:
    one, two = Reset(group="g", offsets=OFFSETS), Reset(group="h", offsets={TopicPartition("orders", 1): 7})
    assert to_csv([one]) == '"a,b",11,0\norders,0,5\n'
    assert from_csv(to_csv([one]), ["g"]) == {"g": OFFSETS}
    assert from_csv(to_csv([one, two]), ["g", "h"]) == {"g": OFFSETS, "h": two.offsets}


@pytest.mark.parametrize("text", ["orders,0", "orders,x,1", "orders,0,-1", "g,orders,0,1,1"])
def test_a_line_that_is_no_plan_is_named(text: str) -> None:
    with pytest.raises(TierError, match="line 2 is"):
        from_csv(f"orders,0,1\n{text}\n", ["g"])
