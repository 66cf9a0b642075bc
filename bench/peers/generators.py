"""Keeps the processes of `bench.peers.generator`: they are started when a load first needs them, and used by
every later load."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from bench.peers.options import Failed
from cluster import child_process


class Generator:
    """A process of a generator, which ends with its input, and so with this process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            child_process.python("bench.peers.generator"),
            env=child_process.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def tell(self, what: dict[str, Any]) -> None:
        """Send the generator a line. Raises OSError if it is dead."""
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Wait for the generator's next line. Raises Failed with what it failed with."""
        assert self._process.stdout is not None, "it is a pipe"
        line = self._process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"failed": "a load generator died"}
        if "failed" in told:
            raise Failed(told["failed"])
        return told

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Generators:
    """The generators, as many as the largest load so far needed."""

    def __init__(self) -> None:
        self._idle: list[Generator] = []

    def take(self, count: int) -> list[Generator]:
        """Lend so many generators. After an error `close` ends them all: one may be in the middle of a
        load."""
        self._idle += [Generator() for _ in range(count - len(self._idle))]
        return self._idle[:count]

    def close(self) -> None:
        while self._idle:
            self._idle.pop().end()
