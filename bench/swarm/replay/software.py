"""Chooses the swarm's client that plays a member, by the software that its client named (KIP-511). PURE."""

from __future__ import annotations

from typing import Final

from bench.swarm.planning.clients import CLIENTS, JAVA, Client

_BY_SOFTWARE: Final = {client.software[0]: client for client in CLIENTS.values() if client.software}


def client_of(software: str | None, *, is_consumer: bool) -> Client:
    """The client for a software's name and version. One that named none, or is not known here, is played as
    Java's client, and so is a KIP-848 member whose software is not known to have that protocol."""
    found = _BY_SOFTWARE.get(name_of(software))
    return CLIENTS[JAVA] if found is None or (is_consumer and not found.speaks_consumer) else found


def name_of(software: str | None) -> str:
    """The software's name without the version."""
    name, _, version = (software or "").rpartition(" ")
    return name or version


def is_known(software: str | None) -> bool:
    return name_of(software) in _BY_SOFTWARE
