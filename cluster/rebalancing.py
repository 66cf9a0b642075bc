"""Carry out what `cluster.balance` says, a few groups at a time: the reconciler's part for nodes that come
and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from actors import runtime
from actors.ground.calls import ActorCallError
from actors.ground.spec import CONTROLLER_GROUP, TierSpec
from actors.metadata.commands import PlaceGroup
from actors.metadata.node_commands import MoveNode, RemoveNode
from actors.metadata.replicas import groups_of, in_words
from cluster.balance import Nodes, next_changes
from cluster.machine_moves import moved_node
from cluster.placement import Place
from cluster.repair import is_settled
from cluster.sight import CALL_TIMEOUT_S, Sight

CHANGES_AT_ONCE: Final = 2
"""How many groups change their replicas at once: each sends what it knows to a new one."""

Submit = Callable[[Any], Awaitable[Any]]


def nodes_in(sight: Sight) -> Nodes:
    """Return the nodes as they are to be balanced."""
    spec = sight.spec
    leaving = frozenset((*spec.draining, *spec.lost))
    places = tuple(Place(node.node_id, node.rack) for node in spec.nodes)
    living = frozenset(place.node_id for place in places if sight.lives(place.node_id))
    return Nodes(places, living - leaving, leaving)


async def rebalance(sight: Sight, submit: Submit, *, is_quiet: bool) -> list[str]:
    """Have replicas go where they should be. While something else is under way (not `is_quiet`), and in a
    tier that is not to be balanced, only what has to be done. Return what was done, in words."""
    spec = sight.spec
    placements = {group: spec.copies(group) for group in groups_of(spec)}
    leaders = {group: sight.leader(group) for group in placements}
    unled = {group for group, leader in leaders.items() if leader is None}
    changing = {group for group, _ in spec.leaving}
    changing |= {
        group for group, leader in leaders.items() if leader and not is_settled(placements[group], leader)
    }
    most = CHANGES_AT_ONCE - len(changing)
    fixed = frozenset(changing | unled)
    only_due = not is_quiet or not spec.replica_balance_enable
    done = []
    for change in next_changes(nodes_in(sight), placements, fixed, most, only_due=only_due):
        outcome = await submit(PlaceGroup(change.group, change.before, change.after))
        if not outcome.error_code:
            gone = tuple(copy for copy in change.before if copy not in change.after)
            what = f"replica {in_words(gone)} moves" if gone else f"node {change.after[0].node_id} is to lead"
            done.append(f"{change.group}: {what}: {change.why}")
    return done


async def follow_moves(spec: TierSpec, silent: set[int], submit: Submit) -> list[str]:
    """Note where nodes are whose machines have other addresses now. Return what was done, in words. Raises
    TimeoutError."""
    known = runtime.machines()
    if known is None or not silent:
        return []
    try:
        moves = await asyncio.wait_for(asyncio.to_thread(known.moves), CALL_TIMEOUT_S)
    except ActorCallError:
        return []  # this machine's agent is of an older release, or not there now
    done = []
    for node in spec.nodes:
        moved = moved_node(node, moves)
        if moved == node or moved.machine is None:
            continue
        outcome = await submit(MoveNode(node.node_id, moved.host, node.port, moved.machine))
        said = outcome.error_message or f"node {node.node_id} is at {moved.host}:{moved.port} now"
        done.append(f"machine {node.machine} has the address {moved.machine}: {said}")
    return done


async def forget_lost(spec: TierSpec, submit: Submit) -> list[str]:
    """Remove the lost nodes on which nothing is left. Return what was done, in words."""
    rows = (*spec.placement, spec.copies(CONTROLLER_GROUP), tuple(copy for _, copy in spec.leaving))
    holding = {copy.node_id for row in rows for copy in row}
    done = []
    for node_id in spec.lost:
        if node_id not in holding and not (await submit(RemoveNode(node_id))).error_code:
            done.append(f"node {node_id} is lost and holds nothing any more: it is removed")
    return done
