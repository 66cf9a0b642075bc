"""Frames that a server sends of its own accord: they go between answers, and whoever does not read them is
closed (D6)."""

from __future__ import annotations

from actors.ground.limits import WRITE_BUFFER_BYTES_MAX
from actors.network.frames import with_length
from tests.network.conftest import Run
from tests.network.sockets import PARK, Echo, new_table, request, served, wire
from tests.polling import reached


def test_a_frame_is_sent_while_a_request_waits_for_its_answer(run: Run) -> None:
    async def story() -> None:
        echo = Echo()
        client, connection = served(echo, new_table())
        await client.send(wire(request(1, key=PARK)))
        await reached(lambda: bool(echo.parked))
        pushed, answer = with_length(b"a push.."), with_length(b"answer..")
        assert connection.push(pushed)
        connection.answer(answer)
        assert await client.receive(24) == pushed + answer
        client.close()

    run(story())


def test_a_client_that_does_not_read_is_closed(run: Run) -> None:
    async def story() -> None:
        client, connection = served(Echo(), new_table())
        await reached(lambda: connection._transport is not None)
        frame = with_length(bytes(WRITE_BUFFER_BYTES_MAX // 4))
        sent = 0
        while connection.push(frame):
            sent += 1
            assert sent < 100, "nothing bounds what is sent to a client that does not read"
        assert connection.closed
        assert not connection.push(frame)
        client.close()

    run(story())
