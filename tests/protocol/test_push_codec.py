"""The bytes of groups whose coordinator pushes are those of their schemas, and lies are found out (D5)."""

from __future__ import annotations

import contextlib
import random
from dataclasses import fields
from typing import Any

import pytest
from kio.serial import entity_reader

from actors.protocol import api_keys
from actors.protocol.entities import request_class, response_class
from actors.protocol.errors import MalformedRequest
from actors.protocol.push_codec import (
    FIRST_ID,
    answer_id,
    read_answer,
    read_push,
    written_answer,
    written_push,
)
from actors.protocol.push_messages import (
    BrokerPlace,
    ConsumedOffsets,
    Owned,
    PingRequest,
    Pushed,
    Said,
    StartFetcherRequest,
    StartPosition,
    StopFetcherRequest,
)

NAMES = ("", "a", "ä" * 100, "t" * 200)
PUSHED = (api_keys.PING, api_keys.STOP_FETCHER, api_keys.START_FETCHER)


def some_request(rng: random.Random, api_key: int) -> Any:
    group_id, consumer_id = rng.choice(NAMES), rng.choice(NAMES)
    if api_key == api_keys.PING:
        return PingRequest(group_id, consumer_id, rng.randrange(2**31))
    if api_key == api_keys.STOP_FETCHER:
        return StopFetcherRequest(group_id, consumer_id)
    owned = tuple(
        Owned(rng.choice(NAMES), tuple(StartPosition("t", n, rng.randrange(-1, 2**63)) for n in range(each)))
        for each in range(rng.randrange(4))
    )
    brokers = tuple(BrokerPlace(n, rng.choice(NAMES), 9092 + n) for n in range(rng.randrange(3)))
    return StartFetcherRequest(group_id, consumer_id, rng.randrange(2**31), owned, brokers)


def some_offsets(rng: random.Random) -> ConsumedOffsets:
    return tuple(
        (rng.choice(NAMES), tuple((n, rng.randrange(-1, 2**63)) for n in range(rng.randrange(200))))
        for _ in range(rng.randrange(3))
    )


def plain(entity: Any) -> list[Any]:
    """The values of an entity, in the order of its fields."""
    return [getattr(entity, each.name) for each in fields(entity)]


@pytest.mark.parametrize("api_key", PUSHED)
@pytest.mark.parametrize("seed", range(8))
def test_a_push_is_what_its_schema_says(api_key: int, seed: int) -> None:
    rng = random.Random(seed)
    request = some_request(rng, api_key)
    frame = written_push(FIRST_ID + seed, Pushed(api_key, 1, 0, request))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert read_push(frame[4:]) == (FIRST_ID + seed, api_key, request)
    head = 4 + 4 + 2 + 2 + 1
    entity, end = entity_reader(request_class(api_key, 0))(frame, head)
    assert end == len(frame) - head
    values = plain(entity)
    assert values[: 2 + (api_key != api_keys.STOP_FETCHER)] == list(
        request[: 2 + (api_key != api_keys.STOP_FETCHER)]
    )
    if isinstance(request, StartFetcherRequest):
        assert [
            (each.thread_id, [tuple(plain(place)) for place in each.partitions]) for each in entity.ownership
        ] == [(each.thread_id, [tuple(place) for place in each.partitions]) for each in request.ownership]
        assert [tuple(plain(each)) for each in entity.brokers] == [tuple(each) for each in request.brokers]


@pytest.mark.parametrize("api_key", PUSHED)
@pytest.mark.parametrize("seed", range(8))
def test_an_answer_is_what_its_schema_says(api_key: int, seed: int) -> None:
    rng = random.Random(seed)
    offsets = () if api_key == api_keys.START_FETCHER else some_offsets(rng)
    last = api_key == api_keys.PING and bool(seed % 2)
    frame = written_answer(-7, api_key, "a", Said(3, offsets, last))
    assert answer_id(frame[4:]) == -7
    assert read_answer(api_key, frame[4:]) == (3, "a", offsets, last)
    entity, end = entity_reader(response_class(api_key, 0))(frame, 9)
    assert end == len(frame) - 9
    assert (entity.error_code, entity.consumer_id) == (3, "a")
    if api_key != api_keys.START_FETCHER:
        read = tuple(
            (topic.name, tuple((each.partition_index, each.offset) for each in topic.partitions))
            for topic in entity.topics
        )
        assert read == offsets


@pytest.mark.parametrize("api_key", PUSHED)
@pytest.mark.parametrize("seed", range(8))
def test_no_bytes_do_more_than_be_malformed(api_key: int, seed: int) -> None:
    """Every prefix, and flipped bytes, of what either side sends."""
    rng = random.Random(seed)
    push = written_push(-7, Pushed(api_key, 1, 0, some_request(rng, api_key)))[4:]
    answer = written_answer(-7, api_key, "consumer", Said(offsets=some_offsets(rng)))[4:]
    for frame in (push, answer):
        for _ in range(300):
            broken = bytearray(frame[: rng.randrange(4, len(frame) + 1)])
            for _ in range(rng.randrange(4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            for read in (read_push, lambda raw: read_answer(api_key, raw)):
                with contextlib.suppress(MalformedRequest):
                    read(bytes(broken))


def test_a_count_beyond_the_frame_costs_nothing() -> None:
    frame = written_answer(-7, api_keys.STOP_FETCHER, "a")[4:]
    with pytest.raises(MalformedRequest):
        read_answer(api_keys.STOP_FETCHER, frame[:-2] + b"\xff\xff\xff\xff\x07")
