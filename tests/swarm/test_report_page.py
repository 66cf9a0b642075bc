"""A run's directory becomes a page and a JSON file, whatever state the run left it in."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench.swarm.counted.figures import Figures
from bench.swarm.told.page import Section
from bench.swarm.told.report import Addition, NothingToReport, Outcome, read_run, report
from bench.swarm.told.sections import GROUPS_MAX
from storage.history.call_files import CallWriter
from storage.history.calls import ANSWERED, Call, History, Offset
from tests.swarm.histories import RUN_ID, Story, World

RUN = {
    "run_id": RUN_ID,
    "scenario": "rolling-deploy",
    "seed": 7,
    "software": "groupd <3 replicas>",
    "command": "groupd swarm run rolling-deploy",
    "plan": {"groups": 4, "members": 16},
    "due": {"step_s": 60.0, "requests": [0.0, 300.0], "member_s": [0.0, 900.0]},
    "is_finished": True,
    "words": [],
}


class Page(HTMLParser):
    """Reads a page: what a browser would load, what it would find by an id, and what it would show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: Counter[str] = Counter()
        self.headings: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._inside.append(tag)
        self.ids.update([found["id"]] if found.get("id") else [])
        self.loads += [value or "" for name, value in attrs if name in ("src", "xlink:href", "href")]

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "h2":
            self.headings.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass


def run_in(directory: Path, world: World | None = None, **changes: Any) -> Story:
    story = Story(world or World(members=3))
    story.write(directory)
    run = {**RUN, "began_us": story.world.began_us, **changes}
    (directory / "run.json").write_text(json.dumps(run))
    return story


def read(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return found


def more(history: History, figures: Figures) -> Addition:
    """Return an addition to the report, as `groupd chaos` makes one from the same history."""
    section = Section("Availability", f"<p>{len(history.faults)} fault, {len(figures.gaps)} gaps</p>")
    return Addition((section,), ("one line more",), {"availability": [1, 2]})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of a run that ended as planned."""
    directory = tmp_path_factory.mktemp("whole")
    run_in(directory)
    return report(directory, more=more)


def test_a_run_becomes_a_page_that_needs_nothing_else(whole: Outcome) -> None:
    text = whole.page.read_text()
    page = Page(text)
    assert whole.verdict.is_fine, whole.verdict
    assert "<b>Kept</b>" in text
    assert "An acknowledged commit is never lost and never goes back." in text
    assert "groupd &lt;3 replicas&gt;" in text
    assert [load for load in page.loads if not load.startswith("#")] == []
    assert {load[1:] for load in page.loads} <= page.ids.keys()
    assert [name for name, count in page.ids.items() if count > 1] == []
    assert page.headings == [
        "In figures",
        "Over time",
        "Longest times without coordinator",
        "Availability",
        "Faults",
        "Requests",
        "Groups, worst first",
        "What the judge found",
        "The run",
    ]


def test_another_reader_of_the_history_adds_its_part(whole: Outcome) -> None:
    assert "<p>1 fault, 2 gaps</p>" in whole.page.read_text()
    assert whole.lines[-1] == "one line more"
    assert read(whole.page.parent)["availability"] == [1, 2]


def test_the_json_has_every_group_and_the_page_the_worst(tmp_path: Path) -> None:
    world = World(classic_groups=GROUPS_MAX + 5, consumer_groups=1, members=2, seconds=46)
    story = run_in(tmp_path, world)
    outcome = report(tmp_path)
    groups = read(tmp_path)["figures"]["groups"]
    assert len(groups) == GROUPS_MAX + 6
    assert {group["group_id"] for group in groups[:2]} == story.planted.gap_us.keys()
    text = outcome.page.read_text()
    assert sum(f"<td>{group['group_id']}</td>" in text for group in groups) == GROUPS_MAX
    assert "6 more groups are in report.json" in text


def test_interrupted_run_is_reported_as_one(tmp_path: Path) -> None:
    """Killed: run.json was never replaced, one file ends within a row."""
    run_in(tmp_path, is_finished=False, words=["worker 2 is gone"])
    path = tmp_path / "worker-1.calls"
    path.write_bytes(path.read_bytes()[:-40])
    outcome = report(tmp_path)
    words = read(tmp_path)["words"]
    assert [word.split(":")[0].split(",")[0] for word in words] == [
        "worker 2 is gone",
        "The run did not end as planned",
        "The history is not whole",
    ]
    assert list(outcome.lines[:3]) == words
    assert all(word in outcome.page.read_text() for word in words)
    assert outcome.figures.totals.requests > 100


@pytest.mark.parametrize("text", ["", '{"scen', "[]"])
def test_run_json_that_was_not_written_whole_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert read_run(tmp_path) == {}


def test_rows_are_enough_for_a_report(tmp_path: Path) -> None:
    run_in(tmp_path)
    (tmp_path / "run.json").unlink()
    outcome = report(tmp_path)
    assert outcome.lines[0].startswith("There is no run.json")
    assert "unknown scenario" in outcome.page.read_text()


def test_run_without_any_request_is_reported(tmp_path: Path) -> None:
    with CallWriter(tmp_path / "worker-0.calls", RUN_ID) as writer:
        writer.end(5_000_000)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert report(tmp_path).lines[0] == "No request was ever sent."


def test_directory_without_rows_is_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(NothingToReport, match="holds no file of calls"):
        report(tmp_path)


def test_record_that_is_still_on_another_machine_is_asked_for(tmp_path: Path) -> None:
    """A judge without it would see offsets that nobody committed."""
    run_in(tmp_path, processes=2)
    assert report(tmp_path).verdict.is_fine
    (tmp_path / "worker-1.calls").unlink()
    with pytest.raises(NothingToReport, match=r"worker-1\.calls: not in .*; copy it"):
        report(tmp_path)


def test_broken_promise_leads_the_page_with_its_story(tmp_path: Path) -> None:
    story = Story(World(members=2, seconds=46))
    at_us = story.end_us - 1_000
    read_back = (Offset("orders", 0, 10**15),)
    story.rows.append(
        Call(
            "<reader>",
            "r",
            "OffsetFetch",
            at_us,
            at_us + 5,
            ANSWERED,
            group_id="classic-0",
            offsets=read_back,
        )
    )
    story.write(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    outcome = report(tmp_path)
    text = outcome.page.read_text()
    assert outcome.verdict.status == "broken"
    assert str(outcome.verdict).startswith("broken: 1 violations (1 x commit invented)")
    assert "<b>Broken</b>" in text
    assert "OffsetFetch of &lt;reader&gt;" in text
    told = read(tmp_path)
    assert (told["status"], told["is_fine"]) == ("broken", False)
    assert told["verdict"]["by_rule"] == {"commit invented": 1}
    broken = [each["name"] for each in told["verdict"]["promises"] if each["status"] == "broken"]
    assert broken == ["commits"]


class Cells(HTMLParser):
    """Every table's headings, and of every row the labels that a phone shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.labels: list[str | None] = []
        self.wrong: list[tuple[list[str], list[str | None]]] = []
        self._in_head = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "thead":
            self.headings, self._in_head = [], True
        elif tag == "th" and self._in_head:
            self.headings.append("")
        elif tag == "tr":
            self.labels = []
        elif tag == "td":
            self.labels.append(dict(attrs).get("data-label"))

    def handle_data(self, data: str) -> None:
        if self._in_head and self.headings:
            self.headings[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._in_head = self._in_head and tag != "thead"
        if tag == "tr" and self.labels and self.labels != [None, *self.headings[1:]]:
            self.wrong.append((self.headings, self.labels))


def test_no_column_and_no_name_is_lost_on_a_phone(whole: Outcome) -> None:
    """Half of a table was once out of sight on 420 pixels: there its rows are blocks in which every cell
    has its heading beside it, and nothing is cut at any width."""
    text = whole.page.read_text()
    assert Cells(text).wrong == []
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "text-overflow" not in style
    assert "overflow: hidden" not in style
    phone = style.partition("@media (max-width: 640px)")[2]
    assert "content: attr(data-label)" in phone
    assert "overflow-wrap: anywhere" in phone
