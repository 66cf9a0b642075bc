"""If more requests come than can be served, the loop comes round all the same and every request has its
turn."""

from __future__ import annotations

import asyncio
import itertools

from actors.ground.limits import MIB, QUEUED_BYTES_MAX, ROUND_MS_MAX
from actors.network.connection import Connection
from actors.network.pace import FRAMES_PER_LOOK
from actors.network.quota import ConnectionLimits
from actors.network.table import ConnectionTable
from tests.network.conftest import Run
from tests.network.sockets import PARK, Client, Echo, request, served, wire
from tests.polling import reached

CROWD, BACKLOG = 100, 50


class Laborious(Echo):
    """A service that takes a millisecond of its own clock for each frame."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        self.now_s += 0.001
        return super().on_frame(connection, frame)


def table_of(service: Laborious) -> ConnectionTable:
    return ConnectionTable(asyncio.get_running_loop(), ConnectionLimits(), clock=service.clock)


class Rounds:
    """A record of what was served in each round of the event loop, until `stop`."""

    def __init__(self, service: Echo) -> None:
        self.served = [0]
        self._service = service
        self._stopped = False
        self._next()

    def _next(self) -> None:
        self.served.append(len(self._service.served))
        if not self._stopped:
            asyncio.get_running_loop().call_soon(self._next)

    def stop(self) -> int:
        """Stop. Returns the most requests that were served in any round."""
        self._stopped = True
        return max(later - before for before, later in itertools.pairwise(self.served))


def backlog(number: int) -> bytes:
    return wire(*(request(BACKLOG * number + place) for place in range(BACKLOG)))


def test_a_crowd_does_not_keep_the_loop(run: Run) -> None:
    """A hundred clients ask for seconds of work at once: timers and links have their turn every few
    milliseconds, and every client has all its answers, in order."""

    async def story() -> None:
        echo = Laborious()
        table = table_of(echo)
        rounds = Rounds(echo)
        crowd = [served(echo, table) for _ in range(CROWD)]
        await reached(lambda: all(connection._transport is not None for _, connection in crowd))
        for number, (client, _) in enumerate(crowd):
            await client.send(backlog(number))
        for number, (client, _) in enumerate(crowd):
            assert await client.receive(len(backlog(number))) == backlog(number)
            client.close()
        # A queue's share of a round, and that of what is read in it, each up to one look too late.
        assert rounds.stop() <= 2 * (ROUND_MS_MAX + FRAMES_PER_LOOK)

    run(story())


def test_who_waits_is_served_before_who_comes(run: Run) -> None:
    """A client that asks without a pause does not get before one that has waited longer."""

    async def story() -> None:
        echo = Laborious()
        table = table_of(echo)
        greedy = [served(echo, table, buffered=backlog(number)) for number in range(CROWD)]
        modest, _ = served(echo, table, buffered=wire(request(-1)))
        assert await modest.receive(12) == wire(request(-1))
        assert echo.served.index(request(-1)) <= (CROWD + 1) * FRAMES_PER_LOOK
        for client, _ in greedy:
            await client.receive(len(backlog(0)))
            client.close()
        modest.close()

    run(story())


def test_what_is_read_from_who_waits_is_bounded(run: Run) -> None:
    """Unread bytes stay in the kernel: a client that sends more than is served cannot fill our memory."""

    async def story() -> None:
        echo = Laborious()
        table = table_of(echo)
        client, connection = served(echo, table)
        await reached(lambda: connection._transport is not None)
        count = 2 * MIB // len(wire(request(0)))
        sending = asyncio.ensure_future(client.send(wire(request(0)) * count))
        receiving = asyncio.ensure_future(client.receive(12 * count))
        most = 0
        while not receiving.done():
            most = max(most, len(connection._frames))
            await asyncio.sleep(0)
        await sending
        assert len(receiving.result()) == 12 * count
        assert most <= QUEUED_BYTES_MAX + MIB // 2, "one read more than what lets it pause"
        client.close()

    run(story())


def test_half_a_frame_and_what_looks_like_a_whole_one(run: Run) -> None:
    """The second half of a request may look like a request, and is not taken for one."""

    async def story() -> None:
        echo = Echo()
        client, connection = served(echo, ConnectionTable(asyncio.get_running_loop(), ConnectionLimits()))
        await prove(client, connection)
        inner = wire(request(7, key=PARK))
        whole = request(2, inner)
        await client.send(wire(whole)[: -len(inner)])
        await reached(lambda: len(connection._frames) > 0)
        await client.send(inner)
        assert await client.receive(len(wire(whole))) == wire(whole)
        assert echo.parked == []
        client.close()

    run(story())


async def prove(client: Client, connection: Connection) -> None:
    await client.send(wire(request(1)))
    assert await client.receive(12) == wire(request(1))
    await reached(lambda: connection._transport is not None)
