"""What machines say to each other is read only if it comes from who has the secret, whole, in its place."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actors.machines.frames import MAGIC, NONCE_BYTES, Frames, GreetingError, greet, welcome

SECRET = b"the machines' secret"


class Spoilt:
    """A pickle that would be noticed if it were opened."""

    opened = 0

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _opened, ()


def _opened() -> None:
    Spoilt.opened += 1


async def with_both(
    story: Callable[[Frames, Frames], Awaitable[Any]],
    spoil: Callable[[bytes], bytes] = lambda data: data,
    secrets: tuple[bytes, bytes] = (SECRET, SECRET),
) -> None:
    """Play a story with both ends of a connection. What the client sends after the greeting is spoilt."""
    welcomed: asyncio.Future[Frames] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            welcomed.set_result(await welcome(reader, writer, secrets[1]))
        except Exception as error:
            welcomed.set_exception(error)
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            client = await greet(reader, writer, secrets[0])
            write = writer.write
            writer.write = lambda data: write(spoil(bytes(data)))  # type: ignore[method-assign]
            await story(client, await welcomed)
        finally:
            writer.close()
            await writer.wait_closed()
            with contextlib.suppress(GreetingError):
                (await welcomed).close()


def test_both_directions_carry_values_in_order() -> None:
    async def story(client: Frames, server: Frames) -> None:
        for value in (1, ("a", None), b"x" * 100_000):
            client.send(value)
            server.send(value)
        assert [await server.receive() for _ in range(3)] == [1, ("a", None), b"x" * 100_000]
        assert [await client.receive() for _ in range(3)] == [1, ("a", None), b"x" * 100_000]

    asyncio.run(with_both(story))


@pytest.mark.parametrize("at", [0, 4, 20, 40, -1], ids=["length", "tag", "tag-middle", "data", "last"])
def test_a_frame_with_one_bit_flipped_is_not_opened(at: int) -> None:
    def spoil(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[at] ^= 1 if at else 0x80
        return bytes(changed)

    async def story(client: Frames, server: Frames) -> None:
        client.send(Spoilt())
        with pytest.raises(ConnectionError):
            await server.receive()

    Spoilt.opened = 0
    asyncio.run(with_both(story, spoil))
    assert Spoilt.opened == 0


def test_a_frame_that_comes_twice_is_opened_once() -> None:
    async def story(client: Frames, server: Frames) -> None:
        client.send(Spoilt())
        await server.receive()
        with pytest.raises(ConnectionError, match="not from who it says"):
            await server.receive()

    Spoilt.opened = 0
    asyncio.run(with_both(story, lambda data: data + data))
    assert Spoilt.opened == 1


@pytest.mark.parametrize("secrets", [(SECRET, b"another"), (b"another", SECRET)], ids=["server", "client"])
def test_a_side_without_the_secret_is_found_out(secrets: tuple[bytes, bytes]) -> None:
    async def story(client: Frames, server: Frames) -> None:
        raise AssertionError("they are no machines of one tier")

    with pytest.raises(GreetingError, match="another secret"):
        asyncio.run(with_both(story, secrets=secrets))


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n" + b"x" * 64, MAGIC + bytes(NONCE_BYTES) + pickle.dumps(Spoilt())], ids=str
)
def test_a_stranger_is_turned_away_before_anything_is_opened(first: bytes) -> None:
    async def run() -> None:
        refused: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await welcome(reader, writer, SECRET)
            except GreetingError as error:
                refused.set_result(error)
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(first)
            writer.write_eof()
            await refused
            writer.close()

    Spoilt.opened = 0
    asyncio.run(run())
    assert Spoilt.opened == 0
