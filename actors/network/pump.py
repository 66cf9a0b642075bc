"""A client's open TLS connection: bytes go between its session, which stays here, and a plain socket whose
other end is with whoever serves the client, in this actor or another one.

At most one piece waits in each direction, and whoever has sent it is read no further meanwhile: so a client
that does not take its answers, or a service that is busy, makes the other side wait as without TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final

READ_BYTES: Final = 64 * 1024
"""How much is read at once: more than a record of TLS has, so that none is ever kept back inside of the
session, where the loop would not see it."""


class Pump:
    """The pump of one connection. It ends, with all that it holds, when either side does."""

    __slots__ = (
        "_client",
        "_descriptors",
        "_down",
        "_idle_s",
        "_loop",
        "_plain",
        "_timer",
        "_up",
        "_watched",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, client: ssl.SSLSocket, plain: socket.socket, idle_s: float
    ) -> None:
        """Take both sockets, non-blocking. A client that takes nothing for `idle_s` is given up."""
        self._loop = loop
        self._client = client
        self._plain = plain
        self._idle_s = idle_s
        self._up = b""
        """What the client has sent and the service not yet taken."""
        self._down = b""
        """What the service has sent and the client not yet taken."""
        self._descriptors = (client.fileno(), plain.fileno())
        self._watched = (False, False, False, False)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._watch()

    # From the client to the service.

    def _client_sends(self) -> None:
        try:
            data = self._client.recv(READ_BYTES)
        except ssl.SSLWantReadError:
            return  # no whole record yet
        except (OSError, ValueError):
            # A reset, or bytes that are no TLS. Or the session has to answer the client, who takes nothing.
            data = b""
        if not data:
            self._end()
            return
        self._up = data
        self._service_takes()

    def _service_takes(self) -> None:
        try:
            self._up = self._up[self._plain.send(self._up) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._up = b""  # the service has ended; what it said last is read before its end is
        self._watch()

    # From the service to the client.

    def _service_sends(self) -> None:
        try:
            data = self._plain.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._down = data
        self._client_takes()

    def _client_takes(self) -> None:
        try:
            self._down = self._down[self._client.send(self._down) :]
        except ssl.SSLWantWriteError:
            pass
        except (OSError, ValueError):
            self._end()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._down:
            self._timer = self._loop.call_later(self._idle_s, self._end)
        self._watch()

    # Both.

    def _watch(self) -> None:
        """Have the loop look at what may go on."""
        wanted = (not self._up, bool(self._down), not self._down, bool(self._up))
        if wanted == self._watched:
            return
        client, plain = self._descriptors
        handlers = (
            (client, self._client_sends, self._client_takes),
            (plain, self._service_sends, self._service_takes),
        )
        for side, (descriptor, readable, writable) in enumerate(handlers):
            reads, writes = wanted[2 * side : 2 * side + 2]
            had_reads, had_writes = self._watched[2 * side : 2 * side + 2]
            if reads and not had_reads:
                self._loop.add_reader(descriptor, readable)
            elif had_reads and not reads:
                self._loop.remove_reader(descriptor)
            if writes and not had_writes:
                self._loop.add_writer(descriptor, writable)
            elif had_writes and not writes:
                self._loop.remove_writer(descriptor)
        self._watched = wanted

    def _end(self) -> None:
        """Say goodbye to the client, if it still takes that, and close both sides."""
        if self._timer is not None:
            self._timer.cancel()
        for descriptor in self._descriptors:
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
        with contextlib.suppress(OSError, ValueError):
            self._client.unwrap()
        self._client.close()
        self._plain.close()
