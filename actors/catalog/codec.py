"""Decode group requests from bytes and encode group answers, for the coordinator's connections.

Hot requests and answers take the hand-written paths (`hot_requests`, `hot_answers`); all others are read and
written by kio's schemas. What the broker's own APIs need of `entities` and `api_versions` is named here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from actors.catalog.api_versions import api_versions_answer, client_software
from actors.catalog.table import coordinated
from actors.protocol import (
    api_keys,
    hot_answers,
    hot_offset_answers,
    hot_offset_requests,
    hot_rebalances,
    hot_requests,
)
from actors.protocol.entities import (
    build,
    decode_entity,
    decode_response,
    encode_entity,
    encode_request,
    nested,
    request_class,
    response_class,
)
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.messages import GroupRequest

__all__ = [
    "api_versions_answer",
    "build",
    "client_software",
    "decode",
    "decode_by_schema",
    "decode_entity",
    "decode_response",
    "encode",
    "encode_entity",
    "encode_request",
    "nested",
    "request_class",
    "response_class",
]

_Decoder = Callable[[bytes, int], GroupRequest]
_Encoder = Callable[[int, Any], bytes]


def _by_key(rows: Iterable[tuple[int, int, int, Any]]) -> dict[int, Any]:
    """Return the functions by `api key << 16 | version`, which is one dict key: requests are looked up by
    it."""
    return {
        api_key << 16 | api_version: function
        for api_key, first, last, function in rows
        for api_version in range(first, last + 1)
    }


HOT_REQUESTS: Final[dict[int, _Decoder]] = _by_key(
    (
        (api_keys.HEARTBEAT, 0, 2, hot_requests.heartbeat_plain),
        (api_keys.HEARTBEAT, 3, 3, hot_requests.heartbeat_static),
        (api_keys.HEARTBEAT, 4, 4, hot_requests.heartbeat_flexible),
        (api_keys.CONSUMER_GROUP_HEARTBEAT, 0, 0, hot_requests.consumer_heartbeat_v0),
        (api_keys.CONSUMER_GROUP_HEARTBEAT, 1, 1, hot_requests.consumer_heartbeat_v1),
        (api_keys.OFFSET_COMMIT, 2, 4, hot_offset_requests.offset_commit_retention),
        (api_keys.OFFSET_COMMIT, 5, 5, hot_offset_requests.offset_commit_plain),
        (api_keys.OFFSET_COMMIT, 6, 6, hot_offset_requests.offset_commit_leader_epoch),
        (api_keys.OFFSET_COMMIT, 7, 7, hot_offset_requests.offset_commit_static),
        (api_keys.OFFSET_COMMIT, 8, 9, hot_offset_requests.offset_commit_flexible),
        (api_keys.OFFSET_COMMIT, 10, 10, hot_offset_requests.offset_commit_ids),
        (api_keys.OFFSET_FETCH, 1, 1, hot_offset_requests.offset_fetch_plain),
        (api_keys.OFFSET_FETCH, 2, 5, hot_offset_requests.offset_fetch_all),
        (api_keys.OFFSET_FETCH, 6, 6, hot_offset_requests.offset_fetch_flexible),
        (api_keys.OFFSET_FETCH, 7, 7, hot_offset_requests.offset_fetch_stable),
        (api_keys.OFFSET_FETCH, 8, 8, hot_offset_requests.offset_fetch_groups),
        (api_keys.OFFSET_FETCH, 9, 9, hot_offset_requests.offset_fetch_member),
        (api_keys.OFFSET_FETCH, 10, 10, hot_offset_requests.offset_fetch_ids),
        (api_keys.JOIN_GROUP, 0, 0, hot_rebalances.join_group_one_timeout),
        (api_keys.JOIN_GROUP, 1, 4, hot_rebalances.join_group_plain),
        (api_keys.JOIN_GROUP, 5, 5, hot_rebalances.join_group_static),
        (api_keys.JOIN_GROUP, 6, 7, hot_rebalances.join_group_flexible),
        (api_keys.JOIN_GROUP, 8, 9, hot_rebalances.join_group_reason),
        (api_keys.SYNC_GROUP, 0, 2, hot_rebalances.sync_group_plain),
        (api_keys.SYNC_GROUP, 3, 3, hot_rebalances.sync_group_static),
        (api_keys.SYNC_GROUP, 4, 4, hot_rebalances.sync_group_flexible),
        (api_keys.SYNC_GROUP, 5, 5, hot_rebalances.sync_group_protocol),
    )
)
HOT_ANSWERS: Final[dict[int, _Encoder]] = _by_key(
    (
        (api_keys.HEARTBEAT, 0, 0, hot_answers.heartbeat_plain),
        (api_keys.HEARTBEAT, 1, 3, hot_answers.heartbeat_throttle),
        (api_keys.HEARTBEAT, 4, 4, hot_answers.heartbeat_flexible),
        (api_keys.CONSUMER_GROUP_HEARTBEAT, 0, 1, hot_answers.consumer_heartbeat),
        (api_keys.OFFSET_COMMIT, 2, 2, hot_offset_answers.offset_commit_plain),
        (api_keys.OFFSET_COMMIT, 3, 7, hot_offset_answers.offset_commit_throttle),
        (api_keys.OFFSET_COMMIT, 8, 9, hot_offset_answers.offset_commit_flexible),
        (api_keys.OFFSET_COMMIT, 10, 10, hot_offset_answers.offset_commit_ids),
        (api_keys.OFFSET_FETCH, 1, 1, hot_offset_answers.offset_fetch_plain),
        (api_keys.OFFSET_FETCH, 2, 2, hot_offset_answers.offset_fetch_top_error),
        (api_keys.OFFSET_FETCH, 3, 4, hot_offset_answers.offset_fetch_throttle),
        (api_keys.OFFSET_FETCH, 5, 5, hot_offset_answers.offset_fetch_leader_epoch),
        (api_keys.OFFSET_FETCH, 6, 7, hot_offset_answers.offset_fetch_flexible),
        (api_keys.OFFSET_FETCH, 8, 9, hot_offset_answers.offset_fetch_groups),
        (api_keys.OFFSET_FETCH, 10, 10, hot_offset_answers.offset_fetch_ids),
        (api_keys.JOIN_GROUP, 0, 1, hot_answers.join_group_plain),
        (api_keys.JOIN_GROUP, 2, 4, hot_answers.join_group_throttle),
        (api_keys.JOIN_GROUP, 5, 5, hot_answers.join_group_static),
        (api_keys.JOIN_GROUP, 6, 6, hot_answers.join_group_flexible),
        (api_keys.JOIN_GROUP, 7, 8, hot_answers.join_group_protocol_type),
        (api_keys.JOIN_GROUP, 9, 9, hot_answers.join_group_skip),
        (api_keys.SYNC_GROUP, 0, 0, hot_answers.sync_group_plain),
        (api_keys.SYNC_GROUP, 1, 3, hot_answers.sync_group_throttle),
        (api_keys.SYNC_GROUP, 4, 4, hot_answers.sync_group_flexible),
        (api_keys.SYNC_GROUP, 5, 5, hot_answers.sync_group_protocol),
    )
)


def decode_by_schema(header: Header, frame: bytes, body_offset: int) -> GroupRequest:
    """Return the request in a frame, as `decode` does, without the hand-written paths."""
    request: GroupRequest = coordinated(header.api_key).decode(decode_entity(header, frame, body_offset))
    return request


def decode(header: Header, frame: bytes, body_offset: int) -> GroupRequest:
    """Return the neutral request in a frame (without its length prefix) that a coordinator answers.

    Raises MalformedRequest for bytes that are no such request, UnsupportedRequest for another API or a
    version that is not advertised, nothing else. Bytes behind the request are accepted (W13).
    """
    hot = HOT_REQUESTS.get(header[0] << 16 | header[1])
    if hot is not None:
        try:
            return hot(frame, body_offset)
        except hot_requests.UNUSUAL:
            pass
    return decode_by_schema(header, frame, body_offset)


def encode(api_key: int, api_version: int, correlation_id: int, body: Any) -> bytes:
    """Return the whole frame of a group API's answer: length prefix, response header, body.

    Raises UnsupportedRequest for an API that is no group API or a version that is not advertised.
    """
    hot = HOT_ANSWERS.get(api_key << 16 | api_version)
    if hot is not None:
        return hot(correlation_id, body)
    to_entity = coordinated(api_key).encode
    if to_entity is None:
        raise UnsupportedRequest(f"API {api_key} version {api_version}")
    return encode_entity(api_key, api_version, correlation_id, to_entity(api_version, body))
