"""The process of one member, and the events that it has told."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from cluster import child_process

DEADLINE_S = 150.0
"""How long anything is waited for at most: a JVM starts slowly on busy cores, and the session of a KIP-848
member (45 s) whose LeaveGroup died with the leader begins anew with the next."""
CLOSE_DEADLINE_S = 30.0
Event = dict[str, Any]


class Broken(AssertionError):
    """Something did not happen as it should; the message has the members' own words."""


def until(holds: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Poll until it holds. Raises Broken."""
    end = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > end:
            raise Broken(f"not within {deadline_s:.0f} s: {what}")
        threading.Event().wait(0.03)


class Member:
    """One member. It is a context manager, or ended by `close` or `kill`."""

    def __init__(self, name: str, command: Sequence[str], topics: str, settings: Mapping[str, Any]) -> None:
        pairs = [f"{key}={value}" for key, value in settings.items()]
        self.name = name
        self.events: list[Event] = []
        self.owned: set[str] = set()
        self.seen: set[tuple[str, int]] = set()
        self.digests: dict[tuple[str, int], str] = {}
        """The SHA-256 of each value seen, if the member was told to tell them."""
        self.acknowledged: dict[str, int] = {}
        """The last offset of each partition that the server confirmed to have committed."""
        self.ended_at: float | None = None
        """When the process ended, in ms of the wall clock; None: it runs."""
        self.log: list[str] = []
        """Other lines that the program wrote: a client's warnings."""
        self._process = subprocess.Popen(
            [*command, topics, *pairs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=child_process.environment(),
        )
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._input, output, log = (stream for stream in streams if stream is not None)
        self._threads = [
            threading.Thread(target=self._read_events, args=(output,), daemon=True),
            threading.Thread(target=self._read_log, args=(log,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self.ended_at is None

    def kill(self) -> None:
        """End the process by SIGKILL, so that it sends no LeaveGroup. Harmless if it is gone."""
        if self.ended_at is None:
            self._process.kill()
            self._finish()

    def close(self) -> None:
        """Let the member leave its group, and wait until its process has ended with code 0. Raises Broken."""
        self.tell("close")
        try:
            code = self._process.wait(CLOSE_DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"did not close within {CLOSE_DEADLINE_S:.0f} s\n{self.story()}") from None
        self._finish()
        if code != 0 or not self.told("closed"):
            raise Broken(f"ended with {code}\n{self.story()}")

    def tell(self, command: str) -> None:
        try:
            self._input.write(command + "\n")
            self._input.flush()
        except OSError as error:
            raise Broken(f"cannot be told to {command}: {error}\n{self.story()}") from error

    def told(self, event: str) -> list[Event]:
        return [each for each in list(self.events) if each["event"] == event]

    def check(self) -> None:
        """Check the process. Raises Broken if it has ended by itself."""
        if self.ended_at is None and self._process.poll() is not None:
            raise Broken(f"ended with {self._process.returncode}\n{self.story()}")

    def story(self) -> str:
        """The last events that the member told, in words."""
        told = [json.dumps(event)[:300] for event in self.events[-12:]]
        return "\n  ".join([f"member {self.name}, owns {sorted(self.owned)}:", *told, *self.log[-12:]])

    def _read_events(self, output: IO[str]) -> None:
        for line in output:
            event = json.loads(line)
            event.setdefault("at", time.time() * 1_000)
            match event["event"]:
                case "assigned":
                    self.owned |= set(event["partitions"])
                case "revoked" | "lost":
                    self.owned -= set(event["partitions"])
                case "records":
                    seen = [(event["partition"], offset) for offset in event["offsets"]]
                    self.digests |= dict(zip(seen, event.get("sha256", ()), strict=False))
                    self.seen |= set(seen)
                case "committed":
                    self.acknowledged |= event["offsets"]
            self.events.append(event)

    def _read_log(self, log: IO[str]) -> None:
        self.log.extend(line.rstrip("\n") for line in log)

    def _finish(self) -> None:
        self._process.wait(CLOSE_DEADLINE_S)
        self.ended_at = time.time() * 1_000
        for thread in self._threads:
            thread.join(CLOSE_DEADLINE_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
        self.owned = set()
