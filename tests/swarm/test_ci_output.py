"""JUnit's XML and the Markdown summary say of each promise and threshold what became of it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from bench.swarm.cases import STORIES_MAX, STORY_CHARACTERS_MAX, suite
from bench.swarm.junit import junit
from bench.swarm.summary import summary

HOSTILE = 'billing ]]> </failure>\x00\x1b[31m \ud800 & "it\'s" | `rm` <img src=x>\n# heading'


def promise(name: str, status: str, because: str, *, is_required: bool = True) -> dict[str, Any]:
    return {
        "name": name,
        "says": f"{name}!",
        "status": status,
        "because": because,
        "is_required": is_required,
    }


def report(**changes: Any) -> dict[str, Any]:
    return {
        "status": "broken",
        "run": {"scenario": "steady", "seed": 7, "began_at": "2026-11-23T21:30:00.000Z", "command": HOSTILE},
        "words": ["The run did not end as planned."],
        "verdict": {
            "summary": "broken: 2 violations",
            "promises": [
                promise("commits", "broken", "2 x commit lost"),
                promise("ownership", "kept", "1,000 partitions"),
                promise("service", "not shown", "nobody asked"),
                promise("recovery", "not shown", "no fault", is_required=False),
            ],
            "violations": [{"rule": "commit lost", "group_id": HOSTILE, "text": "x" * 5_000}],
            "by_rule": {"commit lost": 2},
        },
        "thresholds": [
            {"text": "errors < 1%", "status": "broken", "because": "found 3.5%"},
            {"text": "p99(Fetch) < 1s", "status": "not shown", "because": "no Fetch was sent"},
            {"text": "served > 10", "status": "kept", "because": "found 11"},
        ],
        "figures": {"totals": {"duration_s": 60.5}},
        **changes,
    }


def test_junit_fails_what_is_broken_and_passes_nothing_that_was_not_shown() -> None:
    (found,) = ET.fromstring(junit([suite(report())]))
    counted = {name: found.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert counted == {"tests": "7", "failures": "2", "errors": "2", "skipped": "1", "time": "60.500"}
    results = {case.get("name"): [child.tag for child in case] for case in found.iter("testcase")}
    assert results == {
        "commits: commits!": ["failure"],
        "ownership: ownership!": [],
        "service: service!": ["error"],
        "recovery: recovery!": ["skipped"],
        "errors < 1%": ["failure"],
        "p99(Fetch) < 1s": ["error"],
        "served > 10": [],
    }
    assert {case.get("classname") for case in found.iter("testcase")} == {
        "groupd.swarm.steady.promises",
        "groupd.swarm.steady.thresholds",
    }


def test_junit_survives_hostile_names_and_tells_a_bounded_story() -> None:
    """A group may be called anything that Kafka takes."""
    (found,) = ET.fromstring(junit([suite(report())]).encode())
    (failure, _) = found.iter("failure")
    text = failure.text or ""
    assert "billing ]]> </failure>\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m" in text
    assert "1 more are in the report." in text
    assert len(text) < STORY_CHARACTERS_MAX + 200


def test_stories_are_few() -> None:
    many = [{"rule": "commit lost", "group_id": "a", "text": str(number)} for number in range(100)]
    verdict = {**report()["verdict"], "violations": many, "by_rule": {"commit lost": 2_000}}
    case = suite(report(verdict=verdict)).cases[0]
    assert (len(case.stories), case.untold) == (STORIES_MAX, 2_000 - STORIES_MAX)


def test_summary_is_one_table_whatever_names_hold() -> None:
    text = summary(suite(report(), lines=["1,234 requests"]))
    lines = text.splitlines()
    assert lines[0] == "### \N{CROSS MARK} groupd swarm steady: broken"
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 1 + 7
    assert "* 1,234 requests" in lines
    (story,) = [line for line in lines if line.startswith("* commit lost")]
    assert "<img" not in story.replace("\\<", "")
    assert "# heading" not in lines
    assert text.endswith("</details>\n\n")


def test_chaos_run_whose_server_did_not_come_back_fails_by_that_alone() -> None:
    """Every promise was kept, and exit code 1 had no case in the XML."""
    run = {"scenario": {"name": "tour"}, "seed": 1, "lasted_s": 300.0, "unmended": ["node 2 is gone"]}
    verdict = {"promises": [promise("commits", "kept", "all")], "violations": [], "by_rule": {}}
    chaos = {"status": "broken", "summary": "5 processes killed", "run": run, "verdict": verdict}
    (found,) = ET.fromstring(junit([suite(chaos)]))
    assert (found.get("name"), found.get("failures"), found.get("time")) == (
        "groupd chaos tour",
        "1",
        "300.000",
    )
    assert "node 2 is gone" in summary(suite(chaos))
