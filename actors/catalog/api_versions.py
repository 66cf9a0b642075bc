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


class Offer(NamedTuple):
    """What a node tells that is one of a Kafka cluster's brokers, instead of the tier's own table."""

    rows: tuple[tuple[int, int, int], ...]
    """Key, lowest and highest version of each API."""
    supported: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest level of each feature."""
    finalized: tuple[tuple[str, int], ...]
    """The features above level 0, with the levels in force."""
    epoch: int
    """A number that rises when levels change."""


class Told(NamedTuple):
    """What clients are told beside the table of APIs."""

    features: Features = NO_CHANGES
    """The levels in force."""
    own_to_all: bool = False
    """Whether every client is told of requests of our own, and not only those that know them."""
    offer: Offer | None = None
    """What stands in the place of the tier's own table and features; None: nothing does."""


NOTHING_ELSE: Final = Told()
NOWHERE: Final = (None, -1)
"""What a client says that does not know yet whom it reaches."""


def _own_rows(keys: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    return tuple((key, APIS[key].first_told, APIS[key].max_version) for key in keys)


@lru_cache(maxsize=BODIES_KEPT)
def own_offer(levels: Features) -> Offer:
    """Return what a node of a tier of its own tells: what it can serve, and the levels in force (W44). By
    group.version clients know that they may use the consumer protocol (A25)."""
    supported = tuple((each.name, each.low, each.high) for each in FEATURES.values() if each.told)
    return Offer(_own_rows(_ANNOUNCED), supported, tuple(levels.finalized()), levels.epoch)


@lru_cache(maxsize=BODIES_KEPT)
def _body(api_version: int, error_code: ErrorCode, offer: Offer) -> bytes:
    cls = response_class(api_keys.API_VERSIONS, api_version)
    row = nested(api_keys.API_VERSIONS, api_version, "ApiVersion")
    rows = tuple(
        build(row, api_key=api_key, min_version=low, max_version=high) for api_key, low, high in offer.rows
    )
    features = _features(api_version, offer) if error_code is ErrorCode.none else {}
    pieces: list[bytes] = []
    entity_writer(cls)(pieces.append, build(cls, error_code=error_code, api_keys=rows, **features))
    return b"".join(pieces)


def _features(api_version: int, offer: Offer) -> dict[str, Any]:
    """Return the features that are told. Version 3 cannot say that level 0 is supported: such features Kafka
    leaves out there."""
    if api_version < FEATURES_SINCE:
        return {}
    supported = nested(api_keys.API_VERSIONS, api_version, "SupportedFeatureKey")
    finalized = nested(api_keys.API_VERSIONS, api_version, "FinalizedFeatureKey")
    return {
        "supported_features": tuple(
            supported(name=name, min_version=low, max_version=high)
            for name, low, high in offer.supported
            if low > 0 or api_version > FEATURES_SINCE
        ),
        "finalized_features_epoch": offer.epoch,
        "finalized_features": tuple(
            finalized(name=name, min_version_level=level, max_version_level=level)
            for name, level in offer.finalized
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
    api_version, error_code = header.api_version, ErrorCode.none
    offer, own_too = told.offer or own_offer(told.features), told.own_to_all
    rows = offer.rows
    if not is_supported(api_keys.API_VERSIONS, api_version):
        # As in Kafka, the refusal names the versions of this API alone.
        api_version, error_code = 0, ErrorCode.unsupported_version
        rows = _own_rows((api_keys.API_VERSIONS,))
    elif is_flexible(api_keys.API_VERSIONS, api_version):
        entity = decode_entity(header, frame, body_offset)
        error_code = _refusal(entity, place)
        own_too = own_too or entity.client_software_name.startswith(KNOWS_OWN)
        rows = () if error_code else rows
    if own_too and not error_code:
        rows += _own_rows(_OWN)
    body = _body(api_version, error_code, offer._replace(rows=rows))
    return _HEAD.pack(4 + len(body), header.correlation_id) + body
