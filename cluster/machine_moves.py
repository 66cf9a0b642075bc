"""Say where machines are that have another address now, and the nodes on them."""

from __future__ import annotations

from dataclasses import replace

from actors.ground.spec import NodeSpec

Moves = tuple[tuple[str, str], ...]
"""The machines that have another address now: (former address, address)."""


def moved_node(node: NodeSpec, moves: Moves) -> NodeSpec:
    """Return a node as it is at its machine's present address."""
    if node.machine is None:
        return node
    now = address_now(moves, node.machine)
    is_usual = node.host == host_of(node.machine)
    return replace(node, machine=now, host=host_of(now) if is_usual else node.host)


def address_now(moves: Moves, address: str) -> str:
    """Return where a machine is that was at this address."""
    places = dict(moves)
    for _ in places:
        address = places.get(address, address)
    return address


def host_of(address: str | None) -> str:
    """Return the host of host:port."""
    assert address is not None
    return address.rpartition(":")[0].strip("[]")
