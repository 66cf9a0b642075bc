"""Say which actors a tier consists of, and how each is made. This also runs in the controller: imports stay
few."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from actors import ray_host, runtime
from actors.ground.spec import (
    CONTROLLER_GROUP,
    PARTITION_GROUP,
    TierSpec,
    broker_name,
    controller_name,
    partition_group,
    partition_name,
)
from actors.runtime import ActorCallError, ActorOptions

MACHINE_TIMEOUT_S = 20.0
"""How long, in seconds, a small task on another machine may take, whose first worker must start."""


@dataclass(frozen=True, slots=True)
class TierActor:
    """One actor that a tier consists of."""

    kind: str
    name: str
    index: tuple[int, ...]
    """The constructor's arguments after the spec."""
    node_id: int

    @property
    def group(self) -> str | None:
        """Return the Raft group of a replica; None for a broker."""
        if self.kind == "controller":
            return CONTROLLER_GROUP
        return partition_group(self.index[0]) if self.kind == "partition" else None

    @property
    def replica_id(self) -> int:
        """Return the number of a replica within its group."""
        return self.index[-1]


def replica_actor(group: str, replica_id: int, node_id: int) -> TierActor:
    """Return the actor of the actor of one replica of a Raft group."""
    if group == CONTROLLER_GROUP:
        return TierActor("controller", controller_name(replica_id), (replica_id,), node_id)
    partition = int(group.removeprefix(PARTITION_GROUP))
    return TierActor("partition", partition_name(partition, replica_id), (partition, replica_id), node_id)


def actors_of(spec: TierSpec) -> list[TierActor]:
    """Return every actor of a tier, in the order in which they should come up: brokers wait for controllers.
    Replicas that are to leave come last: their groups may still need them."""
    actors = [replica_actor(CONTROLLER_GROUP, *copy) for copy in spec.controllers]
    actors += [
        TierActor("broker", broker_name(node.node_id), (node.node_id,), node.node_id) for node in spec.nodes
    ]
    actors += [
        replica_actor(partition_group(partition), *copy)
        for partition, row in enumerate(spec.placement)
        for copy in row
    ]
    return actors + [replica_actor(group, *copy) for group, copy in spec.leaving]


def create_actor(spec: TierSpec, actor: TierActor, kinds: Mapping[str, str]) -> runtime.Handle:
    """Make one actor on its node. Raises ValueError if it exists."""
    node = spec.node(actor.node_id)
    spec = spec._replace(draining=(), lost=())  # what an actor is told outlives that
    env = {} if node.ray_node is None else ray_host.LIBRARIES_ENV
    options = ActorOptions(
        namespace=spec.namespace, ray_node=node.ray_node, env=env, kinds=kinds, machine=node.machine
    )
    return runtime.create(actor.kind, actor.name, (spec, *actor.index), options)


def make_run_dir(spec: TierSpec, node_id: int) -> None:
    """Make the directory of a node's sockets on its machine. Raises ActorCallError, TimeoutError.

    On the machine where the tier was started, the starter has made it.
    """
    machine = spec.node(node_id).elsewhere
    if machine is not None:
        runtime.make_directory(machine, spec.run_dir, MACHINE_TIMEOUT_S)


def on_node(spec: TierSpec, node_id: int, function: Callable[..., Any], *args: Any) -> None:
    """Call a function that can be imported there on a node's machine. Blocks. Raises OSError on this machine,
    ActorCallError and TimeoutError on another one."""
    machine = spec.node(node_id).elsewhere
    if machine is None:
        function(*args)
    else:
        runtime.run_on_machine(machine, function, args, MACHINE_TIMEOUT_S)


def remove_run_dirs(spec: TierSpec) -> None:
    """Remove the directories of sockets on every machine; a machine that is gone keeps nothing of worth."""
    for machine in {node.elsewhere for node in spec.nodes if node.elsewhere is not None}:
        with suppress(ActorCallError, TimeoutError):
            runtime.remove_directory(machine, spec.run_dir, MACHINE_TIMEOUT_S)
