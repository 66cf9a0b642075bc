"""What is committed, as the records that Kafka would write for it: a state first, then change by change.

Kafka keeps a classic group and its members in one record, and here each is a record of its own. So the parts
of classic groups are remembered, and after each change the groups that it touched are written whole.

What Kafka writes with an open transaction is not written before the transaction is committed. Then it is a
plain record, which readers of committed records see at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from actors.coordinator.kafka_records.codec import NO_VERSION, KafkaRecord, RecordBytes
from actors.coordinator.kafka_records.convert import classic_group_to_kafka, single_to_kafka
from actors.coordinator.kafka_records.offset_bytes import records_of
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.ground import records as ours
from actors.protocol.offset_rows import numbers_of
from actors.protocol.offset_rows import packed as packed_rows

PlainRecord = tuple[tuple[Any, ...], tuple[Any, ...] | None]
"""A record's key and value as they stand in the log; the value is None if the key is deleted."""


class ClassicGroups:
    """The classic groups of one offsets partition, each of which is one record at Kafka's."""

    def __init__(self) -> None:
        self._groups: dict[str, ours.GroupMetadataValue] = {}
        self._members: dict[str, dict[str, ours.ClassicMemberValue]] = {}
        self._touched: dict[str, None] = {}
        """The groups that are to be written whole, in the order in which they changed."""

    def has(self, group_id: str) -> bool:
        """Return whether there is such a group."""
        return group_id in self._groups

    def clear(self) -> None:
        self._groups.clear()
        self._members.clear()
        self._touched.clear()

    def note(self, key: tuple[Any, ...], packed: tuple[Any, ...] | None) -> None:
        """Note what has become of a group or of a member; `key` is of one of PARTS_OF_GROUPS."""
        kind, group_id = key[:2]
        self._touched[group_id] = None
        if kind == ours.GROUP_METADATA:
            if packed is None:
                self._groups.pop(group_id, None)
            else:
                self._groups[group_id] = ours.GroupMetadataValue(*packed)
            return
        members = self._members.setdefault(group_id, {})
        if packed is None:
            members.pop(key[2], None)
        else:
            members[key[2]] = ours.ClassicMemberValue(*packed)
        if not members:
            del self._members[group_id]

    def changed(self) -> Iterator[KafkaRecord]:
        """Yield the groups that have changed since they were asked for last; a tombstone for one that is no
        more."""
        touched, self._touched = self._touched, {}
        for group_id in touched:
            group = self._groups.get(group_id)
            if group is not None:
                yield classic_group_to_kafka(group_id, group, self._members.get(group_id, {}).items())
            else:
                yield KafkaRecord(ours.GROUP_METADATA, {"group": group_id}, NO_VERSION, None)


PARTS_OF_GROUPS: Final = frozenset({ours.GROUP_METADATA, ours.CLASSIC_MEMBER})
"""The types of records that are noted until the whole group is known."""


class CommittedRecords:
    """The records of groups of one offsets partition on their way to Kafka's form."""

    schemas = SCHEMAS
    leader_epoch = 0
    """A partition of a tier of its own is always in its first epoch."""
    is_given = True
    """Whether the log may be read."""
    is_sealed = False
    """Whether the log has ended."""

    def __init__(self) -> None:
        self._classic = ClassicGroups()

    def restart(self) -> None:
        """Forget the groups, because the whole state comes anew."""
        self._classic.clear()

    def to_kafka(self, records: Iterable[PlainRecord]) -> Iterator[KafkaRecord | RecordBytes]:
        """Yield what Kafka would write for a part of the state or of a change. Classic groups wait for
        `held_back`."""
        for key, packed in records:
            if key[0] in PARTS_OF_GROUPS:
                self._classic.note(key, packed)
            else:
                yield from whole_in_itself(key, packed)

    def held_back(self) -> Iterator[KafkaRecord]:
        """Yield the classic groups that have changed, at the end of the state or of one change."""
        return self._classic.changed()


def whole_in_itself(
    key: tuple[Any, ...], packed: tuple[Any, ...] | None
) -> Iterable[KafkaRecord | RecordBytes]:
    """Return what Kafka would write for a record that is no part of a classic group."""
    if key[0] == ours.OFFSET_COMMIT and packed is not None:
        return _of_commit(key, ours.OffsetCommitValue(*packed))
    if key[0] == ours.OFFSET_BATCH:
        return () if packed is None else _of_batch(key, ours.OffsetBatchValue(*packed))
    if key[0] == ours.OFFSET_ROWS:
        return () if packed is None else _of_rows(key, ours.OffsetRowsValue(*packed))
    record = single_to_kafka(key, packed)
    return () if record is None else (record,)


def singles_of_rows(key: tuple[Any, ...], packed: tuple[Any, ...]) -> Iterator[PlainRecord]:
    """Yield an OFFSET_COMMIT for each row of an OFFSET_ROWS."""
    _, group_id, topic = key
    for rows, *times in ours.OffsetRowsValue(*packed).blocks:
        for partition, offset, leader_epoch in numbers_of(rows):
            yield (ours.OFFSET_COMMIT, group_id, topic, partition), (offset, leader_epoch, "", *times)


def _of_batch(key: tuple[Any, ...], batch: ours.OffsetBatchValue) -> Iterable[KafkaRecord | RecordBytes]:
    """Return a record for each partition that one request has committed."""
    numbers = zip(batch.partitions, batch.offsets, batch.leader_epochs, strict=True)
    return _of_block(key, packed_rows(numbers), batch[3:])


def _of_rows(key: tuple[Any, ...], value: ours.OffsetRowsValue) -> Iterator[KafkaRecord | RecordBytes]:
    for block in value.blocks:
        yield from _of_block(key, block[0], block[1:])


def _of_block(
    key: tuple[Any, ...], rows: bytes, times: tuple[int, int, bytes]
) -> Iterable[KafkaRecord | RecordBytes]:
    """Return a record for each row. `times` are what is the same for all."""
    _, group_id, topic = key
    fast = records_of(group_id, topic, rows, "", times)
    return map(_by_codec, singles_of_rows(key, (((rows, *times),),))) if fast is None else fast


def _of_commit(key: tuple[Any, ...], value: ours.OffsetCommitValue) -> Iterable[KafkaRecord | RecordBytes]:
    _, group_id, topic, partition = key
    row = packed_rows([(partition, value.offset, value.leader_epoch)])
    fast = records_of(group_id, topic, row, value.metadata, value[3:])
    return (_by_codec((key, value)),) if fast is None else fast


def _by_codec(commit: PlainRecord) -> KafkaRecord:
    record = single_to_kafka(*commit)
    assert record is not None
    return record
