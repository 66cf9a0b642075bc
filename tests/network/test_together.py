"""Connections that are handed over together, several in one message."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.network.channel import SOCKETS_PER_MESSAGE
from actors.network.hub import TOGETHER_LEVEL
from tests.network.conftest import Run
from tests.network.sockets import pair, request, wire
from tests.network.test_link import Broker, ReplicaEnd
from tests.polling import reached

MANY = 2 * SOCKETS_PER_MESSAGE + 7


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Leave the process some hundred descriptors more than it has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 200, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_storm_of_connections_arrives_whole_and_in_few_messages(run: Run, tmp_path: Path) -> None:
    """Each has its own socket, its identity and the bytes that were read from it. What is said afterwards
    arrives afterwards."""

    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        broker.hub.learn_level(TOGETHER_LEVEL)
        pairs = [pair() for _ in range(MANY)]
        for number, (_, accepted, identity) in enumerate(pairs):
            assert broker.hub.hand_over(0, accepted, identity, wire(request(number)))
        broker.hub.push("image", b"news")
        queued = broker.hub._links[0].channel._unsent
        assert len(queued) == -(-MANY // SOCKETS_PER_MESSAGE) + 1
        for number, (client, _, _) in enumerate(pairs):
            assert await client.receive(12) == wire(request(number))
        assert {each.identity for each in replica.table.connections()} == {who for _, _, who in pairs}
        await reached(lambda: replica.pushes == [("image", b"news")])
        assert all(accepted.fileno() == -1 for _, accepted, _ in pairs)
        for client, _, _ in pairs:
            client.close()
        broker.close()
        replica.close()

    run(story())


def test_a_large_first_request_does_not_wait_for_others(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        broker.hub.learn_level(TOGETHER_LEVEL)
        large = wire(request(1, bytes(300_000)))
        pairs = [pair() for _ in range(3)]
        for _, accepted, identity in pairs:
            assert broker.hub.hand_over(0, accepted, identity, large)
        for client, _, _ in pairs:
            assert await client.receive(len(large)) == large
            client.close()
        broker.close()
        replica.close()

    run(story())


@pytest.mark.usefixtures("few_descriptors")
def test_those_for_whom_no_descriptor_is_free_are_closed_and_the_others_are_served(
    run: Run, tmp_path: Path
) -> None:
    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        broker.hub.learn_level(TOGETHER_LEVEL)
        pairs = [pair() for _ in range(6)]
        for number, (_, accepted, identity) in enumerate(pairs):
            broker.quota.claim(identity.address)
            assert broker.hub.hand_over(0, accepted, identity, wire(request(number)))
        broker.hub._links[0].channel._flush()
        hogs: list[socket.socket] = []
        while len(hogs) < 10_000:
            try:
                hogs.append(socket.socket())
            except OSError:
                break
        for _ in range(2):
            hogs.pop().close()
        await reached(lambda: len(replica.table) == 2)
        for hog in hogs:
            hog.close()
        ends = await asyncio.gather(*(client.ended() for client, _, _ in pairs[2:]))
        assert ends == [True] * 4
        for number, (client, _, _) in enumerate(pairs[:2]):
            assert await client.receive(12) == wire(request(number))
        await reached(lambda: broker.quota.total == 2)
        late, accepted, identity = pair()
        assert broker.hub.hand_over(0, accepted, identity, wire(request(9)))
        assert await late.receive(12) == wire(request(9))
        for client in (late, *(client for client, _, _ in pairs)):
            client.close()
        broker.close()
        replica.close()

    run(story())


def test_a_link_that_is_lost_closes_those_that_were_to_go_together(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        broker.hub.learn_level(TOGETHER_LEVEL)
        client, accepted, identity = pair()
        assert broker.hub.hand_over(0, accepted, identity, b"")
        broker.close()
        assert await client.ended()
        client.close()
        replica.close()

    run(story())
