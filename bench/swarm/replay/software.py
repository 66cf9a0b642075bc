"""Which of a swarm's clients plays a member, by what its client told of itself (KIP-511). PURE."""

from __future__ import annotations

from typing import Final

from bench.swarm.planning.clients import CLIENTS, JAVA, Client

_BY_SOFTWARE: Final = {client.software[0]: client for client in CLIENTS.values() if client.software}


def client_of(software: str | None, *, is_consumer: bool) -> Client:
    """`software`: name and version, as recorded. Who told nothing, or is not known here, is played as Java's
    client, and so is one of a KIP-848 group that is not known to speak that."""
    found = _BY_SOFTWARE.get(name_of(software))
    return CLIENTS[JAVA] if found is None or (is_consumer and not found.speaks_consumer) else found


def name_of(software: str | None) -> str:
    """The software's name without the version."""
    name, _, version = (software or "").rpartition(" ")
    return name or version


def is_known(software: str | None) -> bool:
    return name_of(software) in _BY_SOFTWARE
