"""A node's port that speaks TLS, and clients that do: the parts of stories about it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from actors.ground.spec import SSL, BrokerSettings
from actors.network.certificates import Certificates
from tests.authority import Authority, Issued
from tests.network.sockets import wire
from tests.network.test_listener import Node

HOST = "127.0.0.1"


class Port:
    """How the node of a test speaks TLS, and its clients with it."""

    def __init__(self, authority: Authority, keystore: Path, protocol: str = SSL, **changes: Any) -> None:
        names = {f"ssl_{name}": value for name, value in changes.items()}
        settings = BrokerSettings(
            listener_security_protocol=protocol,
            ssl_keystore_location=str(keystore),
            ssl_truststore_location=str(authority.path),
        )._replace(**names)
        self.certificates = Certificates(settings, HOST)
        self._protocol = protocol
        self._authority = authority

    @contextlib.asynccontextmanager
    async def node(self, **limits: int) -> AsyncIterator[Node]:
        async with Node(self._protocol, certificates=self.certificates, **limits) as node:
            yield node

    def context(self, shown: Issued | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._authority.path))
        if shown is not None:
            context.load_cert_chain(shown.both)
        return context


class TlsClient:
    """A client that speaks TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, node: Node, context: ssl.SSLContext) -> TlsClient:
        return cls(*await asyncio.open_connection(*node.address, ssl=context))

    async def beat(self, *frames: bytes) -> None:
        """Send frames, of which each is answered by itself."""
        self.writer.write(wire(*frames))
        assert await self.reader.readexactly(len(wire(*frames))) == wire(*frames)

    async def ended(self) -> bool:
        """Return whether the other end has closed, and said so as TLS does."""
        return await self.reader.read() == b""

    def close(self) -> None:
        self.writer.transport.abort()
