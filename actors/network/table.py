"""All connections of one actor: how sockets are adopted, the idle clock, and the limits that they live
under."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable

from actors.ground.identity import ClientIdentity
from actors.network.connection import Connection, Service
from actors.network.lending import cut_off
from actors.network.pace import Pace
from actors.network.quota import ConnectionLimits

logger = logging.getLogger(__name__)

SWEEPS_PER_IDLE_TIME = 10
"""How many sweeps the idle time has: a connection is closed at most a tenth late."""


class ConnectionTable:
    """The connections that one actor serves.

    `on_gone(identity)` is told of each connection that ended here, and of none that was released.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
        on_gone: Callable[[ClientIdentity], None] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.pace = Pace(loop, clock)
        self._on_gone = on_gone
        self._connections: set[Connection] = set()
        self._attaching: set[asyncio.Task[None]] = set()
        self._sweep_s = limits.idle_ms_max / SWEEPS_PER_IDLE_TIME / 1000
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def connections(self) -> tuple[Connection, ...]:
        return tuple(self._connections)

    def addresses(self) -> dict[str, int]:
        """Return how many connections each client address has here."""
        return dict(Counter(connection.identity.address for connection in self._connections))

    def adopt(
        self, sock: socket.socket, buffered: bytes, identity: ClientIdentity, service: Service
    ) -> Connection:
        """Serve a non-blocking connected socket from now on; the socket belongs to the table.

        `buffered` was read from the socket already and not served: it is served first.
        """
        connection = Connection(self, service, identity, buffered)
        self._connections.add(connection)
        task = self.loop.create_task(self._attach(sock, connection))
        self._attaching.add(task)
        task.add_done_callback(self._attaching.discard)
        if self._sweeping is None:
            self._sweeping = self.loop.call_later(self._sweep_s, self._sweep)
        return connection

    def close(self) -> None:
        """Close every connection after what was written to it."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in self.connections():
            connection.close()

    def cut_off(self) -> None:
        """End every connection, from another thread than the loop's, which hangs: clients are to go where
        they are served. The loop finds the ends when it goes on."""
        for connection in self.connections():
            transport = connection._transport
            if transport is not None:
                cut_off(transport.get_extra_info("socket"))

    def forget(self, connection: Connection) -> None:
        """Forget a connection that is gone from this actor, ended or released: a Connection calls this."""
        self._connections.discard(connection)

    def gone(self, identity: ClientIdentity) -> None:
        """Tell `on_gone` of a connection that has ended: a Connection calls this."""
        if self._on_gone is not None:
            self._on_gone(identity)

    async def _attach(self, sock: socket.socket, connection: Connection) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: connection, sock)
        except (OSError, RuntimeError, ValueError) as error:
            # The client may be gone, or what was handed over is no stream socket.
            logger.warning("could not adopt the connection of %s: %s", connection.identity.peer, error)
            sock.close()
            if connection in self._connections:
                connection.connection_lost(None)

    def _sweep(self) -> None:
        for connection in self.connections():
            connection.sweep(SWEEPS_PER_IDLE_TIME)
        self._sweeping = self.loop.call_later(self._sweep_s, self._sweep) if self._connections else None
