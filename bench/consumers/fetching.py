"""Fetching what one consumer owns, from each leader for itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Final

from actors.network.wire import Wire
from bench.consumers.asking import GONE, RETRY_S, Address
from bench.swarm.records import requests
from bench.swarm.records.requests import Partition

FETCH_WAIT_MS: Final = 500
UNKNOWN: Final = -1
"""The position of a partition that is read from where the consumer resets to."""

Take = Callable[[Partition, bytes | None], None]
"""A function that takes the records of one partition, and moves its position behind them."""


class Fetcher:
    """Fetches from the positions on, which `take` moves, until the task of `run` is cancelled. `reset_to` is
    a timestamp of ListOffsets."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        client_id: str,
        positions: dict[Partition, int],
        take: Take,
        reset_to: int = requests.EARLIEST,
    ) -> None:
        self._brokers = itertools.cycle(bootstrap)
        self._client_id = client_id
        self._positions = positions
        self._take = take
        self._reset_to = reset_to

    async def run(self) -> None:
        while True:
            with contextlib.suppress(*GONE):
                by_leader = await self._leaders()
                async with asyncio.TaskGroup() as group:
                    for address, places in by_leader.items():
                        group.create_task(self._fetch_from(address, places))
            await asyncio.sleep(RETRY_S)

    async def _leaders(self) -> dict[Address, list[Partition]]:
        """Ask a broker which partitions each leader has. Raises what is in GONE."""
        topics = [{"name": topic} for topic in sorted({topic for topic, _ in self._positions})]
        wire = await Wire.connect(*next(self._brokers), self._client_id)
        try:
            found = await wire.call("metadata", 5, topics=topics, allow_auto_topic_creation=False)
        finally:
            await wire.close()
        brokers = {each["node_id"]: (each["host"], each["port"]) for each in found["brokers"]}
        by_leader: dict[Address, list[Partition]] = {}
        for topic in found["topics"]:
            for row in topic["partitions"]:
                place = topic["name"], row["partition_index"]
                if place in self._positions and row["leader_id"] in brokers:
                    by_leader.setdefault(brokers[row["leader_id"]], []).append(place)
        return by_leader

    async def _fetch_from(self, address: Address, places: list[Partition]) -> None:
        """Fetch from one leader until it is gone or leads other partitions. It ends in silence: `run` begins
        anew."""
        with contextlib.suppress(*GONE):
            wire = await Wire.connect(*address, self._client_id)
            try:
                while await self._fetch_once(wire, places):
                    pass
            finally:
                await wire.close()

    async def _fetch_once(self, wire: Wire, places: list[Partition]) -> bool:
        positions = self._positions
        for place in places:
            if positions[place] < 0:
                positions[place] = await self._reset(wire, place)
        fields = requests.fetch_fields({place: positions[place] for place in places}, FETCH_WAIT_MS)
        told = await wire.call("fetch", requests.FETCH_VERSION, **fields)
        is_fine = not told["error_code"]
        for topic in told["responses"]:
            for row in topic["partitions"]:
                place = topic["topic"], row["partition_index"]
                if row["error_code"] == requests.OUT_OF_RANGE:
                    positions[place] = UNKNOWN
                elif row["error_code"]:
                    is_fine = False
                else:
                    self._take(place, row["records"])
        return is_fine

    async def _reset(self, wire: Wire, place: Partition) -> int:
        """Find where to begin without an offset. Raises what is in GONE."""
        row = {"partition_index": place[1], "timestamp": self._reset_to}
        topics = [{"name": place[0], "partitions": [row]}]
        told = await wire.call("list_offsets", 2, replica_id=-1, isolation_level=0, topics=topics)
        found = told["topics"][0]["partitions"][0]
        if found["error_code"]:
            raise TimeoutError(f"no offset of {place}: error {found['error_code']}")
        return int(found["offset"])
