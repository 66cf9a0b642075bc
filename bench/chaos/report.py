"""The report of a chaos run: verdict and availability over all of its parts, from its directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.chaos import page, table
from bench.chaos.availability import Availability, availability
from bench.chaos.outcome import Outcome, PartReport
from bench.chaos.state import State, read
from bench.swarm.counted.figures import Figures
from bench.swarm.planning import thresholds
from bench.swarm.told.report import PAGE, RESULTS, Addition, NothingToReport
from bench.swarm.told.report import report as swarm_report
from storage.history.calls import History
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN, Promise
from storage.history.judge.verdict import Verdict, combined

COURSES_MAX: Final = 4
"""How many parts are drawn second by second; the pages of the parts have more."""


NOT_BACK: Final = "did not come back"


def report(directory: Path, console: Console | None = None, limited: Sequence[str] = ()) -> Outcome:
    """Judge every part and write report.html and report.json. `console` shows the progress, `limited` are
    thresholds for each part. Raises NoRun, BadThreshold."""
    state = read(directory)
    parts: list[PartReport] = []
    words = list(state.words)
    for number in range(1, state.parts + 1):
        try:
            here = state.part(directory, number)
            parts.append(_part(here, console, limited, with_course=number <= COURSES_MAX))
        except (OSError, NothingToReport) as error:
            words.append(f"part {number} cannot be judged: {error}")
    state = state.model_copy(update={"words": words})
    rows = table.rows(part.found for part in parts)
    verdict = with_faults(combined([part.verdict for part in parts]), state, rows)
    found = tuple(part.found for part in parts)
    checked = tuple(each for part in parts for each in part.checked)
    outcome = Outcome(state, verdict, rows, directory / PAGE, len(parts), found, checked)
    outcome.page.write_text(page.page(outcome, parts), encoding="utf-8")
    (directory / RESULTS).write_text(json.dumps(_plain(outcome), indent=2) + "\n", encoding="utf-8")
    return outcome


def _part(
    directory: Path, console: Console | None, limited: Sequence[str], *, with_course: bool
) -> PartReport:
    found: list[Availability] = []

    def more(history: History, figures: Figures) -> Addition:
        found.append(availability(history, figures))
        return Addition(sections=(page.availability(found),))

    judged = swarm_report(directory, console=console, more=more, extra_thresholds=limited)
    course = page.course(directory.name, judged.figures) if with_course else []
    where = f"{directory.name}/{judged.page.name}"
    checked = tuple(each._replace(text=f"{directory.name}: {each.text}") for each in judged.checked)
    return PartReport(directory.name, where, judged.verdict, found[0], course, checked)


def with_faults(verdict: Verdict, state: State, rows: Sequence[table.Row]) -> Verdict:
    """The clients' verdict with one promise more: that the target came back after what was done to it."""
    kinds = [row for row in rows if row.kind != table.ALL]
    count = sum(row.faults for row in kinds)
    status, because = KEPT, f"{count:,} came, of {len(kinds):,} kinds, and after each all were back"
    by_rule = dict(verdict.by_rule)
    if state.unmended:
        status, because = BROKEN, state.unmended[0]
        by_rule[NOT_BACK] = len(state.unmended)
    elif state.words:
        status, because = NOT_SHOWN, state.words[0]
    elif not count:
        status, because = NOT_SHOWN, "no fault ever hit anybody"
    promise = Promise("faults", f"After each fault {state.whom} comes back whole.", status, because)
    return verdict._replace(promises=(*verdict.promises, promise), by_rule=by_rule)


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "summary": outcome.summary,
        "status": outcome.status,
        "is_fine": outcome.status == KEPT,
        "remarks": list(outcome.remarks),
        "run": outcome.state.model_dump(mode="json"),
        "verdict": outcome.verdict.plain(),
        "thresholds": thresholds.plain(outcome.checked),
        "availability": [row.plain() for row in outcome.rows],
        "parts": [each.plain() for each in outcome.found],
    }
