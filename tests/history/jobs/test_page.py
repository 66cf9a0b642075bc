"""The report as a page, from plain values: nothing of a client's own words can break out of it."""

from __future__ import annotations

import datetime as dt
from html.parser import HTMLParser
from typing import Any

from storage.history.period import of_days
from storage.history.report.facts import Facts, Life, Timeline, busy_part, lanes_of
from storage.history.report.page import CSS, page

HOUR_MS = 3_600_000
EVIL = '<script>alert("x")</script>'


def facts(**changes: Any) -> Facts:
    totals = {"rebalances": 2, "groups": 1, "unstable_ms": 3_000, "idle_member_ms": 24_000, "moved": 6}
    found = Facts(
        period=of_days(dt.date(2026, 3, 2), dt.date(2026, 3, 8)),
        group_id=None,
        totals=totals | {"commits": 10, "storms": 0, "invariants": 0},
        heat={"member left": [0] * 23 + [2]},
        bills=[],
        costliest=[],
        storms=[],
        members=[],
        invariants=[],
        expiring=[],
        forecast=None,
        timeline=None,
        skipped=[],
    )
    return found._replace(**changes)


class Reader(HTMLParser):
    """Reads a page: knows which elements are open and which there were, and checks that they are nested."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_asks_for_no_other_file() -> None:
    read = Reader(page(facts()))
    assert read.open == []
    assert not [tag for tag, attributes in read.seen if {"src", "href"} & attributes.keys()]


def test_no_name_is_cut_and_every_cell_says_what_it_is() -> None:
    """A phone showed the first columns of a table and the first letters of a name: there, rows are now
    paragraphs, whose lines begin with the names of their columns."""
    row = {"group_id": "g" * 200, "rule": "epoch fell", "at_ms": 1, "topic": None, "before": 6, "after": 4}
    read = Reader(page(facts(invariants=[{**row, "members": ["m"]}])))
    cells = [attributes["data-name"] for tag, attributes in read.seen if tag == "td"]
    assert cells == ["rule", "since", "group", "partition", "from", "to", "members"]
    assert "attr(data-name)" in CSS
    assert "ellipsis" not in CSS


def test_what_clients_say_is_escaped() -> None:
    band = {"cause": EVIL, "began_ms": 1_000, "ended_ms": None, "duration_ms": None, "member_id": EVIL}
    lanes = lanes_of([{"kind": "member_joined", "client": EVIL, "member_id": "m", "at_ms": 0}], 0, HOUR_MS)
    evil = facts(
        group_id=EVIL,
        heat={EVIL: [1] * 24},
        timeline=Timeline(EVIL, 0, HOUR_MS, tuple(lanes), 0, (band,)),
        skipped=[(EVIL, EVIL)],
    )
    read = Reader(page(evil))
    assert read.open == []
    assert "script" not in {tag for tag, _ in read.seen}


def test_lanes_show_lives_cut_to_the_window() -> None:
    comings = [
        {"kind": "member_joined", "client": "a@h", "member_id": "a1", "at_ms": 10},
        {"kind": "member_expired", "client": "a@h", "member_id": "a1", "at_ms": 150},
        {"kind": "member_joined", "client": "a@h", "member_id": "a2", "at_ms": 160},
        {"kind": "member_left", "client": "b@h", "member_id": "b1", "at_ms": 120},
        {"kind": "member_left", "client": "c@h", "member_id": "c1", "at_ms": 90},
    ]
    lanes = lanes_of(comings, 100, 200)
    assert {lane.client: lane.lives for lane in lanes} == {
        "a@h": (Life(100, 150, "expired"), Life(160, 200, None)),
        "b@h": (Life(100, 120, "left"),),
    }


def test_the_window_is_the_part_of_the_hour_in_which_anything_happened() -> None:
    """The window has a twentieth more on either side; a member that came before the hour does not widen
    it."""
    bands = [{"began_ms": 1_000_000, "ended_ms": 1_001_000}, {"began_ms": 1_300_000, "ended_ms": 1_400_000}]
    before = {"at_ms": -5}
    assert busy_part(bands, [before], 0, HOUR_MS) == (980_000, 1_420_000)
    assert busy_part(bands[:1], [before], 0, HOUR_MS) == (970_500, 1_030_500)
    assert busy_part([{"began_ms": 3_500_000, "ended_ms": None}], [], 0, HOUR_MS) == (3_495_000, HOUR_MS)
