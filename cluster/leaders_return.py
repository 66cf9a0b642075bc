"""Return leadership to the preferred replicas, so that no node does the work of two."""

from __future__ import annotations

from actors.ground.spec import TierSpec, partition_group, partition_name
from cluster.placement import leader_transfers
from cluster.sight import Sight, call, look_at
from cluster.tier_actors import actors_of

LAG_MAX = 64
"""How many entries a replica may miss when it is to lead: it gets them within one round trip."""


async def return_leaders_at_start(spec: TierSpec) -> list[str]:
    """Move leadership to the preferred replicas right after a start, before any client comes."""
    actors = [actor for actor in actors_of(spec) if actor.kind == "partition"]
    return await return_leaders(await look_at(spec, actors), most=len(spec.placement))


async def return_leaders(sight: Sight, *, most: int) -> list[str]:
    """Return leadership to preferred replicas, by `most` transfers at most, and to none on a node that is to
    give up what it holds. Return what was done, in words."""
    leaders: dict[int, int] = {}
    caught_up: dict[int, list[int]] = {}
    placement = sight.spec.placement
    leaving = (*sight.spec.draining, *sight.spec.lost)
    for partition, row in enumerate(placement):
        preferred = row[0]
        leader = sight.leader(partition_group(partition))
        if leader is None or preferred.node_id in (leader["node_id"], *leaving):
            continue
        leaders[partition] = leader["replica"]
        lag = (leader.get("lag") or {}).get(preferred.replica_id)
        is_there = partition_name(partition, preferred.replica_id) in sight.looks
        if is_there and lag is not None and lag <= LAG_MAX:
            caught_up[partition] = [preferred.replica_id]
    done: list[str] = []
    for transfer in leader_transfers(leaders, caught_up, [row[0].replica_id for row in placement]):
        name = partition_name(transfer.partition, transfer.from_replica)
        if len(done) < most and await call(sight.looks[name].handle, "transfer", transfer.to_replica):
            node_id = placement[transfer.partition][0].node_id
            done.append(f"partition {transfer.partition}: leadership goes back to node {node_id}")
    return done
