"""`__consumer_offsets` as a broker makes it of what a leader holds and commits (W52).

Leader and broker are the real ones; the socket between them is left out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords
from kio.schema.errors import ErrorCode

from actors.coordinator.kafka_records.codec import KafkaRecord, decode
from actors.ground import records as ours
from actors.ground.contract import Request
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.limits import FEED_PENDING_BYTES_MAX
from actors.ground.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
from actors.leader.offsets_feed import SKIPPED_OFFSETS, OffsetsFeed
from actors.node.internal_topics import UNUSED_MS, InternalTopics
from actors.node.made_log import Bounds, Place
from actors.protocol.api_keys import OFFSET_COMMIT, OFFSET_DELETE
from actors.protocol.messages import OffsetCommitRequest, OffsetDeleteRequest
from actors.protocol.offsets_feed import TERM_OFFSETS_BITS, unpack_question
from actors.topics.errors import LogError
from actors.topics.partition_log import PartitionLog
from tests.coordinator.alone import KeptLog, commit, lead, new_replica
from tests.coordinator.batches import one_by_one
from tests.coordinator.shards import new_shard
from tests.polling import reached

PARTITION = 3
TOPIC = TopicImage(b"\7" * 16, "t", (0,) * 8)
IMAGE = MetadataImage(version=1, topics=(TOPIC,))
Committed = dict[tuple[str, str, int], int]


class Leader:
    """The leader of the partition, with its feeds."""

    def __init__(self, term: int = 1) -> None:
        self.replica = new_replica(lambda: new_shard(image=IMAGE), lambda token, body: None)
        self.log = KeptLog(term)
        lead(self.replica, self.log)
        self.feeds = {topic: OffsetsFeed(self.replica) for topic in INTERNAL_TOPICS}
        self._tokens = itertools.count(1)

    def decide(self, api_key: int, body: Any) -> None:
        self.replica.submit(Request(next(self._tokens), api_key, 8, "c", "/127.0.0.1", body), 1_000)

    def commit(self, group_id: str, offsets: dict[int, int], metadata: str = "") -> None:
        """Commit offsets of partitions of TOPIC."""
        self.decide_offsets(group_id, offsets, metadata)
        self.settle()

    def decide_offsets(self, group_id: str, offsets: dict[int, int], metadata: str = "") -> None:
        rows = tuple((partition, offset, -1, metadata) for partition, offset in offsets.items())
        self.decide(OFFSET_COMMIT, OffsetCommitRequest(group_id, -1, "", None, -1, ((TOPIC.name, rows),)))

    def delete(self, group_id: str, *partitions: int) -> None:
        self.decide(OFFSET_DELETE, OffsetDeleteRequest(group_id, ((TOPIC.name, partitions),)))
        self.settle()

    def settle(self) -> None:
        """Have everything committed that was decided."""
        commit(self.replica)

    def committed(self) -> Committed:
        """Return the offsets that the shard has."""
        return {
            key[1:]: value.offset
            for key, value in one_by_one(self.replica.shard.records())
            if key[0] == ours.OFFSET_COMMIT and value is not None
        }


class Broker:
    """The broker of the leader's node: it asks the leader that leads now."""

    def __init__(self, leader: Leader, bounds: Bounds | None = None) -> None:
        self.leader: Leader | None = leader
        self.now_ms = 5_000
        self.woken: list[int] = []
        self.topics = InternalTopics(self, self, self._appended, lambda: self.now_ms, bounds)

    def slot_of(self, partition: int) -> int | None:
        return None if self.leader is None else 0

    async def relay(
        self, slot: int, identity: ClientIdentity, frame: bytes, timeout_s: float
    ) -> bytes | None:
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        question = unpack_question(frame)
        assert question is not None
        if self.leader is None:
            return None
        self.leader.feeds[question.topic].ask(question._replace(wait_ms=20), answered.set_result)
        return await answered

    def _appended(self, place: Place, size_bytes: int) -> None:
        assert place.partition == PARTITION
        self.woken.append(size_bytes)

    async def log(self, topic: str = OFFSETS_TOPIC) -> PartitionLog:
        await self.topics.ready([(topic, PARTITION)])
        return self.topics.log(topic, PARTITION)


class Reader:
    """A consumer of the partition that keeps the last value of each key."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.offset = -1
        self.resets = 0
        self.records: list[tuple[int, KafkaRecord]] = []

    async def read(self) -> Committed:
        """Read to the end, from the beginning if the offset is none of the log. Return what is committed as
        far as was read."""
        log = await self.broker.log()
        if not log.log_start_offset <= self.offset <= log.end_offset:
            self.offset, self.records = log.log_start_offset, []
            self.resets += 1
        stored = MemoryRecords(log.read(self.offset, 2**30))
        while stored.has_next():
            batch: Any = stored.next_batch()
            assert batch.validate_crc()
            for record in batch:
                if record.offset >= self.offset:
                    self.records.append((record.offset, decode(record.key, record.value)))
        self.offset = log.end_offset
        return self.committed()

    async def sees(self, committed: Callable[[], Committed]) -> None:
        """Wait until this reader has read what is committed."""
        seen: list[Committed] = []
        task = asyncio.ensure_future(self._look(seen))
        try:
            await reached(lambda: bool(seen) and seen[-1] == committed(), f"{committed()}")
        finally:
            task.cancel()

    async def _look(self, seen: list[Committed]) -> None:
        while True:
            with suppress(LogError):  # the log is being made anew
                seen.append(await self.read())
            await asyncio.sleep(0)

    def committed(self) -> Committed:
        found: Committed = {}
        for _, record in self.records:
            if record.kind == ours.OFFSET_COMMIT:
                key = tuple(record.key.values())
                if record.value is None:
                    found.pop(key, None)  # type: ignore[call-overload]
                else:
                    found[key] = record.value["offset"]  # type: ignore[index]
        return found


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_a_log_begins_with_the_state_and_goes_on_with_commits_and_tombstones() -> None:
    """O17, W52: offsets rise by one; what was only decided when the state began is no part of it."""

    async def story() -> None:
        leader = Leader()
        leader.commit("g", {0: 5, 1: 6}, "where")
        leader.commit("h", {7: 1})
        leader.decide_offsets("h", {2: 2})  # not committed yet
        reader = Reader(Broker(leader))
        assert await reader.read() == {("g", "t", 0): 5, ("g", "t", 1): 6, ("h", "t", 7): 1}
        leader.settle()
        leader.commit("g", {0: 8, 3: 9})
        leader.delete("g", 1)
        await reader.sees(leader.committed)
        assert reader.committed()["h", "t", 2] == 2
        assert ("g", "t", 1) not in reader.committed()
        offsets = [offset for offset, _ in reader.records]
        assert offsets == list(range(1 << TERM_OFFSETS_BITS, offsets[-1] + 1))
        metadata = [r.value["metadata"] for _, r in reader.records if r.value and "metadata" in r.value]
        assert "where" in metadata

    run(story)


def test_who_waits_for_a_commit_is_woken_by_it() -> None:
    async def story() -> None:
        leader = Leader()
        broker = Broker(leader)
        await broker.log()
        before = len(broker.woken)
        leader.commit("g", {0: 5})
        await reached(lambda: any(broker.woken[before:]), "a wake-up")

    run(story)


def test_a_log_that_has_become_long_goes_on_with_the_whole_state() -> None:
    """A reader at its end misses nothing, not even a deletion; one that fell behind meets
    OFFSET_OUT_OF_RANGE and has the state again."""

    async def story() -> None:
        leader = Leader()
        leader.commit("g", {0: 1, 1: 1})
        broker = Broker(leader, Bounds(tail_batches_max=10))
        fast, slow = Reader(broker), Reader(broker)
        await slow.read()
        await fast.read()
        began_at = (await broker.log()).log_start_offset
        for number in range(100):
            leader.commit("g", {0: number, 2 + number % 3: number})
            if number == 50:
                leader.delete("g", 1)
            await fast.sees(leader.committed)
        assert (await broker.log()).log_start_offset > began_at
        assert fast.resets == 1, "only the first time"
        await slow.sees(leader.committed)
        assert slow.resets == 2
        assert len(slow.records) < 60, "what was overwritten long ago is gone"

    run(story)


def test_the_next_leader_gives_out_higher_offsets() -> None:
    async def story() -> None:
        first, second = Leader(term=4), Leader(term=5)
        first.commit("g", {0: 1})
        broker = Broker(first)
        reader = Reader(broker)
        await reader.read()
        end = reader.offset
        first.replica.on_fallen()
        second.commit("g", {0: 2})
        broker.leader = second
        await reader.sees(second.committed)
        assert reader.resets == 2
        assert reader.records[0][0] > end

    run(story)


def test_a_broker_that_was_restarted_gives_out_no_offset_twice() -> None:
    """The leader has not changed, and a reader that stood anywhere in the old log reads the state again."""

    async def story() -> None:
        leader = Leader()
        leader.commit("g", {0: 1})
        reader = Reader(Broker(leader))
        for number in range(20):
            leader.commit("g", {0: number})
            await reader.sees(leader.committed)
        reader.broker.topics.close()
        reader.broker = Broker(leader)
        leader.delete("g", 0)
        await reader.sees(leader.committed)
        assert reader.resets == 2
        assert (await reader.broker.log()).log_start_offset >= SKIPPED_OFFSETS

    run(story)


def test_nothing_is_kept_for_a_log_that_nobody_reads() -> None:
    """Who comes back to where it stood reads the state again, for it has missed what came meanwhile."""

    async def story() -> None:
        leader = Leader()
        broker = Broker(leader)
        assert leader.replica.feeds == (), "nobody has read yet"
        leader.commit("g", {0: 1, 1: 2})
        reader = Reader(broker)
        await reader.read()
        assert leader.replica.feeds == (leader.feeds[OFFSETS_TOPIC],)
        broker.now_ms += UNUSED_MS + 1
        await reached(lambda: not len(broker.topics), "the log is dropped")
        leader.delete("g", 1)
        await reader.sees(leader.committed)
        assert reader.resets == 2
        leader.feeds[OFFSETS_TOPIC].end()
        assert leader.replica.feeds == ()

    run(story)


def test_a_feed_that_is_not_taken_ends() -> None:
    """What is kept for a broker is bounded."""

    async def story() -> None:
        leader = Leader()
        broker = Broker(leader)
        await broker.log()
        broker.leader = None
        await reached(lambda: not len(broker.topics), "the broker has gone")
        entry = bytes(FEED_PENDING_BYTES_MAX // 4)
        feed = leader.feeds[OFFSETS_TOPIC]
        for _ in range(4):
            assert leader.replica.feeds == (feed,)
            feed.committed(entry)
        assert leader.replica.feeds == (feed,)
        feed.committed(b"x")
        assert leader.replica.feeds == ()

    run(story)


def test_a_state_beyond_the_bound_is_refused() -> None:
    async def story() -> None:
        leader = Leader()
        leader.commit("g", dict.fromkeys(range(8), 5))
        broker = Broker(leader, Bounds(state_bytes_max=100))
        with pytest.raises(LogError) as refused:
            await broker.log()
        assert refused.value.error_code == ErrorCode.kafka_storage_error

    run(story)
