"""Which actors a tier consists of, and how each is made. Also runs in the controller: imports stay few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors import runtime
from actors.runtime import ActorOptions
from actors.spec import TierSpec, broker_name, controller_name, partition_name


@dataclass(frozen=True, slots=True)
class ActorPlan:
    """One actor that a tier consists of."""

    kind: str
    name: str
    index: tuple[int, ...]
    """Constructor arguments after the spec."""
    node_id: int


def actors_of(spec: TierSpec) -> list[ActorPlan]:
    """Every actor of a tier, in the order in which they should come up: brokers wait for controllers."""
    plans = [
        ActorPlan("controller", controller_name(replica), (replica,), node_id)
        for replica, node_id in enumerate(spec.controllers)
    ]
    plans += [
        ActorPlan("broker", broker_name(node.node_id), (node.node_id,), node.node_id) for node in spec.nodes
    ]
    plans += [
        ActorPlan("partition", partition_name(partition, replica), (partition, replica), node_id)
        for partition, row in enumerate(spec.placement)
        for replica, node_id in enumerate(row)
    ]
    return plans


def create_actor(spec: TierSpec, plan: ActorPlan, kinds: Mapping[str, str]) -> runtime.Handle:
    """Make one actor on its node. Raises ValueError if it exists."""
    ray_node = spec.node(plan.node_id).ray_node
    env = (
        {} if ray_node is None else dict(runtime.THREADS_ENV, NUMBA_CACHE_DIR=f"{spec.data_dir}/numba-cache")
    )
    options = ActorOptions(namespace=spec.namespace, ray_node=ray_node, env=env, kinds=kinds)
    return runtime.create(plan.kind, plan.name, (spec, *plan.index), options)
