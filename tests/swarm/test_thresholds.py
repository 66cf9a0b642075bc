"""Thresholds: one grammar for files and flags, and three answers: kept, broken, not shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.swarm.planning import plan_file, scenario, thresholds
from bench.swarm.planning.scenario_errors import BadScenario
from bench.swarm.planning.thresholds import BadThreshold, check, parse, parse_all, status_of
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN


def latency(values: int, p99_ms: float | None) -> dict[str, Any]:
    return {"values": values, "p50_ms": p99_ms, "p99_ms": p99_ms, "max_ms": p99_ms}


def report(**totals: Any) -> dict[str, Any]:
    """Ten seconds in which everything was sent ten times and 2 % failed."""
    return {
        "figures": {
            "totals": {
                "duration_s": 10.0,
                "requests": 200,
                "refused": 3,
                "lost": 1,
                "commits": 50,
                "rebalances": 4,
                "members_lost": 0,
                **totals,
            },
            "apis": [
                {"api": "Heartbeat", "requests": 150, "latency": latency(147, 42.5)},
                {"api": "OffsetCommit", "requests": 50, "latency": latency(0, None)},
                {"api": "Connect", "requests": 9, "latency": latency(9, 0.5)},
            ],
            "without_coordinator": {"values": 0, "p50_ms": None, "p99_ms": None, "max_ms": None},
            "rebalance": {"values": 0, "p50_ms": None, "p99_ms": None, "max_ms": None},
            "groups": [{"clients": 3, "stable_ms": ms} for ms in (500.0, 1_500.0, 2_500.0, None)],
        }
    }


def told(text: str, of: dict[str, Any] | None = None) -> tuple[str, float | None]:
    (found,) = check([parse(text)], of or report())
    return found.status, found.found


@pytest.mark.parametrize(
    ("text", "status", "found"),
    [
        ("p99(Heartbeat) < 50ms", KEPT, 42.5),
        ("p99(Heartbeat)<0.04s", BROKEN, 42.5),
        ("max(gap) < 5s", KEPT, 0.0),
        ("errors <= 2%", KEPT, 2.0),
        ("errors < 4", BROKEN, 4),
        ("lost < 1", BROKEN, 1),
        ("served >= 147", KEPT, 147),
        ("served >= 100/s", BROKEN, 14.7),
        ("commits >= 5/s", KEPT, 5.0),
        ("rebalances <= 4", KEPT, 4),
        ("members_lost <= 0", KEPT, 0),
        ("p50(stable) <= 1.5s", KEPT, 1_500.0),
    ],
)
def test_figure_is_kept_or_broken(text: str, status: str, found: float) -> None:
    assert told(text) == (status, found)


@pytest.mark.parametrize(
    "text",
    ["p99(OffsetCommit) < 1s", "p99(JoinGroup) < 1s", "max(rebalance) < 1min", "gaps <= 0"],
)
def test_what_was_not_observed_is_not_shown(text: str) -> None:
    of = report() if text != "gaps <= 0" else report(requests=0)
    assert told(text, of)[0] == NOT_SHOWN


def test_nothing_sent_keeps_no_ceiling_and_breaks_every_floor() -> None:
    nothing: dict[str, Any] = {"figures": {"totals": {"duration_s": 10.0, "requests": 0}, "apis": []}}
    assert told("errors < 1%", nothing)[0] == NOT_SHOWN
    assert told("max(gap) < 1s", nothing)[0] == NOT_SHOWN
    assert told("p50(stable) < 1s", nothing)[0] == NOT_SHOWN
    assert told("served > 0", nothing) == (BROKEN, 0)


def test_group_that_never_was_stable_counts_as_the_slowest() -> None:
    """The greatest time of those that became stable would flatter."""
    assert told("max(stable) < 9s") == (BROKEN, None)
    assert told("max(stable) < 20s") == (NOT_SHOWN, None), "nobody looked for 20 s"


def test_ceiling_is_not_shown_by_a_record_that_was_cut_short() -> None:
    cut = {**report(), "is_whole": False}
    assert told("errors < 10", cut)[0] == NOT_SHOWN
    assert told("errors < 2", cut)[0] == BROKEN
    assert told("served > 100", cut)[0] == KEPT


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fast", "is no threshold: FIGURE OPERATOR LIMIT is needed"),
        ("p99(Hearbeat) < 1s", "there is no Hearbeat; did you mean Heartbeat?"),
        ("p99 < 1s", "p99 of what?"),
        ("p98(Heartbeat) < 1s", "there is no figure p98; did you mean p90?"),
        ("errors(Heartbeat) < 1", r"errors is counted over all groups: leave out \(Heartbeat\)"),
        ("p99(Heartbeat) < 50", "p99 needs another unit than none: ms, s, min are allowed"),
        ("served > 5%", "served needs another unit than %: none, /s are allowed"),
    ],
)
def test_wrong_threshold_is_told_with_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(BadThreshold, match=words):
        parse(text)


def test_later_limit_of_the_same_figure_replaces_the_earlier() -> None:
    found = parse_all(["served > 10", "errors < 1%", "served < 99", "errors < 5%"])
    assert [each.text for each in found] == ["served > 10", "errors < 5%", "served < 99"]


def test_worst_answer_is_the_answer_of_all() -> None:
    of = report()
    assert status_of(check(parse_all(["errors < 9"]), of)) == KEPT
    assert status_of(check(parse_all(["errors < 9", "p50(JoinGroup) < 1s"]), of)) == NOT_SHOWN
    assert status_of(check(parse_all(["errors < 1", "p50(JoinGroup) < 1s"]), of)) == BROKEN
    assert status_of([]) == KEPT


def test_found_figures_are_told_for_people_and_machines() -> None:
    (checked,) = thresholds.plain(check([parse("p99(Heartbeat) < 50ms")], report()))
    assert checked == {
        "text": "p99(Heartbeat) < 50ms",
        "limit": 50.0,
        "found": 42.5,
        "unit": "ms",
        "status": KEPT,
        "because": "found 42.5 ms",
    }


SCENARIO = """\
duration_s = 60

[thresholds]
"p99(Heartbeat)" = "< 50ms"
errors = "<1%"

[[groups]]
name = "orders"
count = 1
members = 3
shapes = [{ shape = "steady" }]
"""


def test_scenario_carries_its_thresholds_to_the_run() -> None:
    plan = scenario.parse(SCENARIO, "my.toml").plan(1)
    assert plan.thresholds == ("p99(Heartbeat) < 50ms", "errors < 1%")
    assert plan_file.from_plain(json.loads(json.dumps(plan_file.plain(plan)))) == plan


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ('errors = "<1%"', ""),
        (
            'errros = "<1%"',
            "my.toml:5: thresholds.errros: 'errros <1%': there is no figure errros; did you mean",
        ),
        ("errors = 5", 'my.toml:5: thresholds.errors: 5 is not allowed: text is needed, as "< 50ms"'),
        ('errors = "few"', "my.toml:5: thresholds.errors: 'errors few' is no threshold"),
        (
            '"p99(Fetsch)" = "< 1s"',
            "my.toml:5: thresholds.p99(Fetsch): 'p99(Fetsch) < 1s': there is no Fetsch",
        ),
    ],
)
def test_wrong_threshold_of_a_file_is_told_with_line_and_key(limit: str, words: str) -> None:
    text = SCENARIO.replace('errors = "<1%"', limit)
    if not words:
        scenario.parse(text, "my.toml")
        return
    with pytest.raises(BadScenario) as told:
        scenario.parse(text, "my.toml")
    assert str(told.value).startswith(words)
