"""Metrics as values: histograms, sums over actors, and Prometheus' text (A23)."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client.parser import text_string_to_metric_families

from actors.coordinator.told.consumer_events import EpochBumped
from actors.coordinator.told.events import RebalanceEnded
from actors.metrics.counts import COUNTED_EVENTS, RequestCounts, count_events
from actors.metrics.exposition import exposition
from actors.metrics.families import FAMILIES
from actors.metrics.histogram import Histogram, added, quantile_ns
from actors.metrics.numbers import merged, process_rows, request_rows
from actors.protocol.api_keys import HEARTBEAT, OFFSET_COMMIT
from actors.protocol.messages import OffsetCommitResponse


@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99, 1.0])
def test_quantile_is_at_most_a_quarter_too_high_and_never_too_low(quantile: float) -> None:
    rng = random.Random(23)
    durations_ns = sorted(int(10 ** rng.uniform(0, 11)) for _ in range(5_000))
    histogram = Histogram()
    for duration_ns in durations_ns:
        histogram.observe(duration_ns)
    exact_ns = durations_ns[int(quantile * len(durations_ns)) - 1]
    found_ns = quantile_ns(added([histogram.packed()])[1], quantile)
    assert exact_ns <= found_ns <= exact_ns * 1.25 + 1


def test_nothing_observed_has_no_quantiles() -> None:
    assert quantile_ns(added([Histogram().packed()])[1], 0.99) == 0


def test_durations_of_zero_and_of_centuries_have_a_bucket() -> None:
    histogram = Histogram()
    for duration_ns in (0, 1, 2**62, 2**63 - 1):
        histogram.observe(duration_ns)
    assert sum(histogram.counts) == 4


def test_rows_of_several_actors_are_added_up_or_the_largest_is_taken() -> None:
    busy, idle = Histogram(), Histogram()
    busy.observe(1_000)
    rows = [
        ("group_count", ("classic",), 2),
        ("group_count", ["classic"], 3),
        ("partition_load_time_seconds", (), 0.5),
        ("partition_load_time_seconds", (), 0.2),
        ("event_queue_time_seconds", (), busy.packed()),
        ("event_queue_time_seconds", (), idle.packed()),
        ("a_metric_of_a_later_release", (), 1),
    ]
    numbers = merged(rows)
    assert numbers["group_count", ("classic",)] == 5
    assert numbers["partition_load_time_seconds", ()] == 0.5
    assert numbers["event_queue_time_seconds", ()][0] == 1_000
    assert len(numbers) == 3


def _ended(group_type: str) -> RebalanceEnded:
    nothing = (None,) * 3
    phases = 10, *nothing
    return RebalanceEnded(0, "g", group_type, 1, "Stable", "", *nothing, *phases, 2, *nothing, (), None)


def test_rebalances_of_both_protocols_are_counted_from_events_and_others_are_not() -> None:
    """Kafka counts a classic rebalance when it ends and a consumer group's when its epoch rises."""
    counter: Counter[str] = Counter()
    events = [
        _ended("classic"),
        _ended("consumer"),
        EpochBumped(0, "g", "consumer", 2, "member joined", "M6", "m", 1),
        EpochBumped(0, "g", "consumer", 3, "member left", "M19", "m", 0),
        "something else",
    ]
    count_events(counter, events)
    assert counter == {"group_completed_rebalances": 1, "consumer_group_rebalances": 2}
    assert set(COUNTED_EVENTS.values()) <= set(FAMILIES)


def test_requests_and_errors_bear_the_names_of_apis_and_codes() -> None:
    class Answer:
        error_code = 25

    counts = RequestCounts()
    counts.count(HEARTBEAT, Answer())
    counts.count(HEARTBEAT, None)
    assert request_rows(counts) == [
        ("requests", ("heartbeat",), 2),
        ("errors", ("heartbeat", "unknown_member_id"), 1),
    ]


def test_a_commit_that_was_refused_is_counted_as_an_error() -> None:
    """The answer has no error of its own, only its partitions': metrics and history once told of it as
    fine."""
    counts = RequestCounts()
    for error in (ErrorCode.illegal_generation, ErrorCode.none):
        counts.count(OFFSET_COMMIT, OffsetCommitResponse((("orders", ((0, error), (1, error))),)))
    counts.count(OFFSET_COMMIT, OffsetCommitResponse(()))
    assert request_rows(counts) == [
        ("requests", ("offset_commit",), 3),
        ("errors", ("offset_commit", "illegal_generation"), 1),
    ]


def test_scrapers_can_read_what_they_get() -> None:
    histogram = Histogram()
    histogram.observe(2_000_000)
    rows = [
        *process_rows("broker"),
        ("group_count", ("consumer",), 7),
        ("offset_commits", (), 12),
        ("history_events_dropped", (), 3),
        ("history_events_dropped", (), 4),
        ("event_queue_time_seconds", (), histogram.packed()),
    ]
    text = exposition(merged(rows)).decode()
    read = {family.name: family for family in text_string_to_metric_families(text)}
    assert read["groupd_group_count"].samples[0].value == 7
    assert read["groupd_group_count"].samples[0].labels == {"protocol": "consumer"}
    assert read["groupd_offset_commits"].samples[0].name == "groupd_offset_commits_total"
    [dropped] = read["groupd_history_events_dropped"].samples
    assert (dropped.name, dropped.value) == ("groupd_history_events_dropped_total", 7)
    quantiles = [s for s in read["groupd_event_queue_time_seconds"].samples if "quantile" in s.labels]
    assert [s.labels["quantile"] for s in quantiles] == ["0.5", "0.95", "0.99", "0.999", "1"]
    assert 0.002 <= quantiles[0].value <= 0.0025
    assert read["groupd_resident_memory_bytes"].samples[0].value > 2**20


def test_every_metric_says_what_it_means() -> None:
    for name, family in FAMILIES.items():
        assert name == family.name
        assert family.meaning.endswith("."), name
        assert not name.endswith("_total"), "the text form adds it"
