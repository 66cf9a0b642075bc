"""Move whole dumps: every record of groups, out of a tier or a Kafka's `__consumer_offsets`, and into a tier.

Groups come into a tier as they do from a backup: with their offsets, generations and epochs, without their
members, which join anew (see actors.coordinator.restore).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from actors import runtime
from actors.coordinator.kafka_records.codec import KafkaRecord, RecordError, decode, kind_of
from actors.coordinator.kafka_records.convert import from_kafka, to_kafka
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.coordinator.restore import emptied
from actors.ground.contract import Record
from actors.ground.records import (
    OF_NO_GROUP,
    OFFSET_COMMIT,
    PRODUCER_ID_BLOCK,
    TRANSACTION,
    OffsetCommitValue,
)
from actors.ground.spec import CONTROLLER_GROUP, partition_group
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.metadata.records import TOPIC, TopicValue
from cluster.group_leaders import GroupLeaders
from cluster.group_writer import GroupWriter
from cluster.groups.properties import ClientProperties
from cluster.groups.transfer import Imported, raise_problems
from cluster.state_copy import open_copy
from cluster.tier_file import TierError

OF_TRANSACTIONS: Final = frozenset({TRANSACTION, PRODUCER_ID_BLOCK})
"""Our own kinds of records whose second field names no group."""
SILENCE_S: Final = 30.0
"""How long, in seconds, a broker that is to send records may be silent; then it is given up."""


class TopicHere(NamedTuple):
    topic_id: bytes
    partitions: int


# Out of a tier or a Kafka.


def records_of_tier(leaders: GroupLeaders, left_out: Counter[int]) -> Iterator[KafkaRecord]:
    """Yield the records of groups of each partition as of one moment. Raises TierError."""
    leaders.refuse_in_a_split("an export")
    for partition in range(leaders.spec.offsets_partitions):
        state = leaders.ask(partition_group(partition), lambda leader: list(open_copy(leader).records))
        yield from to_kafka(state, left_out)


def records_of_topic(properties: ClientProperties, left_out: Counter[int]) -> Iterator[KafkaRecord]:
    """Yield all records of a Kafka's `__consumer_offsets` as it is now, of committed transactions only.
    Raises TierError."""
    consumer = Consumer(_consumer_settings(properties))
    try:
        topics = consumer.list_topics(OFFSETS_TOPIC, timeout=SILENCE_S).topics
        partitions = topics[OFFSETS_TOPIC].partitions
        if not partitions:
            raise TierError(f"{properties.bootstrap} has no {OFFSETS_TOPIC}: no group was ever there")
        consumer.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in partitions])
        reading = len(partitions)
        while reading:
            message = consumer.poll(SILENCE_S)
            if message is None:
                raise TierError(f"{properties.bootstrap} sent nothing for {SILENCE_S:.0f} s")
            error = message.error()
            if error is None:
                yield from _decoded(message, left_out)
            elif error.code() == KafkaError._PARTITION_EOF:
                reading -= 1
                place = TopicPartition(message.topic(), message.partition())
                consumer.incremental_unassign([place])
            else:
                raise TierError(f"{OFFSETS_TOPIC} cannot be read: {error.str()}")
    except KafkaException as error:
        raise TierError(f"{properties.bootstrap}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _consumer_settings(properties: ClientProperties) -> dict[str, Any]:
    return properties.librdkafka() | {
        "group.id": "groupd-export",  # the group is never joined: partitions are assigned by hand
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }


def _decoded(message: Any, left_out: Counter[int]) -> list[KafkaRecord]:
    try:
        kind = kind_of(message.key() or b"")
        if kind in SCHEMAS:
            return [decode(message.key(), message.value())]
    except RecordError as error:
        where = f"{OFFSETS_TOPIC}-{message.partition()}, offset {message.offset()}"
        raise TierError(f"{where}: {error}") from None
    left_out[kind] += 1
    return []


# Into a tier.


def import_whole(
    leaders: GroupLeaders, records: Iterable[KafkaRecord], *, skip_missing: bool, is_executed: bool
) -> Imported:
    """Write the groups of records of which none replaces another, or raise TierError before anything is
    written.

    A topic is found by its name: its id here is another one.
    """
    now_ms = time.time_ns() // 1_000_000
    topics = leaders.ask(CONTROLLER_GROUP, _topics)
    there = set(_groups_of(leaders))
    report, problems = Imported(), dict[str, None]()
    kept: list[Record] = []
    group_ids: set[str] = set()
    for record in _ours(records, now_ms):
        group_id = record.key[1]
        if group_id in there:
            problems[f"group {group_id} is there already"] = None
            continue
        if record.key[0] == OFFSET_COMMIT:
            wrong = _missing(record, topics)
            if wrong is not None:
                if skip_missing:
                    report.left_out.append(f"{group_id}: {wrong}")
                else:
                    problems[f"{group_id}: {wrong}"] = None
                continue
            record = _at_home(record, topics)
            report.offsets += 1
        kept.append(record)
        group_ids.add(group_id)
    raise_problems(list(problems))
    report.groups = len(group_ids)
    if is_executed:
        writer = GroupWriter(leaders, if_refused="the groups before it were imported: delete them first")
        for record in kept:
            writer.add(record)
        writer.flush()
    return report


def _ours(records: Iterable[KafkaRecord], now_ms: int) -> Iterator[Record]:
    for kafka_record in records:
        try:
            converted = from_kafka(kafka_record)
        except RecordError as error:
            raise TierError(f"nothing was imported: {error}") from None
        for record in converted:
            assert record.value is not None
            kept = emptied(record.key, record.value, now_ms)
            if kept is not None:
                yield kept


def _missing(record: Record, topics: dict[str, TopicHere]) -> str | None:
    _, _, topic, partition = record.key
    if topic not in topics:
        return f"topic {topic} is not there"
    if not 0 <= partition < topics[topic].partitions:
        return f"partition {topic}-{partition} is not there"
    assert isinstance(record.value, OffsetCommitValue)
    return f"{topic}-{partition} has offset {record.value.offset}" if record.value.offset < 0 else None


def _at_home(record: Record, topics: dict[str, TopicHere]) -> Record:
    assert isinstance(record.value, OffsetCommitValue)
    return record._replace(value=record.value._replace(topic_id=topics[record.key[2]].topic_id))


def _topics(controller: runtime.Handle) -> dict[str, TopicHere]:
    found = {}
    for key, value in open_copy(controller).records:
        if key[0] == TOPIC:
            topic = TopicValue(*value)
            found[key[1]] = TopicHere(topic.topic_id, len(topic.partition_leaders))
    return found


def _groups_of(leaders: GroupLeaders) -> Iterator[str]:
    leaders.refuse_in_a_split("an import")
    for partition in range(leaders.spec.offsets_partitions):
        yield from leaders.ask(partition_group(partition), _group_ids)


def _group_ids(leader: runtime.Handle) -> set[str]:
    return {key[1] for key, _ in open_copy(leader).records if key[0] not in OF_TRANSACTIONS | OF_NO_GROUP}
