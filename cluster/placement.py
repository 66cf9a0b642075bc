"""Say where replicas should live. Pure: from nodes, racks and what lives where already; nothing here acts.

A placement is `placement[p][r]`, the node id of replica r of offsets partition p; replica 0 is the
preferred leader. Rules, in this order: copies of one partition on different nodes (as far as there are
nodes), on different racks (as far as there are racks), preferred leaders evenly, copies evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.ground.spec import Copies, Copy
from actors.metadata.commands import NEW_REPLICA

Placement = tuple[tuple[int, ...], ...]

CONTROLLERS_MAX = 3


class Place(NamedTuple):
    """One node that can hold replicas."""

    node_id: int
    rack: str | None = None


class Transfer(NamedTuple):
    """A wish that leadership of a partition goes from one replica to another."""

    partition: int
    from_replica: int
    to_replica: int


def spread(places: Sequence[Place], partitions: int, replicas: int) -> Placement:
    """Return a placement for an empty tier. With fewer nodes than replicas, copies share nodes, evenly."""
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
    """Return the node ids of the controller's replicas: an odd number, at most three, since more only cost
    latency."""
    count = min(replicas, CONTROLLERS_MAX)
    count -= 1 - count % 2
    return spread(places, 1, count)[0]


def best_place(
    kept: Copies, actual: Iterable[Copies], free: Sequence[Place], places: Sequence[Place]
) -> Place:
    """Return where among `free` one more copy should live of a group that has those in `kept`. `actual` are
    the copies of all groups, `places` all nodes of the tier: those that are lost have a rack too."""
    assert free, "nowhere to go"
    by_id = {place.node_id: place for place in places}
    row = [by_id[copy.node_id] for copy in kept]
    copies = Counter(copy.node_id for others in actual for copy in others)
    return min(_alternate_racks(free), key=lambda place: (_clash(place, row), copies[place.node_id]))


def grown(
    copies: Copies, count: int, actual: Sequence[Copies], free: Sequence[Place], places: Sequence[Place]
) -> Copies:
    """Return the row of a group that is to have more copies, up to `count`, placed as `best_place` does. The
    new ones have the number NEW_REPLICA."""
    row = copies
    while len(row) < count:
        row += (Copy(NEW_REPLICA, best_place(row, (*actual, row[len(copies) :]), free, places).node_id),)
    return row


def shrunk(copies: Copies, count: int, keep: Sequence[int]) -> Copies:
    """Return the row of a group that is to have fewer copies, down to `count`. Those in `keep` (replica
    numbers) stay before all others, the first of them before the rest."""
    worth = {replica_id: len(keep) - position for position, replica_id in enumerate(keep)}
    staying = sorted(copies, key=lambda copy: -worth.get(copy.replica_id, 0))[:count]
    return tuple(copy for copy in copies if copy in staying)


def leader_transfers(
    leaders: Mapping[int, int], caught_up: Mapping[int, Sequence[int]], preferred: Sequence[int]
) -> list[Transfer]:
    """Return the leaderships that should return to the preferred replicas, which have caught up.

    `leaders` maps a partition to its leading replica, `caught_up` a partition to the replicas that miss next
    to nothing; `preferred[p]` is the replica that should lead partition p.
    """
    return [
        Transfer(partition, leader, preferred[partition])
        for partition, leader in sorted(leaders.items())
        if leader != preferred[partition] and preferred[partition] in caught_up.get(partition, ())
    ]


def _clash(place: Place, row: Sequence[Place]) -> tuple[int, int]:
    """Return how many copies the place's node and rack hold already; a node without a rack is one of its
    own."""
    same_node = sum(other.node_id == place.node_id for other in row)
    same_rack = sum(other.rack == place.rack for other in row) if place.rack is not None else same_node
    return same_node, same_rack


def _alternate_racks(places: Sequence[Place]) -> list[Place]:
    """Return the nodes so that neighbours in the ring are on different racks: one node of each rack, then the
    next of each."""
    racks: dict[str, list[Place]] = {}
    for place in sorted(places, key=lambda place: place.node_id):
        racks.setdefault(place.rack or f"\0{place.node_id}", []).append(place)
    ring: list[Place] = []
    while any(racks.values()):
        ring += [members.pop(0) for members in racks.values() if members]
    return ring
