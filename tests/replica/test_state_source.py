"""A copy of a replica's state is read in pieces; there is one at a time, and it is gone when its reader
is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from actors.coordinator.restore import RESTORE, RestoreRequest
from actors.ground.contract import Request
from actors.ground.records import OFFSET_COMMIT
from actors.replica import state_source
from actors.replica.host import ReplicaHost
from actors.replica.state_source import PIECE_BYTES_MAX, StateSource
from tests.coordinator.alone import TYPES
from tests.coordinator.shards import new_shard
from tests.ground.specs import spec_in
from tests.polling import reached

RECORDS = 5_000


class Source(StateSource):
    """An actor with one replica, alone in its group, and no clients."""

    def __init__(self, directory: Path) -> None:
        spec = spec_in(directory)
        self.answers: list[Any] = []
        self._host = ReplicaHost(
            spec,
            "partition-0",
            0,
            new_shard=new_shard,
            record_types=TYPES,
            release=lambda _, answer: self.answers.append(answer),
            on_events=lambda _: None,
            on_turn=lambda: None,
        )
        super().__init__(spec.data_dir, "source")

    async def _open(self) -> None:
        await self._host.start()

    async def stop(self) -> None:
        await self._host.stop()

    async def write(self, records: int) -> None:
        """Commit so many offsets, and wait until they are committed."""
        await reached(lambda: self._host.replica.serving)
        value = (1, -1, "", 0, -1, bytes(16))
        body = RestoreRequest(tuple(((OFFSET_COMMIT, "group", "t", n), value) for n in range(records)))
        expected = len(self.answers) + 1
        self._host.replica.submit(Request(1, RESTORE, 0, "", "", body), self._host.now_ms())
        self._host.wake()
        await reached(lambda: len(self.answers) == expected)


def run(directory: Path, story: Callable[[Source], Awaitable[None]]) -> None:
    async def whole() -> None:
        source = Source(directory)
        await source.start()
        try:
            await source.write(RECORDS)
            await story(source)
        finally:
            await source.stop()

    asyncio.run(whole())


def test_a_copy_is_read_in_pieces(tmp_path: Path) -> None:
    """Records committed after the copy's beginning are not in it."""

    async def story(source: Source) -> None:
        begun = await source.begin_copy()
        await source.write(RECORDS + 1)
        pieces = []
        while sum(map(len, pieces)) < begun["bytes"]:
            pieces.append(await source.copy_piece(begun["copy"], sum(map(len, pieces))))
        assert {len(piece) for piece in pieces[:-1]} == {PIECE_BYTES_MAX}
        unpacker = msgpack.Unpacker(use_list=False)
        unpacker.feed(b"".join(pieces))
        assert len(list(unpacker)) == 1 + RECORDS
        await source.end_copy(begun["copy"])
        later = await source.begin_copy()
        assert later["commit_index"] > begun["commit_index"] > 0

    run(tmp_path, story)


def test_one_copy_is_read_at_a_time(tmp_path: Path) -> None:
    async def story(source: Source) -> None:
        first = await source.begin_copy()
        with pytest.raises(RuntimeError, match="one at a time"):
            await source.begin_copy()
        await source.end_copy(first["copy"])
        second = await source.begin_copy()
        with pytest.raises(RuntimeError, match="copy 1 of source is gone"):
            await source.copy_piece(first["copy"], 0)
        assert await source.copy_piece(second["copy"], 0)

    run(tmp_path, story)


def test_a_copy_is_dropped_when_its_reader_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_source, "COPY_IDLE_S", 0.05)

    async def story(source: Source) -> None:
        begun = await source.begin_copy()
        await reached(lambda: source._copy is None)
        with pytest.raises(RuntimeError, match="its reader was silent for too long"):
            await source.copy_piece(begun["copy"], 0)
        assert (await source.begin_copy())["copy"] == begun["copy"] + 1

    run(tmp_path, story)
