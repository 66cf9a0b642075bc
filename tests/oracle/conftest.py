"""The servers that transcripts are played against: those of one profile at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.kafka import jvm
from tests.oracle import servers
from tests.oracle.play import Address

Starter = Callable[[], AbstractContextManager[Address]]


class Running:
    """The servers of the profile that was asked for last. Transcripts come sorted by profile: starting a
    server takes longer than playing a hundred of them."""

    def __init__(self) -> None:
        self._profile = ""
        self._stack = ExitStack()
        self._servers: dict[str, Address] = {}

    def tier(self, profile: str) -> Address:
        return self._of("tier", profile, lambda: servers.tier(profile))

    def kafka(self, profile: str) -> Address:
        return self._of("kafka", profile, lambda: servers.kafka(profile))

    def _of(self, kind: str, profile: str, start: Starter) -> Address:
        if profile != self._profile:
            self.stop()
            self._profile = profile
        if kind not in self._servers:
            self._servers[kind] = self._stack.enter_context(start())
        return self._servers[kind]

    def stop(self) -> None:
        self._servers.clear()
        self._stack.close()


@pytest.fixture(scope="session")
def running() -> Iterator[Running]:
    found = Running()
    yield found
    found.stop()


@pytest.fixture
def needs_kafka() -> None:
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
