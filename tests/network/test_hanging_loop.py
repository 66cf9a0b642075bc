"""A replica whose loop hangs: another thread lets its clients go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.network.conftest import Run
from tests.network.sockets import PARK, pair, request, wire
from tests.network.test_link import Broker, ReplicaEnd
from tests.polling import reached


def test_a_loop_that_hangs_lets_its_clients_and_its_link_go_from_another_thread(
    run: Run, tmp_path: Path
) -> None:
    """Clients hear of it at once, whatever waits; the link is made anew when the loop goes on."""

    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        client, accepted, identity = pair()
        broker.quota.claim(identity.address)
        assert broker.hub.hand_over(0, accepted, identity, wire(request(1, key=PARK)))
        await reached(lambda: replica.echo.parked)
        await asyncio.to_thread(replica.link.cut_off)
        await asyncio.to_thread(replica.table.cut_off)
        assert await client.ended()
        await reached(lambda: len(replica.table) == 0)
        await reached(lambda: replica.connections == 2)
        assert broker.quota.total == 0
        client.close()
        broker.close()
        replica.close()

    run(story())
