"""The answers to ApiVersions equal kio's byte for byte, a version that is not known yet is answered, too
(KIP-511), and a client that has reached somebody else is told (KIP-1242)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from actors.catalog.api_versions import Place, Told, api_versions_answer, client_software
from actors.catalog.table import APIS
from actors.ground.features import Features
from actors.ground.image import NO_CHANGES
from actors.protocol import api_keys
from actors.protocol.entities import build, nested, request_class, response_class
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from tests.protocol.random_entities import kio_bytes, opened, request_head

V = api_keys.API_VERSIONS


HERE = Place("tier", 2)


def _request(api_version: int, name: str = "librdkafka", version: str = "2.12.0-rc1", **place: Any) -> bytes:
    software = {"client_software_name": name, "client_software_version": version}
    entity = build(request_class(V, api_version), **software, **place)
    return request_head(V, api_version) + kio_bytes(entity)


def _read(answer: bytes, api_version: int) -> Any:
    length, correlation_id = struct.unpack_from(">ii", answer)
    assert (length, correlation_id) == (len(answer) - 4, 7)
    entity, size = entity_reader(response_class(V, api_version))(answer, 8)
    assert size == len(answer) - 8
    return entity


CHANGED = Features(7, (("group.version", 0), ("transaction.version", 1)))


def _features(api_version: int, features: Features) -> dict[str, Any]:
    if api_version < 3:
        return {}
    finalized = nested(V, api_version, "FinalizedFeatureKey")
    supported = nested(V, api_version, "SupportedFeatureKey")
    can = [("group.version", 0, 1), ("metadata.version", 7, 33), ("transaction.version", 0, 2)]
    told = {0: [("group.version", 1), ("metadata.version", 33), ("transaction.version", 2)]}
    told[7] = [("metadata.version", 33), ("transaction.version", 1)]
    return {
        "supported_features": tuple(
            supported(name=name, min_version=low, max_version=high)
            for name, low, high in can
            if api_version >= 4 or low
        ),
        "finalized_features_epoch": features.epoch,
        "finalized_features": tuple(
            finalized(name=name, min_version_level=level, max_version_level=level)
            for name, level in told[features.epoch]
        ),
    }


@pytest.mark.parametrize("features", [NO_CHANGES, CHANGED], ids=["as started", "changed"])
@pytest.mark.parametrize("api_version", range(6))
def test_the_answer_is_the_table_of_what_is_announced_and_the_features(
    api_version: int, features: Features
) -> None:
    """A25, W44: version 4 can say that level 0 is supported too, version 3 cannot."""
    api_class = nested(V, api_version, "ApiVersion")
    expected = build(
        response_class(V, api_version),
        error_code=ErrorCode.none,
        api_keys=tuple(
            build(api_class, api_key=api_key, min_version=api.first_told, max_version=api.max_version)
            for api_key, api in APIS.items()
            if api.announced and api_key < api_keys.OWN_FROM
        ),
        **_features(api_version, features),
    )
    answer = api_versions_answer(*opened(_request(api_version)), told=Told(features))
    assert _read(answer, api_version) == expected
    assert answer[8:] == kio_bytes(expected)


@pytest.mark.parametrize(
    ("name", "own_to_all", "told"),
    [("librdkafka", False, False), ("librdkafka", True, True), ("groupd-", False, True)],
    ids=["a client of Kafka's", "the setting", "a client that knows them"],
)
def test_requests_of_our_own_are_told_of_where_they_are_known(
    name: str, own_to_all: bool, told: bool
) -> None:
    name = f"{name}consumer"
    answer = _read(api_versions_answer(*opened(_request(3, name)), told=Told(own_to_all=own_to_all)), 3)
    own = [api.api_key for api in answer.api_keys if api.api_key >= api_keys.OWN_FROM]
    assert own == ([key for key in APIS if key >= api_keys.OWN_FROM] if told else [])


@pytest.mark.parametrize("api_version", range(6))
def test_produce_is_told_from_version_0_and_served_from_version_3(api_version: int) -> None:
    """librdkafka 2.6 compresses nothing for a broker that does not tell Produce 0. Kafka tells it, and closes
    the connection of who asks for it."""
    answer = _read(api_versions_answer(*opened(_request(api_version))), api_version)
    [produce] = [api for api in answer.api_keys if api.api_key == api_keys.PRODUCE]
    assert (produce.min_version, produce.max_version) == (0, 13)
    for too_old in range(3):
        with pytest.raises(UnsupportedRequest):
            opened(struct.pack(">hhih", api_keys.PRODUCE, too_old, 7, -1))


@pytest.mark.parametrize("api_version", [-1, 6, 99])
def test_w13_an_unknown_version_is_told_35_in_the_layout_of_version_0(api_version: int) -> None:
    frame = struct.pack(">hhih", V, api_version, 7, -1) + b"whatever comes"
    answer = _read(api_versions_answer(*opened(frame)), 0)
    assert answer.error_code is ErrorCode.unsupported_version
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(V, 0, 5)]
    assert client_software(*opened(frame)) == ("", "")


def test_the_clients_software_is_read_from_version_3_on() -> None:
    assert client_software(*opened(_request(2))) == ("", "")
    assert client_software(*opened(_request(3))) == ("librdkafka", "2.12.0-rc1")
    assert client_software(*opened(_request(4, "apache-kafka-java", "4.1.0"))) == (
        "apache-kafka-java",
        "4.1.0",
    )


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("a", "-1"), ("a", "ä")])
def test_a_software_name_that_kafka_refuses_is_told_invalid_request(name: str, version: str) -> None:
    answer = _read(api_versions_answer(*opened(_request(3, name, version))), 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.invalid_request, ())


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.none),
        ("tier", 2, ErrorCode.none),
        ("other", 2, ErrorCode.rebootstrap_required),
        ("tier", 1, ErrorCode.rebootstrap_required),
        ("", 2, ErrorCode.rebootstrap_required),
        ("tier", -1, ErrorCode.invalid_request),
        (None, 2, ErrorCode.invalid_request),
    ],
)
def test_w18_a_client_is_told_that_it_has_reached_somebody_else(
    cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    frame = _request(5, cluster_id=cluster_id, node_id=node_id)
    answer = _read(api_versions_answer(*opened(frame), HERE), 5)
    assert (answer.error_code, bool(answer.api_keys)) == (error, error is ErrorCode.none)
    assert bool(answer.supported_features) is (error is ErrorCode.none)


def test_w18_where_the_place_is_not_known_only_half_of_it_is_refused() -> None:
    """Before a login, and before a node has heard of its tier."""
    wrong, half = _request(5, cluster_id="other", node_id=9), _request(5, node_id=9)
    assert _read(api_versions_answer(*opened(wrong)), 5).error_code is ErrorCode.none
    assert _read(api_versions_answer(*opened(half)), 5).error_code is ErrorCode.invalid_request


def test_w18_a_software_name_that_cannot_be_goes_before_the_place() -> None:
    frame = _request(5, "a b", cluster_id="other", node_id=9)
    assert _read(api_versions_answer(*opened(frame), HERE), 5).error_code is ErrorCode.invalid_request


def test_every_prefix_of_a_version_3_request_is_malformed() -> None:
    frame = _request(3)
    for length in range(len(frame)):
        with pytest.raises(MalformedRequest):
            api_versions_answer(*opened(frame[:length]))
