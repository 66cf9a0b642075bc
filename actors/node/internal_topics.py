"""The logs of `__consumer_offsets` and `__transaction_state` that this broker has: those of the offsets
partitions led on its node.

A log is made when somebody reads it first, and dropped when nobody has for a while. It begins with the state
of the partition, in Kafka's records, and goes on with what is committed; when that has become long, the whole
state is put behind it and everything before is dropped, as if Kafka's cleaner had compacted the log. Each log
has a feed of its own from the partition's leader, and takes the records of its topic from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import msgpack
from kio.schema.errors import ErrorCode

from actors.coordinator.kafka_records.codec import KafkaRecord, RecordError, encode
from actors.coordinator.kafka_records.committed import CommittedRecords, PlainRecord
from actors.coordinator.kafka_records.schemas import Schemas
from actors.coordinator.kafka_records.transactions import CommittedTransactions
from actors.ground.identity import TIER, ClientIdentity
from actors.ground.limits import (
    OFFSETS_STATE_BYTES_MAX,
    OFFSETS_TAIL_BATCHES_MAX,
    OFFSETS_TAIL_BYTES_MAX,
)
from actors.ground.tasks import Tasks
from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.protocol.offsets_feed import (
    NO_FEED,
    NOT_KNOWN,
    Fed,
    Piece,
    Question,
    pack_question,
    unpack_fed,
)
from actors.topics.batch import plain_batch
from actors.topics.errors import LogError
from actors.topics.partition_log import LogSettings, PartitionLog

log = logging.getLogger("groupd.broker")

UNUSED_MS = 180_000
"""How long, in ms, a log is kept that nobody reads."""
READY_TIMEOUT_S = 5.0
"""How long, in seconds, a reader waits for a log that is being made; then it is told to come again."""
WAIT_MS = 5_000
"""How long, in ms, the leader lets a question wait for something to be committed."""
ANSWER_TIMEOUT_S = 30.0
BATCH_RECORDS_MAX = 500
"""How many records are made at a time, and put into one batch, before other requests are served: a few
milliseconds of work."""
_KEPT_FROM_SHARE = 0.75
"""The share of a tail's bounds behind which it outlives the next state."""
_SETTINGS = LogSettings(message_bytes_max=2**31 - 1, retention_bytes=2**62, retention_ms=None)


class Leaders(Protocol):
    """The leaders of offsets partitions on this node."""

    def slot_of(self, partition: int) -> int | None: ...


class Hub(Protocol):
    """What sends a question to a leader on this node, and waits for its answer."""

    async def relay(
        self, slot: int, identity: ClientIdentity, frame: bytes, timeout_s: float
    ) -> bytes | None: ...


class Place(NamedTuple):
    """A partition of an internal topic."""

    topic: str
    partition: int


Appended = Callable[[Place, int], None]
"""A function that is told of a partition and how many bytes were appended to its log; 0: the log is gone, or
another one."""


class Conversion(Protocol):
    """What makes records of an internal topic of what an offsets partition commits."""

    schemas: Schemas
    """The table by which the records are written."""

    def restart(self) -> None:
        """Forget everything, because the whole state comes anew."""

    def to_kafka(self, records: Iterable[PlainRecord]) -> Iterator[KafkaRecord]:
        """Yield what Kafka would write for a part of the state or of a change."""

    def held_back(self) -> Iterator[KafkaRecord]:
        """Yield what can be written only at the end of the state or of one change."""


CONVERSIONS: dict[str, Callable[[], Conversion]] = {
    OFFSETS_TOPIC: CommittedRecords,
    TRANSACTIONS_TOPIC: CommittedTransactions,
}
"""Internal topic -> what makes its records."""


class Bounds:
    """How long a log may become. `actors.ground.limits` says what each bound is for."""

    def __init__(
        self,
        state_bytes_max: int = OFFSETS_STATE_BYTES_MAX,
        tail_bytes_max: int = OFFSETS_TAIL_BYTES_MAX,
        tail_batches_max: int = OFFSETS_TAIL_BATCHES_MAX,
    ) -> None:
        self.state_bytes_max = state_bytes_max
        self.tail_bytes_max = tail_bytes_max
        self.tail_batches_max = tail_batches_max


class MadeLog:
    """The log of one partition as it is made of what a feed gives."""

    def __init__(self, place: Place, appended: Appended, clock_ms: Callable[[], int], bounds: Bounds) -> None:
        self._place = place
        self._tell = appended
        self._clock_ms = clock_ms
        self._bounds = bounds
        self._records = CONVERSIONS[place.topic]()
        self._log = PartitionLog(_SETTINGS, 0, lambda _: None)
        self._kept_from = 0
        """What stands from this offset on outlives the next state, so that a reader that is a little behind
        keeps its place: what it has yet to read, deletions among it, comes before that state."""
        self._is_in_state = False
        self._size_bytes = self._batches = 0
        """What was appended of the state under way, or behind the last one."""
        self.is_whole = False
        """Whether a state is there, so that the log can be read."""

    @property
    def log(self) -> PartitionLog:
        return self._log

    @property
    def is_long(self) -> bool:
        """Return whether the log should go on with a new state."""
        return not self._is_in_state and self._tail_share > 1

    @property
    def _tail_share(self) -> float:
        """Return how much of its bounds the tail has used."""
        return max(
            self._size_bytes / self._bounds.tail_bytes_max, self._batches / self._bounds.tail_batches_max
        )

    def begin_at(self, offset: int) -> None:
        """Begin with nothing, at this offset."""
        self._log = PartitionLog(_SETTINGS, offset, lambda _: None)
        self._records.restart()
        self.is_whole, self._is_in_state = False, False
        self._size_bytes = self._batches = 0
        self._appended(0)

    async def take(self, kind: int, content: bytes) -> None:
        """Take one piece. Raises LogError if the state is too large to be read."""
        if kind == Piece.COMMITTED:
            await self._append(self._records.to_kafka(_unpacked(content)))
            await self._append(self._records.held_back())
            return
        if not self._is_in_state:
            self._is_in_state = True
            if self._tail_share < _KEPT_FROM_SHARE:
                self._kept_from = self._log.end_offset
            self._size_bytes = self._batches = 0
            self._records.restart()
        await self._append(self._records.to_kafka(_unpacked(content)))
        if kind == Piece.STATE_END:
            await self._append(self._records.held_back())
            self._log.delete_records(self._kept_from)
            self.is_whole, self._is_in_state = True, False
            self._size_bytes = self._batches = 0
            self._appended(0)
        elif self._size_bytes > self._bounds.state_bytes_max:
            raise LogError(ErrorCode.kafka_storage_error)

    async def _append(self, records: Iterator[KafkaRecord]) -> None:
        packed: list[tuple[bytes, bytes | None]] = []
        for record in records:
            try:
                packed.append(encode(record, self._records.schemas))
            except RecordError as error:
                log.warning("a record is left out of %s: %s", self._place.topic, error)
            if len(packed) >= BATCH_RECORDS_MAX:
                self._append_batch(packed)
                packed.clear()
                await asyncio.sleep(0)
        if packed:
            self._append_batch(packed)

    def _append_batch(self, packed: list[tuple[bytes, bytes | None]]) -> None:
        if not self._is_in_state and self._tail_share < _KEPT_FROM_SHARE:
            self._kept_from = self._log.end_offset
        now_ms = self._clock_ms()
        size_bytes = self._log.append(plain_batch(packed, now_ms), now_ms).size_bytes
        self._size_bytes += size_bytes
        self._batches += 1
        self._appended(size_bytes)

    def _appended(self, size_bytes: int) -> None:
        self._tell(self._place, size_bytes)


def _unpacked(content: bytes) -> Iterable[PlainRecord]:
    """Yield the records of an entry or of a part of a state, without the header in front of them."""
    unpacker: Any = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(content)
    for key, value in unpacker:
        if not isinstance(key, int):
            yield key, value


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
        self._readings: dict[Place, _Reading] = {}
        self._ends: dict[Place, int] = {}
        """Partition -> the offset behind all that this broker has given out of it."""
        self._tasks = Tasks("a log of an internal topic")

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
        if reading is None or not reading.made.is_whole:
            error = ErrorCode.none if reading is None else reading.error
            raise LogError(error or ErrorCode.not_leader_or_follower)
        reading.used_ms = self._clock_ms()
        return reading.made.log

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
            made = MadeLog(place, self._appended, self._clock_ms, self._bounds)
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
