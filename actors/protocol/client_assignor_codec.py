"""Bytes of groups whose members assign: the tags of ConsumerGroupHeartbeat (A4, A7), and the requests
ConsumerGroupPrepareAssignment (A9) and ConsumerGroupInstallAssignment (A10). Layouts: `own_schemas/`.

A heartbeat that has the tag is read through its schema, as all that is rare. The tags of answers are packed
here, because answers to heartbeats are packed by hand.
"""

import struct
from typing import Any, Final
from uuid import UUID

from actors.ground.records import ClientAssignor, TopicPartitions
from actors.protocol import api_keys
from actors.protocol.client_assignor_messages import (
    NO_METADATA_VERSION,
    ClientSide,
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    InstalledMember,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
)
from actors.protocol.entities import build, nested, response_class
from actors.protocol.transaction_codec import id_bytes
from actors.protocol.wire import compact_bytes, uvarint

SHOULD_COMPUTE, ERROR, PENDING, METADATA_VERSION, METADATA = range(10_000, 10_005)
"""The tags of the answer to ConsumerGroupHeartbeat. Kafka numbers its tags from 0."""
_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")


def client_assignors(entity: Any) -> tuple[ClientAssignor, ...] | None:
    """Return the assignors that a heartbeat brings; None if it says nothing of them."""
    given = getattr(entity, "client_assignors", None)
    if given is None:
        return None
    return tuple(
        ClientAssignor(
            each.name,
            each.minimum_version,
            each.maximum_version,
            each.reason,
            each.metadata_version,
            each.metadata_bytes,
        )
        for each in given
    )


def tags(client: ClientSide) -> bytes:
    """Return the tag section of the answer to a heartbeat: what has its default is left out."""
    found = []
    if client.should_compute:
        found.append((SHOULD_COMPUTE, b"\1"))
    if client.error:
        found.append((ERROR, _INT8.pack(client.error)))
    if client.pending:
        found.append((PENDING, _topics(client.pending)))
    if client.metadata_version != NO_METADATA_VERSION:
        found.append((METADATA_VERSION, _INT16.pack(client.metadata_version)))
    if client.metadata is not None:
        found.append((METADATA, compact_bytes(client.metadata)))
    return uvarint(len(found)) + b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in found)


def _topics(assignment: TopicPartitions) -> bytes:
    pieces = [uvarint(len(assignment) + 1)]
    for topic_id, packed in assignment:
        pieces.append(topic_id + uvarint((len(packed) >> 2) + 1) + packed + b"\0")
    return b"".join(pieces)


def prepare(entity: Any) -> PrepareAssignmentRequest:
    return PrepareAssignmentRequest(entity.group_id, entity.member_id, entity.member_epoch)


def prepared(api_version: int, body: PrepareAssignmentResponse) -> Any:
    key = api_keys.CONSUMER_GROUP_PREPARE_ASSIGNMENT
    member_class, topic_class = nested(key, api_version, "Member"), nested(key, api_version, "TopicMetadata")
    partitions_class = nested(key, api_version, "TopicPartitions")
    members = tuple(
        member_class(
            member_id=each.member_id,
            member_epoch=each.member_epoch,
            instance_id=each.instance_id,
            rack_id=each.rack_id,
            subscribed_topic_ids=tuple(UUID(bytes=topic_id) for topic_id in sorted(each.topic_ids)),
            reason=each.reason,
            metadata_version=each.metadata_version,
            metadata_bytes=each.metadata,
            topic_partitions=tuple(
                partitions_class(
                    topic_id=UUID(bytes=topic_id),
                    partitions=struct.unpack(f">{len(packed) // 4}i", packed),
                )
                for topic_id, packed in each.target
            ),
        )
        for each in body.members
    )
    topics = tuple(
        topic_class(
            topic_id=UUID(bytes=each.topic_id),
            topic_name=each.name,
            partition_count=each.partition_count,
            partition_racks=each.racks,
        )
        for each in body.topics
    )
    return build(
        response_class(key, api_version),
        error_code=int(body.error_code),
        error_message=body.error_message,
        group_epoch=body.group_epoch,
        assignor_name=body.assignor,
        members=members,
        topics=topics,
    )


def install(entity: Any) -> InstallAssignmentRequest:
    return InstallAssignmentRequest(
        entity.group_id,
        entity.member_id,
        entity.member_epoch,
        entity.group_epoch,
        entity.error,
        entity.error_message,
        tuple(
            InstalledMember(
                each.member_id,
                each.error,
                tuple((id_bytes(topic.topic_id), topic.partitions) for topic in each.topic_partitions),
                each.metadata_version,
                each.metadata_bytes,
            )
            for each in entity.members
        ),
    )


def installed(api_version: int, body: InstallAssignmentResponse) -> Any:
    return build(
        response_class(api_keys.CONSUMER_GROUP_INSTALL_ASSIGNMENT, api_version),
        error_code=int(body.error_code),
        error_message=body.error_message,
    )
