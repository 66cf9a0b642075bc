"""What a member that computes asks and is told, as `actors.network.wire.Wire` takes and gives it. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final
from uuid import UUID

from actors.coordinator.ground.partitions import from_lists, unpack
from actors.ground.records import ClientAssignor, TopicPartitions
from actors.network.wire import message_class
from actors.protocol.client_assignor_messages import (
    ClientSide,
    InstallAssignmentRequest,
    PrepareAssignmentResponse,
    PreparedMember,
    PreparedTopic,
)
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from actors.protocol.schema_classes import EXTENDED, Kind, made_classes

SOFTWARE: Final = ("groupd-python", "1")
"""How the client names itself: who begins with `groupd-` is told of the requests of our own."""
HEARTBEAT: Final = "consumer_group_heartbeat", 1
PREPARE: Final = "consumer_group_prepare_assignment", 0
INSTALL: Final = "consumer_group_install_assignment", 0
"""API and version of the requests that such a member makes."""
Fields = Mapping[str, Any]


@cache
def class_with_tags(api: str, version: int, kind: Kind) -> Any:
    """Return the class of a message, with the tagged fields of our own if it has any."""
    if api not in EXTENDED:
        return message_class(api, version, kind)
    name = "".join(part.capitalize() for part in api.split("_")) + kind.capitalize()
    return getattr(made_classes(api, version, kind), name)


def heartbeat_fields(asked: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    owned, assignors = asked.topic_partitions, asked.client_assignors
    fields = asked._replace(topic_partitions=None, client_assignors=None)._asdict()
    fields["rebalance_timeout"] = fields.pop("rebalance_timeout_ms")
    if owned is not None:
        fields["topic_partitions"] = [
            {"topic_id": UUID(bytes=topic_id), "partitions": unpack(packed)} for topic_id, packed in owned
        ]
    if assignors is not None:
        fields["client_assignors"] = assignor_fields(assignors)
    return fields


def assignor_fields(assignors: Iterable[ClientAssignor]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "minimum_version": each.minimum_version,
            "maximum_version": each.maximum_version,
            "reason": each.reason,
            "metadata_version": each.version,
            "metadata_bytes": each.metadata,
        }
        for each in assignors
    ]


def heartbeat_told(told: Fields) -> ConsumerGroupHeartbeatResponse:
    given = told["assignment"]
    return ConsumerGroupHeartbeatResponse(
        told["error_code"],
        told["error_message"],
        told["member_id"],
        told["member_epoch"],
        told["heartbeat_interval"],
        None if given is None else _packed(given["topic_partitions"]),
        ClientSide(
            told["should_compute_assignment"],
            told["assignment_error"],
            _packed(told["pending_topic_partitions"]),
            told["metadata_version"],
            told["metadata_bytes"],
        ),
    )


def prepared_told(told: Fields) -> PrepareAssignmentResponse:
    return PrepareAssignmentResponse(
        told["error_code"],
        told["error_message"],
        told["group_epoch"],
        told["assignor_name"],
        tuple(_member(each) for each in told["members"]),
        tuple(
            PreparedTopic(
                each["topic_id"].bytes,
                each["topic_name"],
                each["partition_count"],
                tuple(each["partition_racks"]),
            )
            for each in told["topics"]
        ),
    )


def install_fields(asked: InstallAssignmentRequest) -> dict[str, Any]:
    members = [
        {
            "member_id": each.member_id,
            "error": each.error,
            "topic_partitions": [
                {"topic_id": UUID(bytes=topic_id), "partitions": numbers}
                for topic_id, numbers in each.topic_partitions
            ],
            "metadata_version": each.metadata_version,
            "metadata_bytes": each.metadata,
        }
        for each in asked.members
    ]
    return {**asked._asdict(), "members": members}


def _member(told: Fields) -> PreparedMember:
    return PreparedMember(
        told["member_id"],
        told["member_epoch"],
        told["instance_id"],
        told["rack_id"],
        frozenset(each.bytes for each in told["subscribed_topic_ids"]),
        told["reason"],
        told["metadata_version"],
        told["metadata_bytes"],
        _packed(told["topic_partitions"]),
    )


def _packed(topics: Sequence[Fields]) -> TopicPartitions:
    return from_lists({each["topic_id"].bytes: each["partitions"] for each in topics})
