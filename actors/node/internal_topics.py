"""The logs of `__consumer_offsets` and `__transaction_state` that this broker has: those of the offsets
partitions led on its node.

A log is made when somebody reads it first, and dropped when nobody has for a while. Each log has a feed of
its own from the partition's leader, and takes the records of its topic from it.

In front of an upstream cluster brokers read `__consumer_offsets`, too: they fetch it as followers, and lead
it once they have all of it. Its log is one that they can load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from kio.schema.errors import ErrorCode

from actors.ground.identity import TIER, ClientIdentity
from actors.ground.limits import GIVEN_STATE_BYTES_MAX
from actors.ground.tasks import Tasks
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.node.made_log import Appended, Bounds, MadeLog, Place
from actors.node.upstream_fetchers import UpstreamFetchers
from actors.protocol.offsets_feed import (
    NO_FEED,
    NOT_KNOWN,
    Fed,
    Question,
    pack_question,
    unpack_fed,
)
from actors.topics.errors import LogError
from actors.topics.partition_log import LEADER_EPOCH, PartitionLog
from actors.upstream.given import GivenLog

log = logging.getLogger("groupd.broker")

UNUSED_MS = 180_000
"""How long, in ms, a log is kept that nobody reads."""
READY_TIMEOUT_S = 5.0
"""How long, in seconds, a reader waits for a log that is being made; then it is told to come again."""
WAIT_MS = 5_000
"""How long, in ms, the leader lets a question wait for something to be committed."""
ANSWER_TIMEOUT_S = 30.0
AGAIN_S = 1.0
"""How long, in seconds, readers of a log that may not be read are refused before it is looked at again."""


class Leaders(Protocol):
    """The leaders of offsets partitions on this node."""

    def slot_of(self, partition: int) -> int | None: ...


class Hub(Protocol):
    """What sends a question to a leader on this node, and waits for its answer."""

    async def relay(
        self, slot: int, identity: ClientIdentity, frame: bytes, timeout_s: float
    ) -> bytes | None: ...


LeaderEpochs = Callable[[int], int]
"""A function from a partition of `__consumer_offsets` to the epoch in which it is led upstream; -1 if that is
not known."""


class _Reading:
    """One partition that is read."""

    def __init__(self, made: MadeLog, now_ms: int) -> None:
        self.made = made
        self.used_ms = now_ms
        self.changed = asyncio.Event()
        """Set when the log is whole, or is not going to be."""
        self.error = ErrorCode.none
        """Why the log cannot be read."""


class InternalTopics:
    """The logs of internal topics of one broker (api.context.InternalLogs). `appended` is called with a
    partition and the bytes that came."""

    def __init__(
        self,
        leaders: Leaders,
        hub: Hub,
        appended: Appended,
        clock_ms: Callable[[], int],
        bounds: Bounds | None = None,
    ) -> None:
        self._leaders = leaders
        self._hub = hub
        self._appended = appended
        self._clock_ms = clock_ms
        self._bounds = bounds or Bounds()
        self._leader_epochs: LeaderEpochs | None = None
        """It is None in a tier of its own."""
        self.fetchers = UpstreamFetchers(clock_ms)
        self._readings: dict[Place, _Reading] = {}
        self._ends: dict[Place, int] = {}
        """Partition -> the offset behind all that this broker has given out of it."""
        self._tasks = Tasks("a log of an internal topic")

    def give_to_brokers(self, leader_epochs: LeaderEpochs) -> None:
        """Make logs that brokers of a cluster upstream can load, and of large states, too: groups could not
        go back otherwise. Brokers ask in the leader epochs of that cluster."""
        self._leader_epochs = leader_epochs
        self._bounds.state_bytes_max = GIVEN_STATE_BYTES_MAX

    def __len__(self) -> int:
        """Return how many logs there are."""
        return len(self._readings)

    async def ready(self, places: Collection[tuple[str, int]]) -> None:
        """Wait until the logs of these partitions can be read, or cannot; they are made if nobody has read
        them lately."""
        led = [place for topic, partition in places if self._is_led(place := Place(topic, partition))]
        waits = [self._reading(place).changed.wait() for place in led]
        if waits:
            await asyncio.wait([asyncio.ensure_future(each) for each in waits], timeout=READY_TIMEOUT_S)

    def log(self, topic: str, partition: int) -> PartitionLog:
        """Return a log that is ready. Raises LogError if it is not: NOT_LEADER_OR_FOLLOWER has clients ask
        again."""
        reading = self._readings.get(Place(topic, partition))
        if reading is None or not reading.made.is_whole or reading.made.is_over:
            error = ErrorCode.none if reading is None else reading.error
            raise LogError(error or ErrorCode.not_leader_or_follower)
        reading.used_ms = self._clock_ms()
        return reading.made.log

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the epoch in which a partition is led."""
        if self._leader_epochs is None or topic != OFFSETS_TOPIC:
            return LEADER_EPOCH
        return self._leader_epochs(partition)

    def fetched(self, topic: str, partition: int, broker: tuple[int, int], offset: int) -> None:
        """Note that a broker of this id and epoch has everything before an offset."""
        if topic == OFFSETS_TOPIC:
            self.fetchers.fetched(partition, broker, offset)

    def given(self) -> dict[int, GivenLog]:
        """Return the logs that brokers are given, by partition, and how far each broker is."""
        return {
            place.partition: GivenLog(
                made.log.log_start_offset,
                made.log.end_offset,
                made.is_sealed,
                self.fetchers.of(place.partition),
            )
            for place, reading in self._readings.items()
            if place.topic == OFFSETS_TOPIC and (made := reading.made).is_whole and not made.is_over
        }

    def partition_bytes(self, topic: str, partition: int) -> int:
        """Return the size of a log; 0 if nobody reads it."""
        reading = self._readings.get(Place(topic, partition))
        return 0 if reading is None else reading.made.log.size_bytes

    def close(self) -> None:
        self._tasks.close()

    def _is_led(self, place: Place) -> bool:
        return self._leaders.slot_of(place.partition) is not None

    def _reading(self, place: Place) -> _Reading:
        reading = self._readings.get(place)
        if reading is None:
            is_given = self._leader_epochs is not None
            made = MadeLog(place, self._appended, self._clock_ms, self._bounds, is_for_brokers=is_given)
            reading = self._readings[place] = _Reading(made, self._clock_ms())
            self._tasks.spawn(self._read(place, reading))
        reading.used_ms = self._clock_ms()
        return reading

    async def _read(self, place: Place, reading: _Reading) -> None:
        """Make a log for as long as it is used and this node leads the partition."""
        feed = NO_FEED
        try:
            while self._clock_ms() - reading.used_ms <= UNUSED_MS:
                fed = await self._ask(place, feed, reading.made)
                if fed is None:
                    break
                if feed == NO_FEED and fed.feed != NO_FEED:
                    reading.made.begin_at(fed.start_offset)
                elif fed.feed == NO_FEED:
                    self._miss(place, reading)
                feed = fed.feed
                await self._take(place, reading, fed)
                if reading.made.is_over:
                    reading.changed.set()
                    await asyncio.sleep(AGAIN_S)
                    break
        except LogError as error:
            log.warning("partition %d of %s is too large to be read", place.partition, place.topic)
            reading.error = error.error_code
            self._miss(place, reading)
            reading.changed.set()
            await asyncio.sleep(UNUSED_MS / 1_000)
        finally:
            del self._readings[place]
            self._miss(place, reading)
            reading.changed.set()
            self._appended(place, 0)

    def _miss(self, place: Place, reading: _Reading) -> None:
        """End a log that is to begin anew. What is committed until then is missing: an offset that is never
        given out has readers notice, and read the whole state."""
        reading.made.is_whole = False
        if place in self._ends:
            self._ends[place] += 1

    async def _ask(self, place: Place, feed: int, made: MadeLog) -> Fed | None:
        slot = self._leaders.slot_of(place.partition)
        if slot is None:
            return None
        again = feed != NO_FEED and made.is_long
        question = Question(place.topic, feed, self._ends.get(place, NOT_KNOWN), again, WAIT_MS)
        answer = await self._hub.relay(slot, TIER, pack_question(question), ANSWER_TIMEOUT_S)
        return None if answer is None else unpack_fed(answer)

    async def _take(self, place: Place, reading: _Reading, fed: Fed) -> None:
        made = reading.made
        for kind, content in fed.pieces:
            await made.take(kind, content)
            self._ends[place] = made.log.end_offset
        if made.is_whole:
            reading.changed.set()
