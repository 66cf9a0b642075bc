"""Whatever a socket delivers, a request or a refusal comes out, quickly and in little memory (W13)."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.catalog.codec import decode
from actors.catalog.groups import GROUP_APIS
from actors.catalog.headers import parse_header
from actors.protocol import api_keys
from actors.protocol.entities import decode_entity
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from tests.protocol.random_entities import EVERY_VERSION, random_request, request_head

BOMBS = (
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x40",
    b"\x7f\xff\xff\xff",
    b"\x00\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00",
)
"""Lengths that lie: a varint, an int32 and null."""


def _survives(frame: bytes) -> bool:
    """Whether the frame is a request; anything but a request or a refusal fails the test."""
    try:
        header, body_offset = parse_header(frame)
        read = decode if header.api_key in GROUP_APIS else decode_entity
        read(header, frame, body_offset)
    except (MalformedRequest, UnsupportedRequest):
        return False
    return True


@pytest.mark.parametrize(("api_key", "api_version"), EVERY_VERSION)
def test_every_prefix_of_a_request_is_malformed(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key * 100 + api_version)
    for _ in range(4):
        _, frame = random_request(rng, api_key, api_version)
        assert _survives(frame)
        for length in {*range(min(len(frame), 150)), *rng.sample(range(len(frame)), min(len(frame), 20))}:
            assert not _survives(frame[:length])


@pytest.mark.parametrize(("api_key", "api_version"), EVERY_VERSION)
def test_flipped_bits_and_lying_lengths_are_survived(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key * 100 + api_version)
    start = len(request_head(api_key, api_version))
    for _ in range(6):
        _, frame = random_request(rng, api_key, api_version)
        for _ in range(25):
            spoilt = bytearray(frame)
            for _ in range(rng.randint(1, 3)):
                spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
            _survives(bytes(spoilt))
            at = rng.randrange(start, len(frame) + 1)
            bomb = rng.choice(BOMBS)
            _survives(frame[:at] + bomb + frame[at + rng.choice((0, 1, len(bomb))) :])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(key=st.sampled_from(EVERY_VERSION), body=st.binary(max_size=200))
def test_random_bodies_are_survived(key: tuple[int, int], body: bytes) -> None:
    _survives(request_head(*key) + body)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(frame=st.binary(max_size=100))
def test_random_frames_are_survived(frame: bytes) -> None:
    _survives(frame)


def test_a_claim_of_two_billion_elements_costs_no_memory() -> None:
    """kio's own reader ends the process here: it reserves what the frame claims."""
    claims = [
        request_head(api_keys.JOIN_GROUP, 9) + b"\x02g\0\0\0\1\0\0\0\1\x02m\0\x02c" + b"\xff\xff\xff\xff\x07",
        request_head(api_keys.OFFSET_COMMIT, 8) + b"\x02g\0\0\0\1\x02m\0" + b"\xff\xff\xff\xff\x07",
        request_head(api_keys.OFFSET_COMMIT, 2) + b"\0\1g\0\0\0\1\0\1m" + bytes(8) + b"\x7f\xff\xff\xff",
        request_head(api_keys.METADATA, 12) + b"\xff\xff\xff\xff\x07",
        request_head(api_keys.CONSUMER_GROUP_HEARTBEAT, 1)
        + b"\x02g\x02m\0\0\0\1\0\0\xff\xff\xff\xff"
        + b"\xff\xff\xff\xff\x07",
        request_head(api_keys.OFFSET_FETCH, 7) + b"\x02g\x02\x02t" + b"\xff\xff\xff\xff\x07",
    ]
    for frame in claims:
        _survives(frame)
    tracemalloc.start()
    for frame in claims:
        assert not _survives(frame)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 200_000
