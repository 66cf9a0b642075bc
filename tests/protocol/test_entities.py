"""Our compiled reader and writer do as kio's own, in every version of every advertised API."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from kio.serial import entity_reader

from actors.protocol import api_keys, entity_reading
from actors.protocol.entities import (
    build,
    decode_entity,
    encode_entity,
    has_flexible_response_header,
    nested,
    request_class,
    response_class,
)
from actors.protocol.errors import MalformedRequest
from tests.protocol.random_entities import (
    EVERY_VERSION,
    kio_bytes,
    opened,
    random_entity,
    random_request,
    request_head,
)


@pytest.mark.parametrize(("api_key", "api_version"), EVERY_VERSION)
def test_requests_are_read_as_kio_reads_them(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key * 100 + api_version)
    read_by_kio = entity_reader(request_class(api_key, api_version))
    for _ in range(12):
        entity, frame = random_request(rng, api_key, api_version)
        header, _, body_offset = opened(frame)
        assert decode_entity(header, frame, body_offset) == entity
        # kio answers with the number of bytes read.
        assert read_by_kio(frame, body_offset) == (entity, len(frame) - body_offset)
        # W13: bytes behind the body are nobody's.
        assert decode_entity(header, frame + b"\xff\xff", body_offset) == entity


@pytest.mark.parametrize(("api_key", "api_version"), EVERY_VERSION)
def test_answers_are_written_as_kio_writes_them(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key * 100 + api_version)
    entity_class = response_class(api_key, api_version)
    read = entity_reading.entity_reader(entity_class)
    for _ in range(12):
        entity = random_entity(rng, entity_class)
        correlation_id = rng.randrange(-(2**31), 2**31)
        tags = b"\0" if has_flexible_response_header(api_key, api_version) else b""
        body = kio_bytes(entity)
        frame = correlation_id.to_bytes(4, "big", signed=True) + tags + body
        expected = len(frame).to_bytes(4, "big") + frame
        assert encode_entity(api_key, api_version, correlation_id, entity) == expected
        assert read(body, 0) == (entity, len(body))


def test_w13_known_and_unknown_tags_in_any_order_and_repeated() -> None:
    head = request_head(api_keys.FETCH, 12)
    entity = random_entity(random.Random(5), request_class(api_keys.FETCH, 12))
    plain = type(entity)(**{name: getattr(entity, name) for name in entity.__slots__ if name != "cluster_id"})
    body = kio_bytes(plain)
    assert body[-1] == 0
    tagged = head + body[:-1] + b"\x03" + b"\x63\x01z" + b"\x00\x03\x03ab" + b"\x63\x00"
    assert decode_entity(*opened(tagged)).cluster_id == "ab"
    lying = head + body[:-1] + b"\x01" + b"\x00\x01\x03ab"
    with pytest.raises(MalformedRequest):
        decode_entity(*opened(lying))


def test_w13_text_that_is_no_utf8_is_repaired_unless_it_grows_too_long() -> None:
    head = request_head(api_keys.DELETE_GROUPS, 0)
    text = b"\0\0\0\1" + b"\0\2a\xff"
    assert decode_entity(*opened(head + text)).groups_names == ("a\ufffd",)
    huge = b"\0\0\0\1" + b"\x7f\xff" + b"\xff" * 32767
    with pytest.raises(MalformedRequest):
        decode_entity(*opened(head + huge))
    compact = request_head(api_keys.DELETE_GROUPS, 2)
    too_long = b"\x02" + b"\x81\x80\x02" + b"x" * 32768 + b"\0"
    with pytest.raises(MalformedRequest):
        decode_entity(*opened(compact + too_long))


def test_a_field_that_a_version_lacks_is_dropped_and_throttle_time_is_zero() -> None:
    for api_version in range(7):
        entity = build(
            response_class(api_keys.FIND_COORDINATOR, api_version),
            error_code=0,
            error_message=None,
            node_id=1,
            host="h",
            port=1,
            coordinators=(),
        )
        assert getattr(entity, "throttle_time", timedelta(0)) == timedelta(0)
        assert hasattr(entity, "coordinators") is (api_version >= 4)


def test_an_error_message_about_the_longest_name_fits_every_version() -> None:
    """A name has up to 32,767 bytes, and so has the message that repeats it."""
    for api_version in (1, 4):
        error = build(
            nested(api_keys.DESCRIBE_CONFIGS, api_version, "DescribeConfigsResult"),
            error_code=3,
            error_message=f"Topic {'é' * 16_383} is not there.",
            resource_type=2,
            resource_name="é" * 16_383,
            configs=(),
        )
        answer = build(response_class(api_keys.DESCRIBE_CONFIGS, api_version), results=(error,))
        assert b"Topic" in encode_entity(api_keys.DESCRIBE_CONFIGS, api_version, 1, answer)


def test_a_required_field_that_is_missing_is_our_bug() -> None:
    with pytest.raises(TypeError):
        build(nested(api_keys.METADATA, 12, "MetadataResponseBroker"), node_id=1, host="h")


def test_nested_classes_are_found_on_both_sides() -> None:
    asked = nested(api_keys.CONSUMER_GROUP_HEARTBEAT, 1, "TopicPartitions", "request")
    told = nested(api_keys.CONSUMER_GROUP_HEARTBEAT, 1, "TopicPartitions")
    assert asked is not told
    assert asked.__module__.endswith("request")
