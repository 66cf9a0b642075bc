"""A report as JSON, written as it grows; and read back, so that further works are added to what is there."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.peers.compared.registry import PEERS
from bench.peers.plan import (
    HIGHER_IS_BETTER,
    Command,
    Outcome,
    Report,
    Row,
    Sample,
    ours_beside,
    unit_of,
)

NAME: Final = "peers.json"


class Mismatch(Exception):
    """Figures do not belong into one report, or a file is no report."""


def as_json(report: Report) -> dict[str, Any]:
    """Every figure of every run, with least, median and most."""
    return {
        "machine": report.machine,
        "cores": report.cores,
        "quick": report.quick,
        "commands": [command._asdict() for command in report.commands],
        "foreign": report.foreign,
        "peers": report.peers,
        "skipped": report.skipped,
        "outcomes": [_outcome(report, outcome) for outcome in report.outcomes],
    }


def _outcome(report: Report, outcome: Outcome) -> dict[str, Any]:
    row, samples = outcome.row, outcome.samples
    names = list(dict.fromkeys(name for sample in samples for name in sample.figures))
    return {
        "work": row.work,
        "scenario": row.name,
        "heading": row.heading,
        "label": row.label,
        "shown": list(row.shown),
        "rate": row.rate,
        "goals": [[peer, figure, limit] for (peer, figure), limit in row.goals.items()],
        "peer": outcome.peer,
        "command": outcome.command,
        "refused": outcome.refused or None,
        "failures": outcome.failures,
        "figures": {name: _figure(report, outcome, name) for name in names},
        "samples": [
            {
                "figures": dict(sample.figures),
                "requests": sample.requests,
                "generator_share": round(sample.generator_share, 3),
                "foreign": sample.foreign,
                "percentiles": list(sample.percentiles),
                "marks": sorted(sample.marks),
            }
            for sample in samples
        ],
    }


def _figure(report: Report, outcome: Outcome, name: str) -> dict[str, Any]:
    values = outcome.values(name)
    ours = ours_beside(outcome.peer)
    return {
        "unit": unit_of(name),
        "higher_is_better": name.rpartition(":")[2] in HIGHER_IS_BETTER,
        "min": min(values),
        "median": statistics.median(values),
        "max": max(values),
        "ours_divided_by_it": report.ratio(outcome.row, name, ours, outcome.peer),
        "goal": outcome.row.goals.get((outcome.peer, name)),
    }


def from_json(told: Mapping[str, Any]) -> Report:
    """Read a report from its JSON. Raises KeyError, TypeError, ValueError."""
    rows: dict[tuple[int, str], Row] = {}
    outcomes = []
    for each in told["outcomes"]:
        row = rows.setdefault((each["work"], each["scenario"]), _row(each))
        outcomes.append(
            Outcome(
                row=row,
                peer=each["peer"],
                samples=[_sample(sample) for sample in each["samples"]],
                refused=each["refused"] or "",
                failures=list(each["failures"]),
                command=each["command"],
            )
        )
    return Report(
        machine=told["machine"],
        cores=told["cores"],
        quick=told["quick"],
        commands=[Command(**command) for command in told["commands"]],
        peers=dict(told["peers"]),
        skipped=dict(told["skipped"]),
        outcomes=outcomes,
    )


def _row(told: Mapping[str, Any]) -> Row:
    return Row(
        work=told["work"],
        heading=told["heading"],
        label=told["label"],
        shown=tuple(told["shown"]),
        goals={(peer, figure): limit for peer, figure, limit in told["goals"]},
        rate=told["rate"],
    )


def _sample(told: Mapping[str, Any]) -> Sample:
    return Sample(
        figures=told["figures"],
        requests=told["requests"],
        generator_share=told["generator_share"],
        foreign=told["foreign"],
        percentiles=tuple(told["percentiles"]),
        marks=frozenset(told["marks"]),
    )


def read(directory: Path) -> Report | None:
    """Read what an earlier call left in a directory. Raises Mismatch if it is no report."""
    path = directory / NAME
    if not path.exists():
        return None
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Mismatch(f"{path} holds no report of this version: {type(error).__name__} {error}") from None


def write(report: Report, directory: Path) -> Path:
    """Write a report whole or not at all: a later call reads it."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / NAME
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(as_json(report), indent=1) + "\n", encoding="utf-8")
    os.replace(beside, path)
    return path


def refuse_to_mix(earlier: Report, machine: str, *, quick: bool) -> None:
    """Check that figures of these conditions may be in one table with earlier ones. Raises Mismatch."""
    if earlier.machine != machine:
        raise Mismatch(f"they are of another machine or other packages ({earlier.machine})")
    if earlier.quick != quick:
        raise Mismatch("figures of --quick and others are not mixed")


def merged(earlier: Report | None, later: Report) -> Report:
    """Merge two reports into a new one; what both have measured is taken from the later one."""
    if earlier is None:
        earlier = replace(later, commands=[], peers={}, skipped={}, outcomes=[])
    outcomes = {outcome.key: outcome for outcome in earlier.outcomes}
    for outcome in later.outcomes:
        if (
            outcome.samples or outcome.refused or outcome.failures
        ):  # otherwise it was interrupted before its turn
            outcomes[outcome.key] = replace(outcome, command=len(earlier.commands) + outcome.command)
    skipped = {name: why for name, why in earlier.skipped.items() if name not in later.peers}
    software = earlier.peers | later.peers
    return replace(
        later,
        commands=earlier.commands + later.commands,
        peers={name: software[name] for name in (*PEERS, *software) if name in software},
        skipped=skipped | later.skipped,
        outcomes=sorted(outcomes.values(), key=lambda outcome: outcome.row.work),
    )
