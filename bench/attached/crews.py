"""The consumers: one process for each configuration of a client, with many members of one group, which writes
down what each of them sees and what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.attached.judge import Event, Offsets, acknowledged
from bench.clients.programs import command_of
from cluster import child_process

CLOSE_TIMEOUT_S: Final = 60.0
TRANSACTIONS: Final = "transactions"


class Configuration(NamedTuple):
    """How a client is set up."""

    program: str
    """A module of `bench.clients`, or Java."""
    protocol: str


CONFIGURATIONS: Final[Mapping[str, Configuration]] = {
    "confluent-classic": Configuration("confluent", "classic"),
    "confluent-consumer": Configuration("confluent", "consumer"),
    "kafka-python": Configuration("kafka_python", "classic"),
    "aiokafka": Configuration("aio", "classic"),
    "java-classic": Configuration("Java", "classic"),
    "java-consumer": Configuration("Java", "consumer"),
    TRANSACTIONS: Configuration("transacting", "classic"),
}
"""The configurations by name, which is that of their group, too."""


def shares(consumers: int) -> dict[str, int]:
    """Return how many of so many consumers each configuration has."""
    whole, rest = divmod(consumers, len(CONFIGURATIONS))
    return {name: whole + (number < rest) for number, name in enumerate(CONFIGURATIONS)}


class Crew:
    """The members of one group."""

    def __init__(self, group: str, command: list[str], arguments: list[str], directory: Path) -> None:
        self.group = group
        self.record = directory / f"{group}.jsonl"
        self.complaints = directory / f"{group}.log"
        self._read_to = 0
        self._told: list[Event] = []
        self._acknowledged: dict[str, int] = {}
        with self.record.open("wb") as record, self.complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=record,
                stderr=complaints,
                env=child_process.environment(),
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def told(self) -> list[Event]:
        """Return what the members have written down so far, in the order of time."""
        self._read_on()
        self._told.sort(key=lambda event: float(event["at"]))
        return self._told

    def acknowledged(self) -> dict[str, int]:
        """Return the highest offset of each partition that was acknowledged as committed so far."""
        self._read_on()
        return self._acknowledged

    def has_committed(self, offsets: Offsets) -> bool:
        """Whether the group has committed so much of each partition."""
        highest = self.acknowledged()
        return all(highest.get(partition, 0) >= offset for partition, offset in offsets.items())

    def _read_on(self) -> None:
        with self.record.open("rb") as record:
            record.seek(self._read_to)
            whole, _, _ = record.read().rpartition(b"\n")
        if whole:
            self._read_to += len(whole) + 1
            news = [json.loads(line) for line in whole.split(b"\n")]
            self._told += news
            for partition, offset in acknowledged(news).items():
                self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, 0))

    def end_input(self) -> None:
        """Have all members leave their group."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def close(self) -> None:
        """Have all members leave their group, and wait until they have; kill those that do not."""
        self.end_input()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def started(
    group: str, members: int, settings: Mapping[str, Any], directory: Path, kafka_home: Path | None
) -> Crew:
    """Start the members of one of CONFIGURATIONS. `settings` are those of all clients and "topic". Raises
    CannotRunError."""
    program, protocol = CONFIGURATIONS[group]
    if program == "Java":
        command = _java(directory, kafka_home)
    else:
        command = [sys.executable, "-W", "ignore", "-m", f"bench.clients.{program}"]
    mine = {**settings, "group.id": group, "group.protocol": protocol, "members": members}
    topic = str(mine.pop("topic"))
    output = mine.pop("output.topic")
    if group == TRANSACTIONS:
        mine["output.topic"] = output
    else:
        mine["commit.each.poll"] = "true"
    return Crew(group, command, [topic, *(f"{name}={value}" for name, value in mine.items())], directory)


@cache
def _java(directory: Path, kafka_home: Path | None) -> list[str]:
    """Return the command of a Java client, compiled once for all its configurations."""
    classes = directory / "classes"
    classes.mkdir()
    return command_of("Java", kafka_home, classes)
