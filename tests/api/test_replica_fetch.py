"""Brokers of the cluster upstream follow a node: they get the logs of offsets partitions and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from actors.api.context import InternalLogs
from actors.ground.image import MetadataImage, NodeImage, Upstream
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.protocol.api_keys import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from actors.protocol.entity_schema import NO_TIME
from actors.topics.batch import plain_batch
from actors.topics.batch_contents import whole_batches
from actors.topics.errors import LogError
from actors.topics.partition_log import LogSettings, PartitionLog
from tests.api.brokers import Broker, brokers, part, versions

OFFSETS_ID, STRAY_ID = UUID(int=8), UUID(int=5)
BEGIN = 1 << 40
OLD_EPOCH, EPOCH = 6, 9
FOLLOWER = (3, 40)


class Logs(InternalLogs):
    """The log of partition 1, whose epoch is EPOCH by now."""

    def __init__(self) -> None:
        self.made = PartitionLog(LogSettings(2**31 - 1, 2**62, None), BEGIN, lambda end: None)
        for epoch, value in ((OLD_EPOCH, b"a"), (OLD_EPOCH, b"b"), (EPOCH, b"c")):
            self.made.epochs.assign(epoch, self.made.end_offset)
            self.made.append_own(plain_batch([(b"k", value)], 1), 1)
        self.fetchers: list[tuple[int, tuple[int, int], int]] = []

    async def ready(self, places: Any) -> None:
        """It is."""

    def log(self, topic: str, partition: int) -> PartitionLog:
        if (topic, partition) != (OFFSETS_TOPIC, 1):
            raise LogError(ErrorCode.not_leader_or_follower)
        return self.made

    def partition_bytes(self, topic: str, partition: int) -> int:
        return 0

    def leader_epoch(self, topic: str, partition: int) -> int:
        return EPOCH

    def fetched(self, topic: str, partition: int, broker: tuple[int, int], offset: int) -> None:
        self.fetchers.append((partition, broker, offset))


class Told(NamedTuple):
    error_code: int
    records: list[tuple[int, int]]
    """Base offset and leader epoch of each batch."""
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int]


def node() -> tuple[Broker, Logs]:
    """A node that leads partition 1 of two, in front of a cluster."""
    _, [broker] = brokers(nodes=(1,))
    logs = Logs()
    broker.context.internal_logs = logs
    image = MetadataImage(
        version=1_000,
        nodes=(NodeImage(1, "127.0.0.1", 1),),
        offsets_leaders=(2, 1),
        upstream=Upstream(OFFSETS_ID.bytes, {}),
    )
    broker.context.set_image(image)
    return broker, logs


async def fetched(
    broker: Broker, version: int, offset: int, *, partition: int = 1, epoch: int = EPOCH, last_epoch: int = -1
) -> Told:
    """Fetch as a follower, a stray beside."""
    topics = []
    for name, topic_id, index in ((OFFSETS_TOPIC, OFFSETS_ID, partition), ("stray", STRAY_ID, 5)):
        asked = part(
            FETCH,
            version,
            "FetchPartition",
            partition=index,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=0,
            partition_max_bytes=10_000,
        )
        topics.append(part(FETCH, version, "FetchTopic", topic=name, topic_id=topic_id, partitions=(asked,)))
    broker_id, broker_epoch = FOLLOWER
    state = None
    if version >= 15:
        state = part(FETCH, version, "ReplicaState", replica_id=broker_id, replica_epoch=broker_epoch)
    answer = await broker.ask(
        FETCH,
        version,
        replica_id=broker_id,
        replica_state=state,
        max_wait=NO_TIME,
        min_bytes=1,
        max_bytes=10_000,
        isolation_level=0,
        session_id=0,
        session_epoch=0,
        topics=tuple(topics),
        forgotten_topics_data=(),
        rack_id="",
    )
    assert (getattr(answer, "error_code", 0), getattr(answer, "session_id", 0)) == (0, 0)
    (found,), (stray,) = ([*topic.partitions] for topic in answer.responses)
    assert (stray.error_code, stray.partition_index, stray.high_watermark) == (ErrorCode.none, 5, 0)
    assert not stray.records
    diverging = getattr(found, "diverging_epoch", None)
    return Told(
        int(found.error_code),
        [(header.base_offset, header.leader_epoch) for header, _ in whole_batches(found.records or b"")],
        found.high_watermark,
        getattr(found, "log_start_offset", BEGIN),
        (-1, -1) if diverging is None else (diverging.epoch, diverging.end_offset),
    )


@pytest.mark.parametrize("version", versions(FETCH))
def test_a_follower_gets_the_log_and_is_known_by_it(version: int) -> None:
    async def story() -> None:
        broker, logs = node()
        told = await fetched(broker, version, BEGIN)
        batches = [(BEGIN, OLD_EPOCH), (BEGIN + 1, OLD_EPOCH), (BEGIN + 2, EPOCH)]
        assert told == (0, batches, BEGIN + 3, BEGIN, (-1, -1))
        assert (await fetched(broker, version, BEGIN + 3)).records == []
        follower = (FOLLOWER[0], FOLLOWER[1] if version >= 15 else -1)
        assert logs.fetchers == [(1, follower, BEGIN), (1, follower, BEGIN + 3)]

    asyncio.run(story())


def refused(**fields: Any) -> int:
    """Return the error of a Fetch, by which nobody is known to be anywhere."""
    broker, logs = node()
    told = asyncio.run(fetched(broker, 18, fields.pop("offset", BEGIN), **fields))
    assert logs.fetchers == []
    return told.error_code


def test_a_follower_of_an_older_log_begins_anew() -> None:
    """Kafka's own log of the partition had lower offsets, and so had that of the tier's leader before."""
    assert refused(offset=4_711, last_epoch=3) == ErrorCode.offset_out_of_range
    assert refused(offset=BEGIN + 4) == ErrorCode.offset_out_of_range


def test_who_knows_another_leader_epoch_asks_again() -> None:
    assert refused(epoch=EPOCH - 1) == ErrorCode.fenced_leader_epoch
    assert refused(epoch=EPOCH + 1) == ErrorCode.unknown_leader_epoch


def test_who_asks_another_node_than_the_leader_is_refused() -> None:
    assert refused(partition=0) == ErrorCode.not_leader_or_follower


def test_a_follower_that_has_read_on_in_an_older_epoch_is_told_where_that_ended() -> None:
    broker, logs = node()
    told = asyncio.run(fetched(broker, 18, BEGIN + 3, last_epoch=OLD_EPOCH + 1))
    assert (told.error_code, told.diverging) == (0, (OLD_EPOCH, BEGIN + 2))
    assert logs.fetchers == []


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, (BEGIN + 3, EPOCH)), (-2, (BEGIN, OLD_EPOCH))])
def test_a_follower_finds_the_ends_of_the_log(timestamp: int, expected: tuple[int, int]) -> None:
    broker, _ = node()
    asked = part(
        LIST_OFFSETS,
        11,
        "ListOffsetsPartition",
        partition_index=1,
        current_leader_epoch=EPOCH,
        timestamp=timestamp,
    )
    topic = part(LIST_OFFSETS, 11, "ListOffsetsTopic", name=OFFSETS_TOPIC, partitions=(asked,))
    fields = {"replica_id": 3, "isolation_level": 0, "topics": (topic,), "timeout": NO_TIME}
    answer = asyncio.run(broker.ask(LIST_OFFSETS, 11, **fields))
    ((told,),) = ([*topic.partitions] for topic in answer.topics)
    assert (told.error_code, (told.offset, told.leader_epoch)) == (0, expected)


def test_a_follower_finds_the_end_of_an_epoch() -> None:
    broker, _ = node()
    asked = part(
        OFFSET_FOR_LEADER_EPOCH,
        4,
        "OffsetForLeaderPartition",
        partition=1,
        current_leader_epoch=EPOCH,
        leader_epoch=OLD_EPOCH,
    )
    topic = part(OFFSET_FOR_LEADER_EPOCH, 4, "OffsetForLeaderTopic", topic=OFFSETS_TOPIC, partitions=(asked,))
    answer = asyncio.run(broker.ask(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=3, topics=(topic,)))
    ((told,),) = ([*topic.partitions] for topic in answer.topics)
    assert (told.error_code, told.leader_epoch, told.end_offset) == (0, OLD_EPOCH, BEGIN + 2)
