"""Rows of one length are read and packed many at a time: most clients send and are answered such rows."""

from __future__ import annotations

import random
import struct
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from actors.catalog.codec import HOT_REQUESTS, decode_by_schema, encode
from actors.protocol import api_keys
from actors.protocol.entities import build, has_flexible_response_header, nested, request_class
from actors.protocol.errors import MalformedRequest
from actors.protocol.hot_offset_answers import ROWS_AT_ONCE_MAX, ROWS_AT_ONCE_MIN
from actors.protocol.hot_requests import UNUSUAL
from actors.protocol.messages import (
    FetchedGroup,
    FetchedOffset,
    OffsetCommitResponse,
    OffsetFetchResponse,
)
from tests.protocol.oracle import TO_KIO
from tests.protocol.random_entities import EVERY_VERSION, kio_bytes, opened, random_int, request_head

COMMITS = [key for key in EVERY_VERSION if key[0] == api_keys.OFFSET_COMMIT]
FETCHES = [key for key in EVERY_VERSION if key[0] == api_keys.OFFSET_FETCH]
SIZES = (0, 1, ROWS_AT_ONCE_MIN - 1, ROWS_AT_ONCE_MIN, 10, 130, ROWS_AT_ONCE_MAX, ROWS_AT_ONCE_MAX + 1)
IDS = (UUID(int=7).bytes, bytes(16))


def _commit_frame(rng: random.Random, api_version: int, rows: int) -> bytes:
    """Make an OffsetCommit of two topics with so many partitions each and no metadata."""
    partition_class = nested(api_keys.OFFSET_COMMIT, api_version, "OffsetCommitRequestPartition", "request")
    topic_class = nested(api_keys.OFFSET_COMMIT, api_version, "OffsetCommitRequestTopic", "request")
    topics = tuple(
        build(
            topic_class,
            name=f"t{number}",
            topic_id=UUID(int=number),
            partitions=tuple(
                build(
                    partition_class,
                    partition_index=random_int(rng, 32),
                    committed_offset=random_int(rng, 64),
                    committed_leader_epoch=random_int(rng, 32),
                    committed_metadata="",
                )
                for _ in range(rows)
            ),
        )
        for number in (1, 2)
    )
    entity = build(
        request_class(api_keys.OFFSET_COMMIT, api_version), group_id="g", member_id="m", topics=topics
    )
    return request_head(api_keys.OFFSET_COMMIT, api_version) + kio_bytes(entity)


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("api_key", "api_version"), COMMITS)
def test_commits_without_metadata_are_read_by_hand(api_key: int, api_version: int, rows: int) -> None:
    arguments = opened(_commit_frame(random.Random(rows), api_version, rows))
    by_hand = HOT_REQUESTS[api_key << 16 | api_version](*arguments[1:])
    assert by_hand == decode_by_schema(*arguments)


@pytest.mark.parametrize(("api_key", "api_version"), COMMITS)
def test_a_spoilt_commit_is_what_the_schema_says_or_not_read_by_hand(api_key: int, api_version: int) -> None:
    rng = random.Random(api_version)
    head = len(request_head(api_key, api_version))
    for _ in range(600):
        frame = bytearray(_commit_frame(rng, api_version, rng.choice((1, 5))))
        frame[rng.randrange(head, len(frame))] = rng.choice((0, 1, 2, 255))
        arguments = opened(bytes(frame[: rng.choice((len(frame), len(frame) - 1))]))
        try:
            by_hand = HOT_REQUESTS[api_key << 16 | api_version](*arguments[1:])
        except (*UNUSUAL, MalformedRequest):
            continue
        assert by_hand == decode_by_schema(*arguments)


def _check_packed(api_key: int, api_version: int, body: Any) -> None:
    tags = b"\0" if has_flexible_response_header(api_key, api_version) else b""
    frame = struct.pack(">i", 7) + tags + kio_bytes(TO_KIO[api_key](api_version, body))
    assert encode(api_key, api_version, 7, body) == struct.pack(">i", len(frame)) + frame


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("api_key", "api_version"), COMMITS)
def test_answers_to_commits_that_went_well_are_kios_bytes(api_key: int, api_version: int, rows: int) -> None:
    rng = random.Random(rows)
    topics = tuple(
        (name, tuple((random_int(rng, 32), ErrorCode.none) for _ in range(rows))) for name in ("t", "u")
    )
    _check_packed(api_key, api_version, OffsetCommitResponse(topics, IDS))


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("api_key", "api_version"), FETCHES)
def test_answers_of_offsets_alone_are_kios_bytes(api_key: int, api_version: int, rows: int) -> None:
    rng = random.Random(rows)
    topics = tuple(
        (
            name,
            tuple(
                FetchedOffset(random_int(rng, 32), random_int(rng, 64), random_int(rng, 32))
                for _ in range(rows)
            ),
        )
        for name in ("t", "u")
    )
    for error_code in (ErrorCode.none, ErrorCode.not_coordinator):
        group = FetchedGroup("g", topics, error_code, IDS)
        _check_packed(api_key, api_version, OffsetFetchResponse((group,)))
