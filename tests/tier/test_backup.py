"""A tier at work is backed up, and restored into one of another shape: real clients find their offsets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from bench.peers.members import Member
from bench.peers.settling import settle_group
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until
from tests.tier.committer import Committer
from tests.tier.test_broker_configs import change, change_for_all, described, produced

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(300)]

GROUPS = 20
TOPICS = {"orders": 7, "payments": 3}
LIVE = "live"
NO_DELAY = ("--set", "group.initial.rebalance.delay.ms=0")


@pytest.fixture(scope="module")
def old() -> Iterator[Tier]:
    """The tier that is backed up: two partitions with three copies each."""
    shape = ("--nodes", "1", "--replicas", "3", "--partitions", "2")
    with Tier(*shape, *NO_DELAY, port=free_ports(1)) as running:
        yield running


@pytest.fixture
def new() -> Iterator[Tier]:
    """The tier that takes the backup: three partitions with one copy each."""
    shape = ("--nodes", "1", "--replicas", "1", "--partitions", "3")
    with Tier(*shape, *NO_DELAY, port=free_ports(1)) as running:
        yield running


def places() -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]


def commit(tier: Tier, group_id: str, first: int) -> None:
    """Offsets `first`, `first + 1` ... for all places, with metadata."""
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": group_id})
    offsets = [
        TopicPartition(place.topic, place.partition, first + number, metadata=f"of {group_id}")
        for number, place in enumerate(places())
    ]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def committed(tier: Tier, group_id: str) -> list[tuple[str, int, int, str]]:
    """Return the committed offsets of a group that a real client gets by OffsetFetch."""
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": group_id})
    found = consumer.committed(places(), timeout=DEADLINE_S)
    consumer.close()
    return [(each.topic, each.partition, each.offset, each.metadata or "") for each in found]


def make_topics(tier: Tier) -> None:
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    topics = [NewTopic(name, count, 1, config={"retention.ms": "60000"}) for name, count in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result(DEADLINE_S)


def topic_ids(tier: Tier) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    described = admin.describe_topics(_names(list(TOPICS)))
    return {name: str(future.result(DEADLINE_S).topic_id) for name, future in described.items()}


def _names(topics: list[str]) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(topics)


def watermarks(tier: Tier, topic: str) -> list[tuple[int, int]]:
    """Return the first offset and the end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": "none"})
    places = [TopicPartition(topic, number) for number in range(TOPICS[topic])]
    found = [consumer.get_watermark_offsets(place, timeout=DEADLINE_S) for place in places]
    consumer.close()
    return found


async def backup_under_load(tier: Tier, directory: Path) -> tuple[Member, int, int]:
    """A backup while a member commits without pause: with what it had acknowledged before and afterwards."""
    (member,) = await settle_group(("127.0.0.1", tier.port), LIVE, 1)
    committer = Committer([("127.0.0.1", tier.port)], member, "orders")
    halt = asyncio.Event()
    running = asyncio.create_task(committer.run(halt))
    await asyncio.to_thread(until, lambda: committer.acknowledged > 10, "commits are under way")
    before = committer.acknowledged
    await asyncio.to_thread(tier.run, "backup", str(directory), "--json")
    halt.set()
    await running
    assert committer.refusals == []
    return member, before, committer.acknowledged


def test_offsets_groups_and_topics_live_on_in_a_tier_of_another_shape(
    old: Tier, new: Tier, tmp_path: Path
) -> None:
    make_topics(old)
    groups = [f"group-{number}" for number in range(GROUPS)]
    for number, group_id in enumerate(groups):
        commit(old, group_id, 100 * number)
    old.run("groups", "configs", groups[0], "--set", "consumer.session.timeout.ms=50000")
    asyncio.run(change_for_all(old, "message.max.bytes", "100000"))
    change(AdminClient({"bootstrap.servers": old.bootstrap}), "1", "max.connections", "500")
    directory = tmp_path / "backup"
    member, before, after = asyncio.run(backup_under_load(old, directory))

    report = json.loads(new.run("restore", str(directory), "--json"))
    assert "50000" in new.run("groups", "configs", groups[0])
    of_new = AdminClient({"bootstrap.servers": new.bootstrap})
    changed = [described(of_new, "1", setting)[0] for setting in ("message.max.bytes", "max.connections")]
    assert changed == ["100000", "500"]
    assert produced(new.bootstrap, "orders", 200_000) == KafkaError.MSG_SIZE_TOO_LARGE

    assert (report["topics"], report["groups"], report["verified"]) == (len(TOPICS), GROUPS + 1, True)
    assert report["member_records_left_out"] == 1
    assert sum(report["records"]) == GROUPS * len(places()) + 2, "offsets, and the live group's two records"
    assert all(report["records"]), "the groups are spread over all partitions"
    assert topic_ids(new) == topic_ids(old)
    assert {group_id: committed(new, group_id) for group_id in groups} == {
        group_id: committed(old, group_id) for group_id in groups
    }
    assert watermarks(new, "payments") == [(100 * (GROUPS - 1) + 7 + number,) * 2 for number in range(3)]
    (live,) = [
        offset for topic, number, offset, _ in committed(new, LIVE) if (topic, number) == ("orders", 0)
    ]
    assert before <= live <= after, "all that was acknowledged before the backup began"
    group = json.loads(new.run("groups", "describe", LIVE, "--json"))
    assert (group["state"], group["members"]) == ("Empty", [])
    (again,) = asyncio.run(settle_group(("127.0.0.1", new.port), LIVE, 1))
    assert again.generation_id > member.generation_id

    with pytest.raises(
        RuntimeError, match=r"the tier is not empty: it holds topic orders, topic payments, group"
    ):
        new.run("restore", str(directory))
    with pytest.raises(RuntimeError, match="is there already"):
        old.run("backup", str(directory))


def test_a_partition_without_a_leader_refuses_the_backup_and_leaves_nothing(
    old: Tier, tmp_path: Path
) -> None:
    pids = [replica["pid"] for replica in old.replicas() if replica["partition"] == 1]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(RuntimeError, match="partition 1: no replica leads"):
            old.run("backup", str(tmp_path / "backup"))
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert list(tmp_path.iterdir()) == []


def test_leadership_moves_where_it_is_asked_to(old: Tier) -> None:
    """The actor that hands over says how long nobody served."""
    leaders = until(lambda: _led(old), "both partitions have leaders", 60)
    to = (leaders[0] + 1) % 3
    moved = json.loads(old.run("leaders", "move", "0", "--to", str(to), "--json"))
    assert (moved["partition"], moved["from"], moved["to"]) == (0, leaders[0], to)
    assert 0 < moved["ms"] < 5_000
    with pytest.raises(RuntimeError, match="partition 2: this tier has 0 to 1"):
        old.run("leaders", "move", "2")
    with pytest.raises(RuntimeError, match="has no replica 9: it has 0, 1, 2"):
        old.run("leaders", "move", "0", "--to", "9")


def _led(tier: Tier) -> list[int] | None:
    rows = json.loads(tier.run("leaders", "--json", fine=(0, 1)))
    leaders = [row["leader"] for row in rows]
    return None if None in leaders else leaders
