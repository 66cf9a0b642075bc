"""Large answers are packed beside the loop."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from actors.catalog import codec
from actors.leader.large_answers import PackingThread, is_large, take_apart
from actors.protocol import api_keys
from actors.protocol.messages import FetchedGroup, FetchedOffset, OffsetFetchResponse


def test_the_thread_gives_back_what_was_packed_in_the_order_it_was_asked() -> None:
    async def packed() -> list[bytes]:
        thread, answers = PackingThread(), asyncio.Queue[bytes]()
        for number in range(3):
            thread.pack(lambda number=number: bytes([number]), answers.put_nowait)  # type: ignore[misc]
        got = [await asyncio.wait_for(answers.get(), 30) for _ in range(3)]
        thread.close()
        return got

    usual_s = sys.getswitchinterval()
    assert asyncio.run(packed()) == [b"\0", b"\1", b"\2"]
    assert sys.getswitchinterval() == usual_s


def test_what_is_taken_apart_was_packed_before() -> None:
    rows: Any = [FetchedOffset(partition, 1) for partition in range(1_000)]
    body = OffsetFetchResponse((FetchedGroup("g", (("t", rows),)),))
    assert is_large(api_keys.OFFSET_FETCH, body)
    packed = codec.encode(api_keys.OFFSET_FETCH, 8, 1, body)
    assert packed == codec.encode(
        api_keys.OFFSET_FETCH, 8, 1, OffsetFetchResponse((FetchedGroup("g", (("t", tuple(rows)),)),))
    )
    take_apart(api_keys.OFFSET_FETCH, body)
    assert rows == []
