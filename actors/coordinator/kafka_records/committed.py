"""What is committed, as the records that Kafka would write for it: a state first, then change by change.

Kafka keeps a classic group and its members in one record, and here each is a record of its own. So the parts
of classic groups are remembered, and after each change the groups that it touched are written whole.

What Kafka writes with an open transaction is not written before the transaction is committed. Then it is a
plain record, which readers of committed records see at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from actors.coordinator.kafka_records.codec import NO_VERSION, KafkaRecord
from actors.coordinator.kafka_records.convert import classic_group_to_kafka, single_to_kafka
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.ground import records as ours
from actors.protocol.offset_rows import numbers_of

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
    is_given = True
    """Whether the log may be read."""
    is_sealed = False
    """Whether the log has ended."""

    def __init__(self) -> None:
        self._classic = ClassicGroups()

    def restart(self) -> None:
        """Forget the groups, because the whole state comes anew."""
        self._classic.clear()

    def to_kafka(self, records: Iterable[PlainRecord]) -> Iterator[KafkaRecord]:
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


def whole_in_itself(key: tuple[Any, ...], packed: tuple[Any, ...] | None) -> Iterable[KafkaRecord]:
    """Return what Kafka would write for a record that is no part of a classic group."""
    if key[0] == ours.OFFSET_BATCH:
        return () if packed is None else _of_batch(key, ours.OffsetBatchValue(*packed))
    if key[0] == ours.OFFSET_ROWS:
        return () if packed is None else _of_rows(key, ours.OffsetRowsValue(*packed))
    record = single_to_kafka(key, packed)
    return () if record is None else (record,)


def _of_batch(key: tuple[Any, ...], batch: ours.OffsetBatchValue) -> Iterator[KafkaRecord]:
    """Yield a record for each partition that one request has committed."""
    _, group_id, topic = key
    numbers = zip(batch.partitions, batch.offsets, batch.leader_epochs, strict=True)
    return _singles(group_id, topic, numbers, batch[3:])


def _of_rows(key: tuple[Any, ...], value: ours.OffsetRowsValue) -> Iterator[KafkaRecord]:
    _, group_id, topic = key
    for rows, *others in value.blocks:
        yield from _singles(group_id, topic, numbers_of(rows), others)


def _singles(
    group_id: str, topic: str, numbers: Iterable[tuple[int, int, int]], others: Iterable[Any]
) -> Iterator[KafkaRecord]:
    """Yield a record for each partition, offset and leader epoch. `others` are what is the same for all."""
    others = tuple(others)
    for partition, offset, leader_epoch in numbers:
        value = ours.OffsetCommitValue(offset, leader_epoch, "", *others)
        record = single_to_kafka((ours.OFFSET_COMMIT, group_id, topic, partition), value)
        assert record is not None
        yield record
