"""Who is at the other end of a client connection. The identity travels with the connection when it is handed
over."""

from __future__ import annotations

import ipaddress
from typing import Any, Final, NamedTuple

from actors.ground.spec import PLAINTEXT, has_sasl

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of whoever comes through a listener that asks nobody who he is, or shows it no
certificate."""


class ClientIdentity(NamedTuple):
    """What the tier knows of a client, apart from its requests. It has only str and int, so that msgpack
    carries it."""

    client_host: str
    """The client's address as Kafka shows it in describe: "/1.2.3.4" (Java's `InetAddress.toString`)."""
    peer: str
    """The client's address and port, for log lines: "1.2.3.4:5678"."""
    software_name: str = ""
    """The name of the client's library, from ApiVersions v3 and later (KIP-511); the service sets it."""
    software_version: str = ""
    principal: str = ANONYMOUS
    """The user as whom the client has authenticated, by SASL or by its certificate. "": it has not yet, on a
    listener that wants SASL."""
    listener: str = PLAINTEXT
    """The name of the listener by which the client came, which is that of its protocol if there is one."""
    session_expires_ms: int = 0
    """The time until which the authentication holds, in ms of the machine's monotonic clock (KIP-368); 0: for
    ever."""

    @property
    def address(self) -> str:
        """Return the client's address without port, which is what the limit per address counts."""
        return self.client_host[1:]

    def with_software(self, name: str, version: str) -> ClientIdentity:
        """Return the identity with what ApiVersions tells of the client's library, if it tells anything."""
        return self._replace(software_name=name, software_version=version) if name else self


def identity_of(address: tuple[Any, ...], protocol: str = PLAINTEXT, listener: str = "") -> ClientIdentity:
    """Return the identity of a client just accepted from `address`, as `socket.accept` gave it. `listener` is
    its name if it has another one than its protocol."""
    host, peer = _in_java(str(address[0]), int(address[1]))
    principal = "" if has_sasl(protocol) else ANONYMOUS
    return ClientIdentity(f"/{host}", peer, principal=principal, listener=listener or protocol)


def _in_java(host: str, port: int) -> tuple[str, str]:
    """Return the address as Java writes it, and the same with the port."""
    if ":" not in host:
        return host, f"{host}:{port}"
    parsed = ipaddress.IPv6Address(host.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        # Java shows an IPv4 client of a dual-stack listener by its IPv4 address.
        return str(parsed.ipv4_mapped), f"{parsed.ipv4_mapped}:{port}"
    # Java writes all eight groups, without leading zeros and without "::".
    groups = ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
    return groups, f"[{groups}]:{port}"


TIER = ClientIdentity("/", "the tier", software_name="groupd", principal="Tier:groupd", listener="TIER")
"""The identity of a replica or a broker of the tier when it asks something. Clients are given their identity
by the broker that accepts them, so that none can have this one."""
