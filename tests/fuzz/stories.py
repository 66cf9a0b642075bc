"""Stories at the real actors of the fuzzer's stack: one after the other, in time that leaps."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable

from tests.fuzz.leaping import LeapingLoop
from tests.fuzz.stack import Socket, Stack


def frames_of(socket: Socket) -> list[bytes]:
    written, frames = bytes(socket.written), []
    socket.written.clear()
    while written:
        size = int.from_bytes(written[:4], "big")
        frames.append(written[4 : 4 + size])
        written = written[4 + size :]
    return frames


def play(story: Callable[[Stack], Awaitable[None]]) -> None:
    loop = LeapingLoop()

    async def told(data_dir: str) -> None:
        stack = Stack(loop, data_dir)
        await stack.start()
        await story(stack)
        stack.stop_working()
        await stack.stop()

    with tempfile.TemporaryDirectory(prefix="groupd-fuzz-") as data_dir:
        try:
            loop.run_until_complete(told(data_dir))
        finally:
            loop.close()
