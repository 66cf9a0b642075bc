"""Where replicas live. Pure: desired placement from actual, nodes and racks; nothing here acts.

A placement is `placement[p][r]`, the node id of replica r of offsets partition p; replica 0 is the
preferred leader. Rules, in this order: copies of one partition on different nodes (as far as there are
nodes), on different racks (as far as there are racks), preferred leaders evenly, copies evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Placement = tuple[tuple[int, ...], ...]

CONTROLLERS_MAX = 3


class Place(NamedTuple):
    """One node that can hold replicas."""

    node_id: int
    rack: str | None = None


class Transfer(NamedTuple):
    """Leadership of a partition should go from one replica to another."""

    partition: int
    from_replica: int
    to_replica: int


def spread(places: Sequence[Place], partitions: int, replicas: int) -> Placement:
    """A placement for an empty tier. With fewer nodes than replicas, copies share nodes, evenly."""
    assert places, "a tier has at least one node"
    ring = _alternate_racks(places)
    leaders: Counter[int] = Counter()
    copies: Counter[int] = Counter()
    rows = []
    for partition in range(partitions):
        row: list[Place] = []
        for replica in range(replicas):
            start = partition + replica * (1 + partition // len(ring))
            candidates = [ring[(start + step) % len(ring)] for step in range(len(ring))]
            weight = leaders if replica == 0 else copies
            row.append(min(candidates, key=lambda place: (_clash(place, row), weight[place.node_id])))
            copies[row[-1].node_id] += 1
        leaders[row[0].node_id] += 1
        rows.append(tuple(place.node_id for place in row))
    return tuple(rows)


def controllers(places: Sequence[Place], replicas: int) -> tuple[int, ...]:
    """Node ids of the controller's replicas: an odd number, at most three, since more only cost latency."""
    count = min(replicas, CONTROLLERS_MAX)
    count -= 1 - count % 2
    return spread(places, 1, count)[0]


def desired(actual: Placement, places: Sequence[Place]) -> Placement:
    """`actual` with every replica on a lost node moved to the best of `places`; nothing else moves.

    A moved replica is a new Raft member: under its old identity it would vote without its memory.
    """
    alive = {place.node_id: place for place in places}
    assert alive, "nowhere to move to"
    ring = _alternate_racks(places)
    copies = Counter(node_id for row in actual for node_id in row if node_id in alive)
    rows = []
    for row in actual:
        kept = [alive[node_id] for node_id in row if node_id in alive]
        new_row = []
        for node_id in row:
            if node_id not in alive:
                place = min(ring, key=lambda place: (_clash(place, kept), copies[place.node_id]))
                kept.append(place)
                copies[place.node_id] += 1
                node_id = place.node_id
            new_row.append(node_id)
        rows.append(tuple(new_row))
    return tuple(rows)


def leader_transfers(leaders: Mapping[int, int], caught_up: Mapping[int, Sequence[int]]) -> list[Transfer]:
    """Leaderships that should return to the preferred replica 0, once that has caught up.

    `leaders`: partition -> leading replica; `caught_up`: partition -> replicas that miss next to nothing.
    """
    return [
        Transfer(partition, leader, 0)
        for partition, leader in sorted(leaders.items())
        if leader != 0 and 0 in caught_up.get(partition, ())
    ]


def _clash(place: Place, row: Sequence[Place]) -> tuple[int, int]:
    """How many copies the place's node and rack hold already; a node without a rack is one of its own."""
    same_node = sum(other.node_id == place.node_id for other in row)
    same_rack = sum(other.rack == place.rack for other in row) if place.rack is not None else same_node
    return same_node, same_rack


def _alternate_racks(places: Sequence[Place]) -> list[Place]:
    """One node of each rack in turn, so that neighbours in the ring are on different racks."""
    racks: dict[str, list[Place]] = {}
    for place in sorted(places, key=lambda place: place.node_id):
        racks.setdefault(place.rack or f"\0{place.node_id}", []).append(place)
    ring: list[Place] = []
    while any(racks.values()):
        ring += [members.pop(0) for members in racks.values() if members]
    return ring
