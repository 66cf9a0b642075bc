"""Convert our records of groups to Kafka's, and Kafka's to ours.

A classic group is one record at Kafka's and one for the group and each member at ours: what is converted is a
whole state, not a stream. Kafka keeps a classic member's metadata for the chosen protocol alone.

Committed offsets, classic and consumer groups are kept on both sides. Share and streams groups, and the
records of Kafka's transaction coordinator, have no counterpart here or are no part of `__consumer_offsets`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from actors.coordinator.ground.partition_epochs import epochs_of
from actors.coordinator.kafka_records.codec import NO_VERSION, KafkaRecord, Plain, RecordError, schema_of
from actors.coordinator.kafka_records.schemas import NO_ID
from actors.ground import records as ours
from actors.ground.contract import Record

OFFSET_COMMIT_VERSION: Final = 4
EXPIRING_OFFSET_VERSION: Final = 1
"""The one version of an offset's value with an expiry of its own; it has no leader epoch and no topic id."""
CLASSIC_GROUP_VERSION: Final = 3
"""The version of a classic group's value that Kafka writes, though it reads 4."""
OFFSET_COMMIT_KINDS: Final = frozenset({0, ours.OFFSET_COMMIT})

PackedRecord = tuple[tuple[Any, ...], tuple[Any, ...]]


# Ours to Kafka's.


def to_kafka(state: Iterable[PackedRecord], left_out: Counter[int]) -> Iterator[KafkaRecord]:
    """Yield the records of a whole state, classic groups last. `left_out` counts what Kafka has no record for
    here, by our kind."""
    classic: dict[str, ours.GroupMetadataValue] = {}
    members: dict[str, list[tuple[str, ours.ClassicMemberValue]]] = {}
    for key, packed in state:
        kind, group_id = key[0], key[1]
        if kind == ours.GROUP_METADATA:
            classic[group_id] = _named(kind, packed)
        elif kind == ours.CLASSIC_MEMBER:
            members.setdefault(group_id, []).append((key[2], _named(kind, packed)))
        else:
            record = single_to_kafka(key, packed)
            if record is None:
                left_out[kind] += 1
            else:
                yield record
    for group_id, group in classic.items():
        yield classic_group_to_kafka(group_id, group, members.get(group_id, []))


def single_to_kafka(key: tuple[Any, ...], packed: tuple[Any, ...] | None) -> KafkaRecord | None:
    """Return the record that Kafka has for one of ours, a tombstone for a value that is None; None if Kafka
    has none by itself, as for a part of a classic group."""
    kind = key[0]
    write = _WRITTEN.get(kind)
    if write is None:
        return None
    if packed is None:
        names = (field.name for field in schema_of(kind).key.fields)
        return KafkaRecord(kind, dict(zip(names, key[1:], strict=True)), NO_VERSION, None)
    return write(key, _named(kind, packed))


def _named(kind: int, packed: tuple[Any, ...]) -> Any:
    """The value of a record of this kind with its fields' names, which a packed one does not have."""
    return ours.RECORD_TYPES[kind][1](*packed)


def _offset_commit(key: tuple[Any, ...], commit: ours.OffsetCommitValue) -> KafkaRecord:
    _, group_id, topic, partition = key
    has_expiry = commit.expire_timestamp_ms >= 0
    fields = {
        "offset": commit.offset,
        "leaderEpoch": -1 if has_expiry else commit.leader_epoch,
        "metadata": commit.metadata,
        "commitTimestamp": commit.commit_timestamp_ms,
        "expireTimestamp": commit.expire_timestamp_ms,
        "topicId": NO_ID if has_expiry else commit.topic_id,
    }
    version = EXPIRING_OFFSET_VERSION if has_expiry else OFFSET_COMMIT_VERSION
    kafka_key = {"group": group_id, "topic": topic, "partition": partition}
    return KafkaRecord(ours.OFFSET_COMMIT, kafka_key, version, fields)


def classic_group_to_kafka(
    group_id: str, group: ours.GroupMetadataValue, members: Iterable[tuple[str, ours.ClassicMemberValue]]
) -> KafkaRecord:
    """Return the one record that Kafka has for a classic group and its members."""
    fields = {
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol_name,
        "leader": group.leader,
        "currentStateTimestamp": group.current_state_timestamp_ms,
        "members": [
            {
                "memberId": member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": dict(member.protocols).get(group.protocol_name or "", b""),
                "assignment": member.assignment,
            }
            for member_id, member in members
        ],
    }
    return KafkaRecord(ours.GROUP_METADATA, {"group": group_id}, CLASSIC_GROUP_VERSION, fields)


def _consumer_group(key: tuple[Any, ...], group: ours.ConsumerGroupValue) -> KafkaRecord:
    return KafkaRecord(
        key[0],
        {"groupId": key[1]},
        0,
        {"epoch": group.group_epoch, "metadataHash": group.metadata_hash},
    )


def _consumer_member(key: tuple[Any, ...], member: ours.ConsumerMemberValue) -> KafkaRecord:
    fields = {
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": list(member.subscribed_topic_names),
        "subscribedTopicRegex": member.subscribed_topic_regex,
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "serverAssignor": member.server_assignor,
        "classicMemberMetadata": _classic_metadata(member.classic),
    }
    return KafkaRecord(key[0], _member_key(key), 0, fields)


def _classic_metadata(classic: tuple[Any, ...] | None) -> Plain | None:
    if classic is None:
        return None
    session_timeout_ms, protocols = classic[:2]
    return {
        "sessionTimeoutMs": session_timeout_ms,
        "supportedProtocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
    }


def _target_metadata(key: tuple[Any, ...], target: ours.TargetMetadataValue) -> KafkaRecord:
    return KafkaRecord(
        key[0],
        {"groupId": key[1]},
        0,
        {
            "assignmentEpoch": target.assignment_epoch,
            "assignmentTimestamp": target.assignment_timestamp_ms,
        },
    )


def _target_member(key: tuple[Any, ...], target: ours.TargetMemberValue) -> KafkaRecord:
    return KafkaRecord(key[0], _member_key(key), 0, {"topicPartitions": _topics(target.topic_partitions)})


def _current_assignment(key: tuple[Any, ...], current: ours.CurrentAssignmentValue) -> KafkaRecord:
    owned = [
        {"topicId": topic_id, "partitions": _ints(packed), "assignmentEpochs": list(epochs)}
        for topic_id, packed, epochs in epochs_of(current)
    ]
    assigned = owned[: len(current.assigned)]
    pending = owned[len(current.assigned) :]
    fields = {
        "memberEpoch": current.member_epoch,
        "previousMemberEpoch": current.previous_member_epoch,
        "state": current.state,
        "assignedPartitions": assigned,
        "partitionsPendingRevocation": pending,
    }
    return KafkaRecord(key[0], _member_key(key), 0, fields)


def _regular_expression(key: tuple[Any, ...], resolved: ours.RegularExpressionValue) -> KafkaRecord:
    fields = {
        "topics": list(resolved.topics),
        "version": resolved.image_version,
        "timestamp": resolved.timestamp_ms,
    }
    return KafkaRecord(key[0], {"groupId": key[1], "regularExpression": key[2]}, 0, fields)


def _member_key(key: tuple[Any, ...]) -> Plain:
    return {"groupId": key[1], "memberId": key[2]}


def _topics(topics: ours.TopicPartitions) -> list[Plain]:
    return [{"topicId": topic_id, "partitions": _ints(packed)} for topic_id, packed in topics]


def _ints(packed: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(packed, ">i4").tolist()
    return numbers


_WRITTEN: Final[dict[int, Callable[[tuple[Any, ...], Any], KafkaRecord]]] = {
    ours.OFFSET_COMMIT: _offset_commit,
    ours.CONSUMER_GROUP_METADATA: _consumer_group,
    ours.CONSUMER_MEMBER_METADATA: _consumer_member,
    ours.TARGET_ASSIGNMENT_METADATA: _target_metadata,
    ours.TARGET_ASSIGNMENT_MEMBER: _target_member,
    ours.CURRENT_MEMBER_ASSIGNMENT: _current_assignment,
    ours.REGULAR_EXPRESSION: _regular_expression,
}


# Kafka's to ours.


def from_kafka(record: KafkaRecord) -> list[Record]:
    """Return what a record with a value means here: nothing for a ConsumerGroupPartitionMetadata, which Kafka
    itself reads no more, and a record for the group and each member for a GroupMetadata. Raises
    RecordError."""
    assert record.value is not None, record
    key, value = record.key, record.value
    if record.kind == ours.GROUP_METADATA:
        return list(_from_classic_group(key["group"], value))
    if record.kind in OFFSET_COMMIT_KINDS:
        return [_from_offset_commit(key, value)]
    read = _READ.get(record.kind)
    if read is None:
        return []
    key_class: Any = ours.RECORD_TYPES[record.kind][0]
    return [Record(key_class(record.kind, *key.values()), read(value))]


def deleted_by(record: KafkaRecord) -> tuple[Any, ...] | None:
    """Return the key of ours that a tombstone deletes, for a GroupMetadata that of the group alone; None if
    nothing is kept of such records."""
    assert record.value is None, record
    kind = ours.OFFSET_COMMIT if record.kind in OFFSET_COMMIT_KINDS else record.kind
    types = ours.RECORD_TYPES.get(kind)
    if types is None:
        return None
    key_class: Any = types[0]
    key: tuple[Any, ...] = key_class(kind, *record.key.values())
    return key


def _from_offset_commit(key: Plain, value: Plain) -> Record:
    return Record(
        ours.OffsetCommitKey(ours.OFFSET_COMMIT, key["group"], key["topic"], key["partition"]),
        ours.OffsetCommitValue(
            offset=value["offset"],
            leader_epoch=value["leaderEpoch"],
            metadata=value["metadata"],
            commit_timestamp_ms=value["commitTimestamp"],
            expire_timestamp_ms=value["expireTimestamp"],
            topic_id=value["topicId"],
        ),
    )


def _from_classic_group(group_id: str, value: Plain) -> Iterator[Record]:
    protocol = value["protocol"]
    yield Record(
        ours.GroupMetadataKey(ours.GROUP_METADATA, group_id),
        ours.GroupMetadataValue(
            protocol_type=value["protocolType"],
            generation=value["generation"],
            protocol_name=protocol,
            leader=value["leader"],
            current_state_timestamp_ms=value["currentStateTimestamp"],
        ),
    )
    for member in value["members"]:
        session_timeout_ms = member["sessionTimeout"]
        # Version 0 had one time-out for both.
        rebalance_timeout_ms = member["rebalanceTimeout"]
        yield Record(
            ours.ClassicMemberKey(ours.CLASSIC_MEMBER, group_id, member["memberId"]),
            ours.ClassicMemberValue(
                group_instance_id=member["groupInstanceId"],
                client_id=member["clientId"],
                client_host=member["clientHost"],
                rebalance_timeout_ms=rebalance_timeout_ms
                if rebalance_timeout_ms >= 0
                else session_timeout_ms,
                session_timeout_ms=session_timeout_ms,
                protocols=((protocol, member["subscription"]),) if protocol is not None else (),
                assignment=member["assignment"],
            ),
        )


def _from_consumer_member(value: Plain) -> ours.ConsumerMemberValue:
    classic = value["classicMemberMetadata"]
    return ours.ConsumerMemberValue(
        instance_id=value["instanceId"],
        rack_id=value["rackId"],
        client_id=value["clientId"],
        client_host=value["clientHost"],
        subscribed_topic_names=tuple(sorted(set(value["subscribedTopicNames"]))),
        subscribed_topic_regex=value["subscribedTopicRegex"] or "",
        rebalance_timeout_ms=value["rebalanceTimeoutMs"],
        server_assignor=value["serverAssignor"],
        classic=None
        if classic is None
        else (
            classic["sessionTimeoutMs"],
            tuple((each["name"], each["metadata"]) for each in classic["supportedProtocols"]),
        ),
    )


def _from_current_assignment(value: Plain) -> ours.CurrentAssignmentValue:
    member_epoch = value["memberEpoch"]
    assigned, pending = _sorted(value["assignedPartitions"]), _sorted(value["partitionsPendingRevocation"])
    epochs = [_epochs(topic, member_epoch) for topic in (*assigned, *pending)]
    return ours.CurrentAssignmentValue(
        member_epoch=member_epoch,
        previous_member_epoch=value["previousMemberEpoch"],
        state=value["state"],
        assigned=_pairs(assigned),
        pending_revocation=_pairs(pending),
        assignment_epochs=()
        if all(each == [member_epoch] for each in epochs)
        else tuple(_packed_ints(each) for each in epochs),
    )


def _epochs(topic: Plain, member_epoch: int) -> list[int]:
    """Return an epoch for each partition, or one for all if they are equal."""
    epochs: list[int] = topic["assignmentEpochs"] or [member_epoch]
    return epochs[:1] if len(set(epochs)) == 1 else epochs


def _sorted(topics: list[Plain]) -> list[Plain]:
    """Return topics sorted by topic id and partition, each partition with its epoch; topics without
    partitions are left out."""
    found = []
    for topic in sorted(topics, key=lambda topic: bytes(topic["topicId"])):
        partitions, epochs = topic["partitions"], topic.get("assignmentEpochs")
        if epochs and len(epochs) != len(partitions):
            raise RecordError(f"{len(epochs)} assignmentEpochs are given for {len(partitions)} partitions")
        order = sorted(range(len(partitions)), key=partitions.__getitem__)
        ordered: Plain = {"topicId": topic["topicId"], "partitions": [partitions[at] for at in order]}
        ordered["assignmentEpochs"] = [epochs[at] for at in order] if epochs else None
        if partitions:
            found.append(ordered)
    return found


def _pairs(topics: list[Plain]) -> ours.TopicPartitions:
    return tuple((topic["topicId"], _packed_ints(topic["partitions"])) for topic in topics)


def _packed_ints(numbers: list[int]) -> bytes:
    return np.array(numbers, ">i4").tobytes()


_READ: Final[dict[int, Callable[[Plain], Any]]] = {
    ours.CONSUMER_GROUP_METADATA: lambda value: ours.ConsumerGroupValue(
        value["epoch"], value["metadataHash"]
    ),
    ours.CONSUMER_MEMBER_METADATA: _from_consumer_member,
    ours.TARGET_ASSIGNMENT_METADATA: lambda value: ours.TargetMetadataValue(
        value["assignmentEpoch"], value["assignmentTimestamp"]
    ),
    ours.TARGET_ASSIGNMENT_MEMBER: lambda value: ours.TargetMemberValue(
        _pairs(_sorted(value["topicPartitions"]))
    ),
    ours.CURRENT_MEMBER_ASSIGNMENT: _from_current_assignment,
    ours.REGULAR_EXPRESSION: lambda value: ours.RegularExpressionValue(
        tuple(value["topics"]), value["version"], value["timestamp"]
    ),
}
