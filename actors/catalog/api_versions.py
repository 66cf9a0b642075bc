"""Answer ApiVersions, the first request of every connection, from prepared bytes (KIP-511).

A version that the tier does not know gets error 35 in the layout of version 0, which every client reads;
it then asks again with a version that the answer names (W13). From version 5 on a client says which node of
which cluster it takes the other end for, and is told when it is wrong (W18, KIP-1242).

Requests of our own (`api_keys.OWN_FROM`) are told of only to clients whose software's name says that they
know them, or to all if a setting says so.
"""

import re
import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.catalog.table import APIS, is_flexible, is_supported
from actors.ground.features import FEATURES, Features
from actors.ground.image import NO_CHANGES
from actors.protocol import api_keys
from actors.protocol.entities import build, decode_entity, nested, response_class
from actors.protocol.entity_writing import entity_writer
from actors.protocol.header import Header

FEATURES_SINCE: Final = 3
_OWN: Final = tuple(key for key in APIS if key >= api_keys.OWN_FROM)
_ANNOUNCED: Final = tuple(key for key, api in APIS.items() if api.announced and key not in _OWN)
KNOWS_OWN: Final = "groupd-"
"""How the names of software begin that knows requests of our own."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The form of what Kafka accepts as the name and version of a client's software."""
BODIES_KEPT: Final = 32
"""How many prepared answers are kept: one for each version, and some of features before a change."""
_HEAD: Final = struct.Struct(">ii")


class Place(NamedTuple):
    """Whom a client has reached."""

    cluster_id: str
    node_id: int


class Told(NamedTuple):
    """What clients are told beside the table of APIs."""

    features: Features = NO_CHANGES
    """The levels in force."""
    own_to_all: bool = False
    """Whether every client is told of requests of our own, and not only those that know them."""


NOTHING_ELSE: Final = Told()
NOWHERE: Final = (None, -1)
"""What a client says that does not know yet whom it reaches."""


@lru_cache(maxsize=BODIES_KEPT)
def _body(api_version: int, error_code: ErrorCode, keys: tuple[int, ...], levels: Features) -> bytes:
    cls = response_class(api_keys.API_VERSIONS, api_version)
    row = nested(api_keys.API_VERSIONS, api_version, "ApiVersion")
    rows = tuple(
        build(
            row,
            api_key=api_key,
            min_version=APIS[api_key].first_told,
            max_version=APIS[api_key].max_version,
        )
        for api_key in keys
    )
    features = _features(api_version, levels) if error_code is ErrorCode.none else {}
    pieces: list[bytes] = []
    entity_writer(cls)(pieces.append, build(cls, error_code=error_code, api_keys=rows, **features))
    return b"".join(pieces)


def _features(api_version: int, levels: Features) -> dict[str, Any]:
    """Return the features that the tier tells: what it can serve, and the levels in force (W44). By
    group.version clients know that they may use the consumer protocol (A25). Version 3 cannot say that level
    0 is supported: such features Kafka leaves out there."""
    if api_version < FEATURES_SINCE:
        return {}
    supported = nested(api_keys.API_VERSIONS, api_version, "SupportedFeatureKey")
    finalized = nested(api_keys.API_VERSIONS, api_version, "FinalizedFeatureKey")
    return {
        "supported_features": tuple(
            supported(name=each.name, min_version=each.low, max_version=each.high)
            for each in FEATURES.values()
            if each.told and (each.low > 0 or api_version > FEATURES_SINCE)
        ),
        "finalized_features_epoch": levels.epoch,
        "finalized_features": tuple(
            finalized(name=name, min_version_level=level, max_version_level=level)
            for name, level in levels.finalized()
        ),
    }


def client_software(header: Header, frame: bytes, body_offset: int) -> tuple[str, str]:
    """Return name and version of the client's software, ("", "") below version 3 and for unknown versions.

    Raises MalformedRequest.
    """
    supported = is_supported(api_keys.API_VERSIONS, header.api_version)
    if not supported or not is_flexible(api_keys.API_VERSIONS, header.api_version):
        return "", ""
    entity = decode_entity(header, frame, body_offset)
    return entity.client_software_name, entity.client_software_version


def _refusal(entity: Any, place: Place | None) -> ErrorCode:
    """Return the error of a request from version 3 on (W18)."""
    wanted = (getattr(entity, "cluster_id", None), getattr(entity, "node_id", -1))
    half = (wanted[0] is None) != (wanted[1] == -1)
    software = (entity.client_software_name, entity.client_software_version)
    if half or not all(map(_SOFTWARE.fullmatch, software)):
        return ErrorCode.invalid_request
    if place is not None and wanted not in (NOWHERE, place):
        return ErrorCode.rebootstrap_required
    return ErrorCode.none


def api_versions_answer(
    header: Header,
    frame: bytes,
    body_offset: int,
    place: Place | None = None,
    told: Told = NOTHING_ELSE,
) -> bytes:
    """Return the whole frame of the answer, length prefix included; its header is always version 0.

    The answer may have an error: UNSUPPORTED_VERSION for a version outside the table (-1 too),
    INVALID_REQUEST for a software name or version that Kafka would refuse and for half of a place,
    REBOOTSTRAP_REQUIRED for a client that has not reached `place`; None: it is not compared. Raises
    MalformedRequest.
    """
    api_version, error_code, keys = header.api_version, ErrorCode.none, _ANNOUNCED
    features, own_too = told
    if not is_supported(api_keys.API_VERSIONS, api_version):
        # As in Kafka, the refusal names the versions of this API alone.
        api_version, error_code, keys = 0, ErrorCode.unsupported_version, (api_keys.API_VERSIONS,)
    elif is_flexible(api_keys.API_VERSIONS, api_version):
        entity = decode_entity(header, frame, body_offset)
        error_code = _refusal(entity, place)
        own_too = own_too or entity.client_software_name.startswith(KNOWS_OWN)
        keys = () if error_code else keys
    if own_too and not error_code:
        keys += _OWN
    body = _body(api_version, error_code, keys, features)
    return _HEAD.pack(4 + len(body), header.correlation_id) + body
