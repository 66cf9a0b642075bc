"""A broker of a real Kafka is elected by hand to lead an offsets partition that the tier alone has, and that
it does not serve: because it had not begun yet, or because it was giving it back. What Kafka had acknowledged
survives, and what the broker acknowledges comes on top. Kafka 4.4 and 4.3.

The story plays the controller's part, as in `test_taking_over_kafka`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.upstream.image import NO_LEADER
from actors.upstream.orders import RETAKE, RETAKEN, SEAL, SEALED
from actors.upstream.requests import UNCLEAN
from bench.peers.kafka_nodes import KafkaNodes
from tests.polling import reached
from tests.upstream.conftest import started
from tests.upstream.kafka import wired
from tests.upstream.offsets_log.cast import until
from tests.upstream.site import TOPIC, Site, fence, heartbeat, reassign, running
from tests.upstream.test_taking_over_kafka import (
    COMMITTED,
    TIER,
    TakeOver,
    check,
    committing,
    coordinator,
    fill,
    group_of,
    taking_over,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

LATE = group_of(0, "late")
"""A group that has committed at the broker alone."""


@pytest.fixture(scope="module")
def calm(version: str) -> Iterator[KafkaNodes]:
    """A cluster of one node, which fences nobody because this process is busy with its clients."""
    yield from started(version, 1, {"broker.session.timeout.ms": "18000"})


async def elect_the_broker(over: TakeOver) -> None:
    """Have the broker lead, which has nothing any more, while the tier's nodes are away."""
    site = over.site
    for node in TIER:
        await site.kill(node)
        await fence(site, node)
    await site.until(lambda image: over.state(image).leader == NO_LEADER, "nobody leads")
    await reassign(site, TOPIC, 0, [1])
    named = [{"topic": TOPIC, "partitions": [0]}]
    answer = await site.broker.call(
        "elect_leaders", 2, election_type=UNCLEAN, topic_partitions=named, timeout=10_000
    )
    assert not answer["error_code"], answer
    await site.until(lambda image: over.state(image).leader == 1, "the broker leads")
    await reassign(site, TOPIC, 0, [1])  # the election has left that undone
    await site.until(lambda image: over.state(image).replicas == (1,), "it is the only replica")


async def commit_late(site: Site) -> None:
    """Commit at the broker, as a client that is no member."""
    offset = {"committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
    who = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": COMMITTED, "partitions": [{"partition_index": 0, **offset}]}]
    async with wired(*await coordinator(site)) as wire:
        await until(
            lambda: wire.call("offset_commit", 8, group_id=LATE, **who, topics=topics),
            lambda answer: not answer["topics"][0]["partitions"][0]["error_code"],
        )


@pytest.mark.parametrize("is_sealed", [False, True], ids=["not-served-yet", "sealed"])
def test_what_the_tier_alone_has_survives(
    calm: KafkaNodes, version: str, tmp_path: Path, *, is_sealed: bool
) -> None:
    async def story() -> None:
        async with taking_over(calm, tmp_path) as over:
            await fill(over.site)
            async with committing(over) as committers:
                async with running(over.keep_ordering()):
                    await over.join()
                    if is_sealed:
                        await over.lead()
                if is_sealed:
                    await over.group.until(over.order(SEAL), SEALED)
                else:
                    await reassign(over.site, TOPIC, 0, list(TIER))
                    await over.site.until(lambda image: over.state(image).replicas == TIER, "the tier has it")
            await elect_the_broker(over)
            await commit_late(over.site)
            await over.site.start(*TIER)
            for node in TIER:
                await heartbeat(over.site, node, cordoned=False)
            if is_sealed:
                await over.group.until(over.order(RETAKE), RETAKEN)
            async with running(over.keep_ordering()):
                await over.join()
                await reached(lambda: over.standing.phase == RETAKEN, "it is kept, and followed")
                await over.lead()
            await check(over, committers)
            offsets = (await over.group.shard()).state.offsets
            assert offsets[LATE][COMMITTED, 0].offset == 7

    asyncio.run(story())
