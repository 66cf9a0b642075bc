"""Kafka's own command line tools, and their tables as rows."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.kafka import jvm

TIMEOUT_S = 60
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    directory: Path
    bootstrap: str

    def run(self, main_class: str, *arguments: str, lines_in: str | None = None) -> str:
        """What the tool prints; fails with all it said when it exits with an error."""
        done = self.attempt(main_class, *arguments, lines_in=lines_in)
        said = f"{main_class} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, said
        assert "Error" not in done.stdout, said
        return done.stdout

    def attempt(
        self, main_class: str, *arguments: str, lines_in: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        where = ("--bootstrap-server", self.bootstrap)
        return subprocess.run(
            jvm.command(self.directory, main_class, *where, *arguments),
            input=lines_in or "",
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def table(self, main_class: str, *arguments: str) -> list[Row]:
        """The tool's table, a row each with the column's names as keys."""
        return rows(self.run(main_class, *arguments))


def rows(text: str) -> list[Row]:
    """Rows of a table that begins with a line of column names; no cell may hold a space."""
    lines = [line for line in text.splitlines() if line.strip()]
    starts = [number for number, line in enumerate(lines) if line.startswith("GROUP ")]
    assert starts, f"no table in:\n{text}"
    names = lines[starts[0]].split()
    table = []
    for line in lines[starts[0] + 1 :]:
        cells = line.split()
        assert len(cells) == len(names), f"{len(names)} columns in:\n{text}"
        table.append(dict(zip(names, cells, strict=True)))
    return table
