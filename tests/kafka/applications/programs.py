"""The applications' programs in Java: how each is built and started, and how its processes are waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from bench.clients.member import Member
from tests.kafka import jvm
from tests.polling import until

HERE = Path(__file__).parent
GRACE_S = 30.0


class Program(NamedTuple):
    """A Maven project in this folder, and the class that it runs."""

    project: str
    main: str
    arguments: tuple[str, ...] = ()
    """Arguments that come before all others."""

    def command(self) -> list[str]:
        return jvm.command(
            jvm.build(HERE / self.project, kafka_version=None), f"groupd.{self.main}", *self.arguments
        )


def word_count(lines: str) -> Program:
    """The Streams application that counts the words of a topic."""
    return Program("streams", "WordCount", (lines,))


WORKER = Program("connect", "Worker")


def work(processes: Iterable[Member], seconds: float) -> None:
    """Let processes work for so long; fails at once when one has ended."""
    end = time.monotonic() + seconds
    wait(processes, lambda: time.monotonic() >= end, "their time is over", seconds + GRACE_S)


def wait(processes: Iterable[Member], holds: Callable[[], bool], what: str, deadline_s: float) -> None:
    """Poll until it holds; fails at once when one of `processes` has ended, with the words of them all."""

    def checked() -> bool:
        for each in processes:
            each.check()
        return holds()

    try:
        until(checked, what, deadline_s)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{story(processes)}") from None


def story(processes: Iterable[Member]) -> str:
    return "\n".join(each.story() for each in processes)
