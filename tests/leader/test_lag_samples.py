"""Lag is sampled from the logs that brokers know: each committed offset in its turn, a bounded number at a
time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.ground.records import OffsetCommitValue
from actors.leader.lag_samples import ASKED_MAX, SAMPLES_MAX, VERSION, Lag, LagSamples
from actors.protocol.api_keys import LIST_OFFSETS
from actors.protocol.messages import NO_ERROR

NOW_MS = 1_700_000_000_000
Ends = dict[tuple[str, int], int]


class World:
    """Offsets that groups have committed, brokers that know where logs end, and samples of the lag."""

    def __init__(self, committed: dict[str, Ends], ends: Ends) -> None:
        self.offsets: Any = {
            group_id: {
                position: OffsetCommitValue(offset, -1, "", 0, -1, bytes(16))
                for position, offset in of.items()
            }
            for group_id, of in committed.items()
        }
        self.ends = ends
        self.asked: list[int] = []
        self.told: list[Lag] = []
        self.samples = LagSamples(
            60_000,
            offsets=lambda: self.offsets,
            ask_broker=self._ask_broker,
            tell=self._tell,
            now_ms=lambda: NOW_MS,
        )

    def _tell(self, samples: Iterable[Lag]) -> None:
        self.told += samples

    async def _ask_broker(self, api_key: int, api_version: int, entity: Any) -> Any:
        assert (api_key, api_version) == (LIST_OFFSETS, VERSION)
        self.asked.append(sum(len(topic.partitions) for topic in entity.topics))
        partition_class = codec.nested(LIST_OFFSETS, VERSION, "ListOffsetsPartitionResponse")
        topic_class = codec.nested(LIST_OFFSETS, VERSION, "ListOffsetsTopicResponse")
        topics = []
        for topic in entity.topics:
            partitions = []
            for each in topic.partitions:
                end = self.ends.get((topic.name, each.partition_index))
                error = NO_ERROR if end is not None else ErrorCode.unknown_topic_or_partition
                partitions.append(
                    codec.build(
                        partition_class,
                        partition_index=each.partition_index,
                        error_code=error,
                        timestamp=-1,
                        offset=-1 if end is None else end,
                    )
                )
            topics.append(codec.build(topic_class, name=topic.name, partitions=tuple(partitions)))
        return codec.build(codec.response_class(LIST_OFFSETS, VERSION), topics=tuple(topics))

    def sample(self) -> list[Lag]:
        self.told.clear()
        asyncio.run(self.samples.sample())
        return list(self.told)


def test_a_sample_is_what_is_left_to_read() -> None:
    world = World({"g": {("t", 0): 7, ("t", 1): 9}, "h": {("t", 0): 10}}, {("t", 0): 10, ("t", 1): 9})
    assert world.sample() == [
        Lag(NOW_MS, "g", "t", 0, 7, 10, 3),
        Lag(NOW_MS, "g", "t", 1, 9, 9, 0),
        Lag(NOW_MS, "h", "t", 0, 10, 10, 0),
    ]
    assert world.asked == [2], "each log is looked at once"


def test_logs_that_are_elsewhere_are_not_told() -> None:
    """A log that is unknown, empty, or shorter than the committed offset is not the log that was read."""
    committed = {("unknown", 0): 5, ("empty", 0): 0, ("short", 0): 8, ("t", 0): 1}
    world = World({"g": committed}, {("empty", 0): 0, ("short", 0): 3, ("t", 0): 1})
    assert [each.topic for each in world.sample()] == ["t"]


def test_rounds_are_bounded_and_everybody_has_a_turn() -> None:
    """There are groups of all sizes, one of which needs more than one round."""
    sizes = {"large": 2 * SAMPLES_MAX, "none": 0, **{f"g{n}": 3 for n in range(500)}}
    committed = {group_id: {("t", n): 1 for n in range(size)} for group_id, size in sizes.items()}
    world = World(committed, {("t", n): 1 for n in range(2 * SAMPLES_MAX)})
    seen: Counter[tuple[str, int]] = Counter()
    for expected in (SAMPLES_MAX, SAMPLES_MAX, 1_500):
        told = world.sample()
        assert len(told) == expected
        seen.update((each.group_id, each.partition) for each in told)
    assert len(seen) == sum(sizes.values())
    assert max(world.asked) == ASKED_MAX
    assert world.sample()[0] == Lag(NOW_MS, "large", "t", 0, 1, 1, 0), "and from the beginning again"


def test_who_serves_no_longer_tells_nothing() -> None:
    world = World({"g": {("t", 0): 7}}, {("t", 0): 10})
    world.offsets = None
    assert world.sample() == []
