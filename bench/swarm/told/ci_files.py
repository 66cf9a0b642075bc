"""Writes what CI needs beside a run's report: JUnit's XML, a summary in Markdown, and a copy of the marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.swarm.counted import marks_file
from bench.swarm.planning import thresholds
from bench.swarm.told.cases import suite
from bench.swarm.told.junit import junit
from bench.swarm.told.summary import summary
from cluster.tier_file import TierError


class Asked(NamedTuple):
    """The files that a user asked for beside the report."""

    thresholds: tuple[str, ...] = ()
    junit: Path | None = None
    summary: Path | None = None
    marks: Path | None = None

    def check(self) -> None:
        """Check the flags before a run, so that an error does not show only at its end. Raises BadThreshold,
        BadMarks, TierError, OSError."""
        thresholds.parse_all(self.thresholds)
        for flag, path in (("--junit", self.junit), ("--summary", self.summary)):
            if path is not None and not path.parent.is_dir():
                raise TierError(f"{flag} {path}: there is no directory {path.parent}")
        if self.marks is not None:
            marks_file.check(self.marks)

    def write(self, results: Mapping[str, Any], lines: Sequence[str]) -> None:
        """Write the files. `results` are of a report.json, `lines` are what a terminal was told of the
        figures. Raises OSError."""
        told = suite(results, lines)
        if self.junit is not None:
            self.junit.write_text(junit([told]), encoding="utf-8")
        if self.summary is not None:
            with self.summary.open("a", encoding="utf-8") as file:
                file.write(summary(told))
