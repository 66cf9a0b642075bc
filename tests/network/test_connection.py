"""One connection answers in order, keeps bounds, and refuses bad input (W13)."""

from __future__ import annotations

import asyncio
import logging
import struct

import pytest

from actors.ground.limits import (
    CONNECTION_BUFFER_BYTES_MAX,
    FRAME_BYTES_MAX,
    MIB,
    WRITE_BUFFER_BYTES_MAX,
)
from actors.network.connection import Connection
from actors.network.frames import with_length
from actors.network.table import ConnectionTable
from tests.network.conftest import Run
from tests.network.sockets import LAST, PARK, RAISE, SILENT, Echo, new_table, request, served, wire
from tests.polling import reached


def writes_of(connection: Connection) -> list[bytes]:
    """Collect what the connection writes from now on, one entry for each write to its transport."""
    writes: list[bytes] = []
    write = connection._write

    def recorded(data: bytes) -> None:
        writes.append(data)
        write(data)

    connection._write = recorded
    return writes


async def ready(connection: Connection) -> None:
    await reached(lambda: connection._transport is not None)


def test_pipelined_frames_are_answered_in_order_by_one_write(run: Run) -> None:
    """W13: answers come in order. Five frames in one read cost one write."""

    async def story() -> None:
        client, connection = served(Echo(), new_table())
        await ready(connection)
        writes = writes_of(connection)
        sent = wire(*(request(number, b"x" * number) for number in range(5)))
        await client.send(sent)
        assert await client.receive(len(sent)) == sent
        assert writes == [sent]
        client.close()

    run(story())


def test_a_parked_request_holds_back_what_is_behind_it(run: Run) -> None:
    """W13: a parked JoinGroup blocks what was pipelined behind it, on its own connection only."""

    async def story() -> None:
        echo, table = Echo(), new_table()
        client, _ = served(echo, table)
        other, _ = served(echo, table)
        frames = [request(1), request(2, key=PARK), request(3)]
        await client.send(wire(*frames))
        assert await client.receive(12) == wire(frames[0])
        await other.send(wire(request(7)))
        assert await other.receive(12) == wire(request(7))
        await client.send(wire(request(4)))
        await reached(lambda: echo.more == 1)  # what holds an answer back can let go of it now
        assert request(3) not in echo.served
        [(connection, parked)] = echo.parked
        connection.answer(with_length(parked))
        assert await client.receive(36) == wire(frames[1], frames[2], request(4))
        client.close()
        other.close()

    run(story())


def test_a_byte_at_a_time_and_a_big_frame_arrive_whole(run: Run) -> None:
    async def story() -> None:
        client, _ = served(Echo(), new_table())
        for byte in wire(request(1)):
            await client.send(bytes([byte]))
        assert await client.receive(12) == wire(request(1))
        big = wire(request(2, bytes(range(256)) * 12_288))  # 3 MiB: more than may be read ahead
        await client.send(big + wire(request(3)))
        assert await client.receive(len(big) + 12) == big + wire(request(3))
        client.close()

    run(story())


def test_no_answer_is_an_answer(run: Run) -> None:
    """Produce with acks=0 gets no response, and the next request is served. This holds for answers that come
    at once and later."""

    async def story() -> None:
        echo = Echo()
        client, _ = served(echo, new_table())
        await client.send(wire(request(1, key=SILENT), request(2), request(3, key=PARK), request(4)))
        assert await client.receive(12) == wire(request(2))
        echo.parked[0][0].answer(b"")
        assert await client.receive(12) == wire(request(4))
        client.close()

    run(story())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">i", 7) + bytes(7), "frame length 7"),
        (struct.pack(">i", -5), "frame length -5"),
        (struct.pack(">i", FRAME_BYTES_MAX + 1), f"frame length {FRAME_BYTES_MAX + 1}"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a TLS handshake"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
    ],
    ids=["too short", "negative", "too long", "TLS", "HTTP"],
)
def test_bytes_that_are_no_frame_close_with_one_line(
    run: Run, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    """W13: frame size <= 7, negative or too big is closed without an answer; the log names the peer."""

    async def story() -> None:
        echo = Echo()
        client, connection = served(echo, new_table())
        await client.send(sent)
        assert await client.ended()
        await reached(lambda: echo.closed == [connection])
        assert echo.served == []
        [record] = caplog.records
        assert f"closed {connection.identity.peer}: {reason}" in record.getMessage()
        client.close()

    with caplog.at_level(logging.INFO):
        run(story())


def test_what_came_before_the_garbage_is_answered(run: Run) -> None:
    async def story() -> None:
        client, _ = served(Echo(), new_table())
        await client.send(wire(request(1), request(2)) + struct.pack(">i", -1))
        assert await client.receive(100) == wire(request(1), request(2))
        client.close()

    run(story())


def test_a_truncated_frame_is_nobodys_request(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        echo = Echo()
        client, connection = served(echo, new_table())
        await client.send(wire(request(1, b"never whole"))[:-1])
        client.close()
        await reached(lambda: echo.closed == [connection])
        assert (echo.served, caplog.records) == ([], [])

    run(story())


def test_a_bug_in_serving_costs_one_connection(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        echo, table = Echo(), new_table()
        client, connection = served(echo, table)
        other, _ = served(echo, table)
        await client.send(wire(request(1), request(2, key=RAISE), request(3)))
        assert await client.receive(100) == wire(request(1))
        await reached(lambda: echo.closed == [connection])
        alone, connection = served(echo, table)
        await alone.send(wire(request(5)))
        assert await alone.receive(12) == wire(request(5))
        await alone.send(wire(request(6, key=RAISE)))
        assert await alone.ended()
        await reached(lambda: echo.closed[1:] == [connection])
        await other.send(wire(request(4)))
        assert await other.receive(12) == wire(request(4))
        assert [record.exc_info is not None for record in caplog.records] == [True, True]
        client.close()
        alone.close()
        other.close()

    run(story())


def test_the_last_answer_leaves_before_the_close(run: Run) -> None:
    """After a refused SASL handshake the client is told why, then the connection ends."""

    async def story() -> None:
        echo = Echo()
        for sent in (wire(request(1, key=LAST)), wire(request(1), request(2, key=LAST), request(3))):
            client, _ = served(echo, new_table())
            await client.send(sent)
            kept = sent if len(sent) == 12 else sent[:24]
            assert await client.receive(100) == kept
            client.close()
        assert request(3) not in echo.served

    run(story())


def test_a_client_that_does_not_read_is_bounded(run: Run) -> None:
    """Rule 9: neither its answers nor its further requests pile up."""

    async def story() -> None:
        echo = Echo()
        client, connection = served(echo, new_table())
        await ready(connection)
        transport = connection._transport
        assert transport is not None
        big = wire(request(1, bytes(MIB)))

        task = asyncio.ensure_future(client.send(big * 40))
        await reached(lambda: connection._write_paused)
        for _ in range(200):
            await asyncio.sleep(0)
        assert not transport.is_reading()
        assert transport.get_write_buffer_size() < WRITE_BUFFER_BYTES_MAX + 2 * len(big)
        assert len(connection._frames) <= len(big) + CONNECTION_BUFFER_BYTES_MAX
        assert not task.done()
        received = await client.receive(40 * len(big))
        await task
        assert len(received) == 40 * len(big)
        client.close()

    run(story())


def test_what_is_read_ahead_of_a_parked_request_is_bounded(run: Run) -> None:
    async def story() -> None:

        echo = Echo()
        client, connection = served(echo, new_table())
        small = wire(request(2, bytes(1000)))
        count = 20 * MIB // len(small)
        task = asyncio.ensure_future(client.send(wire(request(1, key=PARK)) + small * count))
        await reached(lambda: connection._read_paused)
        assert len(connection._frames) < 2 * CONNECTION_BUFFER_BYTES_MAX
        assert not task.done()
        connection.answer(wire(request(1, key=PARK)))
        received = await client.receive(12 + count * len(small))
        await task
        assert received == wire(request(1, key=PARK)) + small * count
        client.close()

    run(story())


def test_one_pipeliner_does_not_starve_the_others(run: Run) -> None:
    """A turn is bounded: another connection is answered while the first one's backlog lasts."""

    async def story() -> None:
        echo, table = Echo(), new_table()
        backlog = wire(*(request(number) for number in range(5000)))
        client, _ = served(echo, table, buffered=backlog)
        other, _ = served(echo, table)
        await other.send(wire(request(-1)))
        assert await other.receive(12) == wire(request(-1))
        assert await client.receive(len(backlog)) == backlog
        assert echo.served.index(request(-1)) < 4999
        client.close()
        other.close()

    run(story())


def test_idle_connections_are_closed_and_busy_ones_are_not(run: Run) -> None:
    """`connections.max.idle.ms`: a parked request counts as busy, half a frame does not."""

    async def story() -> None:
        echo = Echo()
        table: ConnectionTable = new_table(idle_ms_max=200)
        silent, _ = served(echo, table)
        dribbling, _ = served(echo, table)
        waiting, _ = served(echo, table)
        busy, busy_connection = served(echo, table)
        await waiting.send(wire(request(1, key=PARK)))
        await dribbling.send(b"\x00\x00")
        number = 0
        while len(echo.closed) < 2:
            number += 1
            await busy.send(wire(request(number)))
            assert await busy.receive(12) == wire(request(number))
        assert await silent.ended()
        assert await dribbling.ended()
        assert len(table) == 2
        assert not busy_connection.closed
        echo.parked[0][0].answer(wire(request(1, key=PARK)))
        assert await waiting.receive(12) == wire(request(1, key=PARK))
        for client in (silent, dribbling, waiting, busy):
            client.close()

    run(story())


def test_an_answer_for_a_client_that_left_is_dropped(run: Run) -> None:
    async def story() -> None:
        echo = Echo()
        client, connection = served(echo, new_table())
        await client.send(wire(request(1, key=PARK)))
        await reached(lambda: echo.parked)
        client.close()
        await reached(lambda: echo.closed == [connection])
        connection.answer(wire(request(1, key=PARK)))
        connection.close("again")
        assert echo.closed == [connection]

    run(story())
