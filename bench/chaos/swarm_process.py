"""The swarm of a chaos run: `groupd swarm run` in a process of its own, which ends with ours."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from bench.ground.interrupts import deaf
from cluster import child_process

BEGIN_TIMEOUT_S: Final = 60.0
END_TIMEOUT_S: Final = 90.0
"""How long a swarm may take to end: all members leave, and it writes and judges their record."""
POLL_S: Final = 0.1


class CouldNotRun(Exception):
    """There is nothing to judge, because a tier or a swarm did not start; the text says why."""


class SwarmProcess:
    """The process of a swarm; a context manager. At its end the swarm is stopped, if it has not ended by
    itself."""

    def __init__(self, directory: Path, arguments: list[str]) -> None:
        self.directory = directory
        self._log = directory.with_suffix(".log")
        command = child_process.python("cluster.cli", "swarm", "run", *arguments, "--out", str(directory))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=child_process.environment(),
                start_new_session=True,  # a Ctrl-C is ours to pass on
            )

    def __enter__(self) -> SwarmProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until_begun(self) -> str:
        """Wait for the swarm's beginning and return its run id. Raises CouldNotRun."""
        deadline = time.monotonic() + BEGIN_TIMEOUT_S
        while time.monotonic() < deadline and self.is_running:
            with contextlib.suppress(OSError, ValueError, KeyError):
                return str(json.loads((self.directory / "run.json").read_bytes())["run_id"])
            time.sleep(POLL_S)
        why = "has not begun" if self.is_running else "ended at once"
        raise CouldNotRun(f"the swarm {why}: {self.last_words()}")

    def wait(self, timeout_s: float) -> bool:
        """Wait for the swarm's end. Returns whether it has ended within that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return not self.is_running

    def stop(self) -> None:
        """Stop the swarm as Ctrl-C does: its record is kept."""
        if not self.is_running:
            return
        with deaf():
            self._process.send_signal(signal.SIGINT)
            if not self.wait(END_TIMEOUT_S):
                self._process.kill()
                self._process.wait()

    def last_words(self) -> str:
        """The last line that the swarm printed."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
