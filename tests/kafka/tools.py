"""Kafka's own command line tools, run one after the other in one warm JVM, and their tables as rows."""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import threading
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO

from tests.kafka import jvm

TIMEOUT_S = 120
"""How long a tool may take: Kafka's own clients give up after 60 s, and what they say then is to be heard."""
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"

Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    exit_code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return f"{self.out}\n{self.err}"


class Tools:
    """Kafka's command-line tools in one JVM; use it as a context manager."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._process = subprocess.Popen(
            jvm.command(directory, "groupd.Tools"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[str] = self._process.stdin
        self._output: IO[str] = self._process.stdout
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Tools:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        self._input.close()
        self._output.close()

    def attempt(self, main_class: str, *arguments: str, lines_in: str = "") -> Run:
        """Run the tool to its end, whatever it is. AssertionError after two minutes: the JVM is lost."""
        fields = (lines_in, main_class, "--bootstrap-server", self._bootstrap, *arguments)
        self._input.write(",".join(base64.b64encode(field.encode()).decode() for field in fields) + "\n")
        self._input.flush()
        try:
            line = self._answers.get(timeout=TIMEOUT_S)
        except queue.Empty:
            self._process.kill()
            line = None
        assert line is not None, f"no answer from {main_class} {' '.join(arguments)}"
        answer = json.loads(line)
        return Run(exit_code=answer["exit"], out=answer["out"], err=answer["err"])

    def run(self, main_class: str, *arguments: str, lines_in: str = "") -> str:
        """Run a tool and return what it prints. Raises AssertionError if it reports an error."""
        done = self.attempt(main_class, *arguments, lines_in=lines_in)
        said = f"{main_class} {' '.join(arguments)}\n{done.said}"
        assert done.exit_code == 0, said
        assert "Error" not in done.out, said
        return done.out

    def table(self, main_class: str, *arguments: str) -> list[Row]:
        """The tool's table, a row each with the columns' names as keys."""
        return rows(self.run(main_class, *arguments))

    def _read(self) -> None:
        for line in self._output:
            self._answers.put(line)
        self._answers.put(None)


def rows(text: str) -> list[Row]:
    """Rows of a table that begins with a line of column names; a cell has no space, the last may be empty."""
    lines = [line for line in text.splitlines() if line.strip()]
    starts = [number for number, line in enumerate(lines) if line.startswith("GROUP ")]
    assert starts, f"no table in:\n{text}"
    names = lines[starts[0]].split()
    table = []
    for line in lines[starts[0] + 1 :]:
        cells = line.split()
        assert len(cells) <= len(names), f"{len(names)} columns in:\n{text}"
        table.append(dict(zip_longest(names, cells, fillvalue="")))
    return table
