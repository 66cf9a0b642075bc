"""Say where machines are that have another address now, and the nodes on them."""

from __future__ import annotations

from dataclasses import replace

from actors.ground.spec import NodeSpec

Moves = tuple[tuple[str, str, int], ...]
"""The machines that have another address now: (former address, address, when it moved in ms). Of one former
address only the newest counts."""


def moved_node(node: NodeSpec, moves: Moves) -> NodeSpec:
    """Return a node as it is at its machine's present address."""
    if node.machine is None:
        return node
    now = address_now(moves, node.machine)
    is_usual = node.host == host_of(node.machine)
    return replace(node, machine=now, host=host_of(now) if is_usual else node.host)


def address_now(moves: Moves, address: str) -> str:
    """Return where a machine is that was at this address."""
    places = {former: (now, at_ms) for former, now, at_ms in moves}
    since_ms = -1
    while address in places and places[address][1] > since_ms:  # later each time, so that it ends
        address, since_ms = places[address]
    return address


def merged(moves: Moves, others: Moves) -> Moves:
    """Return what both know, the same in whatever order moves become known."""
    newest: dict[str, tuple[int, str]] = {}
    for former, now, at_ms in (*moves, *others):
        newest[former] = max(newest.get(former, (-1, "")), (at_ms, now))
    return tuple((former, now, at_ms) for former, (at_ms, now) in sorted(newest.items()))


def host_of(address: str | None) -> str:
    """Return the host of host:port."""
    assert address is not None
    return address.rpartition(":")[0].strip("[]")
