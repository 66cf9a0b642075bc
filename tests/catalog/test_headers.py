"""Request headers: versions 1 and 2, and what Kafka tolerates in them (W13)."""

from __future__ import annotations

import random
import struct

import pytest

from actors.catalog.headers import parse_header
from actors.catalog.table import is_flexible
from actors.protocol import api_keys
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.header import Header
from tests.protocol.random_entities import EVERY_VERSION, random_text, request_head


def test_headers_of_every_api_and_version_are_read_as_kio_wrote_them() -> None:
    rng = random.Random(2)
    for api_key, api_version in EVERY_VERSION:
        correlation_id = rng.randrange(-(2**31), 2**31)
        for client_id in (None, "", random_text(rng), "ä😀"):
            head = request_head(api_key, api_version, correlation_id, client_id)
            expected = Header(api_key, api_version, correlation_id, client_id or "")
            assert parse_header(head + b"body") == (expected, len(head))


def test_every_prefix_of_a_header_is_malformed() -> None:
    for api_key, api_version in EVERY_VERSION:
        head = request_head(api_key, api_version)
        for length in range(len(head)):
            with pytest.raises(MalformedRequest):
                parse_header(head[:length])


def test_w13_any_negative_client_id_length_is_null() -> None:
    for length in (-1, -2, -32768):
        frame = struct.pack(">hhihB", api_keys.HEARTBEAT, 4, 1, length, 0)
        assert parse_header(frame) == (Header(api_keys.HEARTBEAT, 4, 1, ""), 11)


def test_w13_a_client_id_that_is_no_utf8_is_accepted() -> None:
    frame = struct.pack(">hhih", api_keys.HEARTBEAT, 0, 1, 3) + b"a\xffb"
    assert parse_header(frame) == (Header(api_keys.HEARTBEAT, 0, 1, "a\ufffdb"), 13)


def test_w13_unknown_tags_unordered_and_repeated_are_skipped() -> None:
    fixed = struct.pack(">hhih", api_keys.HEARTBEAT, 4, 1, 0)
    tags = b"\x03" + b"\x09\x02ab" + b"\x01\x00" + b"\x09\x81\x01" + bytes(129)
    header, at = parse_header(fixed + tags + b"body")
    assert (header.correlation_id, at) == (1, len(fixed + tags))
    for lie in (b"\x01\x05\x05abcd", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(MalformedRequest):
            parse_header(fixed + lie)


def test_w13_what_is_not_advertised_is_refused() -> None:
    for api_key, api_version in ((999, 0), (api_keys.HEARTBEAT, 5), (api_keys.HEARTBEAT, -1), (-1, -1)):
        with pytest.raises(UnsupportedRequest):
            parse_header(struct.pack(">hhih", api_key, api_version, 1, -1))


def test_w13_an_unknown_version_of_api_versions_passes_for_its_error_35() -> None:
    for api_version in (-1, 6, 32767):
        frame = struct.pack(">hhih", api_keys.API_VERSIONS, api_version, 9, 3) + b"abc" + b"\xff\xff"
        assert parse_header(frame) == (Header(api_keys.API_VERSIONS, api_version, 9, "abc"), 13)


def test_random_bytes_give_a_header_or_a_refusal() -> None:
    rng = random.Random(3)
    for _ in range(20_000):
        api_key, api_version = rng.choice(EVERY_VERSION)
        frame = struct.pack(">hh", api_key, api_version) + rng.randbytes(rng.randrange(30))
        try:
            header, at = parse_header(frame)
        except (MalformedRequest, UnsupportedRequest):
            continue
        assert (header.api_key, header.api_version) == (api_key, api_version)
        assert at <= len(frame)
        assert at > 9 if is_flexible(api_key, api_version) else at >= 10
