"""Read JoinGroup and SyncGroup by hand: in a storm of joins nothing else arrives, and all of it at once.

The rules of `hot_requests` hold: only the common shape is read, one of its `UNUSUAL` is raised on anything
else, and no slice is taken without a check behind it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from actors.ground.contract import new_tuple
from actors.protocol.hot_requests import (
    Unusual,
    read_compact,
    read_compact_count,
    read_compact_nullable,
    read_legacy,
    read_legacy_nullable,
)
from actors.protocol.messages import JoinGroupRequest, SyncGroupRequest
from actors.protocol.wire import read_uvarint

JOIN_REBALANCE_TIMEOUT_SINCE: Final = 1
JOIN_INSTANCE_ID_SINCE: Final = 5
JOIN_REASON_SINCE: Final = 8
SYNC_INSTANCE_ID_SINCE: Final = 3
SYNC_PROTOCOL_SINCE: Final = 5


OFFERS_KEPT: Final = 256
OFFER_BYTES_MAX: Final = 1_024
"""How many offers of that size are remembered as read: members of one group offer the same, and each does so
twice, without a member id and with it."""
_Named = tuple[tuple[str, bytes], ...]
"""A member's protocols by name, or a group's assignments by member id."""
_INT32: Final = struct.Struct(">i")
_TIMEOUTS: Final = struct.Struct(">ii")


def _named_legacy(frame: bytes, at: int) -> _Named:
    count = _INT32.unpack_from(frame, at)[0]
    if count < 0:
        raise Unusual
    at += 4
    named = []
    for _ in range(count):
        name, at = read_legacy(frame, at)
        length = _INT32.unpack_from(frame, at)[0]
        begin, at = at + 4, at + 4 + length
        if length < 0 or at > len(frame):
            raise Unusual
        named.append((name, frame[begin:at]))
    return tuple(named)


def _named_compact(frame: bytes, at: int) -> tuple[_Named, int]:
    count, at = read_compact_count(frame, at)
    named = []
    for _ in range(count):
        name, at = read_compact(frame, at)
        size, begin = read_uvarint(frame, at)
        at = begin + size - 1
        if size == 0 or frame[at]:
            raise Unusual
        named.append((name, frame[begin:at]))
        at += 1
    return tuple(named), at


@lru_cache(maxsize=OFFERS_KEPT)
def _offer_legacy(raw: bytes) -> tuple[str, _Named]:
    """Read what a JoinGroup ends with: the protocol type and the protocols."""
    protocol_type, at = read_legacy(raw, 0)
    return protocol_type, _named_legacy(raw, at)


@lru_cache(maxsize=OFFERS_KEPT)
def _offer_flexible(raw: bytes, *, has_reason: bool) -> tuple[str, _Named, str | None]:
    """Read what a flexible JoinGroup ends with: the protocol type, the protocols and the reason."""
    protocol_type, at = read_compact(raw, 0)
    protocols, at = _named_compact(raw, at)
    reason = None
    if has_reason:
        reason, at = read_compact_nullable(raw, at)
    if raw[at]:
        raise Unusual
    return protocol_type, protocols, reason


def _join_legacy(frame: bytes, at: int, api_version: int) -> JoinGroupRequest:
    group_id, at = read_legacy(frame, at)
    session_timeout_ms = rebalance_timeout_ms = _INT32.unpack_from(frame, at)[0]
    at += 4
    if api_version >= JOIN_REBALANCE_TIMEOUT_SINCE:
        rebalance_timeout_ms = _INT32.unpack_from(frame, at)[0]
        at += 4
    member_id, at = read_legacy(frame, at)
    instance_id = None
    if api_version >= JOIN_INSTANCE_ID_SINCE:
        instance_id, at = read_legacy_nullable(frame, at)
    offer = frame[at:]
    read = _offer_legacy if len(offer) <= OFFER_BYTES_MAX else _offer_legacy.__wrapped__
    who = group_id, session_timeout_ms, rebalance_timeout_ms, member_id, instance_id
    request: JoinGroupRequest = new_tuple(JoinGroupRequest, (*who, *read(offer), None))
    return request


def join_group_one_timeout(frame: bytes, at: int) -> JoinGroupRequest:
    """Read JoinGroup 0."""
    return _join_legacy(frame, at, JOIN_REBALANCE_TIMEOUT_SINCE - 1)


def join_group_plain(frame: bytes, at: int) -> JoinGroupRequest:
    """Read JoinGroup 1 to 4."""
    return _join_legacy(frame, at, JOIN_INSTANCE_ID_SINCE - 1)


def join_group_static(frame: bytes, at: int) -> JoinGroupRequest:
    """Read JoinGroup 5, which has an instance id and no tags yet."""
    return _join_legacy(frame, at, JOIN_INSTANCE_ID_SINCE)


def _join_flexible(frame: bytes, at: int, api_version: int) -> JoinGroupRequest:
    group_id, at = read_compact(frame, at)
    session_timeout_ms, rebalance_timeout_ms = _TIMEOUTS.unpack_from(frame, at)
    member_id, at = read_compact(frame, at + 8)
    instance_id, at = read_compact_nullable(frame, at)
    offer = frame[at:]
    read = _offer_flexible if len(offer) <= OFFER_BYTES_MAX else _offer_flexible.__wrapped__
    who = group_id, session_timeout_ms, rebalance_timeout_ms, member_id, instance_id
    has_reason = api_version >= JOIN_REASON_SINCE
    request: JoinGroupRequest = new_tuple(JoinGroupRequest, (*who, *read(offer, has_reason=has_reason)))
    return request


def join_group_flexible(frame: bytes, at: int) -> JoinGroupRequest:
    """Read JoinGroup 6 or 7."""
    return _join_flexible(frame, at, JOIN_REASON_SINCE - 1)


def join_group_reason(frame: bytes, at: int) -> JoinGroupRequest:
    """Read JoinGroup 8 or 9."""
    return _join_flexible(frame, at, JOIN_REASON_SINCE)


def _sync_legacy(frame: bytes, at: int, api_version: int) -> SyncGroupRequest:
    group_id, at = read_legacy(frame, at)
    generation_id = _INT32.unpack_from(frame, at)[0]
    member_id, at = read_legacy(frame, at + 4)
    instance_id = None
    if api_version >= SYNC_INSTANCE_ID_SINCE:
        instance_id, at = read_legacy_nullable(frame, at)
    assignments = _named_legacy(frame, at)
    fields = group_id, generation_id, member_id, instance_id, None, None, assignments
    request: SyncGroupRequest = new_tuple(SyncGroupRequest, fields)
    return request


def sync_group_plain(frame: bytes, at: int) -> SyncGroupRequest:
    """Read SyncGroup 0 to 2."""
    return _sync_legacy(frame, at, SYNC_INSTANCE_ID_SINCE - 1)


def sync_group_static(frame: bytes, at: int) -> SyncGroupRequest:
    """Read SyncGroup 3, which has an instance id and no tags yet."""
    return _sync_legacy(frame, at, SYNC_INSTANCE_ID_SINCE)


def _sync_flexible(frame: bytes, at: int, api_version: int) -> SyncGroupRequest:
    group_id, at = read_compact(frame, at)
    generation_id = _INT32.unpack_from(frame, at)[0]
    member_id, at = read_compact(frame, at + 4)
    instance_id, at = read_compact_nullable(frame, at)
    protocol_type = protocol_name = None
    if api_version >= SYNC_PROTOCOL_SINCE:
        protocol_type, at = read_compact_nullable(frame, at)
        protocol_name, at = read_compact_nullable(frame, at)
    assignments, at = _named_compact(frame, at)
    if frame[at]:
        raise Unusual
    fields = group_id, generation_id, member_id, instance_id, protocol_type, protocol_name, assignments
    request: SyncGroupRequest = new_tuple(SyncGroupRequest, fields)
    return request


def sync_group_flexible(frame: bytes, at: int) -> SyncGroupRequest:
    """Read SyncGroup 4."""
    return _sync_flexible(frame, at, SYNC_PROTOCOL_SINCE - 1)


def sync_group_protocol(frame: bytes, at: int) -> SyncGroupRequest:
    """Read SyncGroup 5."""
    return _sync_flexible(frame, at, SYNC_PROTOCOL_SINCE)
