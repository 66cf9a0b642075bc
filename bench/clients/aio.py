"""A member of aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.helpers import create_ssl_context

from bench.clients.line import Line, play

POLL_MS = 50


class Member(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """An aiokafka consumer; it always revokes everything before it joins again."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._owned: set[Any] = set()
        self._polled: dict[Any, int] = {}
        ours = {"enable_auto_commit": False, "partition_assignment_strategy": (RangePartitionAssignor,)}
        settings = line.keywords()
        if (authority := settings.pop("ssl_cafile", None)) is not None:
            settings["ssl_context"] = create_ssl_context(cafile=authority)
        self._consumer = aiokafka.AIOKafkaConsumer(**({"fetch_max_wait_ms": 100} | settings | ours))

    async def run(self) -> None:
        line, consumer = self._line, self._consumer
        if line.pattern is None:
            consumer.subscribe(line.topics, listener=self)
        else:
            consumer.subscribe(pattern=f"^{line.pattern}$", listener=self)
        await consumer.start()
        while True:
            match line.command():
                case ["close"]:
                    break
                case ["commit"]:
                    await self._commit()
                case ["nap", ms]:
                    await asyncio.to_thread(line.nap, int(ms))  # its heartbeats go on in the loop
            await self._poll()
        line.tell_partitions("revoked", self._owned)  # its stop tells nobody
        await consumer.stop()
        line.tell("closed")

    async def _poll(self) -> None:
        got = await self._consumer.getmany(timeout_ms=POLL_MS)
        for partition, records in got.items():
            self._polled[partition] = records[-1].offset + 1
            self._line.tell_records(partition, [(record.offset, record.value) for record in records])
        if got and self._line.commits_each_poll:
            await self._commit()

    async def _commit(self) -> None:
        offsets = dict(self._polled)
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except (aiokafka.errors.KafkaError, ValueError) as error:
            self._line.tell("refused", error=repr(error))
        else:
            self._line.tell_committed(offsets)

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        self._polled.clear()
        self._line.tell_partitions("revoked", self._owned)
        self._owned = set()

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._owned = set(assigned)
        self._line.tell_partitions("assigned", assigned)


async def main(line: Line) -> None:
    """aiokafka makes its consumer inside a running loop only."""
    await Member(line).run()


if __name__ == "__main__":
    play(lambda line: asyncio.run(main(line)))
