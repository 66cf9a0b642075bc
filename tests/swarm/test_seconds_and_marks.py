"""A run second by second, what happened around marks from outside, and how long requests took."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

from bench.swarm.counted import histogram, marks, second_rows
from bench.swarm.counted.counting import figures_of
from bench.swarm.counted.figures import Figures
from bench.swarm.counted.marked import marked
from bench.swarm.counted.marks import BadMarks, Mark
from tests.history.telling import Telling
from tests.swarm.histories import Story, World

WALL_US = 1_700_000_000_000_000
WORLD = World(classic_groups=1, consumer_groups=1)


@pytest.fixture(scope="module")
def figures() -> Figures:
    return figures_of(Story(WORLD).history(), WORLD.began_us, WALL_US)


def test_rows_of_seconds_add_up_to_the_totals(figures: Figures) -> None:
    text = second_rows.csv_lines(second_rows.rows(figures.by_second, figures.wall))
    found = list(csv.DictReader(text))
    totals: Any = figures.totals
    assert len(found) == WORLD.seconds
    assert found[0]["at_utc"] == "2023-11-14T22:13:25.000Z"
    assert [row["second"] for row in found[:2]] == ["0", "1"]
    for column, total in (
        ("requests", totals.requests),
        ("errors", totals.refused + totals.lost),
        ("commits", totals.commits),
        ("rebalances_began", totals.rebalances),
        ("rebalances_ended", totals.rebalances - totals.unsettled),
        ("partitions_moved", totals.moved),
    ):
        assert sum(int(row[column]) for row in found) == total, column


def test_rows_say_how_many_groups_were_stable(figures: Figures) -> None:
    found = list(csv.DictReader(second_rows.csv_lines(second_rows.rows(figures.by_second, figures.wall))))
    assert [found[second]["groups_stable"] for second in (10, -1)] == ["2", "2"]
    assert found[int(WORLD.fault_s)]["groups_without_coordinator"] == "2"


def test_rows_tell_the_lag_of_groups_if_records_were_written(figures: Figures) -> None:
    lag = list(range(int(WORLD.seconds)))
    told = csv.DictReader(second_rows.csv_lines(second_rows.rows(figures.by_second, figures.wall, lag)))
    assert [row["lag"] for row in told] == [str(each) for each in lag]
    without = csv.DictReader(second_rows.csv_lines(second_rows.rows(figures.by_second, figures.wall)))
    assert {row["lag"] for row in without} == {""}


def test_rows_of_a_long_run_are_seconds_all_the_same() -> None:
    telling = Telling()
    telling.beat("a", 1_000, 1_001, 1)
    told = figures_of(telling.history(end_ms=3 * 3_600_000), 0)
    assert told.seconds.step_s == 2
    assert len(list(second_rows.rows(told.by_second, told.wall))) == 3 * 3_600


def test_restarted_member_is_one_member() -> None:
    """A plan of 60 members was reported as 120: the lives of its clients."""
    telling = Telling()
    for life in (1, 2, 3):
        telling.join(f"orders/0#{life}", 1_000 * life, 1_000 * life + 5, life)
    totals = figures_of(telling.history()).totals
    assert (totals.members, totals.clients) == (1, 3)


MARKS = """\
# what the other tool did
at,until,text
2023-11-14T22:14:04Z,2023-11-14T22:14:08Z,"power off, rack 3"
1700000081.5,rack 3, on again
{"at": "2023-11-14T23:14:15+01:00", "text": "calm | again"}
"""


def test_marks_are_read_as_csv_and_as_json() -> None:
    assert marks.parse(MARKS, "faults.csv") == [
        Mark("power off, rack 3", 1_700_000_044_000_000, 1_700_000_048_000_000),
        Mark("calm | again", 1_700_000_055_000_000, None),
        Mark("rack 3, on again", 1_700_000_081_500_000, None),
    ]


def test_mark_tells_what_service_was_like_in_its_time(figures: Figures) -> None:
    """The made-up fault is at 40 s of the run, for 2 s; a mark without an end lasts until the next one."""
    off, open_, late = marked(marks.parse(MARKS, "faults.csv"), figures)
    assert (off.groups, off.is_open, off.is_outside) == (2, False, False)
    assert off.longest_us == max(gap.length_us for gap in figures.gaps)
    assert off.failed == len(figures.failed_us)
    assert (open_.groups, open_.failed, open_.is_open) == (0, 0, True)
    assert open_.ended_us == figures.ended_us
    assert late.is_outside


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("yesterday,rack 3 off", "faults.csv:2: 'yesterday' is no time: 2026-11-23T21:30:00Z or seconds"),
        ("1700000000000,rack 3 off", "faults.csv:2: 1700000000000: seconds since 1970 are needed, not milli"),
        ("1700000010,1700000000,off", r"faults.csv:2: it ends \(1700000000\) before it begins"),
        ("1700000010", "faults.csv:2: '1700000010': TIME,TEXT or TIME,END,TEXT is needed"),
        ("1700000010,1700000020,", "faults.csv:2: a text is needed"),
        ('{"at": 1}', "faults.csv:2: a text is needed"),
        ('{"at": 1, "till": 2}', 'faults.csv:2: there is no key till; "at", "until" and "text" are allowed'),
        ('{"text": "off"}', "faults.csv:2: at is missing"),
        ("{at: 1}", "faults.csv:2: is no JSON"),
    ],
)
def test_wrong_mark_is_told_with_its_line(line: str, words: str) -> None:
    with pytest.raises(BadMarks, match=words):
        marks.parse(f"1700000000,fine\n{line}\n", "faults.csv")


def test_buckets_hold_every_request_below_their_bound() -> None:
    took_us = np.array([1, 10, 11, 1_000, 1_001, 250_000, 10**12])
    found = histogram.buckets(took_us)
    assert sum(count for _, count in found) == len(took_us)
    assert found[0] == (0.01, 2)
    assert (1.0, 1) in found, "a bound belongs to its bucket"
    assert found[-1] == (histogram.BOUNDS_MS[-1], 1)
    assert all(histogram.lower_bound(bound) < bound for bound, _ in found)


def test_every_api_has_its_latencies_in_buckets(figures: Figures) -> None:
    assert {api.api: sum(count for _, count in api.histogram) for api in figures.apis} == {
        api.api: api.latency.values for api in figures.apis
    }
