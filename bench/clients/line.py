"""The lines between a client's program in Python and the process that started it; `java/Member.java` uses
them too.

The arguments are TOPIC[,TOPIC...], pattern:REGEX or nothing (the member subscribes when told to), then the
consumer's settings as name=value. Three settings are ours: `commit.each.poll=true` commits after every poll
that brought records, `tell.digests=true` tells the SHA-256 of every value, `members=N` is so many members in
one process, each of which gets every command and says in its events which "member" it is. Commands come on
standard input; events go out as JSON with "at" in ms of the wall clock.
"""

from __future__ import annotations

import hashlib
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

_OUTPUT = threading.Lock()
_NUMBERS = {
    *("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "metadata.max.age.ms"),
    "fetch.max.wait.ms",
}
"""The settings whose values libraries in Python want as numbers."""


class Line:
    """What one member is told, and its words on standard output."""

    def __init__(self, topics: str, settings: Mapping[str, str], member: int | None = None) -> None:
        """`member` is its number, if there are several in this process."""
        self.settings = dict(settings)
        self.member = member
        self.commits_each_poll = self.settings.pop("commit.each.poll", "") == "true"
        self._tells_digests = self.settings.pop("tell.digests", "") == "true"
        self.pattern = topics.removeprefix("pattern:") if topics.startswith("pattern:") else None
        self.topics = topics.split(",") if topics else []
        self.revoke_ms = 0
        """How long the member shall take to give up partitions."""
        self._commands: queue.SimpleQueue[str] = queue.SimpleQueue()

    def keywords(self) -> dict[str, Any]:
        """The settings as keywords of a library in Python that knows the classic protocol alone."""
        return {
            name.replace(".", "_"): int(value) if name in _NUMBERS else value
            for name, value in self.settings.items()
            if name != "group.protocol"
        }

    def give(self, command: str) -> None:
        """Have the member obey a command when it looks for one."""
        self._commands.put(command)

    def command(self) -> list[str]:
        """The words of the next command; [] if there is none."""
        return self._commands.get().split() if not self._commands.empty() else []

    def wait_for_command(self) -> list[str]:
        """The words of the next command, once there is one."""
        return self._commands.get().split()

    def serve(
        self,
        poll: Callable[[], None],
        commit: Callable[[], None],
        subscribe: Callable[[list[str]], None] | None = None,
    ) -> None:
        """Obey commands and poll, until the command to close."""
        while True:
            match self.command():
                case ["close"]:
                    self.tell("closing")
                    return
                case ["commit"]:
                    self.tell("committing")
                    commit()
                case ["subscribe", topics] if subscribe is not None:
                    self.tell("subscribing")
                    subscribe(topics.split(","))
                case ["revoke", ms]:
                    self.revoke_ms = int(ms)
                case ["nap", ms]:
                    self.nap(int(ms))
            poll()

    def nap(self, ms: int) -> None:
        """Do nothing for so long, or until the next command."""
        try:
            command = self._commands.get(timeout=ms / 1_000)
        except queue.Empty:
            command = "wake"
        if command != "wake":
            self._commands.put(command)
        self.tell("napped")

    def tell(self, event: str, **fields: Any) -> None:
        who = {} if self.member is None else {"member": self.member}
        line = json.dumps({"event": event, "at": time.time() * 1_000, **who, **fields})
        with _OUTPUT:
            print(line, flush=True)

    def tell_partitions(self, event: str, partitions: Iterable[Any]) -> None:
        """`partitions` have a topic and a number, whatever their library."""
        named = sorted(named_partition(each) for each in partitions)
        if named:
            self.tell(event, partitions=named)

    def tell_records(self, partition: Any, records: Sequence[tuple[int, bytes]]) -> None:
        """`records`: offset and value of each."""
        fields: dict[str, Any] = {"offsets": [offset for offset, _ in records]}
        if self._tells_digests:
            fields["sha256"] = [hashlib.sha256(value).hexdigest() for _, value in records]
        self.tell("records", partition=named_partition(partition), **fields)

    def tell_committed(self, offsets: Mapping[Any, int]) -> None:
        self.tell("committed", offsets={named_partition(each): offset for each, offset in offsets.items()})


def play(member: Callable[[Line], None]) -> None:
    """Be the program that runs `member`, or so many of them as the settings say; what one raises is told, and
    ends the program with exit code 1 once all have ended."""
    topics, *pairs = sys.argv[1:]
    settings = dict(pair.split("=", 1) for pair in pairs)
    count = settings.pop("members", None)
    numbers = [None] if count is None else range(1, int(count) + 1)
    lines = [Line(topics, settings, number) for number in numbers]
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    if count is None:
        fine = [_played(member, lines[0])]  # in the main thread, as a program of its own
    else:
        with ThreadPoolExecutor(len(lines)) as threads:
            fine = list(threads.map(lambda line: _played(member, line), lines))
    if not all(fine):
        sys.exit(1)


def _played(member: Callable[[Line], None], line: Line) -> bool:
    try:
        member(line)
    except Exception as failure:
        line.tell("failed", error=repr(failure))
        return False
    return True


def _read(lines: Sequence[Line]) -> None:
    for text in chain(sys.stdin, ("close",)):
        for line in lines:
            line.give(text.strip() or "nothing")


def named_partition(partition: Any) -> str:
    topic, number = partition if isinstance(partition, tuple) else (partition.topic, partition.partition)
    return f"{topic}-{number}"
