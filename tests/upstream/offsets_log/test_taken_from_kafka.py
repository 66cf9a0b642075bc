"""Groups of a real Kafka are taken over from its log: their members see what they would see there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.take_over.fold import foreign_types
from actors.ground.image import MetadataImage
from actors.ground.records import GROUP_METADATA, PENDING_TXN_OFFSET
from actors.ground.settings import GroupSettings
from actors.network.wire import Wire
from bench.ground.steady_heartbeat import steady_heartbeat
from tests.coordinator.take_over.taker import Taker
from tests.kafka import jvm
from tests.oracle.broker import KafkaBroker
from tests.oracle.profiles import PROFILES
from tests.upstream.offsets_log.cast import NO_MEMBER, ORDERS, Cast, create_topics, until
from tests.upstream.offsets_log.real_log import connected, fetched, image_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.session.timeout.ms": "60000",
    "offsets.topic.segment.bytes": "104857600",
}
AS_KAFKA = GroupSettings(
    group_rebalance_batch_max_ms=0,
    group_consumer_session_timeout_ms=60_000,
    group_consumer_min_heartbeat_interval_ms=100,
    group_consumer_heartbeat_interval_ms=1_000,
    group_consumer_assignment_interval_ms=0,
)
CLASSIC = ("classic-confluent", "classic-aiokafka")
CONSUMER = ("consumer-confluent", "consumer-regex", "left", "revoking", "mixed")
OTHERS = ("simple", "second-generation", "deleted")
REBALANCING = ("preparing", "completing", "new")
NOT_YET = {
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
}
GROUPS = (*CLASSIC, *CONSUMER, *OTHERS)


class Question(NamedTuple):
    """A request, with Kafka's answer."""

    api: str
    version: int
    fields: dict[str, Any]
    answer: Any
    client_id: str = "raw"


class Story(NamedTuple):
    """What a Kafka had in its log, and what it said of it."""

    image: MetadataImage
    fetches: list[bytes]
    questions: list[Question]
    """What groups are asked for."""
    beats: list[Question]
    """What members ask next."""
    of_failover: list[Question]
    """What Kafka's next coordinator said of groups that were in the middle of a rebalance."""

    def taken(self) -> Taker:
        """Take the log over, and serve its groups."""
        taker = Taker(self.image, AS_KAFKA)
        for fetch in self.fetches:
            taker.take(fetch)
        assert taker.serve().error_code == 0
        return taker


def plain(value: Any) -> Any:
    """Return an answer in which the order of lists says nothing. Lists of groups are told without those that
    are rebalancing, which is what a failover changes."""
    if isinstance(value, dict) and "group_type" in value and value["group_id"] in REBALANCING:
        return {}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name != "throttle_time"}
    if isinstance(value, list | tuple):
        return sorted((each for each in map(plain, value) if each != {}), key=repr)
    return value


async def _ask(wire: Wire, api: str, version: int, **fields: Any) -> Question:
    return Question(api, version, fields, plain(await wire.call(api, version, **fields)))


async def _questions(wire: Wire) -> list[Question]:
    """Ask what groups are. Kafka answers from memory: nothing of this changes its log."""
    asked = [
        await _ask(wire, "list_groups", 5, states_filter=[], types_filter=["classic", "consumer"]),
        await _ask(wire, "describe_groups", 6, groups=list(CLASSIC), include_authorized_operations=False),
        await _ask(
            wire, "consumer_group_describe", 1, group_ids=list(CONSUMER), include_authorized_operations=False
        ),
    ]
    for is_stable in (False, True):
        for group_id in GROUPS:
            group = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
            asked.append(await _ask(wire, "offset_fetch", 9, groups=[group], require_stable=is_stable))
    return asked


async def _beats(wire: Wire, taker: Taker, questions: list[Question]) -> list[Question]:
    """Ask what members ask next, in the generation or epoch that they have, and in the one before."""
    asked = []
    commit = {"topics": [{"name": ORDERS, "partitions": [_offset(0)]}]}
    [classic] = [each.answer["groups"] for each in questions if each.api == "describe_groups"]
    stored = {key[1]: value for key, value in taker.records().items() if key[0] == GROUP_METADATA}
    for group in classic:
        generation = stored[group["group_id"]].generation
        for member in group["members"]:
            who = {"group_id": group["group_id"], "member_id": member["member_id"]}
            who["group_instance_id"] = member["group_instance_id"]
            for each in (generation, generation - 1):
                asked.append(await _ask(wire, "heartbeat", 4, **who, generation_id=each))
                fields = who | commit | {"generation_id_or_member_epoch": each}
                asked.append(await _ask(wire, "offset_commit", 9, **fields))
    [consumer] = [each.answer["groups"] for each in questions if each.api == "consumer_group_describe"]
    for group in consumer:
        for member in group["members"]:
            epoch = member["member_epoch"]
            for each in (epoch, epoch - 1):
                if each > 0 and member["member_type"] == 1:
                    beat = steady_heartbeat(
                        group["group_id"], member["member_id"], each, instance_id=member["instance_id"]
                    )
                    asked.append(await _ask(wire, "consumer_group_heartbeat", 1, **beat))
                fields = NO_MEMBER | commit | {"generation_id_or_member_epoch": each}
                fields |= {"group_id": group["group_id"], "member_id": member["member_id"]}
                asked.append(await _ask(wire, "offset_commit", 9, **fields))
    return asked


def _offset(partition: int) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": 77,
        "committed_leader_epoch": 0,
        "committed_metadata": "",
    }


async def _after_a_failover(bootstrap: str, rebalancing: Mapping[str, str]) -> list[Question]:
    """Ask about groups that were in the middle of a rebalance when their coordinator ended."""
    wire = await connected(bootstrap)
    asked = []
    groups = {"groups": list(rebalancing), "include_authorized_operations": False}
    try:
        # While it loads, Kafka answers every heartbeat without an error.
        await until(
            lambda: wire.call("describe_groups", 6, **groups),
            lambda answer: answer["groups"][0]["error_code"] not in NOT_YET,
        )
        for group_id, member_id in rebalancing.items():
            who = {"group_id": group_id, "member_id": member_id, "group_instance_id": None}
            for generation in (1, 2):
                asked.append(await _ask(wire, "heartbeat", 4, **who, generation_id=generation))
                sync = {"generation_id": generation, "assignments": [], "protocol_type": "consumer"}
                asked.append(await _ask(wire, "sync_group", 5, **who, **sync, protocol_name="range"))
        asked.append(await _ask(wire, "describe_groups", 6, **groups))
    finally:
        await wire.close()
    return asked


async def _story(broker: KafkaBroker) -> Story:
    bootstrap = broker.bootstrap
    wire = await connected(bootstrap)
    cast = Cast(bootstrap, wire)
    try:
        await cast.play()
        image = await image_of(wire)
        taker = Taker(image, AS_KAFKA)
        fetches = []
        while fetch := await fetched(wire, taker.next_offset):
            fetches.append(fetch)
            taker.take(fetch)
        questions = await _questions(wire)
        beats = await _beats(wire, taker, questions)
    finally:
        await cast.close()
        await wire.close()
    await asyncio.to_thread(broker.restart)
    return Story(image, fetches, questions, beats, await _after_a_failover(bootstrap, cast.rebalancing))


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    reason = jvm.missing()
    if reason is not None:
        pytest.skip(reason)
    with KafkaBroker(PROFILES["base"].of_kafka() | SETTINGS) as broker:
        create_topics(broker.bootstrap)
        yield asyncio.run(_story(broker))


@pytest.fixture
def taker(story: Story) -> Taker:
    return story.taken()


def test_what_groups_are_is_what_kafka_said(story: Story, taker: Taker) -> None:
    for asked in story.questions:
        ours = plain(taker.serve_raw(asked.api, asked.version, **asked.fields))
        assert ours == asked.answer, asked.api


def test_open_transactions_of_both_generations_are_still_open(taker: Taker) -> None:
    pending = [key[1] for key in taker.records() if key[0] == PENDING_TXN_OFFSET]
    assert sorted(pending) == ["classic-confluent", "second-generation"]


def test_the_records_of_a_share_group_are_kept(taker: Taker) -> None:
    assert foreign_types(taker.state.from_kafka.foreign) == dict.fromkeys(range(10, 16), 1)


def test_members_go_on_as_if_nothing_had_happened(story: Story, taker: Taker) -> None:
    for asked in story.beats:
        ours = plain(taker.serve_raw(asked.api, asked.version, **asked.fields))
        assert ours == asked.answer, (asked.api, asked.fields)


def test_a_rebalance_under_way_is_forgotten_as_in_a_failover(story: Story, taker: Taker) -> None:
    for asked in story.of_failover:
        ours = plain(taker.serve_raw(asked.api, asked.version, **asked.fields))
        assert ours == asked.answer, (asked.api, asked.fields)
