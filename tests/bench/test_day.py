"""A day's work: which seconds of a swarm count, and which swarms give no figure."""

from __future__ import annotations

import pytest

from bench.peers.options import Failed
from bench.peers.process import Floor
from bench.peers.works.day import Day
from bench.swarm.rows.second import Second

GROUPS = 6
SETTLED_S, SECONDS = 10.0, 4.0


def second(at_s: float, *, stable: int = GROUPS, errors: int = 0) -> Second:
    return Second(
        at_s=at_s,
        requests_s=100,
        errors_s=0,
        commits_s=10,
        members_by_state={},
        groups_stable=stable,
        groups=GROUPS,
        moved_partitions=0,
        p50_ms=1.0,
        p99_ms=1.0,
        requests=int(100 * at_s),
        errors=errors,
        busy={"worker": 0.5},
    )


def test_what_comes_after_all_have_settled_counts(floor: Floor) -> None:
    day = Day(floor, SETTLED_S)
    for at_s in range(15):
        day(second(at_s, stable=GROUPS if at_s > 8 else 0, errors=3))
    day(second(15, stable=2, errors=9))
    sample = day.sample(SECONDS)
    assert sample.requests == 400
    assert sample.figures["per_s"] == 100
    assert sample.figures["core"] >= 0
    assert sample.generator_share == 0.5


def test_a_swarm_that_has_not_settled_gives_no_figure(floor: Floor) -> None:
    day = Day(floor, SETTLED_S)
    with pytest.raises(Failed, match="after 10 s only 5 of 6 groups had settled"):
        day(second(SETTLED_S, stable=5))


def test_a_swarm_with_errors_gives_no_figure(floor: Floor) -> None:
    day = Day(floor, SETTLED_S)
    for at_s in range(10, 15):
        day(second(at_s, errors=at_s))
    with pytest.raises(Failed, match="4 of 400 requests failed"):
        day.sample(SECONDS)


def test_a_swarm_that_ends_early_gives_no_figure(floor: Floor) -> None:
    day = Day(floor, SETTLED_S)
    day(second(SETTLED_S))
    day(second(SETTLED_S + 1))
    with pytest.raises(Failed, match="ended before its figures were there"):
        day.sample(SECONDS)
