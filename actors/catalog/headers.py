"""Read request headers, by hand because they stand on every frame.

A frame here is what follows the four bytes of the length prefix. Header version 1 is api key, api version,
correlation id and a nullable client id; version 2 adds a tag section, and keeps the client id's old int16
length (KIP-482). The API and its version say which of the two it is.
"""

from __future__ import annotations

import struct
from typing import Final

from actors.catalog.table import APIS
from actors.protocol import api_keys
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.hot_requests import UNUSUAL, read_compact, read_legacy
from actors.protocol.questions import TIER_QUESTIONS, VERSION
from actors.protocol.wire import CUT_SHORT, skip_tags, string_reader

_FIXED: Final = struct.Struct(">hhi")
_FIXED_AND_LENGTH: Final = struct.Struct(">hhih")
_CLIENT_ID_AT: Final = _FIXED_AND_LENGTH.size

_FLEXIBLE: Final[dict[tuple[int, int], bool]] = {
    (api_key, api_version): api_version >= api.flexible_since
    for api_key, api in APIS.items()
    for api_version in api.versions
} | {(TIER_QUESTIONS, VERSION): False}
_read_client_id = string_reader(flexible=False, nullable=True)
_GROUP_FIRST: Final = frozenset(
    {
        api_keys.JOIN_GROUP,
        api_keys.SYNC_GROUP,
        api_keys.HEARTBEAT,
        api_keys.LEAVE_GROUP,
        api_keys.OFFSET_COMMIT,
        api_keys.CONSUMER_GROUP_HEARTBEAT,
        api_keys.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
        api_keys.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
        api_keys.REGISTER_CONSUMER,
    }
)
"""The APIs whose requests begin with the id of the one group that they are for."""


def parse_header(frame: bytes) -> tuple[Header, int]:
    """Return the header and the offset of the body.

    Raises UnsupportedRequest for an API or version that is not advertised, MalformedRequest for bytes that
    are no header (W13). An unknown version of ApiVersions passes: it has an answer (error 35).
    """
    try:
        api_key, api_version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(frame)
        flexible = _FLEXIBLE.get((api_key, api_version))
        if flexible is None:
            if api_key != api_keys.API_VERSIONS:
                raise UnsupportedRequest(f"API {api_key} version {api_version}")
            # Nothing behind the client id is read: no one knows what a version of the future puts there.
            client_id, at = _read_client_id(frame, _FIXED.size)
            return Header(api_key, api_version, correlation_id, client_id or ""), at
        if length > 0:
            at = _CLIENT_ID_AT + length
            raw = frame[_CLIENT_ID_AT:at]
            if at > len(frame):
                raise MalformedRequest("a client id beyond the end of the frame")
            client_id = raw.decode() if raw.isascii() else _read_client_id(frame, _FIXED.size)[0]
        else:
            # A negative length is null (W13: -2 too).
            client_id, at = "", _CLIENT_ID_AT
        if flexible:
            at = at + 1 if frame[at] == 0 else skip_tags(frame, at)
    except CUT_SHORT as error:
        raise MalformedRequest("a frame that ends inside its header") from error
    # This takes half the time of calling the class, on every frame.
    return tuple.__new__(Header, (api_key, api_version, correlation_id, client_id)), at


def first_group(header: Header, frame: bytes, body_offset: int) -> str | None:
    """Return the id of the one group that a request is for, if it stands first in the body and is short; None
    if the whole request has to be read for that. Nothing behind the id is looked at."""
    if header.api_key not in _GROUP_FIRST:
        return None
    try:
        if _FLEXIBLE[header.api_key, header.api_version]:
            return read_compact(frame, body_offset)[0]
        return read_legacy(frame, body_offset)[0]
    except UNUSUAL:
        return None
