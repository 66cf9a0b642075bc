"""An offsets partition of a real Kafka moves to a tier while clients commit: Kafka 4.4 and 4.3.

The story plays the controller's part: it registers nodes, gives orders and reassigns the partition. How long
it took is printed; `pytest -s` shows it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from actors.protocol.java_hash import partition_for
from actors.upstream import offsets_following
from actors.upstream.image import Partition
from actors.upstream.orders import DROP, FOLLOW, FOLLOWED, NOTHING, SERVE, SERVED, Order, Source, Standing
from bench.peers.kafka_nodes import KafkaNodes
from tests.polling import reached
from tests.upstream.committers import Committers
from tests.upstream.conftest import started
from tests.upstream.kafka import create_topic, wired
from tests.upstream.metadata_log import Image
from tests.upstream.offsets_log.cast import until
from tests.upstream.offsets_log.real_log import image_of
from tests.upstream.replicas import Replicas, replicas
from tests.upstream.site import TOPIC, Site, heartbeat, reassign, running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

TIER = (1001, 1002, 1003)
OFFSETS_PARTITIONS = 4
COMMITTED, WIDE = "committed", "wide"
WIDE_PARTITIONS = 100
FILLING = 60
"""How many groups have committed for each partition of the wide topic before the partition moves."""
ORDER_S = 0.05
ENOUGH = 20
STOP_S = 60.0


@pytest.fixture(scope="module")
def calm(version: str) -> Iterator[KafkaNodes]:
    """A cluster of three nodes, which fences nobody because this process is busy with its clients."""
    yield from started(version, 3, {"broker.session.timeout.ms": "18000"})


def group_of(number: int, prefix: str) -> str:
    """Return a group of offsets partition 0."""
    names = (f"{prefix}-{number}-{salt}" for salt in range(1_000))
    return next(name for name in names if partition_for(name, OFFSETS_PARTITIONS) == 0)


class TakeOver:
    """Offsets partition 0 on its way to the tier."""

    def __init__(self, site: Site, group: Replicas, directory: Path) -> None:
        self.site = site
        self.directory = directory
        self.group = group
        self.standing = Standing()
        self.is_wanted = True
        self.outside: tuple[int, ...] = ()
        """The replicas that the partition had before."""

    def state(self, image: Image | None = None) -> Partition:
        """Return the partition as the metadata has it."""
        return (image or self.site.log.image()).partitions[self.site.topic_id(), 0]

    def order(self, order: str) -> Order:
        """Return an order as the controller would give it now."""
        image = self.site.log.image()
        state = self.state(image)
        broker = image.brokers.get(state.leader)
        source = None
        if broker is not None:
            endpoint = broker.endpoints[0]
            source = Source(state.leader, endpoint.host, endpoint.port, state.leader_epoch)
        epochs = tuple((each, image.brokers[each].broker_epoch) for each in TIER)
        return Order(order, self.site.topic_id(), source, epochs, state.leader_epoch)

    async def keep_ordering(self) -> None:
        """Give orders as the controller does: follow, and serve once a node of the tier leads."""
        while True:
            leads = self.state().leader in TIER
            wanted = (SERVE if leads else FOLLOW) if self.is_wanted else DROP
            self.standing = await self.group.order(self.order(wanted))
            await asyncio.sleep(ORDER_S)

    async def join(self) -> None:
        """Have Kafka make the tier's nodes replicas beside its own, and wait until all are in sync."""
        self.outside = tuple(each for each in self.state().replicas if each not in TIER)
        await reassign(self.site, TOPIC, 0, [*self.outside, *TIER])
        await self.site.until(lambda image: set(TIER) <= set(self.state(image).isr), "all are in sync")

    async def lead(self) -> None:
        """Have Kafka give the partition to the tier alone, and wait until it is served there."""
        await reassign(self.site, TOPIC, 0, list(TIER))
        await self.site.until(lambda image: self.state(image).replicas == TIER, "the tier has it alone")
        assert self.state().leader in TIER
        await reached(lambda: self.standing.phase == SERVED, "it is served")


@asynccontextmanager
async def taking_over(nodes: KafkaNodes, directory: Path) -> AsyncIterator[TakeOver]:
    """A cluster with groups, nodes of a tier that are brokers there, and the replicas of partition 0."""
    async with Site(nodes, directory) as site:
        for name, partitions in ((COMMITTED, 1), (WIDE, WIDE_PARTITIONS)):
            await create_topic(site.broker, name, partitions)
        await coordinator(site)
        await site.start(*TIER)
        image = await image_of(site.broker)
        for node in TIER:
            await heartbeat(site, node, cordoned=False)
        try:
            async with replicas(directory / "tier", len(TIER), image) as group:
                yield TakeOver(site, group, directory)
        finally:
            for node in TIER:  # clients that are still there have brokers make the topic anew
                await heartbeat(site, node, cordoned=True)
            topics = [{"name": name, "topic_id": None} for name in (COMMITTED, WIDE)]
            await site.broker.call("delete_topics", 6, topics=topics, timeout=10_000)


async def coordinator(site: Site) -> tuple[str, int]:
    """Return where the groups of the partition are coordinated; Kafka makes the topic if there is none."""
    answer = await until(
        lambda: site.broker.call("find_coordinator", 4, key_type=0, coordinator_keys=[group_of(0, "any")]),
        lambda answer: answer["coordinators"][0]["error_code"] == 0,
    )
    [found] = answer["coordinators"]
    return found["host"], found["port"]


async def fill(site: Site) -> None:
    """Commit offsets of many groups, so that there is something to be read."""
    partitions = [
        {
            "partition_index": number,
            "committed_offset": number,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for number in range(WIDE_PARTITIONS)
    ]
    who = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": WIDE, "partitions": partitions}]
    async with wired(*await coordinator(site)) as wire:
        for number in range(FILLING):
            group_id = group_of(number, "filling")
            await until(
                partial(wire.call, "offset_commit", 8, group_id=group_id, **who, topics=topics),
                lambda answer: not any(row["error_code"] for row in answer["topics"][0]["partitions"]),
            )


@asynccontextmanager
async def committing(over: TakeOver) -> AsyncIterator[Committers]:
    """Five clients that commit all the time."""
    nodes = over.site.nodes
    bootstrap = ",".join(f"{host}:{port}" for host, port in map(nodes.address, nodes.numbers))
    committers = Committers(bootstrap, COMMITTED)
    story = over.directory.name
    for number in range(2):
        committers.in_librdkafka(group_of(number, f"{story}-simple"))
    classic = {"group_protocol": "classic", "session_timeout_ms": 6_000}
    committers.in_librdkafka(group_of(0, f"{story}-classic"), **classic)
    committers.in_librdkafka(group_of(0, f"{story}-consumer"), group_protocol="consumer")
    await committers.in_aiokafka(group_of(0, f"{story}-aiokafka"))
    try:
        await acknowledged(committers, ENOUGH)
        yield committers
    finally:
        await committers.stop()


async def acknowledged(committers: Committers, more: int) -> None:
    """Wait until each client has so many more commits acknowledged."""
    before = committers.commits
    await reached(
        lambda: all(
            each.acknowledged >= before[group_id].acknowledged + more
            for group_id, each in committers.commits.items()
        ),
        f"{more} more commits of each",
        90,
    )


async def check(over: TakeOver, committers: Committers) -> None:
    """Check that the shard has what was acknowledged, of the filling too."""
    offsets = (await over.group.shard()).state.offsets
    for group_id, commit in committers.commits.items():
        kept = offsets[group_id][COMMITTED, 0].offset
        assert commit.acknowledged <= kept <= commit.tried, (commit, kept)
    for number in range(FILLING):
        kept_wide = {key[1]: value.offset for key, value in offsets[group_of(number, "filling")].items()}
        assert kept_wide == {each: each for each in range(WIDE_PARTITIONS)}


def told(version: str, began: float, over: TakeOver, committers: Committers) -> str:
    gap_s = max(each.longest_gap_s for each in committers.commits.values())
    count = sum(each.acknowledged + 1 for each in committers.commits.values())
    return (
        f"\nKafka {version}: moved and served {time.monotonic() - began:.2f} s after the reassignment, "
        f"{over.standing.next_offset} offsets of the log, {count} commits, longest gap {gap_s:.2f} s"
    )


def test_every_acknowledged_commit_is_there_when_the_tier_leads(
    calm: KafkaNodes, version: str, tmp_path: Path
) -> None:
    async def story() -> str:
        async with taking_over(calm, tmp_path) as over:
            await fill(over.site)
            async with committing(over) as committers, running(over.keep_ordering()):
                began = time.monotonic()
                await over.join()
                await over.lead()
                said = told(version, began, over, committers)
            await check(over, committers)
            return said

    print(asyncio.run(story()))


def test_a_leader_of_ours_that_dies_in_the_middle_costs_no_commit(
    calm: KafkaNodes, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut off while the log is read, and commits are acknowledged behind the next one's replicas."""
    monkeypatch.setattr(offsets_following, "FETCH_BYTES_MAX", 20_000)

    async def story() -> str:
        async with taking_over(calm, tmp_path) as over:
            await fill(over.site)
            async with committing(over) as committers, running(over.keep_ordering()):
                began = time.monotonic()
                joining = asyncio.create_task(over.join())
                await reached(lambda: over.standing.records > 500, "some of the log is taken")
                taken = over.standing.next_offset
                await over.group.cut_off()
                await reached(lambda: over.standing.next_offset > taken, "the next leader goes on")
                assert over.standing.records < over.standing.next_offset, "it has not begun anew"
                await joining
                await acknowledged(committers, ENOUGH)
                await over.lead()
                said = told(version, began, over, committers)
            await check(over, committers)
            return said

    print(asyncio.run(story()))


def test_a_broker_that_leads_may_stop_in_the_middle(calm: KafkaNodes, version: str, tmp_path: Path) -> None:
    """The tier's nodes are in sync already, and may have records that the next leader has not."""

    async def story() -> str:
        async with taking_over(calm, tmp_path) as over:
            await fill(over.site)
            async with committing(over) as committers, running(over.keep_ordering()):
                await reassign(over.site, TOPIC, 0, [1, 2, 3])
                await over.site.until(lambda image: over.state(image).leader == 1, "broker 1 leads")
                began = time.monotonic()
                await over.join()
                calm.process(1).send_signal(signal.SIGTERM)
                await over.site.until(lambda image: over.state(image).leader == 2, "broker 2 leads")
                await acknowledged(committers, ENOUGH)
                await over.site.until(
                    lambda image: set(TIER) <= set(over.state(image).isr), "all are in sync still"
                )
                await over.lead()
                said = told(version, began, over, committers)
            await check(over, committers)
            await asyncio.to_thread(calm.process(1).wait, STOP_S)
            calm.launch(1)
            await asyncio.to_thread(calm.wait_until_it_listens, 1)
            return said

    print(asyncio.run(story()))


def test_a_move_that_is_given_up_leaves_the_brokers_as_they_were(
    calm: KafkaNodes, version: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with taking_over(calm, tmp_path) as over:
            await fill(over.site)
            async with committing(over) as committers, running(over.keep_ordering()):
                await over.join()
                assert over.standing.phase == FOLLOWED
                await reassign(over.site, TOPIC, 0, list(over.outside))
                await over.site.until(
                    lambda image: over.state(image).replicas == over.outside, "the brokers have it alone"
                )
                over.is_wanted = False
                await reached(lambda: over.standing.phase == NOTHING, "all is removed")
                await acknowledged(committers, ENOUGH)
            assert (await over.group.shard()).state.offsets == {}

    asyncio.run(story())
