"""The page of the matrix, CLIENTS.md: made from what the last whole run found, CLIENTS.json.

`python -m tests.matrix --markdown` runs every cell and writes both files; `python -m tests.matrix.page`
prints the page from the recorded run again. A test fails when the page is stale.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.matrix.clients import CLIENTS, Client
from tests.matrix.stories import STORIES, Story

PAGE = Path(__file__).with_name("CLIENTS.md")
RECORD = Path(__file__).with_name("CLIENTS.json")
MARKS = {False: "✓", True: "⚡"}
BROKEN = "✗"
HEADING = """\
# Clients

Made from `tests/matrix/CLIENTS.json` by `python -m tests.matrix.page > tests/matrix/CLIENTS.md`; a test
compares them. `python -m tests.matrix --markdown` runs every cell and writes both files; with `--client` or
`--story` it writes the cells that it ran into them.

Real clients, old versions beside new ones, each a process of its own, live through every story against a
real tier. A cell holds if every record is seen, no partition has two owners at a time, and what is committed
in the end is right. Last whole run: {day}. ✓ undisturbed, ⚡ with the group's leader killed midway, ✗ broken.
"""


class Outcome(NamedTuple):
    """How one story of one client ended, undisturbed or with a failover in the middle."""

    client: Client
    story: Story
    fails_over: bool
    broken: str
    """The expectation that was not met; it is "" if everything held."""
    seconds: float


def record(day: str, clients: Iterable[Client], outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return what a run found in the form of JSON: by client and story the mark of the undisturbed cell and
    the one of the cell with a failover."""
    rows: dict[str, Any] = {client.title: {"stories": {}} for client in clients}
    for each in sorted(outcomes, key=lambda outcome: outcome.fails_over):
        marks = rows[each.client.title]["stories"].setdefault(each.story.name, [])
        marks.append(BROKEN if each.broken else MARKS[each.fails_over])
    return {"day": day, "clients": rows}


def updated(before: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a whole run with the cells of a later run of a part, which had its failovers."""
    rows = {
        title: {"stories": {**before["clients"].get(title, {}).get("stories", {}), **row["stories"]}}
        for title, row in part["clients"].items()
    }
    return {"day": before["day"], "clients": {**before["clients"], **rows}}


def markdown(recorded: Mapping[str, Any]) -> str:
    """The page: a row for each client, a column for each story, footnotes below."""
    return f"{HEADING.format(day=recorded['day'])}\n{table(recorded)}\n"


def table(recorded: Mapping[str, Any]) -> str:
    """The table of a recorded run, with its footnotes."""
    lines = [
        "| client | version | protocol | " + " | ".join(story.name for story in STORIES) + " |",
        "|---" * (3 + len(STORIES)) + "|",
    ]
    notes: dict[str, str] = {}
    for client in CLIENTS:
        row = recorded["clients"].get(client.title)
        if row is not None:
            cells = [_shown(client, story, row["stories"], notes) for story in STORIES]
            lines.append(f"| {client.name} | {client.version} | {client.protocol} | {' | '.join(cells)} |")
    lines += [f"\n{number} {why}" for why, number in notes.items()]
    return "\n".join(lines)


def load() -> dict[str, Any]:
    """Return the record of the last whole run."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def write(recorded: Mapping[str, Any]) -> None:
    """Keep a whole run, and make the page from it."""
    RECORD.write_text(json.dumps(recorded, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(markdown(recorded), encoding="utf-8")


def _shown(client: Client, story: Story, marks: Mapping[str, list[str]], notes: dict[str, str]) -> str:
    why_not, eased = story.why_not(client), story.eased(client)
    note = notes.setdefault(why_not or eased, _raised(len(notes) + 1)) if why_not or eased else ""
    if why_not:
        return "-" + note
    return (" ".join(marks.get(story.name, [])) or "?") + note


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


if __name__ == "__main__":
    print(markdown(load()), end="")
