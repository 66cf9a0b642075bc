"""Say which replicas should move so that a tier's nodes share the work evenly. Pure: nothing here acts.

Changes come in this order, a few at a time: what is on nodes that leave; copies of one group that share a
node or a rack while there is another; numbers of copies; preferred leaders. A tier in which nothing is to be
done yields nothing, and each change makes what it mends better and nothing before it worse, so that they
end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from actors.ground.spec import CONTROLLER_GROUP, Copies, Copy, copies, partition_group
from actors.metadata.commands import NEW_REPLICA
from cluster.placement import Place, best_place

Placements = Mapping[str, Copies]
"""Raft group -> its replicas, the preferred leader first."""


class Nodes(NamedTuple):
    """The tier's nodes."""

    places: tuple[Place, ...]
    """All nodes: those that are lost have a rack too."""
    open_ids: frozenset[int]
    """The nodes that may take replicas: they live and are to stay."""
    leaving: frozenset[int]
    """The nodes that are to give up what they have."""

    @property
    def open(self) -> list[Place]:
        return [place for place in self.places if place.node_id in self.open_ids]

    @property
    def is_whole(self) -> bool:
        """Return whether every node either lives or is to leave: else whoever is away may soon be back."""
        return all(place.node_id in self.open_ids | self.leaving for place in self.places)


class Change(NamedTuple):
    """A change of one group's replicas. It is made by one PlaceGroup."""

    group: str
    before: Copies
    after: Copies
    why: str


def next_changes(
    nodes: Nodes, placements: Placements, fixed: frozenset[str], most: int, *, only_due: bool = False
) -> list[Change]:
    """Return at most `most` changes, each of another group. Groups in `fixed` stay as they are.

    With `only_due`, only what has to be done: nodes that leave, and copies that share a node or a rack.
    """
    model = dict(placements)
    found: list[Change] = []
    while len(found) < most:
        free = [group for group in model if group not in fixed and group not in {c.group for c in found}]
        changes = _next(nodes, model, free, only_due=only_due or not nodes.is_whole)
        if not changes:
            break
        for change in changes[: most - len(found)]:
            found.append(change)
            model[change.group] = change.after
    return found


def founded(places: Sequence[Place], rows: Sequence[Sequence[int]]) -> tuple[Copies, ...]:
    """Return the rows (node ids) of a new tier's partitions as they are once nothing is to be changed."""
    node_ids = frozenset(place.node_id for place in places)
    nodes = Nodes(tuple(places), node_ids, frozenset())
    model = {partition_group(number): copies(row) for number, row in enumerate(rows)}
    while changes := next_changes(nodes, model, frozenset(), 1):
        for change in changes:
            model[change.group] = copies([copy.node_id for copy in change.after])
    return tuple(model.values())


def _next(nodes: Nodes, model: Placements, free: Sequence[str], *, only_due: bool) -> list[Change]:
    change = _left(nodes, model, free) or _spread(nodes, model, free)
    if change is None and not only_due:
        change = _even_copies(nodes, model, free)
    if change is not None:
        return [change]
    return [] if only_due else _even_leaders(nodes, model, free)


def _left(nodes: Nodes, model: Placements, free: Sequence[str]) -> Change | None:
    """Return the move of a copy off a node that leaves."""
    for group in free:
        row = model[group]
        for copy in row:
            used = {other.node_id for other in row}
            targets = [place for place in nodes.open if place.node_id not in used]
            if copy.node_id in nodes.leaving and targets:
                kept = tuple(other for other in row if other is not copy)
                place = best_place(kept, model.values(), targets, nodes.places)
                return _moved(group, row, copy, place.node_id, f"node {copy.node_id} gives up what it holds")
    return None


def _spread(nodes: Nodes, model: Placements, free: Sequence[str]) -> Change | None:
    """Return the move that parts two copies of one group that share a node or a rack. The preferred leader
    stays, if another copy can go."""
    for group in free:
        row = model[group]
        before = _crowding(nodes, row)
        if before == (0, 0):
            continue
        better = [
            (after, -row.index(copy), place)
            for copy, place in _possible(nodes, row)
            if (after := _crowding(nodes, _replaced(row, copy, place.node_id))) < before
        ]
        if better:
            after, index, _ = min(better, key=lambda each: each[:2])
            copy = row[-index]
            targets = [place for score, where, place in better if (score, where) == (after, index)]
            kept = tuple(other for other in row if other is not copy)
            place = best_place(kept, model.values(), targets, nodes.places)
            return _moved(group, row, copy, place.node_id, "two copies shared a node or a rack")
    return None


def _even_copies(nodes: Nodes, model: Placements, free: Sequence[str]) -> Change | None:
    """Return the move from a node with many copies to one with at least two fewer that crowds no node and no
    rack. The controller's replicas are not counted: they cost next to nothing."""
    counts = _copies(nodes, model)
    leaders = _leaders(nodes, model)
    for source, target in _pairs(counts):
        found: list[tuple[bool, int, str, Copy]] = []
        for group in free:
            row = model[group]
            copy = next((copy for copy in row if copy.node_id == source), None)
            if group == CONTROLLER_GROUP or copy is None or target in {other.node_id for other in row}:
                continue
            after = _replaced(row, copy, target)
            if _crowding(nodes, after) <= _crowding(nodes, row):
                leads = copy is row[0]
                found.append((leads != (leaders[source] > leaders[target]), len(found), group, copy))
        if found:
            _, _, group, copy = min(found, key=lambda each: each[:2])
            why = f"node {source} has {counts[source]} copies, node {target} {counts[target]}"
            return _moved(group, model[group], copy, target, why)
    return None


def _even_leaders(nodes: Nodes, model: Placements, free: Sequence[str]) -> list[Change]:
    """Return new orders of groups' copies after which a node that should lead many leads one fewer, and one
    that should lead at least two fewer one more. No data moves: others on the way lead as many as before."""
    leaders = _leaders(nodes, model)
    for source, target in _pairs(leaders):
        path = _path(nodes, model, free, source, target)
        if path:
            why = f"node {source} was to lead {leaders[source]} partitions, node {target} {leaders[target]}"
            # From the end on, so that whoever stops half way has not made it worse.
            return [Change(group, model[group], _led_by(model[group], to), why) for group, to in path[::-1]]
    return []


def _path(
    nodes: Nodes, model: Placements, free: Sequence[str], source: int, target: int
) -> list[tuple[str, int]]:
    """Return the shortest way on which leadership goes from node to node: (group, node that is to lead it);
    [] if there is none."""
    ways: dict[int, list[tuple[str, int]]] = {source: []}
    queue = deque([source])
    while queue:
        node_id = queue.popleft()
        for group in free:
            row = model[group]
            if group == CONTROLLER_GROUP or row[0].node_id != node_id:
                continue
            for copy in row[1:]:
                if copy.node_id in nodes.open_ids and copy.node_id not in ways:
                    ways[copy.node_id] = [*ways[node_id], (group, copy.node_id)]
                    queue.append(copy.node_id)
        if target in ways:
            return ways[target]
    return []


def _led_by(row: Copies, node_id: int) -> Copies:
    first = next(copy for copy in row if copy.node_id == node_id)
    return (first, *(copy for copy in row if copy is not first))


def _pairs(counts: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of nodes of which the first has at least two more, the most different first."""
    by_count = sorted(counts, key=lambda node_id: (counts[node_id], node_id))
    pairs = [(source, target) for source in by_count[::-1] for target in by_count]
    pairs.sort(key=lambda pair: counts[pair[1]] - counts[pair[0]])
    for source, target in pairs:
        if counts[source] - counts[target] < 2:
            return
        yield source, target


def _copies(nodes: Nodes, model: Placements) -> dict[int, int]:
    rows = [row for group, row in model.items() if group != CONTROLLER_GROUP]
    counts = Counter(copy.node_id for row in rows for copy in row)
    return {node_id: counts[node_id] for node_id in sorted(nodes.open_ids)}


def _leaders(nodes: Nodes, model: Placements) -> dict[int, int]:
    counts = Counter(row[0].node_id for group, row in model.items() if group != CONTROLLER_GROUP and row)
    return {node_id: counts[node_id] for node_id in sorted(nodes.open_ids)}


def _crowding(nodes: Nodes, row: Copies) -> tuple[int, int]:
    """Return how many pairs of a group's copies share a node, and how many share a rack."""
    racks = {place.node_id: place.rack or f"\0{place.node_id}" for place in nodes.places}
    return _shared(copy.node_id for copy in row), _shared(racks.get(copy.node_id) for copy in row)


def _shared(values: Iterator[object]) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(values).values())


def _possible(nodes: Nodes, row: Copies) -> Iterator[tuple[Copy, Place]]:
    used = {copy.node_id for copy in row}
    for copy in row:
        for place in nodes.open:
            if place.node_id not in used:
                yield copy, place


def _replaced(row: Copies, copy: Copy, node_id: int) -> Copies:
    return tuple(Copy(NEW_REPLICA, node_id) if other is copy else other for other in row)


def _moved(group: str, row: Copies, copy: Copy, node_id: int, why: str) -> Change:
    return Change(group, row, _replaced(row, copy, node_id), why)
