"""Requests of group members as bytes; `answers` reads what comes back.

What thousands of members send is packed by hand, in versions that every Kafka since 3.0 has and that carry
all fields used here; `by_schema` is for the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

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
from actors.protocol.wire import (
    compact_count,
    compact_string,
    legacy_bytes,
    legacy_count,
    legacy_string,
)
from cluster.wire import message_class, request_frame
from storage.history.calls import Partitions

TopicIds = Mapping[str, bytes]
Owned = Mapping[str, Sequence[int]]

_INT32: Final = struct.Struct(">i")
_TWO_TIMEOUTS: Final = struct.Struct(">ii")
_COMMITTED: Final = struct.Struct(">iqi")
"""Partition, offset, leader epoch."""
_NO_TAGS: Final = b"\0"
_NULL: Final = b"\0"
"""A field that is null, or as it was: of a flexible version."""
_FLEXIBLE_HEADER_BYTES: Final = 15
_PLAIN_HEADER_BYTES: Final = 14
"""Of a frame without client id."""


class Request(NamedTuple):
    """All of a request but its header, whose correlation id is the connection's."""

    api: str
    """Kafka's name."""
    api_key: int
    version: int
    body: bytes
    is_flexible: bool = False


def by_schema(api: str, version: int, fields: dict[str, Any]) -> Request:
    """Any request; `api` is kio's name ("create_topics")."""
    request_class = message_class(api, version, "request")
    is_flexible = bool(request_class.__flexible__)
    header_bytes = _FLEXIBLE_HEADER_BYTES if is_flexible else _PLAIN_HEADER_BYTES
    body = request_frame(api, version, 0, "", fields)[header_bytes:]
    name = "".join(part.capitalize() for part in api.split("_"))
    return Request(name, int(request_class.__api_key__), version, body, is_flexible)


NAMED_FROM: Final = 3
"""The version of ApiVersions that names the client's software (KIP-511)."""


def api_versions(version: int, software: tuple[str, str] | None) -> Request:
    """How a connection begins; `software`: name and version, for whoever is asked in version 3 or later."""
    if version < NAMED_FROM or software is None:
        return Request("ApiVersions", API_VERSIONS, min(version, NAMED_FROM - 1), b"")
    name, its_version = software
    body = compact_string(name) + compact_string(its_version) + _NO_TAGS
    return Request("ApiVersions", API_VERSIONS, version, body, is_flexible=True)


def find_coordinator(group_id: str) -> Request:
    return Request("FindCoordinator", FIND_COORDINATOR, 2, legacy_string(group_id) + b"\0")


def join_group(
    group_id: str,
    member_id: str,
    instance_id: str | None,
    timeouts_ms: tuple[int, int],
    protocol: tuple[str, str, bytes],
) -> Request:
    """`timeouts_ms`: session, rebalance; `protocol`: its type, its name, the member's metadata."""
    protocol_type, name, metadata = protocol
    parts = (
        legacy_string(group_id),
        _TWO_TIMEOUTS.pack(*timeouts_ms),
        legacy_string(member_id),
        legacy_string(instance_id),
        legacy_string(protocol_type),
        legacy_count(1),
        legacy_string(name),
        legacy_bytes(metadata),
    )
    return Request("JoinGroup", JOIN_GROUP, 5, b"".join(parts))


class Identity(NamedTuple):
    """Who asks, as all of a classic member's requests say it."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None

    def pack(self) -> bytes:
        return b"".join(
            (
                legacy_string(self.group_id),
                _INT32.pack(self.generation_id),
                legacy_string(self.member_id),
                legacy_string(self.instance_id),
            )
        )


def sync_group(identity: Identity, assignments: Mapping[str, bytes]) -> Request:
    parts = [identity.pack(), legacy_count(len(assignments))]
    for member_id, assignment in assignments.items():
        parts += (legacy_string(member_id), legacy_bytes(assignment))
    return Request("SyncGroup", SYNC_GROUP, 3, b"".join(parts))


def heartbeat(identity: Identity) -> Request:
    return Request("Heartbeat", HEARTBEAT, 3, identity.pack())


def leave_group(identity: Identity) -> Request:
    member = legacy_string(identity.member_id) + legacy_string(identity.instance_id)
    return Request("LeaveGroup", LEAVE_GROUP, 3, legacy_string(identity.group_id) + legacy_count(1) + member)


def consumer_heartbeat(
    identity: Identity,
    subscription: tuple[int, tuple[str, ...]] | None,
    owned: bytes | None,
) -> Request:
    """`subscription`: rebalance timeout and topics, None: as before; `owned`: see `packed`, None: as before.
    The generation id is the member's epoch."""
    head = compact_string(identity.group_id) + compact_string(identity.member_id)
    head += _INT32.pack(identity.generation_id) + compact_string(identity.instance_id) + _NULL
    if subscription is None:
        said = _INT32.pack(-1) + _NULL * 3
    else:
        rebalance_timeout_ms, topics = subscription
        names = compact_count(len(topics)) + b"".join(map(compact_string, topics))
        said = _INT32.pack(rebalance_timeout_ms) + names + _NULL * 2
    body = head + said + (_NULL if owned is None else owned) + _NO_TAGS
    return Request("ConsumerGroupHeartbeat", CONSUMER_GROUP_HEARTBEAT, 1, body, is_flexible=True)


def packed(owned: Owned, ids: TopicIds) -> bytes:
    """What a KIP-848 member owns, as its heartbeat says it."""
    parts = [compact_count(len(owned))]
    for topic, numbers in owned.items():
        parts += (ids[topic], _packed_numbers(numbers), _NO_TAGS)
    return b"".join(parts)


def _packed_numbers(numbers: Sequence[int]) -> bytes:
    return compact_count(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers)


def offset_commit(identity: Identity, version: int, offsets: Mapping[str, Mapping[int, int]]) -> Request:
    """Version 8 of a classic member; KIP-848's have an epoch and need 9, whose bytes are the same."""
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
    """Version 8; a KIP-848 member says its epoch, in 9."""
    parts = [compact_count(1), compact_string(identity.group_id)]
    if version >= 9:
        parts += (compact_string(identity.member_id), _INT32.pack(identity.generation_id))
    parts.append(compact_count(len(wanted)))
    for topic, numbers in wanted:
        parts += (compact_string(topic), _packed_numbers(numbers), _NO_TAGS)
    require_stable = b"\1"
    parts += (_NO_TAGS, require_stable, _NO_TAGS)
    return Request("OffsetFetch", OFFSET_FETCH, version, b"".join(parts), is_flexible=True)
