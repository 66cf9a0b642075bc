"""A connection passes from one service to another in a process: no byte is lost, no answer is doubled,
nothing is shut down."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time

from actors.ground.identity import ClientIdentity
from actors.ground.limits import MIB
from actors.network.connection import Connection, Released
from actors.network.frames import with_length
from actors.network.table import ConnectionTable
from tests.network.conftest import Run
from tests.network.sockets import ECHO, PARK, Client, Echo, new_table, request, served, wire
from tests.polling import reached


class Passing(Echo):
    """A service that echoes, and passes the connection of every `every`-th request on to the other service,
    with the request."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.other: Passing = self
        self.passed = 0

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        self.passed += 1
        if self.passed % self.every == 0:
            identity, table, other = connection.identity, connection._table, self.other
            connection.release(
                lambda sock, buffered: table.adopt(sock, buffered, identity, other), unserved=frame
            )
            return None
        return super().on_frame(connection, frame)


def test_pipelined_bytes_survive_hand_backs_and_forth(run: Run) -> None:
    """Connections are passed on with what they have read, and answers stay in order (W13)."""

    async def story() -> None:
        chance = random.Random(7)
        one, two = Passing(every=5), Passing(every=3)
        one.other, two.other = two, one
        client, _ = served(one, new_table())
        frames = [request(number, chance.randbytes(chance.randrange(300))) for number in range(600)]
        sent = wire(*frames)

        async def send() -> None:
            at = 0
            while at < len(sent):
                size = chance.choice((1, 7, 40, 1000, 5000))
                await client.send(sent[at : at + size])
                at += size
                await asyncio.sleep(0)

        sending = asyncio.ensure_future(send())
        assert await client.receive(len(sent)) == sent
        await sending
        assert one.served != [] != two.served
        assert sorted(one.served + two.served) == sorted(frames)
        assert one.closed == two.closed == []
        client.close()
        await reached(lambda: one.closed + two.closed)

    run(story())


def test_a_release_waits_for_the_outstanding_answer(run: Run) -> None:
    async def story() -> None:
        echo, table = Echo(), new_table()
        client, connection = served(echo, table)
        given: list[tuple[socket.socket, bytes]] = []
        await client.send(wire(request(1, key=PARK), request(2)))
        await reached(lambda: echo.parked)
        connection.release(lambda sock, buffered: given.append((sock, buffered)))
        assert given == []
        connection.answer(wire(request(1, key=PARK)))
        [(sock, buffered)] = given
        assert buffered == wire(request(2))
        assert await client.receive(12) == wire(request(1, key=PARK))
        assert len(table) == 0
        table.adopt(sock, buffered, connection.identity, echo)
        assert await client.receive(12) == wire(request(2))
        assert echo.closed == []
        client.close()

    run(story())


def test_a_parked_request_goes_along_and_is_served_by_the_next(run: Run) -> None:
    """A leader loses its leadership while a join is parked, and the new leader is on the same node."""

    async def story() -> None:
        old, new, table = Echo(), Echo(), new_table()
        client, connection = served(old, table)
        await client.send(wire(request(1, key=PARK), request(2)))
        await reached(lambda: old.parked)
        connection.release(
            lambda sock, buffered: table.adopt(sock, buffered, connection.identity, new),
            unserved=request(1, key=PARK),
        )
        connection.answer(b"too late: this answer is not expected any more")
        await reached(lambda: new.parked)
        new.parked[0][0].answer(wire(request(1, key=PARK)))
        assert await client.receive(24) == wire(request(1, key=PARK), request(2))
        client.close()

    run(story())


def test_a_release_waits_until_the_client_has_taken_its_answers(run: Run) -> None:
    """Bytes that the transport has not written cannot be handed over, so they are written first."""

    async def story() -> None:
        echo, table = Echo(), new_table()
        client, connection = served(echo, table)
        big = wire(request(1, bytes(6 * MIB)))
        await client.send(big)
        await reached(lambda: connection._transport and connection._transport.get_write_buffer_size())
        connection.release(lambda sock, buffered: table.adopt(sock, buffered, connection.identity, echo))
        assert table.connections() == (connection,)
        assert await client.receive(len(big)) == big
        await reached(lambda: table.connections() != (connection,))
        await client.send(wire(request(2)))
        assert await client.receive(12) == wire(request(2))
        client.close()

    run(story())


def test_a_client_that_leaves_during_a_release_is_closed_as_usual(run: Run) -> None:
    async def story() -> None:
        echo = Echo()
        client, connection = served(echo, new_table())
        await client.send(wire(request(1, key=PARK)))
        await reached(lambda: echo.parked)
        given: list[bytes] = []
        connection.release(lambda sock, buffered: given.append(buffered))
        client.close()
        await reached(lambda: echo.closed == [connection])
        connection.answer(wire(request(1, key=PARK)))
        assert given == []

    run(story())


def test_giving_the_socket_away_ends_nothing_and_leaves_nothing_behind(run: Run) -> None:
    """Neither FIN nor RST reaches the client while only the duplicate is left; the loop then rests (a
    descriptor forgotten in epoll would wake it for ever), and the last close is the end of the stream."""

    async def story() -> None:
        echo, table = Echo(), new_table()
        client, connection = served(echo, table)
        await client.send(wire(request(1)))
        await client.receive(12)
        before = len(os.listdir("/proc/self/fd"))
        given: list[socket.socket] = []
        connection.release(lambda sock, _: given.append(sock))
        await reached(lambda: len(os.listdir("/proc/self/fd")) == before)  # one closed, one duplicate
        await client.send(b"bytes for the next owner")
        nothing = asyncio.ensure_future(client.ended())
        cpu_s = time.process_time()
        await asyncio.wait({nothing}, timeout=0.2)
        assert time.process_time() - cpu_s < 0.1
        assert not nothing.done()
        assert given[0].recv(100) == b"bytes for the next owner"
        given[0].close()
        assert await nothing
        assert echo.closed == []
        client.close()

    run(story())


def adopter(table: ConnectionTable, identity: ClientIdentity, service: Echo) -> Released:
    return lambda sock, buffered: table.adopt(sock, buffered, identity, service)


def test_idle_release_of_many(run: Run) -> None:
    async def story() -> None:
        echo, table = Echo(), new_table()
        clients: list[Client] = []
        for number in range(100):
            client, _ = served(echo, table, buffered=wire(request(number)))
            clients.append(client)
        for number, client in enumerate(clients):
            assert await client.receive(12) == wire(request(number))
        second = new_table()
        for connection in table.connections():
            connection.release(adopter(second, connection.identity, echo))
        assert (len(table), len(second)) == (0, 100)
        assert second.addresses() == {"127.0.0.1": 100}
        for number, client in enumerate(clients):
            await client.send(with_length(request(number, key=ECHO)))
            assert await client.receive(12) == wire(request(number))
            client.close()
        await reached(lambda: len(echo.closed) == 100)

    run(story())
