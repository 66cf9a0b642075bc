"""Keeps a replay in its directory: plan.json, replay.md for people, replay.json for its report.

The report is made of replay.json and the run's record, so that it can be made again, of an interrupted run,
too. What a tier's own history told is kept with it, because the tier may be gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.swarm.counted.figures import Figures
from bench.swarm.planning import plan_file
from bench.swarm.replay import beside
from bench.swarm.replay.counts import Counts
from bench.swarm.replay.planning import Replay
from bench.swarm.replay.record import Window, of_record
from bench.swarm.told.report import Addition, More
from cluster.cli.common import columns
from storage.history.calls import History

VERSION: Final = 1
"""The version of replay.json."""
FILE: Final = "replay.json"
PLAN: Final = "plan.json"
SUMMARY: Final = "replay.md"
BY_HISTORY: Final = "Then and now are counted alike, from the histories of both tiers."
BY_RECORD: Final = (
    "Then is counted from recorded events, now from what the swarm's members saw: why rebalances began and"
    " which partitions were assigned for the first time, they do not know."
)


def save(
    directory: Path,
    replayed: Replay,
    then: Mapping[str, Counts],
    summary: Sequence[str],
    about: Mapping[str, Any],
) -> None:
    """Write the files before the run. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    plan_file.save(replayed.plan, directory / PLAN)
    (directory / SUMMARY).write_text("\n".join(summary) + "\n", encoding="utf-8")
    timeline = replayed.timeline
    _write(
        directory,
        {
            "version": VERSION,
            **about,
            "since_ms": timeline.span.since_ms,
            "until_ms": timeline.span.until_ms,
            "faster": timeline.faster,
            "lead_s": timeline.lead_s,
            "length_s": timeline.length_s,
            "groups": replayed.groups,
            "words": replayed.words,
            "then": {name: each._asdict() for name, each in then.items()},
            "now": None,
        },
    )


def add_history(directory: Path, now: Mapping[str, Counts]) -> None:
    """Add what the target's own history tells of the run. Raises OSError."""
    _write(directory, read(directory) | {"now": {name: each._asdict() for name, each in now.items()}})


def add_word(directory: Path, word: str) -> None:
    """Add a sentence about the comparison. Raises OSError."""
    said = read(directory)
    _write(directory, said | {"words": [*said["words"], word]})


def read(directory: Path) -> dict[str, Any]:
    """Read replay.json; empty if the run is no replay. Raises OSError."""
    path = directory / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("version") == VERSION else {}


def addition(directory: Path) -> More | None:
    """What is added to the report of a run that is a replay. Raises OSError."""
    said = read(directory)
    if not said:
        return None

    def more(history: History, figures: Figures) -> Addition:
        began_us = figures.began_us + round(said["lead_s"] * 1e6)
        window = Window(began_us, min(began_us + round(said["length_s"] * 1e6), figures.ended_us))
        by_history = said["now"] is not None
        now = counts_of(said["now"]) if by_history else of_record(history, window)
        remarks = [BY_HISTORY if by_history else BY_RECORD, *_remarks(said, window)]
        found = beside.beside(counts_of(said["then"]), now, said["groups"], remarks)
        return Addition(
            (beside.section(found),),
            (*columns(beside.lines(found)), *remarks[: -len(said["words"]) or None]),
            {"replay": {"counted": "history" if by_history else "record", **beside.plain(found)}},
        )

    return more


def _remarks(said: Mapping[str, Any], window: Window) -> list[str]:
    remarks = []
    copies = len(said["groups"]) / max(1, len(set(said["groups"].values())))
    if copies > 1:
        remarks.append(f"Each group was replayed {copies:.0f} times: now is the sum of these.")
    if said["faster"] != 1:
        remarks.append(f"Replayed {said['faster']:g} times as fast; timeouts take as long as then.")
    length_s = (window.ended_us - window.began_us) / 1e6
    if length_s < said["length_s"] - 1:
        remarks.append(
            f"The run ended early: {max(0.0, length_s):,.0f} of {said['length_s']:,.0f} s were replayed."
        )
    return [*remarks, *map(str, said["words"])]


def counts_of(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, Counts]:
    """Read counts that replay.json keeps."""
    return {
        name: Counts(**{**values, "durations_ms": tuple(values["durations_ms"])})
        for name, values in plain.items()
    }


def _write(directory: Path, said: Mapping[str, Any]) -> None:
    (directory / FILE).write_text(json.dumps(said) + "\n", encoding="utf-8")
