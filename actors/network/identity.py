"""Who is at the other end of a client connection. Travels with the connection when it is handed over."""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple


class ClientIdentity(NamedTuple):
    """What the tier knows of a client, apart from its requests. Only str, so that msgpack carries it."""

    client_host: str
    """As Kafka shows it in describe: "/1.2.3.4" (Java's `InetAddress.toString`)."""
    peer: str
    """Address and port, for log lines: "1.2.3.4:5678"."""
    software_name: str = ""
    """From ApiVersions v3 and later (KIP-511); the service sets it."""
    software_version: str = ""
    principal: str = "User:ANONYMOUS"
    listener: str = "PLAINTEXT"

    @property
    def address(self) -> str:
        """The client's address without port: what the limit per address counts."""
        return self.client_host[1:]


def identity_of(address: tuple[Any, ...], listener: str = "PLAINTEXT") -> ClientIdentity:
    """The identity of a client just accepted from `address`, as `socket.accept` gave it."""
    host, port = str(address[0]), int(address[1])
    if ":" not in host:
        return ClientIdentity(f"/{host}", f"{host}:{port}", listener=listener)
    parsed = ipaddress.IPv6Address(host.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        # Java shows an IPv4 client of a dual-stack listener by its IPv4 address.
        return ClientIdentity(f"/{parsed.ipv4_mapped}", f"{parsed.ipv4_mapped}:{port}", listener=listener)
    # Java writes all eight groups, without leading zeros and without "::".
    groups = ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
    return ClientIdentity(f"/{groups}", f"[{groups}]:{port}", listener=listener)
