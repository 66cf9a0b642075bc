"""Actors connect to the upstream cluster, and ask which versions its brokers offer."""

from __future__ import annotations

import asyncio

import pytest

from actors.upstream import connecting
from tests.upstream.scripted_leader import APIS, ScriptedLeader


def test_who_connects_knows_which_versions_are_offered() -> None:
    async def story() -> None:
        async with ScriptedLeader().listening() as leader:
            wire, versions = await connecting.connector("story")(leader.address)
            assert versions == {key: (least, most) for key, (_, least, most) in APIS.items()}
            await wire.close()

    asyncio.run(story())


def test_a_server_that_hangs_up_is_no_kafka() -> None:
    async def story() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            with pytest.raises(connecting.NotUnderstood):
                await connecting.connector("story")(server.sockets[0].getsockname()[:2])

    asyncio.run(story())


def test_nobody_is_waited_for_who_does_not_answer() -> None:
    async def story() -> None:
        async with ScriptedLeader().listening() as leader:
            leader.is_frozen = True
            wire = await connecting.Wire.connect(*leader.address)
            with pytest.raises(TimeoutError):
                await connecting.offered(wire, timeout_s=0.05)
            await wire.close()

    asyncio.run(story())
