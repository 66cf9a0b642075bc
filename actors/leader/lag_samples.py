"""Samples of how far groups are behind the logs of their topics, told as events of kind `lag`.

Brokers know where the logs end that they lead, a coordinator knows what was committed. The leader of an
offsets partition asks its node's broker (`log_ends`), which asks the others. A log that ends before the
committed offset is not the log that was read: its records are elsewhere, or gone, and no lag is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from actors.catalog import codec
from actors.coordinator.ground.slices import SLICE_MAX
from actors.ground.records import OffsetCommitValue, Position
from actors.ground.spec import HistorySettings
from actors.ground.tasks import Tasks
from actors.leader.serving import serving_shard
from actors.protocol.api_keys import LIST_OFFSETS
from actors.protocol.messages import NO_ERROR
from actors.replica.host import ReplicaHost

log = logging.getLogger("groupd.partition")

SAMPLES_MAX: Final = 5_000
"""How many partitions are sampled in one round; the next round goes on where it ended."""
ASKED_MAX: Final = 100
"""How many partitions one request asks for, which takes a millisecond of a broker's time."""
VERSION: Final = 1
LATEST: Final = -1
_ANYBODY: Final = -1

Committed = tuple[str, Position, int]
"""What a group committed: (group id, position, offset)."""
Offsets = Mapping[str, Mapping[Position, OffsetCommitValue]]
"""Group id -> position -> what the group committed there."""
AskBroker = Callable[[int, int, Any], Awaitable[Any]]
"""A function that asks the node's broker: (api key, api version, kio's request) -> kio's response, None if
there was none."""


class Lag(NamedTuple):
    """The event that a group had so much of a partition still to read."""

    at_ms: int
    group_id: str
    topic: str
    partition: int
    committed_offset: int
    end_offset: int
    lag: int

    @property
    def kind(self) -> str:
        return "lag"


class LagSamples:
    """The sampler of the lag of one replica's groups. `offsets` are looked up when needed, and None while the
    replica does not serve; `tell` takes the samples."""

    def __init__(
        self,
        interval_ms: int,
        *,
        offsets: Callable[[], Offsets | None],
        ask_broker: AskBroker,
        tell: Callable[[Iterable[Lag]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._interval_ms = interval_ms
        self._offsets = offsets
        self._ask_broker = ask_broker
        self._tell = tell
        self._now_ms = now_ms
        self._group = 0
        self._position = 0
        """The place, within the offsets of that group, where the next round begins."""
        self._tasks = Tasks("sampling lag")

    @classmethod
    def of(
        cls,
        settings: HistorySettings,
        host: ReplicaHost,
        ask_broker: AskBroker,
        tell: Callable[[Iterable[Lag]], None],
    ) -> LagSamples:
        """Return the sampler for the coordinator of a replica."""

        def offsets() -> Offsets | None:
            shard = serving_shard(host)
            return None if shard is None else shard.state.offsets

        interval_ms = settings.history_lag_interval_ms if settings.history_enable else 0
        return cls(interval_ms, offsets=offsets, ask_broker=ask_broker, tell=tell, now_ms=host.now_ms)

    def start(self) -> None:
        if self._interval_ms > 0:
            self._tasks.spawn(self._run())

    def close(self) -> None:
        self._tasks.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                await self.sample()
            except Exception:
                log.exception("lag could not be sampled")

    async def sample(self) -> None:
        """Sample once: at most SAMPLES_MAX partitions, beginning with the group where the last round
        ended."""
        committed = list(self._due())
        positions = list(dict.fromkeys(position for _, position, _ in committed))
        ends: dict[Position, int] = {}
        for at in range(0, len(positions), ASKED_MAX):
            ends |= await self._ends(positions[at : at + ASKED_MAX])
        samples = _samples(self._now_ms(), committed, ends)
        while self._offsets() is not None and (some := list(islice(samples, SLICE_MAX))):
            self._tell(some)
            await asyncio.sleep(0)

    def _due(self) -> Iterator[Committed]:
        """Yield the offsets that this round samples. They are to be taken at once, because commits change
        what is iterated."""
        offsets, left = self._offsets() or {}, SAMPLES_MAX
        for group_id in islice(offsets, self._group, None):
            some = list(islice(offsets[group_id].items(), self._position, self._position + left))
            yield from ((group_id, position, value.offset) for position, value in some)
            left -= len(some)
            if left == 0:
                self._position += len(some)
                return
            self._group, self._position = self._group + 1, 0
        self._group = self._position = 0

    async def _ends(self, positions: Sequence[Position]) -> dict[Position, int]:
        """Return where these logs end, without those of which nobody knows the end."""
        asked: dict[str, list[Any]] = {}
        partition_class = codec.nested(LIST_OFFSETS, VERSION, "ListOffsetsPartition", "request")
        topic_class = codec.nested(LIST_OFFSETS, VERSION, "ListOffsetsTopic", "request")
        for topic, number in positions:
            partition = codec.build(partition_class, partition_index=number, timestamp=LATEST)
            asked.setdefault(topic, []).append(partition)
        topics = (codec.build(topic_class, name=name, partitions=tuple(of)) for name, of in asked.items())
        request = codec.request_class(LIST_OFFSETS, VERSION)
        entity = codec.build(request, replica_id=_ANYBODY, topics=tuple(topics))
        answer = await self._ask_broker(LIST_OFFSETS, VERSION, entity)
        return {
            (topic.name, each.partition_index): each.offset
            for topic in (() if answer is None else answer.topics)
            for each in topic.partitions
            if each.error_code == NO_ERROR
        }


def _samples(at_ms: int, committed: Iterable[Committed], ends: Mapping[Position, int]) -> Iterator[Lag]:
    for group_id, position, offset in committed:
        end = ends.get(position, 0)
        if 0 <= offset <= end and end > 0:
            yield Lag(at_ms, group_id, *position, offset, end, end - offset)
