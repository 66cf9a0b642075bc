"""A log that a real Kafka has compacted is taken over: most of its offsets have no record any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from actors.ground.topic_names import OFFSETS_TOPIC
from actors.upstream.offsets_log.reading import pieces
from tests.coordinator.take_over.taker import Taker
from tests.kafka import jvm
from tests.oracle.broker import KafkaBroker
from tests.oracle.profiles import PROFILES
from tests.upstream.offsets_log.cast import DEADLINE_S, WIDE, WIDE_PARTITIONS, Cast, create_topics
from tests.upstream.offsets_log.real_log import connected, fetched, image_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
SEGMENT_BYTES = 1_048_576
"""The smallest segment that Kafka has. What is in the last one is not compacted."""
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
    "log.cleaner.backoff.ms": "100",
}
GROUPS = 20
ROUNDS = 15
OTHER = "second-generation"


def compact_soon(bootstrap: str) -> None:
    settings = {"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(DEADLINE_S)


async def _write(cast: Cast, bootstrap: str) -> None:
    """Commit the same offsets again and again, with transactions of every outcome in between."""
    await cast.wait_until_coordinated()
    await asyncio.to_thread(compact_soon, bootstrap)
    for number in range(ROUNDS):
        for group in range(GROUPS):
            offsets = {partition: 1_000 * number + partition for partition in range(WIDE_PARTITIONS)}
            await cast.commit(f"group-{group}", offsets, topic=WIDE)
        await cast.second_generation(f"transaction-{number}", number % 6, number % 3 > 0)
    await cast.second_generation("open", 0, None)


async def _taken(cast: Cast) -> tuple[Taker, int]:
    """Take the log over as it is now. Returns how many records it had, too."""
    taker, records = Taker(await image_of(cast.wire)), 0
    while fetch := await fetched(cast.wire, taker.next_offset):
        records += sum(len(piece.records) for piece in pieces(fetch, taker.next_offset))
        taker.take(fetch)
    return taker, records


async def _told(cast: Cast, group_id: str) -> dict[tuple[str, int], int]:
    group = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
    answer = await cast.wire.call("offset_fetch", 9, groups=[group], require_stable=False)
    [told] = answer["groups"]
    return {
        (topic["name"], each["partition_index"]): each["committed_offset"]
        for topic in told["topics"]
        for each in topic["partitions"]
    }


async def _story(bootstrap: str) -> tuple[Taker, int, dict[str, Any]]:
    cast = Cast(bootstrap, await connected(bootstrap))
    try:
        await _write(cast, bootstrap)
        whole = ROUNDS * GROUPS * WIDE_PARTITIONS
        async with asyncio.timeout(DEADLINE_S):
            while (found := await _taken(cast))[1] > whole // 4:
                await asyncio.sleep(0.5)
        group_ids = (*(f"group-{number}" for number in range(GROUPS)), OTHER)
        return *found, {group_id: await _told(cast, group_id) for group_id in group_ids}
    finally:
        await cast.close()
        await cast.wire.close()


def test_a_log_that_kafka_has_compacted_has_the_offsets_that_kafka_has() -> None:
    reason = jvm.missing()
    if reason is not None:
        pytest.skip(reason)
    with KafkaBroker(PROFILES["base"].of_kafka() | SETTINGS) as broker:
        create_topics(broker.bootstrap)
        taker, records, told = asyncio.run(_story(broker.bootstrap))
    assert records < taker.next_offset
    assert taker.serve().error_code == 0
    assert {group_id: taker.offsets(group_id) for group_id in told} == told
    assert all(told.values())
