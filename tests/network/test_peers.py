"""Requests between brokers are signed, answered by number, and given up when an answer is late."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.network.peers import Peers, is_signed, signed_request
from actors.protocol.api_keys import ADD_PARTITIONS_TO_TXN, API_VERSIONS
from actors.protocol.entities import encode_entity
from actors.protocol.header import Header
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_codec import (
    add_partitions_answer,
    add_partitions_entity,
    added_partitions,
)
from actors.protocol.transaction_messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitionErrors,
    TransactionPartitions,
)

SECRET = b"s" * 32
VERSION = 5
ASKED = AddPartitionsToTxnRequest((TransactionPartitions("tx", 1 << 40, 3, (("t", (0, 1)),), True),))
ANSWER = AddPartitionsToTxnResponse((TransactionPartitionErrors("tx", (("t", ((0, NO_ERROR),)),)),))


class Broker:
    """A broker that answers signed requests on a port; `hold` keeps it from answering."""

    def __init__(self) -> None:
        self.hold = False
        self.connections = 0
        self.refused = 0
        self.asked: list[Any] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Broker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, body_offset = parse_header(frame)
                if header.api_key == API_VERSIONS:
                    writer.write(codec.api_versions_answer(header, frame, body_offset))
                    continue
                self.refused += not is_signed(SECRET, header, frame, body_offset)
                self.asked.append(codec.decode(header, frame, body_offset))
                if not self.hold:
                    entity = add_partitions_answer(header.api_version, ANSWER)
                    writer.write(encode_entity(header.api_key, VERSION, header.correlation_id, entity))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # closed with the others


async def ask(peers: Peers, timeout_s: float = 5.0) -> AddPartitionsToTxnResponse | None:
    entity = add_partitions_entity(VERSION, ASKED)
    answer = await peers.ask(1, ADD_PARTITIONS_TO_TXN, VERSION, entity, timeout_s)
    return None if answer is None else added_partitions(answer)


def test_one_connection_carries_all_requests_and_each_is_signed() -> None:
    async def story() -> None:
        async with Broker() as broker:
            peers = Peers(SECRET, lambda node_id: ("127.0.0.1", broker.port))
            assert await asyncio.gather(*(ask(peers) for _ in range(20))) == [ANSWER] * 20
            assert (broker.connections, broker.refused, broker.asked) == (1, 0, [ASKED] * 20)
            peers.close()

    asyncio.run(story())


def test_a_broker_that_does_not_answer_is_cut_off_and_asked_anew_later() -> None:
    async def story() -> None:
        async with Broker() as broker:
            peers = Peers(SECRET, lambda node_id: ("127.0.0.1", broker.port))
            broker.hold = True
            assert await ask(peers, 0.05) is None
            broker.hold = False
            assert await ask(peers) == ANSWER
            assert broker.connections == 2
            peers.close()

    asyncio.run(story())


def test_a_node_that_is_not_there_gives_no_answer() -> None:
    async def story() -> None:
        async with Broker() as broker:
            port = broker.port
        peers = Peers(SECRET, lambda node_id: ("127.0.0.1", port))
        assert await ask(peers) is None
        peers.close()

    asyncio.run(story())


@pytest.mark.parametrize("at", [0, 1, 2, 3, 7, 20, 40, 90, 100, -1])
def test_whoever_changes_a_signed_request_is_found_out(at: int) -> None:
    header = Header(ADD_PARTITIONS_TO_TXN, VERSION, 9)
    frame = bytearray(signed_request(SECRET, header, add_partitions_entity(VERSION, ASKED))[4:])
    parsed, body_offset = parse_header(bytes(frame))
    assert is_signed(SECRET, parsed, bytes(frame), body_offset)
    assert not is_signed(b"another", parsed, bytes(frame), body_offset)
    changed = parsed if at != 7 else parsed._replace(correlation_id=10)
    frame[max(at, body_offset) if at >= 0 else at] ^= 1
    assert not is_signed(SECRET, changed, bytes(frame), body_offset)


def test_a_client_that_is_named_like_a_broker_is_none() -> None:
    for name in ("groupd:", "groupd:" + "0" * 64, "groupd", "", "\N{SNOWMAN}"):
        assert not is_signed(SECRET, Header(0, 0, 0, name), b"", 0)
