"""What is committed, as a log that Kafka's own coordinators load (org.apache.kafka CoordinatorLoaderImpl): a
state first, then change by change. Nothing is missing that their own log would have.

* Records that mean nothing here stand there byte for byte.
* Offsets of open transactions are batches of their producers, and wait there for the marker that ends them. A
  transaction that ends here ends there by an ABORT marker, before which or behind which what it has committed
  stands as plain records: these say the same wherever other transactions have their offsets, whose places in
  the log decide at Kafka which of two offsets is the newer one. The last marker of each producer is there,
  too: brokers compare later ones with it.
* Kafka refuses to load a log that deletes a member, or a group, before the parts of it. So what a change
  deletes comes first, in Kafka's order. Parts that have never been written here are deleted, too.
* Of what Kafka knows nothing of there is nothing: groups that are pushed to keep their offsets alone, and
  assignors that members bring are lost. The offsets of groups that are dying are not left out: a shard ends
  their deletion before its log ends.

Hashes of consumer groups' topics are those of this tier. Kafka computes another one over the same topics, so
it raises the epoch of each such group once, at the first heartbeat: members are told their partitions anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from actors.coordinator.kafka_records.codec import (
    NO_VERSION,
    KafkaRecord,
    Plain,
    RecordBytes,
    schema_of,
)
from actors.coordinator.kafka_records.committed import (
    PARTS_OF_GROUPS,
    ClassicGroups,
    PlainRecord,
    singles_of_rows,
    whole_in_itself,
)
from actors.coordinator.kafka_records.convert import single_to_kafka
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.ground import records as ours

_Position = tuple[str, str, int]
"""(group id, topic, partition)"""
_Pending = tuple[ours.PendingTxnOffsetKey, ours.PendingTxnOffsetValue]


class Pended(NamedTuple):
    """An offset of an open transaction."""

    producer: tuple[int, int]
    """The producer's id and epoch."""
    record: KafkaRecord


class Ended(NamedTuple):
    """The marker that ends what a producer has pending; what was committed stands for itself."""

    producer: tuple[int, int]
    coordinator_epoch: int
    timestamp_ms: int


Written = KafkaRecord | RecordBytes | Pended | Ended

_PARTS: Final = {
    ours.CONSUMER_MEMBER_METADATA: (ours.CURRENT_MEMBER_ASSIGNMENT, ours.TARGET_ASSIGNMENT_MEMBER),
    ours.CONSUMER_GROUP_METADATA: (ours.TARGET_ASSIGNMENT_METADATA,),
}
"""Type of a record -> the types that have to be deleted before it, of the same member or group."""
_GROUPS: Final = (
    ours.GROUP_METADATA,
    ours.CURRENT_MEMBER_ASSIGNMENT,
    ours.TARGET_ASSIGNMENT_MEMBER,
    ours.CONSUMER_MEMBER_METADATA,
    ours.REGULAR_EXPRESSION,
    ours.TARGET_ASSIGNMENT_METADATA,
    ours.CONSUMER_GROUP_METADATA,
)
"""The types of records of groups, in the order in which they are deleted."""
_GIVEN: Final = frozenset({ours.SERVED, ours.SEALED})
"""The phases in which the log is the groups' own."""


class LoadableRecords:
    """The records of one offsets partition on their way to brokers that shall load them."""

    schemas = SCHEMAS

    def __init__(self) -> None:
        self._classic = ClassicGroups()
        self._in_state = False
        self._ended: set[int] = set()
        """The producers whose last marker is known, and who have begun nothing since."""
        self._pending: list[_Pending] = []
        """What is pending in the state under way. A state gives it before offsets, unless it was ended
        meanwhile; then a change is to come that says so."""
        self._positions: set[_Position] = set()
        """Where something is pending in the state under way."""
        self._topics: set[tuple[str, str]] = set()
        """The group and topic of these positions."""
        self._committed: dict[_Position, PlainRecord] = {}
        """The committed offsets at these positions."""
        self._phase: int | None = None
        """What the last TAKEN_LOG says of Kafka's log; None: there is none."""
        self.leader_epoch = 0
        """The epoch of batches: that in which the groups began to be served, as soon as it is known. Lower
        ones are as good: brokers that lead later write in higher ones, which tells their batches from these
        (`take_over.taking.retake`)."""

    @property
    def is_given(self) -> bool:
        """Return whether the log may be given to brokers: its groups are served here, or were until the
        seal."""
        return self._phase in _GIVEN

    @property
    def is_sealed(self) -> bool:
        """Return whether the log has ended: nothing that is committed later belongs to it."""
        return self._phase == ours.SEALED

    def restart(self) -> None:
        """Forget everything, because the whole state comes anew."""
        self._classic.clear()
        self._in_state = True
        self._ended.clear()
        self._forget_pending()
        self._phase = None

    def to_kafka(self, records: Iterable[PlainRecord]) -> Iterator[Written]:
        """Yield what Kafka would write for a part of the state or for a change. Some wait for
        `held_back`."""
        if not self._in_state:
            change = [*self._up_to_the_end(records)]
            gone = [key for key, packed in dict(change).items() if packed is None and key[0] in _GROUPS]
            # A classic group that has come and gone may have done so between two consumer groups of its id.
            was_there = (key for key in gone if key[0] != ours.GROUP_METADATA or self._classic.has(key[1]))
            yield from _deletions(was_there)
            # Whether it is there at the end is what counts, and that of a classic group is known then.
            without = frozenset(key for key in gone if key[0] not in PARTS_OF_GROUPS)
            records = (each for each in change if each[0] not in without)
        for key, packed in records:
            yield from self._of(key, packed)

    def held_back(self) -> Iterator[Written]:
        """Yield what can be written only at the end of the state or of one change."""
        if self._in_state:
            self._in_state = False
            yield from self._given_back()
        # What is no more was deleted at the beginning: by now its id may be that of a consumer group.
        yield from (record for record in self._classic.changed() if record.value is not None)

    def _of(self, key: tuple[Any, ...], packed: tuple[Any, ...] | None) -> Iterable[Written]:
        match key[0]:
            case ours.GROUP_METADATA | ours.CLASSIC_MEMBER:
                self._classic.note(key, packed)
                return ()
            case ours.FOREIGN_RECORD:
                return (RecordBytes(key[2], None if packed is None else packed[0]),)
            case ours.PENDING_TXN_OFFSET:
                return self._of_pending(ours.PendingTxnOffsetKey(*key), packed)
            case ours.PRODUCER_MARKER:
                return self._of_marker(key[2], packed)
            case ours.TAKEN_LOG:
                taken = None if packed is None else ours.TakenLogValue(*packed)
                self._phase = None if taken is None else taken.phase
                self.leader_epoch = self.leader_epoch if taken is None else taken.served_epoch
                return ()
            case ours.OFFSET_COMMIT if self._in_state and key[1:] in self._positions:
                self._committed[key[1:]] = key, packed
                return ()
            case ours.OFFSET_ROWS if self._in_state and packed is not None and key[1:] in self._topics:
                singles = singles_of_rows(key, packed)
                return chain.from_iterable(self._of(*single) for single in singles)
            case kind if kind in _GROUPS and packed is None:
                return ()
        return whole_in_itself(key, packed)

    def _of_pending(self, key: ours.PendingTxnOffsetKey, packed: tuple[Any, ...] | None) -> Iterable[Written]:
        if packed is None:
            # Kafka drops what is pending with the tombstone of the offset, as it is dropped here.
            dropped = single_to_kafka((ours.OFFSET_COMMIT, *key[1:4]), None)
            return () if key.producer_id in self._ended or dropped is None else (dropped,)
        value = ours.PendingTxnOffsetValue(*packed)
        if self._in_state:
            self._pending.append((key, value))
            self._positions.add(key[1:4])
            self._topics.add(key[1:3])
            return ()
        self._ended.discard(key.producer_id)
        return (_pended(key, value),)

    def _of_marker(self, producer_id: int, packed: tuple[Any, ...] | None) -> Iterable[Written]:
        if packed is None:
            self._ended.discard(producer_id)
            return ()
        self._ended.add(producer_id)
        value = ours.ProducerMarkerValue(*packed)
        return (Ended((producer_id, value.producer_epoch), value.coordinator_epoch, value.timestamp_ms),)

    def _given_back(self) -> Iterator[Written]:
        """Yield what is pending, and the committed offsets beside it. What is older than the committed offset
        stands before it, so that it stays the older one."""
        self._pending.sort(key=lambda each: each[1].sequence)
        newer = []
        for key, value in self._pending:
            self._ended.discard(key.producer_id)
            if _version(self._committed.get(key[1:4])) == value.replaces:
                newer.append((key, value))
            else:
                yield _pended(key, value)
        for committed in self._committed.values():
            yield from whole_in_itself(*committed)
        for key, value in newer:
            yield _pended(key, value)
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending, self._positions, self._committed = [], set(), {}
        self._topics.clear()

    def _up_to_the_end(self, change: Iterable[PlainRecord]) -> Iterator[PlainRecord]:
        """Yield the records that belong to the log: a seal ends it, and it goes on if that is taken back."""
        is_open = self._phase == ours.SERVED
        for key, packed in change:
            if key[0] == ours.TAKEN_LOG:
                is_open = packed is not None and ours.TakenLogValue(*packed).phase == ours.SERVED
                yield key, packed
            elif is_open:
                yield key, packed


def _deletions(keys: Iterable[tuple[Any, ...]]) -> Iterator[KafkaRecord]:
    """Yield the tombstones of groups and their parts, in the order that Kafka wants."""
    by_kind: dict[int, dict[tuple[Any, ...], None]] = {kind: {} for kind in _GROUPS}
    for kind, *names in keys:
        for each in (*_PARTS.get(kind, ()), kind):
            by_kind[each][tuple(names)] = None
    for kind, found in by_kind.items():
        fields = [field.name for field in schema_of(kind).key.fields]
        for name in found:
            key: Plain = dict(zip(fields, name, strict=True))
            yield KafkaRecord(kind, key, NO_VERSION, None)


def _pended(key: ours.PendingTxnOffsetKey, value: ours.PendingTxnOffsetValue) -> Pended:
    committed = ours.OffsetCommitValue(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp_ms,
        ours.NO_EXPIRY,
        value.topic_id,
    )
    record = single_to_kafka((ours.OFFSET_COMMIT, *key[1:4]), committed)
    assert record is not None
    return Pended((key.producer_id, value.producer_epoch), record)


def _version(record: PlainRecord | None) -> tuple[int, int] | None:
    """Return what tells a committed offset from another one at its position, as `replaces` has it."""
    if record is None or record[1] is None:
        return None
    committed = ours.OffsetCommitValue(*record[1])
    return committed.offset, committed.commit_timestamp_ms
