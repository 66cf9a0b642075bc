"""Actors are looked up without waiting for a directory that is gone: what it said last is good still."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from actors import runtime
from actors.machines.far import FarActor
from tests.polling import reached

NAMESPACE = "test-look-up"
HUNG_S = 30.0


class Directory:
    """A directory of one actor, which hangs if it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.has: FarActor | None = FarActor("here", "broker-1", NAMESPACE)

    def find(self, name: str, namespace: str) -> FarActor | None:
        self.answers.wait(HUNG_S)
        return self.has

    def list_actors(self, namespace: str) -> set[str]:
        self.answers.wait(HUNG_S)
        return {"broker-1"}

    def call(self, handle: FarActor, method: str, args: Sequence[Any], timeout_s: float) -> Any:
        raise AssertionError("nobody is called here")


@pytest.fixture
def directory() -> Iterator[Directory]:
    made = Directory()
    runtime.use(made)
    yield made
    made.answers.set()
    runtime.use(None)


def test_a_hung_directory_holds_up_only_whoever_asks_first(directory: Directory) -> None:
    async def story() -> None:
        known = await runtime.look_up("broker-1", NAMESPACE)
        directory.answers.clear()
        assert await runtime.look_up("broker-1", NAMESPACE) == known
        began = time.monotonic()
        for _ in range(100):
            assert await runtime.look_up("broker-1", NAMESPACE) == known
            with pytest.raises(TimeoutError):
                await runtime.look_up("broker-2", NAMESPACE)
            with pytest.raises(TimeoutError):
                await runtime.look_up_names(NAMESPACE)
        assert time.monotonic() - began < runtime.LOOK_UP_TIMEOUT_S
        directory.answers.set()
        await reached(lambda: not runtime._LookedUp.late, "the directory has answered late")
        assert await runtime.look_up_names(NAMESPACE) == {"broker-1"}

    asyncio.run(story())


def test_an_actor_that_is_gone_is_forgotten(directory: Directory) -> None:
    async def story() -> None:
        await runtime.look_up("broker-1", NAMESPACE)
        directory.has = None
        assert await runtime.look_up("broker-1", NAMESPACE) is None
        directory.answers.clear()
        with pytest.raises(TimeoutError):
            await runtime.look_up("broker-1", NAMESPACE)
        directory.answers.set()
        await reached(lambda: not runtime._LookedUp.late, "the directory has answered late")

    asyncio.run(story())


def test_an_actor_that_is_known_is_looked_up_once_more_only_if_it_is_in_doubt(directory: Directory) -> None:
    async def story() -> None:
        first = await runtime.known("broker-1", NAMESPACE)
        directory.has = FarActor("elsewhere", "broker-1", NAMESPACE)
        assert await runtime.known("broker-1", NAMESPACE) == first
        runtime.doubt("broker-1", NAMESPACE)
        moved = await runtime.known("broker-1", NAMESPACE)
        assert moved == directory.has
        directory.has = None
        assert await runtime.known("broker-1", NAMESPACE) == moved

    asyncio.run(story())
