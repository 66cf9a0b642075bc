"""Java consumers in processes of their own, with what they told on record."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import IO, Any

from tests.kafka import jvm
from tests.polling import until

JOIN_DEADLINE_S = 90.0
"""A JVM's start and a rebalance that a KIP-848 member learns of at its next heartbeat, on busy cores."""
CLOSE_DEADLINE_S = 30.0

Event = dict[str, Any]


class JavaMember:
    """Use as a context manager. `settings` are the Java consumer's, with _ for the dots."""

    def __init__(self, directory: Path, bootstrap: str, topic: str, group_id: str, **settings: Any) -> None:
        named = {"bootstrap.servers": bootstrap, "group.id": group_id}
        named |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        pairs = [f"{name}={value}" for name, value in named.items()]
        self.name = settings.get("group_instance_id", group_id)
        self.events: list[Event] = []
        self.owned: set[str] = set()
        self.seen: list[tuple[str, int]] = []
        """(partition, offset) of every record polled, in order; one read twice is here twice."""
        self.acknowledged: dict[str, int] = {}
        """The last offset per partition that the server confirmed to have committed."""
        self._log: list[str] = []
        self._process = subprocess.Popen(
            jvm.command(directory, "groupd.Member", topic, *pairs),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input: IO[str] = self._process.stdin
        self._threads = [
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> JavaMember:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL: the member says no farewell. Harmless when it is gone."""
        self._process.kill()
        self._finish()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        """Close the consumer as its user would, and wait until the process has ended well."""
        self.tell("close")
        assert self._process.wait(CLOSE_DEADLINE_S) == 0, self.story()
        self._finish()
        assert self.events[-1]["event"] == "closed", self.story()

    def tell(self, command: str) -> None:
        self._input.write(command + "\n")
        self._input.flush()

    def ask(self, command: str, event: str) -> Event:
        """Give a command and return the first event of that kind that comes after it."""
        before = len(self.told(event))
        self.tell(command)
        self.until(lambda: len(self.told(event)) > before, f"{event} after {command}")
        return self.told(event)[before]

    def told(self, event: str) -> list[Event]:
        return [told for told in list(self.events) if told["event"] == event]

    def until(self, holds: Any, what: str) -> None:
        """Poll until `holds()`; fails at once when the process has failed."""

        def ended_or_holds() -> bool:
            if holds():
                return True
            assert self._process.poll() is None, f"ended before: {what}\n{self.story()}"
            return False

        try:
            until(ended_or_holds, what, JOIN_DEADLINE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def story(self) -> str:
        """Return what the member told last, for the message of an assertion."""
        lines = [json.dumps(event) for event in self.events[-15:]] + self._log[-30:]
        return f"member {self.name}, owns {sorted(self.owned)}:\n" + "\n".join(lines)

    def _read_events(self, output: IO[str]) -> None:
        for line in output:
            event = json.loads(line)
            match event["event"]:
                case "assigned":
                    self.owned |= set(event["partitions"])
                case "revoked" | "lost":
                    self.owned -= set(event["partitions"])
                case "records":
                    self.seen += [(event["partition"], offset) for offset in event["offsets"]]
                case "committed":
                    self.acknowledged |= event["offsets"]
            self.events.append(event)

    def _read_log(self, output: IO[str]) -> None:
        self._log.extend(line.rstrip("\n") for line in output)

    def _finish(self) -> None:
        self._process.wait(CLOSE_DEADLINE_S)
        for thread in self._threads:
            thread.join(CLOSE_DEADLINE_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


def partitions_of(topic: str, count: int = 6) -> set[str]:
    return {f"{topic}-{number}" for number in range(count)}


def shared_out(members: list[JavaMember], partitions: set[str]) -> None:
    """Wait until each partition has exactly one owner and every member its fair share."""

    def settled() -> bool:
        owned = [partition for member in members for partition in sorted(member.owned)]
        sizes = [len(member.owned) for member in members]
        return sorted(owned) == sorted(partitions) and max(sizes) - min(sizes) <= 1

    try:
        until(settled, "each partition has one owner, evenly", JOIN_DEADLINE_S)
    except AssertionError as error:
        stories = "\n".join(member.story() for member in members)
        raise AssertionError(f"{error}\n{stories}") from None
