"""Bytes from hell on real sockets: one connection pays, nobody else notices (design: what bad input gets).

Each is tried in the three places that read a client's bytes: on a new connection, on one that its broker
keeps, and on one that was handed over to a leader.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.network.wire import Closed, Wire, parse_answer, request_frame
from bench.ground.throwaway import Tier
from bench.peers.members import find_coordinator
from cluster.ports import free_ports
from tests.polling import until
from tests.tier.bad_frames import API_VERSIONS, CORRELATION_ID, FATAL, header

pytestmark = pytest.mark.clients

CLOSE_TIMEOUT_S = 10.0
UNKNOWN_MEMBER_ID = 25
UNSUPPORTED_VERSION = 35
PLACES = ("new", "broker", "leader")
at_each_place = pytest.mark.parametrize("place", PLACES)


async def beat(wire: Wire) -> int:
    """The error code of a heartbeat for a group that nobody is in."""
    answer = await wire.call("heartbeat", 4, group_id="bad-input", generation_id=1, member_id="nobody")
    return int(answer["error_code"])


@asynccontextmanager
async def connected(tier: Tier, place: str) -> AsyncIterator[Wire]:
    """A connection to the node that coordinates the group "bad-input", served by `place`."""
    wire = await Wire.connect(*await find_coordinator("127.0.0.1", tier.port, "bad-input"))
    if place == "broker":
        await wire.call("describe_cluster", 0, include_cluster_authorized_operations=False)
    elif place == "leader":
        assert await beat(wire) == UNKNOWN_MEMBER_ID
    try:
        yield wire
    finally:
        await wire.close()


async def is_closed(wire: Wire) -> bool:
    """Whether the other side closes now; False if it answers instead."""
    try:
        await asyncio.wait_for(wire.read_frame(), CLOSE_TIMEOUT_S)
    except Closed:
        return True
    return False


@at_each_place
def test_bad_bytes_close_their_connection_and_no_other(tier: Tier, place: str) -> None:
    """W13: all at once, beside a member whose every heartbeat is answered."""

    async def attack(bad: bytes) -> bool:
        async with connected(tier, place) as wire:
            await wire.send_raw(bad)
            return await is_closed(wire)

    async def story() -> None:
        async with connected(tier, "leader") as bystander:
            attacks = {what: asyncio.create_task(attack(bad)) for what, bad in FATAL.items()}
            while not all(task.done() for task in attacks.values()):
                assert await beat(bystander) == UNKNOWN_MEMBER_ID
            outcomes = {what: task.result() for what, task in attacks.items()}
            assert outcomes == dict.fromkeys(FATAL, True)
            assert await beat(bystander) == UNKNOWN_MEMBER_ID

    asyncio.run(story())


@at_each_place
@pytest.mark.parametrize("version", [-1, 6, 99])
def test_unknown_version_of_api_versions_is_answered_35(tier: Tier, place: str, version: int) -> None:
    """W13, W14: in the layout of version 0, with what is supported; then the connection goes on."""

    # The header's tags, then the client software that versions from 3 on name (KIP-511).
    rest = b"\x00\x02a\x02b\x00" if version > 0 else b""

    async def story() -> None:
        async with connected(tier, place) as wire:
            await wire.send_raw(header(API_VERSIONS, version, rest))
            payload = await asyncio.wait_for(wire.read_frame(), CLOSE_TIMEOUT_S)
            correlation_id, answer = parse_answer("api_versions", 0, payload)
            assert (correlation_id, answer["error_code"]) == (CORRELATION_ID, UNSUPPORTED_VERSION)
            assert API_VERSIONS in {api["api_key"] for api in answer["api_keys"]}
            assert await beat(wire) == UNKNOWN_MEMBER_ID

    asyncio.run(story())


@at_each_place
def test_answers_before_the_bad_frame_still_arrive(tier: Tier, place: str) -> None:
    """W13: pipelined requests are answered in order up to the frame that ends the connection."""
    good = [request_frame("api_versions", 0, number, "bad", {}) for number in range(1, 6)]

    async def story() -> None:
        async with connected(tier, place) as wire:
            await wire.send_raw(b"".join(good) + FATAL["unknown API"])
            for number in range(1, 6):
                payload = await asyncio.wait_for(wire.read_frame(), CLOSE_TIMEOUT_S)
                assert parse_answer("api_versions", 0, payload)[0] == number
            assert await is_closed(wire)

    asyncio.run(story())


@at_each_place
def test_frames_may_come_in_any_pieces(tier: Tier, place: str) -> None:
    """A request byte by byte, and two glued together, are requests like any other."""
    frame = request_frame(
        "heartbeat", 4, 1, "slow", {"group_id": "bad-input", "generation_id": 1, "member_id": "nobody"}
    )

    async def story() -> None:
        async with connected(tier, place) as wire:
            for at in range(len(frame)):
                await wire.send_raw(frame[at : at + 1])
            await wire.send_raw(frame + frame)
            for _ in range(3):
                payload = await asyncio.wait_for(wire.read_frame(), CLOSE_TIMEOUT_S)
                assert parse_answer("heartbeat", 4, payload)[1]["error_code"] == UNKNOWN_MEMBER_ID

    asyncio.run(story())


def actors_of(tier: Tier) -> set[int]:
    """The processes of the tier's actors, which Ray names after their classes."""
    return {process.pid for process in tier.processes() if process.name().startswith("ray::")}


def test_no_process_ended_and_the_log_names_peer_and_reason(tier: Tier) -> None:
    before = actors_of(tier)

    async def story() -> str:
        host, port = await find_coordinator("127.0.0.1", tier.port, "bad-input")
        reader, writer = await asyncio.open_connection(host, port)
        client_port = int(writer.get_extra_info("sockname")[1])
        writer.write(FATAL["TLS"])
        assert await asyncio.wait_for(reader.read(), CLOSE_TIMEOUT_S) == b""
        writer.close()
        await writer.wait_closed()
        return f"127.0.0.1:{client_port}"

    peer = asyncio.run(story())
    line = re.compile(rf"closed {re.escape(peer)}: .*TLS")
    logs = Path(tier.data_dir, "logs")
    until(
        lambda: any(line.search(log.read_text(encoding="utf-8")) for log in logs.glob("broker-*.log")),
        "a broker's log has a line on it",
    )
    assert before <= actors_of(tier)


@pytest.fixture(scope="module")
def narrow() -> Iterator[Tier]:
    """A tier of one node that takes eight connections from one address and twelve in all."""
    flags = ("--nodes", "1", "--replicas", "1", "--partitions", "1")
    limits = ("--set", "max.connections.per.ip=8", "--set", "max.connections=12")
    with Tier(*flags, *limits, port=free_ports(1)) as running:
        yield running


async def connect_from(tier: Tier, address: str) -> Wire:
    where = await asyncio.open_connection("127.0.0.1", tier.port, local_addr=(address, 0))
    return Wire(*where, "bad")


async def is_let_in(wire: Wire) -> bool:
    """Whether the node answers; a connection above a limit is closed at once."""
    try:
        await wire.call("api_versions", 0)
    except Closed:
        return False
    return True


async def let_in(tier: Tier, address: str, count: int) -> list[Wire]:
    """`count` connections from `address`, tried again while closed ones still count."""
    wires: list[Wire] = []
    async with asyncio.timeout(30):
        while len(wires) < count:
            wire = await connect_from(tier, address)
            if await is_let_in(wire):
                wires.append(wire)
            else:
                await wire.close()
    return wires


def test_too_many_connections_are_refused_and_those_that_are_in_are_served(narrow: Tier) -> None:
    """max.connections.per.ip and max.connections; one that ends, wherever it was served, makes room."""

    async def refused(address: str) -> bool:
        wire = await connect_from(narrow, address)
        try:
            return not await is_let_in(wire)
        finally:
            await wire.close()

    async def story() -> None:
        mine = await let_in(narrow, "127.0.0.1", 8)
        assert [await beat(wire) for wire in mine[:4]] == [UNKNOWN_MEMBER_ID] * 4, (
            "handed over, still counted"
        )
        assert await refused("127.0.0.1")
        others = await let_in(narrow, "127.0.0.2", 4)
        assert await refused("127.0.0.3"), "the node is full"
        assert all([await is_let_in(wire) for wire in (*mine, *others)])
        await mine.pop(0).close()
        await mine.pop().close()
        mine += await let_in(narrow, "127.0.0.1", 2)
        assert await refused("127.0.0.1")
        for wire in (*mine, *others):
            await wire.close()

    asyncio.run(story())


def test_connections_that_end_inside_a_frame_leave_nothing_behind(narrow: Tier) -> None:
    """Thirty of them, then there is room for as many as ever."""

    async def story() -> None:
        for _ in range(30):
            (wire,) = await let_in(narrow, "127.0.0.1", 1)
            await wire.send_raw(struct.pack(">i", 1000) + b"half")
            await wire.close()
        full = await let_in(narrow, "127.0.0.1", 8)
        for wire in full:
            await wire.close()

    asyncio.run(story())
