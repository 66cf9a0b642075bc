"""All connections of one actor: how sockets are adopted, the idle clock, and the limits that they live
under."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from actors.ground.identity import ClientIdentity
from actors.ground.limits import FIRST_FRAME_MS_MAX, FRAME_BYTES_MAX, UNPROVEN_CONNECTIONS_MAX
from actors.ground.spec import BrokerSettings
from actors.network.connection import Connection, Service
from actors.network.frames import FRAME_BYTES_MIN
from actors.network.pace import Pace

logger = logging.getLogger(__name__)

SWEEPS_PER_IDLE_TIME = 10
"""How many sweeps the idle time has: a connection is closed at most a tenth late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of client connections, named with the settings of `actors.ground.spec.BrokerSettings` that
    they come from. Raises ValueError naming the setting and what is allowed."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    """The largest request: `socket.request.max.bytes`."""
    connections_max: int = 20_000
    """How many connections a node may have, those that its replicas adopted included: `max.connections`."""
    connections_per_address_max: int = 20_000
    """How many connections a client address may have: `max.connections.per.ip`."""
    idle_ms_max: int = 600_000
    """How long a connection may be idle: `connections.max.idle.ms`."""
    first_frame_ms_max: int = FIRST_FRAME_MS_MAX
    unproven_max: int = UNPROVEN_CONNECTIONS_MAX

    @classmethod
    def of(cls, settings: BrokerSettings) -> ConnectionLimits:
        """Return the limits that a node's settings ask for. Raises ValueError as the class does."""
        return cls(
            frame_bytes_max=settings.socket_request_max_bytes,
            connections_max=settings.max_connections,
            connections_per_address_max=settings.max_connections_per_ip,
            idle_ms_max=settings.connections_max_idle_ms,
            first_frame_ms_max=min(FIRST_FRAME_MS_MAX, settings.connections_max_idle_ms),
        )

    def __post_init__(self) -> None:
        if not FRAME_BYTES_MIN <= self.frame_bytes_max <= FRAME_BYTES_MAX:
            raise ValueError(
                f"socket.request.max.bytes is {self.frame_bytes_max}, "
                f"allowed are {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX}"
            )
        for name, value in (
            ("max.connections", self.connections_max),
            ("max.connections.per.ip", self.connections_per_address_max),
            ("connections.max.idle.ms", self.idle_ms_max),
        ):
            if value < 1:
                raise ValueError(f"{name} is {value}, allowed are 1 and more")


class ConnectionQuota:
    """How many connections a node has, in all and per client address.

    A claim goes with the socket: taken at accept, it stays when the connection is kept or handed over, and
    is given back by whoever sees the connection end (for an adopted one its replica tells the broker).
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self.total = 0
        self.refused_total = 0
        """How many connections were closed at accept, since the start."""

    def refusal(self, address: str) -> str | None:
        """Return why there may be no further connection from `address`; None if there may."""
        if self.total >= self._limits.connections_max:
            return f"max.connections is {self._limits.connections_max}"
        if self._by_address[address] >= self._limits.connections_per_address_max:
            return f"max.connections.per.ip is {self._limits.connections_per_address_max}"
        return None

    def count(self, address: str) -> int:
        return self._by_address[address]

    def claim(self, address: str, count: int = 1) -> None:
        self._by_address[address] += count
        self.total += count

    def give_back(self, address: str, count: int = 1) -> None:
        self._by_address[address] -= count
        self.total -= count
        if self._by_address[address] <= 0:
            del self._by_address[address]

    def gone(self, identity: ClientIdentity) -> None:
        """Give back the claim of a connection that ended here (the `on_gone` of the broker's
        ConnectionTable)."""
        self.give_back(identity.address)


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
        self,
        sock: socket.socket,
        buffered: bytes,
        identity: ClientIdentity,
        service: Service,
        proven: bool = True,
    ) -> Connection:
        """Serve a non-blocking connected socket from now on; the socket belongs to the table.

        `buffered` was read from the socket already and not served: it is served first. If `proven` is False,
        the first frame may have FIRST_FRAME_BYTES_MAX only.
        """
        connection = Connection(self, service, identity, buffered, proven)
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
