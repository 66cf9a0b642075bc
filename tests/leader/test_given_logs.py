"""The log of an offsets partition for brokers of the cluster upstream, as the node's broker makes it of what
the leader commits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.identity import ClientIdentity
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.leader.offsets_feed import OffsetsFeed, first_offset
from actors.node.internal_topics import InternalTopics
from actors.node.made_log import Bounds
from actors.protocol.offsets_feed import TERM_OFFSETS_BITS, unpack_question
from actors.topics.batch_contents import whole_batches
from actors.topics.errors import LogError
from actors.topics.partition_log import PartitionLog
from tests.coordinator.take_over.taker import Taker
from tests.polling import reached
from tests.upstream.offsets_log.logs import KafkaLog, classic_group, commit

BLOCK = 1 << TERM_OFFSETS_BITS
BROKER = (3, 40)
SERVED_EPOCH = 7


class Node:
    """The broker of a node whose replica leads partition 0."""

    def __init__(self, taker: Taker, bounds: Bounds | None = None) -> None:
        self._feed = OffsetsFeed(taker.replica)
        self.topics = InternalTopics(self, self, lambda place, size_bytes: None, lambda: taker.now_ms, bounds)
        self.topics.give_to_brokers(lambda partition: SERVED_EPOCH + 2)

    def slot_of(self, partition: int) -> int | None:
        return 0

    async def relay(
        self, slot: int, identity: ClientIdentity, frame: bytes, timeout_s: float
    ) -> bytes | None:
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        question = unpack_question(frame)
        assert question is not None
        self._feed.ask(question._replace(wait_ms=20), answered.set_result)
        return await answered

    async def log(self) -> PartitionLog:
        await self.topics.ready([(OFFSETS_TOPIC, 0)])
        return self.topics.log(OFFSETS_TOPIC, 0)


def taken_over(partitions: int = 1) -> Taker:
    log = KafkaLog()
    log.append([classic_group("g", 5, ["m1"]), *(commit("g", number, 17) for number in range(partitions))])
    taker = Taker()
    taker.take(log.raw())
    taker.serve(leader_epoch=SERVED_EPOCH)
    taker.commit()
    return taker


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


@pytest.mark.parametrize(
    ("term", "taken", "block"),
    [(1, 0, 1), (4, 4_711, 5), (1, BLOCK, 2), (1, 7 * BLOCK + 1, 9), (2, 7 * BLOCK + 1, 10)],
)
def test_offsets_are_above_what_kafkas_log_had_and_of_one_term_alone(
    term: int, taken: int, block: int
) -> None:
    assert first_offset(term, taken) == block * BLOCK
    assert block * BLOCK > taken


def test_the_log_begins_above_kafkas() -> None:
    async def story() -> None:
        log = await Node(taken_over()).log()
        assert log.log_start_offset == 2 * BLOCK, "term 1, above a log that has begun its first block"

    run(story())


def test_brokers_are_given_what_is_too_large_for_readers() -> None:
    """The groups could not go back otherwise."""

    async def story() -> None:
        log = await Node(taken_over(partitions=8), Bounds(state_bytes_max=100)).log()
        assert log.end_offset > log.log_start_offset

    run(story())


def test_batches_are_of_no_later_epoch_than_that_in_which_the_groups_came() -> None:
    """So what brokers write themselves can be told from them, also if our leaders have changed meanwhile."""

    async def story() -> None:
        taker = taken_over()
        log = await Node(taker).log()
        taker.commit_offsets("g", offsets={1: 1}, generation=5, member_id="m1")
        taker.commit()
        end = log.end_offset
        await reached(lambda: log.end_offset > end, "the commit is there")
        epochs = [header.leader_epoch for header, _ in whole_batches(log.read(log.log_start_offset, 2**30))]
        assert epochs == sorted(epochs)
        assert epochs[-1] == SERVED_EPOCH

    run(story())


def test_what_is_not_served_is_not_given() -> None:
    async def story() -> None:
        log = KafkaLog()
        log.append([commit("g", 0, 17)])
        taker = Taker()
        taker.take(log.raw())
        node = Node(taker)
        with pytest.raises(LogError) as refused:
            await node.log()
        assert refused.value.error_code == ErrorCode.not_leader_or_follower
        assert node.topics.given() == {}

    run(story())


def test_it_is_told_how_far_brokers_are_and_when_the_log_has_ended() -> None:
    async def story() -> None:
        taker = taken_over()
        node = Node(taker)
        log = await node.log()
        node.topics.fetched(OFFSETS_TOPIC, 0, BROKER, log.end_offset)
        given = node.topics.given()[0]
        assert (given.is_sealed, given.at_end(3), given.lag(3), given.lag(4)) == (False, True, 0, None)
        assert given.fetchers == {3: (40, log.end_offset)}
        taker.seal()
        await reached(lambda: node.topics.given()[0].is_sealed, "the seal is there")
        assert node.topics.given()[0].at_end(3)
        taker.release(SERVED_EPOCH + 2)
        taker.drop_taken()
        await reached(lambda: node.topics.given() == {}, "the log is none any more")

    run(story())
