"""What Kafka's coordinators have in memory once they have read their log, in a few plain lines.

Written after org.apache.kafka CoordinatorLoaderImpl, OffsetMetadataManager and GroupMetadataManager. Kafka
knows which of two offsets is the newer one by their places in the log; a tier's log has other places.
"""

from __future__ import annotations

from typing import Any

from actors.coordinator.kafka_records.codec import decode, kind_of
from actors.coordinator.kafka_records.convert import from_kafka
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.ground import records as ours
from tests.upstream.offsets_log.logs import NO_PRODUCER, Batch, KafkaLog

_Offset = tuple[int, Any]
"""(place in the log, what was committed)"""


class Model:
    def __init__(self) -> None:
        self.latest: dict[bytes, bytes] = {}
        """The last value of each key that is no offset."""
        self.offsets: dict[Any, _Offset] = {}
        self.pending: dict[int, dict[Any, _Offset]] = {}
        self.markers: dict[int, tuple[int, int]] = {}
        """Producer id -> epoch and coordinator's epoch of its last marker."""

    def read(self, log: KafkaLog) -> Model:
        for batch in log.batches:
            if batch.is_marker:
                self._end(batch)
            else:
                for offset, key, value in batch.records:
                    self._take(batch.producer, offset, key, value)
        return self

    def _take(self, producer: tuple[int, int], offset: int, key: bytes, value: bytes | None) -> None:
        if kind_of(key) != ours.OFFSET_COMMIT:
            if value is None:
                self.latest.pop(key, None)
            else:
                self.latest[key] = value
            return
        place = tuple(decode(key, None).key.values())
        if value is None:
            self.offsets.pop(place, None)
            for offsets in self.pending.values():
                offsets.pop(place, None)
            return
        [committed] = from_kafka(decode(key, value))
        if producer == NO_PRODUCER:
            self.offsets[place] = offset, committed.value
        else:
            self.pending.setdefault(producer[0], {})[place] = offset, committed.value

    def _end(self, batch: Batch) -> None:
        [(_, key, value)] = batch.records
        assert value is not None
        self.markers[batch.producer[0]] = batch.producer[1], int.from_bytes(value[2:], "big")
        for place, ended in self.pending.pop(batch.producer[0], {}).items():
            before = self.offsets.get(place)
            if key[3] and (before is None or ended[0] > before[0]):
                self.offsets[place] = ended

    # As ours.

    def records(self) -> dict[Any, Any]:
        """Return our records of the same state, without those of `Taker.records` that no such state has."""
        found: dict[Any, Any] = {}
        for key, value in self.latest.items():
            if kind_of(key) in SCHEMAS:
                found |= {each.key: each.value for each in from_kafka(decode(key, value))}
            else:
                found[ours.FOREIGN_RECORD, "", key] = (value,)
        for place, (_, committed) in self.offsets.items():
            found[ours.OFFSET_COMMIT, *place] = committed
        for producer_id, offsets in self.pending.items():
            for place, (_, committed) in offsets.items():
                found[ours.PENDING_TXN_OFFSET, *place, producer_id] = committed.offset
        for producer_id, epochs in self.markers.items():
            found[ours.PRODUCER_MARKER, "", producer_id] = epochs
        return found


def comparable(records: dict[Any, Any]) -> dict[Any, Any]:
    """Return the records of a shard in the form of `Model.records`."""
    found = {tuple(key): value for key, value in records.items() if key[0] != ours.TAKEN_LOG}
    for key, value in found.items():
        if key[0] == ours.PENDING_TXN_OFFSET:
            found[key] = value.offset
        elif key[0] == ours.PRODUCER_MARKER:
            found[key] = value[:2]
    return found
