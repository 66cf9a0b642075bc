"""Requests of group members as bytes; `answers` reads what comes back.

What thousands of members send is packed by hand, in versions that every Kafka since 3.0 has and that carry
all fields used here; `by_schema` is for the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from actors.coordinator.ground.partitions import PARTITION_BYTES
from actors.ground.records import TopicPartitions
from actors.network.wire import message_class, request_frame
from actors.protocol.api_keys import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from actors.protocol.wire import (
    compact_count,
    compact_string,
    legacy_bytes,
    legacy_count,
    legacy_string,
)
from bench.member.member import Asked
from storage.history.calls import Partitions

_INT32: Final = struct.Struct(">i")
_TWO_TIMEOUTS: Final = struct.Struct(">ii")
_COMMITTED: Final = struct.Struct(">iqi")
"""Partition, offset, leader epoch."""
_NO_TAGS: Final = b"\0"
_NULL: Final = b"\0"
"""A field of a flexible version that is null, or as it was before."""
_FLEXIBLE_HEADER_BYTES: Final = 15
_PLAIN_HEADER_BYTES: Final = 14
"""The bytes before the body of a frame without client id."""


class Request(NamedTuple):
    """All of a request but its header, whose correlation id is the connection's."""

    api: str
    """The name of the API, as Kafka has it."""
    api_key: int
    version: int
    body: bytes
    is_flexible: bool = False


def by_schema(api: str, version: int, fields: dict[str, Any]) -> Request:
    """Make any request; `api` is kio's name ("create_topics")."""
    request_class = message_class(api, version, "request")
    is_flexible = bool(request_class.__flexible__)
    header_bytes = _FLEXIBLE_HEADER_BYTES if is_flexible else _PLAIN_HEADER_BYTES
    body = request_frame(api, version, 0, "", fields)[header_bytes:]
    name = "".join(part.capitalize() for part in api.split("_"))
    return Request(name, int(request_class.__api_key__), version, body, is_flexible)


NAMED_FROM: Final = 3
"""The version of ApiVersions that names the client's software (KIP-511)."""


def api_versions(version: int, software: tuple[str, str] | None) -> Request:
    """Make the request by which a connection begins. `software` is the client's name and version, which
    version 3 and later carry."""
    if version < NAMED_FROM or software is None:
        return Request("ApiVersions", API_VERSIONS, min(version, NAMED_FROM - 1), b"")
    name, its_version = software
    body = compact_string(name) + compact_string(its_version) + _NO_TAGS
    return Request("ApiVersions", API_VERSIONS, version, body, is_flexible=True)


def find_coordinator(group_id: str) -> Request:
    return Request("FindCoordinator", FIND_COORDINATOR, 2, legacy_string(group_id) + b"\0")


def encoded(asked: Asked) -> Request:
    """Pack any request of a member about its membership."""
    return _ENCODERS[type(asked)](asked)


def join_group(asked: JoinGroupRequest) -> Request:
    parts = [
        legacy_string(asked.group_id),
        _TWO_TIMEOUTS.pack(asked.session_timeout_ms, asked.rebalance_timeout_ms),
        legacy_string(asked.member_id),
        legacy_string(asked.group_instance_id),
        legacy_string(asked.protocol_type),
        legacy_count(len(asked.protocols)),
    ]
    for name, metadata in asked.protocols:
        parts += (legacy_string(name), legacy_bytes(metadata))
    return Request("JoinGroup", JOIN_GROUP, 5, b"".join(parts))


def sync_group(asked: SyncGroupRequest) -> Request:
    who = _who(asked.group_id, asked.generation_id, asked.member_id, asked.group_instance_id)
    parts = [who, legacy_count(len(asked.assignments))]
    for member_id, assignment in asked.assignments:
        parts += (legacy_string(member_id), legacy_bytes(assignment))
    return Request("SyncGroup", SYNC_GROUP, 3, b"".join(parts))


def heartbeat(asked: HeartbeatRequest) -> Request:
    who = _who(asked.group_id, asked.generation_id, asked.member_id, asked.group_instance_id)
    return Request("Heartbeat", HEARTBEAT, 3, who)


def leave_group(asked: LeaveGroupRequest) -> Request:
    parts = [legacy_string(asked.group_id), legacy_count(len(asked.members))]
    for member in asked.members:
        parts += (legacy_string(member.member_id), legacy_string(member.group_instance_id))
    return Request("LeaveGroup", LEAVE_GROUP, 3, b"".join(parts))


def _who(group_id: str, generation_id: int, member_id: str, instance_id: str | None) -> bytes:
    """Pack the fields by which a classic member names itself."""
    head = legacy_string(group_id) + _INT32.pack(generation_id)
    return head + legacy_string(member_id) + legacy_string(instance_id)


def consumer_heartbeat(asked: ConsumerGroupHeartbeatRequest) -> Request:
    """Pack a heartbeat of version 1, in which the member chooses its id itself."""
    group_id, member_id, epoch, instance_id, *said = asked
    who = compact_string(group_id) + compact_string(member_id) + _INT32.pack(epoch)
    body = who + compact_string(instance_id) + (_AS_BEFORE if said == _UNSAID else _said(asked))
    return Request("ConsumerGroupHeartbeat", CONSUMER_GROUP_HEARTBEAT, 1, body, is_flexible=True)


def _said(asked: ConsumerGroupHeartbeatRequest) -> bytes:
    """Pack what a heartbeat says besides the member's identity."""
    topics, owned = asked.subscribed_topic_names, asked.topic_partitions
    parts = (
        compact_string(asked.rack_id),
        _INT32.pack(asked.rebalance_timeout_ms),
        _NULL if topics is None else compact_count(len(topics)) + b"".join(map(compact_string, topics)),
        compact_string(asked.subscribed_topic_regex),
        compact_string(asked.server_assignor),
        _NULL if owned is None else _packed(owned),
        _NO_TAGS,
    )
    return b"".join(parts)


_STEADY: Final = ConsumerGroupHeartbeatRequest("", "", 0)
_UNSAID: Final = list(_STEADY[4:])
"""The fields of a heartbeat that only names its member, as most do."""
_AS_BEFORE: Final = _said(_STEADY)


def _packed(owned: TopicPartitions) -> bytes:
    parts = [compact_count(len(owned))]
    for topic_id, numbers in owned:
        parts += (topic_id, compact_count(len(numbers) // PARTITION_BYTES), numbers, _NO_TAGS)
    return b"".join(parts)


_ENCODERS: Final[Mapping[type[Asked], Callable[[Any], Request]]] = {
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
    ConsumerGroupHeartbeatRequest: consumer_heartbeat,
}


class Identity(NamedTuple):
    """The member that commits and fetches offsets."""

    group_id: str
    generation_id: int
    """The generation; of a consumer member its epoch."""
    member_id: str
    instance_id: str | None


def _packed_numbers(numbers: Sequence[int]) -> bytes:
    return compact_count(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers)


def offset_commit(identity: Identity, version: int, offsets: Mapping[str, Mapping[int, int]]) -> Request:
    """A classic member commits in version 8. A KIP-848 member has an epoch and needs version 9, whose bytes
    are the same."""
    parts = [compact_string(identity.group_id), _INT32.pack(identity.generation_id)]
    parts += [compact_string(identity.member_id), compact_string(identity.instance_id)]
    parts.append(compact_count(len(offsets)))
    for topic, of_topic in offsets.items():
        parts += (compact_string(topic), compact_count(len(of_topic)))
        for partition, offset in of_topic.items():
            parts += (_COMMITTED.pack(partition, offset, -1), b"\1", _NO_TAGS)
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    return Request("OffsetCommit", OFFSET_COMMIT, version, b"".join(parts), is_flexible=True)


def offset_fetch(identity: Identity, version: int, wanted: Partitions) -> Request:
    """A classic member asks in version 8; a KIP-848 member names its epoch, in version 9."""
    parts = [compact_count(1), compact_string(identity.group_id)]
    if version >= 9:
        parts += (compact_string(identity.member_id), _INT32.pack(identity.generation_id))
    parts.append(compact_count(len(wanted)))
    for topic, numbers in wanted:
        parts += (compact_string(topic), _packed_numbers(numbers), _NO_TAGS)
    require_stable = b"\1"
    parts += (_NO_TAGS, require_stable, _NO_TAGS)
    return Request("OffsetFetch", OFFSET_FETCH, version, b"".join(parts), is_flexible=True)
