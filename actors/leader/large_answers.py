"""Answers so large that packing them would hold up other clients' heartbeats: a thread packs them instead.

There is one thread for all of them, because several would take the interpreter from the loop one after the
other. While it packs, the interpreter changes hands much sooner than after Python's 5 ms.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from actors.ground.tasks import Tasks
from actors.protocol.api_keys import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, LIST_GROUPS, OFFSET_FETCH

SMALL_MAX: Final = 500
"""How many groups, members or offsets an answer may have to be packed at once, in a few milliseconds."""
SHORT_SWITCH_S: Final = 0.0005
"""How long, in seconds, the thread may keep the interpreter from the loop."""

Pack = Callable[[], bytes]
Beside = Callable[[Pack, Callable[[bytes], None]], None]
"""A function that runs its first argument, which never raises, in a thread, and gives what that returns to
its second argument, back in the loop."""


def _members(body: Any) -> int:
    return sum(len(group.members) for group in body.groups)


def _groups(body: Any) -> int:
    return len(body.groups)


def _offsets(body: Any) -> int:
    return sum(len(partitions) for group in body.groups for _, partitions in group.topics)


_SIZES: Final[dict[int, Callable[[Any], int]]] = {
    DESCRIBE_GROUPS: _members,
    CONSUMER_GROUP_DESCRIBE: _members,
    LIST_GROUPS: _groups,
    OFFSET_FETCH: _offsets,
}


def is_large(api_key: int, body: Any) -> bool:
    size = _SIZES.get(api_key)
    return size is not None and size(body) > SMALL_MAX


def take_apart(api_key: int, body: Any) -> None:
    """Free the objects that a packed answer was made of piece by piece: a million objects that go with one
    reference are a tenth of a second in which no other thread runs."""
    if api_key == OFFSET_FETCH:
        for group in body.groups:
            for _, partitions in group.topics:
                if isinstance(partitions, list):
                    partitions.clear()


class PackingThread:
    """The thread that packs one replica's large answers."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-answers")
        self._tasks = Tasks("the packing of a large answer")
        self._usual_switch_s = sys.getswitchinterval()
        self._waiting = 0

    def pack(self, pack: Pack, answer: Callable[[bytes], None]) -> None:
        """Have `pack` run in the thread, and `answer` called with its result in the loop."""
        self._tasks.spawn(self._pack(pack, answer))

    def close(self) -> None:
        """End the thread. Answers that it has not packed are not given."""
        self._tasks.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _pack(self, pack: Pack, answer: Callable[[bytes], None]) -> None:
        self._waiting += 1
        sys.setswitchinterval(SHORT_SWITCH_S)
        try:
            answer(await asyncio.get_running_loop().run_in_executor(self._thread, pack))
        finally:
            self._waiting -= 1
            if not self._waiting:
                sys.setswitchinterval(self._usual_switch_s)
