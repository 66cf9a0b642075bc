"""A consumer that reads records with an assignor of its members', to be tried in two terminals.

    python -m bench.client_assignors.reader --group shop --topic orders --capacity 2

Ctrl-C commits, leaves the group, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import uuid
from collections.abc import Callable, Sequence
from typing import cast

from actors.assignors.by_members.sticky import Sticky
from actors.assignors.by_members.weighted import CapacityWeighted
from actors.assignors.registry import class_of
from bench.client_assignors.consumer import AssigningConsumer
from bench.consumers.asking import Address, addresses
from bench.consumers.fetching import Fetcher
from bench.consumers.records import values
from bench.member.computing import ComputingMember, MemberAssignor
from bench.member.consumer import ConsumerTerms
from bench.swarm.records.requests import Partition

OnRecord = Callable[[Partition, int, bytes | None], None]


class ReadingConsumer(AssigningConsumer):
    """A consumer that fetches from the leaders of its partitions, and commits when it gives them up."""

    def __init__(self, bootstrap: Sequence[Address], member: ComputingMember, on_record: OnRecord) -> None:
        super().__init__(bootstrap, member)
        self._on_record = on_record
        self._fetching: asyncio.Task[None] | None = None

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            self._halt()

    def _take(self, positions: dict[Partition, int]) -> None:
        self._halt()
        super()._take(positions)
        if positions:
            fetcher = Fetcher(self._bootstrap, self.member.member_id, positions, self._read)
            self._fetching = asyncio.create_task(fetcher.run())

    def _halt(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None

    def _read(self, place: Partition, records: bytes | None) -> None:
        """Take the records of one partition. The position is behind what has been seen."""
        for offset, value in values(records, self.positions[place]):
            self._on_record(place, offset, value)
            self.positions[place] = offset + 1


# The program.


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

    consumer = ReadingConsumer(addresses(given.bootstrap), member, show)

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
