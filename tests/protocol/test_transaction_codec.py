"""The requests of transactions are read and their answers packed in all versions as kio does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from actors.catalog.codec import decode, encode
from actors.catalog.headers import parse_header
from actors.catalog.transactions import TRANSACTIONS
from actors.coordinator.refusals import refusal
from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.protocol.entities import decode_response, encode_request, response_class
from actors.protocol.header import Header
from actors.protocol.transaction_codec import (
    add_partitions_entity,
    added_partitions,
    write_markers_entity,
    written_markers,
)
from tests.protocol.random_entities import EVERY_VERSION, opened, random_request

APIS = {row.key for row in TRANSACTIONS}
VERSIONS = [key for key in EVERY_VERSION if key[0] in APIS]


@pytest.mark.parametrize(("api_key", "api_version"), VERSIONS)
def test_any_request_has_an_answer_that_kio_reads(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key << 8 | api_version)
    top = response_class(api_key, api_version)
    for _ in range(20):
        _, frame = random_request(rng, api_key, api_version)
        header, frame, body_offset = opened(frame)
        body: Any = decode(header, frame, body_offset)
        request = Request(1, api_key, api_version, "", "", body)
        answer = refusal(request, ErrorCode.not_coordinator)
        encoded = encode(api_key, api_version, 7, answer)
        _, header_bytes = entity_reader(top.__header_schema__)(encoded, 4)
        entity, _ = entity_reader(top)(encoded, 4 + header_bytes)
        assert entity == decode_response(Header(api_key, api_version, 7), encoded)
        if api_key == api_keys.ADD_PARTITIONS_TO_TXN and api_version >= 4:
            assert added_partitions(entity) == answer
        if api_key == api_keys.WRITE_TXN_MARKERS:
            assert written_markers(entity) == answer


@pytest.mark.parametrize(
    ("api_key", "api_version", "to_entity"),
    [
        (api_keys.ADD_PARTITIONS_TO_TXN, 4, add_partitions_entity),
        (api_keys.ADD_PARTITIONS_TO_TXN, 5, add_partitions_entity),
        (api_keys.WRITE_TXN_MARKERS, 1, write_markers_entity),
        (api_keys.WRITE_TXN_MARKERS, 2, write_markers_entity),
    ],
)
def test_what_nodes_ask_each_other_comes_out_as_it_went_in(
    api_key: int, api_version: int, to_entity: Any
) -> None:
    rng = random.Random(api_key << 8 | api_version)
    for _ in range(20):
        _, frame, body_offset = opened(random_request(rng, api_key, api_version)[1])
        header = Header(api_key, api_version, 9, "n")
        body = decode(header, frame, body_offset)
        sent = encode_request(header, to_entity(api_version, body))[4:]
        parsed, at = parse_header(sent)
        assert (parsed, decode(parsed, sent, at)) == (header, body)
