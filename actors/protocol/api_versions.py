"""ApiVersions: the first request of every connection, answered from prepared bytes (KIP-511).

A version that the tier does not know gets error 35 in the layout of version 0, which every client reads;
it then asks again with a version that the answer names (W13).
"""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import Final

from kio.schema.errors import ErrorCode

from actors.protocol import api_keys
from actors.protocol.entities import decode_entity
from actors.protocol.headers import Header
from actors.protocol.versions import VERSIONS, is_flexible, is_supported
from actors.protocol.wire import compact_count, legacy_count

THROTTLE_SINCE: Final = 1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""What Kafka accepts as the name and version of a client's software."""
_HEAD: Final = struct.Struct(">ii")
_ERROR: Final = struct.Struct(">h")
_API: Final = struct.Struct(">hhh")


@cache
def _body(api_version: int, error_code: ErrorCode, keys: tuple[int, ...]) -> bytes:
    flexible = is_flexible(api_keys.API_VERSIONS, api_version)
    tags = b"\0" if flexible else b""
    pieces = [_ERROR.pack(error_code), (compact_count if flexible else legacy_count)(len(keys))]
    for api_key in keys:
        api = VERSIONS[api_key]
        pieces.append(_API.pack(api_key, api.min_version, api.max_version) + tags)
    if api_version >= THROTTLE_SINCE:
        pieces.append(bytes(4))
    # No tags: no supported and no finalized features, which leaves the features' epoch at -1.
    return b"".join(pieces) + tags


def client_software(header: Header, frame: bytes, body_offset: int) -> tuple[str, str]:
    """Name and version of the client's software, ("", "") below version 3 and for unknown versions.

    Raises MalformedRequest.
    """
    supported = is_supported(api_keys.API_VERSIONS, header.api_version)
    if not supported or not is_flexible(api_keys.API_VERSIONS, header.api_version):
        return "", ""
    entity = decode_entity(header, frame, body_offset)
    return entity.client_software_name, entity.client_software_version


def api_versions_answer(header: Header, frame: bytes, body_offset: int) -> bytes:
    """The whole frame of the answer, length prefix included; its header is always version 0.

    Errors in the answer: UNSUPPORTED_VERSION for a version outside the table (-1 too), INVALID_REQUEST for a
    software name or version that Kafka would refuse. Raises MalformedRequest.
    """
    api_version, error_code, keys = header.api_version, ErrorCode.none, tuple(VERSIONS)
    if not is_supported(api_keys.API_VERSIONS, api_version):
        # As Kafka: the refusal names the versions of this API alone.
        api_version, error_code, keys = 0, ErrorCode.unsupported_version, (api_keys.API_VERSIONS,)
    elif is_flexible(api_keys.API_VERSIONS, api_version):
        software = client_software(header, frame, body_offset)
        if not all(map(_SOFTWARE.fullmatch, software)):
            error_code, keys = ErrorCode.invalid_request, ()
    body = _body(api_version, error_code, keys)
    return _HEAD.pack(4 + len(body), header.correlation_id) + body
