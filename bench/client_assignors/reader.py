"""A consumer that reads records with an assignor of its members', to be tried in two terminals.

    python -m bench.client_assignors.reader --group shop --topic orders --capacity 2

Ctrl-C commits, leaves the group, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Sequence
from typing import Final, cast

from actors.assignors.by_members.sticky import Sticky
from actors.assignors.by_members.weighted import CapacityWeighted
from actors.assignors.registry import class_of
from bench.client_assignors.consumer import GONE, RETRY_S, UNKNOWN, Address, AssigningConsumer, Partition
from bench.member.computing import ComputingMember, MemberAssignor
from bench.member.consumer import ConsumerTerms
from bench.push.records import values
from bench.swarm.records import requests
from cluster.wire import Wire

FETCH_WAIT_MS: Final = 500
OnRecord = Callable[[Partition, int, bytes | None], None]


class ReadingConsumer(AssigningConsumer):
    """A consumer that fetches from the leaders of its partitions, and commits when it gives them up."""

    def __init__(self, bootstrap: Sequence[Address], member: ComputingMember, on_record: OnRecord) -> None:
        super().__init__(bootstrap, member)
        self._on_record = on_record

    async def run(self) -> None:
        fetching = asyncio.create_task(self._fetch())
        try:
            await super().run()
        finally:
            fetching.cancel()

    async def _fetch(self) -> None:
        """Fetch what is owned, from one leader after the other. Whatever goes wrong is tried again."""
        while True:
            with contextlib.suppress(*GONE):
                for address, places in (await self._leaders()).items():
                    await self._fetch_from(address, places)
            await asyncio.sleep(RETRY_S)

    async def _leaders(self) -> dict[Address, list[Partition]]:
        """Ask a broker which partitions each leader has. Raises what is in GONE."""
        if not self.positions:
            return {}
        topics = [{"name": topic} for topic in sorted({topic for topic, _ in self.positions})]
        wire = await self.bootstrap()
        try:
            found = await wire.call("metadata", 5, topics=topics, allow_auto_topic_creation=False)
        finally:
            await wire.close()
        brokers = {each["node_id"]: (each["host"], each["port"]) for each in found["brokers"]}
        by_leader: dict[Address, list[Partition]] = {}
        for topic in found["topics"]:
            for row in topic["partitions"]:
                place = topic["name"], row["partition_index"]
                if place in self.positions and row["leader_id"] in brokers:
                    by_leader.setdefault(brokers[row["leader_id"]], []).append(place)
        return by_leader

    async def _fetch_from(self, address: Address, places: list[Partition]) -> None:
        wire = await self._connect(address)
        try:
            for place in places:
                if self.positions.get(place) == UNKNOWN:
                    await self._find_earliest(wire, place)
            offsets = {place: self.positions[place] for place in places if self.positions.get(place, -1) >= 0}
            if not offsets:
                return
            told = await wire.call(
                "fetch", requests.FETCH_VERSION, **requests.fetch_fields(offsets, FETCH_WAIT_MS)
            )
            for topic in told["responses"]:
                for row in topic["partitions"]:
                    self._take_records((topic["topic"], row["partition_index"]), row)
        finally:
            await wire.close()

    def _take_records(self, place: Partition, row: dict[str, object]) -> None:
        """Take the records of one partition, unless it has been given up meanwhile."""
        if row["error_code"] == requests.OUT_OF_RANGE and place in self.positions:
            self.positions[place] = UNKNOWN
        if row["error_code"] or place not in self.positions:
            return
        records = row["records"]
        assert records is None or isinstance(records, bytes)
        for offset, value in values(records, self.positions[place]):
            self._on_record(place, offset, value)
            self.positions[place] = offset + 1

    async def _find_earliest(self, wire: Wire, place: Partition) -> None:
        row = {"partition_index": place[1], "timestamp": requests.EARLIEST}
        topics = ({"name": place[0], "partitions": (row,)},)
        told = await wire.call("list_offsets", 2, replica_id=-1, isolation_level=0, topics=topics)
        found = told["topics"][0]["partitions"][0]
        if not found["error_code"] and place in self.positions:
            self.positions[place] = int(found["offset"])


# The program.


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host or "localhost", int(port)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A consumer whose group's members assign.")
    parser.add_argument("--bootstrap", default="localhost:9092", help="host:port, several with commas")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", action="append", required=True, help="may be given several times")
    parser.add_argument("--id", default=f"consumer-{os.getpid()}-{uuid.uuid4().hex[:8]}", help="member id")
    parser.add_argument("--capacity", type=int, default=1, help="how much it takes beside the others")
    parser.add_argument(
        "--assignor",
        action="append",
        default=[],
        help="module:Class or an entry point of groupd.assignors, instead of the two that come with it",
    )
    return parser.parse_args()


def _made(entry: str) -> MemberAssignor:
    return cast(MemberAssignor, class_of(entry)())


async def _main() -> None:
    given = _arguments()
    assignors = [_made(entry) for entry in given.assignor] or [CapacityWeighted(given.capacity), Sticky()]
    member = ComputingMember(ConsumerTerms(given.group, tuple(given.topic)), given.id, assignors)

    def show(place: Partition, offset: int, value: bytes | None) -> None:
        text = "(null)" if value is None else value.decode(errors="replace")
        print(f"{place[0]}-{place[1]} @{offset}: {text}", flush=True)

    consumer = ReadingConsumer([_address(each) for each in given.bootstrap.split(",")], member, show)

    def changed() -> None:
        owned = ", ".join(f"{topic}-{number}" for topic, number in sorted(consumer.positions)) or "nothing"
        print(f"{given.id} reads {owned}", flush=True)

    def installed(install: object, error: int, words: str | None) -> None:
        print(
            f"{given.id} computed the assignment: {words or f'error {error}' if error else 'taken'}",
            flush=True,
        )

    consumer.on_change, consumer.on_installed = changed, installed
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, consumer.close)
    await consumer.run()


if __name__ == "__main__":
    asyncio.run(_main())
