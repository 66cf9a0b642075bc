"""How many connections a node takes, and the limits that each lives under."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from actors.ground.identity import ClientIdentity
from actors.ground.limits import (
    FIRST_FRAME_MS_MAX,
    FIRST_FRAMES_BYTES_MAX,
    FRAME_BYTES_MAX,
    UNPROVEN_CONNECTIONS_MAX,
)
from actors.ground.spec import BrokerSettings
from actors.network.frames import FRAME_BYTES_MIN


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
    first_frames_bytes_max: int = FIRST_FRAMES_BYTES_MAX
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

    def take(self, limits: ConnectionLimits) -> None:
        """Take other limits. Connections beyond them stay until they end."""
        self._limits = limits

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
