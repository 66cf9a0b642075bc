"""A raw connection is closed in time, whatever the other end does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from actors.network import wire
from actors.network.wire import Wire
from tests.authority import Authority
from tests.polling import DEADLINE_S

CLOSED_S = 5.0


@contextmanager
def silent(context: ssl.SSLContext) -> Iterator[tuple[str, int]]:
    """The address of a server that gets through TLS with one client, and reads nothing after that."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            accepted, _ = server.accept()
            with context.wrap_socket(accepted, server_side=True):
                over.wait(DEADLINE_S)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            over.set()
            thread.join(DEADLINE_S)


def test_who_says_no_goodbye_is_not_waited_for(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that lost its power says nothing: whoever waited for it would be late with its heartbeats."""
    monkeypatch.setattr(wire, "CLOSE_TIMEOUT_S", 0.1)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.certify("silent").both)
    trusting = ssl.create_default_context(cafile=str(authority.path))

    async def story(address: tuple[str, int]) -> None:
        connection = await Wire.connect(*address, tls=trusting)
        async with asyncio.timeout(CLOSED_S):
            await connection.close()

    with silent(context) as address:
        asyncio.run(story(address))
