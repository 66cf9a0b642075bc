"""What the tier's actors have in common."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.ground.actor import Actor


def traced(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any) -> Any:
        return "traced", method(*args)

    return call


class Toy(Actor):
    def __init__(self, data_dir: str) -> None:
        self._unwrap("wrapped", "plain")
        super().__init__(data_dir, "toy")

    async def _open(self) -> None:
        pass

    @traced
    def wrapped(self) -> str:
        return self._name

    def plain(self) -> str:
        return self._name


async def called(data_dir: str) -> tuple[str, str]:
    toy = Toy(data_dir)
    await toy.start()
    return toy.wrapped(), toy.plain()


def test_methods_that_ray_has_wrapped_are_called_directly(tmp_path: Path) -> None:
    assert asyncio.run(called(str(tmp_path))) == ("toy", "toy")
