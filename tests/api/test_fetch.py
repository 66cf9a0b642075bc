"""Fetch over the wire: it is answered at once, when there is enough, or when the wait is over."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.metadata.commands import CreateTopics, DeleteTopics, NewTopic, SetNodeAlive, TopicToDelete
from actors.protocol.api_keys import FETCH
from actors.topics.logs import Produced
from tests.api.brokers import Broker, Controller, brokers, part, versions
from tests.topics.batches import batch, contents

LONG = timedelta(seconds=30)
NO_WAIT = timedelta(0)


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


def one_topic() -> tuple[Controller, Broker]:
    """Make topic t: node 1 leads partitions 0 and 1, node 2 leads partition 2."""
    controller, (one, *_) = brokers()
    controller.decide(CreateTopics((NewTopic("t", assignments=((0, (1,)), (1, (1,)), (2, (2,)))),)))
    return controller, one


def append(broker: Broker, *values: bytes, partition: int = 0) -> int:
    """Append records. Returns the bytes that were appended."""
    topic = broker.apis.image.topics["t"]
    return broker.logs.append(topic, partition, Produced(batch(*values)), 0).size_bytes


def id_of(broker: Broker) -> uuid.UUID:
    return uuid.UUID(bytes=broker.apis.image.topics["t"].topic_id)


async def fetch(
    broker: Broker,
    offsets: dict[int, int],
    *,
    version: int = 12,
    partition_max_bytes: int = 10**6,
    current_leader_epoch: int = -1,
    **fields: Any,
) -> Any:
    """Fetch topic t from these offsets, which are by partition."""
    wanted = tuple(
        part(
            FETCH,
            version,
            "FetchPartition",
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
        )
        for partition, offset in offsets.items()
    )
    topic = part(FETCH, version, "FetchTopic", topic="t", topic_id=id_of(broker), partitions=wanted)
    fields = {"max_wait": NO_WAIT, "min_bytes": 1, "forgotten_topics_data": ()} | fields
    return await broker.ask(FETCH, version, topics=(topic,), **fields)


def parts(answer: Any) -> list[Any]:
    (topic,) = answer.responses
    assert getattr(topic, "topic", "t") == "t"
    return list(topic.partitions)


@pytest.mark.parametrize("version", versions(FETCH))
def test_every_version_gives_records_and_watermarks(version: int) -> None:
    async def story() -> None:
        _, one = one_topic()
        append(one, b"a", b"b")
        first, second = parts(await fetch(one, {0: 0, 1: 0}, version=version))
        assert (first.error_code, first.high_watermark, first.last_stable_offset) == (ErrorCode.none, 2, 2)
        assert [value for _, _, value in contents(first.records)] == [b"a", b"b"]
        assert (second.error_code, second.high_watermark, second.records) == (ErrorCode.none, 0, b"")
        if version >= 5:
            assert first.log_start_offset == 0

    run(story())


@pytest.mark.parametrize("version", versions(FETCH))
def test_errors_come_at_once_whatever_the_wait(version: int) -> None:
    async def story() -> None:
        _, one = one_topic()
        append(one, b"a")
        answer = await fetch(one, {0: 5, 1: 0, 2: 0, 3: 0}, version=version, max_wait=LONG)
        assert [partition.error_code for partition in parts(answer)] == [
            ErrorCode.offset_out_of_range,
            ErrorCode.none,
            ErrorCode.not_leader_or_follower,
            ErrorCode.unknown_topic_or_partition,
        ]
        if version >= 12:
            leader = parts(answer)[2].current_leader
            assert (leader.leader_id, leader.leader_epoch) == (2, 0)
        if version >= 16:
            [node] = answer.node_endpoints
            assert (node.node_id, node.host, node.port) == (2, "host2", 9_092)
        if version >= 9:
            answer = await fetch(one, {0: 0}, version=version, current_leader_epoch=1, max_wait=LONG)
            assert parts(answer)[0].error_code == ErrorCode.unknown_leader_epoch

    run(story())


def test_an_append_wakes_the_fetch_that_waits_for_it() -> None:
    async def story() -> None:
        _, one = one_topic()
        waiting = asyncio.ensure_future(fetch(one, {0: 0, 1: 0}, max_wait=LONG))
        await settle()
        assert not waiting.done()
        append(one, b"a", partition=1)
        first, second = parts(await waiting)
        assert first.records == b""
        assert [value for _, _, value in contents(second.records)] == [b"a"]

    run(story())


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_min_bytes_are_gathered_over_partitions_and_appends() -> None:
    async def story() -> None:
        _, one = one_topic()
        size = len(batch(b"x" * 100))
        waiting = asyncio.ensure_future(fetch(one, {0: 0, 1: 0}, max_wait=LONG, min_bytes=3 * size))
        for partition in (0, 1):
            append(one, b"x" * 100, partition=partition)
            await settle()
            assert not waiting.done()
        append(one, b"x" * 100)
        assert [len(partition.records) for partition in parts(await waiting)] == [2 * size, size]

    run(story())


def test_a_wait_that_is_over_answers_with_what_there_is() -> None:
    async def story() -> None:
        _, one = one_topic()
        size = append(one, b"x")
        loop = asyncio.get_running_loop()
        began = loop.time()
        wait = timedelta(milliseconds=60)
        (read,) = parts(await fetch(one, {0: 0}, max_wait=wait, min_bytes=10 * size))
        assert len(read.records) == size
        assert loop.time() - began >= 0.055
        (empty,) = parts(await fetch(one, {0: 1}, max_wait=wait))
        assert (empty.error_code, empty.records) == (ErrorCode.none, b"")

    run(story())


def test_a_topic_that_goes_ends_the_wait() -> None:
    async def story() -> None:
        controller, one = one_topic()
        append(one, b"x")
        waiting = asyncio.ensure_future(fetch(one, {0: 1}, max_wait=LONG))
        await settle()
        controller.decide(DeleteTopics((TopicToDelete("t"),)))
        assert parts(await waiting)[0].error_code == ErrorCode.unknown_topic_or_partition

    run(story())


def test_a_partition_that_moves_ends_the_wait_and_names_its_new_leader() -> None:
    async def story() -> None:
        controller, one = one_topic()
        waiting = asyncio.ensure_future(fetch(one, {0: 0}, max_wait=LONG))
        await settle()
        controller.decide(SetNodeAlive(1, False))
        (moved,) = parts(await waiting)
        assert moved.error_code == ErrorCode.not_leader_or_follower
        assert moved.current_leader.leader_id in (2, 3)

    run(story())


def test_limits_hold_save_for_the_first_batch_of_the_answer() -> None:
    async def story() -> None:
        _, one = one_topic()
        size = append(one, b"x" * 100)
        append(one, b"x" * 100)
        append(one, b"x" * 100, partition=1)
        both = {0: 0, 1: 0}
        assert lengths(await fetch(one, both, max_bytes=2 * size)) == [2 * size, 0]
        assert lengths(await fetch(one, both, partition_max_bytes=size)) == [size, size]
        assert lengths(await fetch(one, both, partition_max_bytes=1)) == [size, 0]
        assert lengths(await fetch(one, {0: 2, 1: 0}, partition_max_bytes=1)) == [0, size]
        assert lengths(await fetch(one, both, max_bytes=0)) == [size, 0]

    run(story())


def lengths(answer: Any) -> list[int]:
    return [len(partition.records) for partition in parts(answer)]


def test_a_fetch_of_nothing_is_answered_at_once() -> None:
    async def story() -> None:
        _, one = one_topic()
        answer = await one.ask(FETCH, 12, topics=(), forgotten_topics_data=(), max_wait=LONG, min_bytes=1)
        assert answer.responses == ()

    run(story())


def test_records_expire_while_the_broker_runs_and_the_timer_ends_with_it() -> None:
    async def story() -> None:
        _, one = one_topic()
        append(one, b"x")
        one.now_ms = 10**9
        (gone,) = parts(await fetch(one, {0: 0}))
        assert gone.error_code == ErrorCode.offset_out_of_range
        one.apis.close()

    run(story())
