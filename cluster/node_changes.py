"""Add, drain and remove a running tier's nodes, from outside the tier.

The controller decides, and its leader's reconciler carries it out. Whoever asked may wait for that here, and
what they asked for goes on if they do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from actors import runtime
from actors.ground.image import ACTIVE, DRAINING, JOINING, LOST
from actors.ground.spec import NodeSpec, broker_name
from actors.metadata.node_commands import AddNode, RemoveNode, SetNodeDuty
from actors.runtime import ActorCallError
from cluster import reach
from cluster.node_plan import Wanted, added_node
from cluster.replica_changes import KnownNode, ReplicaChanges
from cluster.tier import gather_status
from cluster.tier_actors import MACHINE_TIMEOUT_S
from cluster.tier_file import TierError, TierFile, check_ports_free, try_to_listen

UP_WAIT_S: Final = 60.0
"""How long, in seconds, a new node's broker may take to come up."""
REACH_WAIT_S: Final = 10.0
"""How long, in seconds, the port of a broker that is up may take until every machine can reach it."""
GONE_WAIT_S: Final = 30.0
"""How long, in seconds, the broker of a removed node may take to end."""
LOOK_INTERVAL_S: Final = 0.3

Left = Callable[[int], None]
"""A function that is called with how many replicas are left on a node."""


class NodeRow(NamedTuple):
    """A node and how much it holds."""

    node: KnownNode
    replicas: int
    """How many replicas are there, those that are to leave too."""


class NodeChanges:
    """Changes of the nodes of `tier`, which runs and to whose Ray this process is attached. Every method
    raises TierError, in words."""

    def __init__(self, tier: TierFile, changes: ReplicaChanges) -> None:
        self._tier = tier
        self._changes = changes

    def rows(self) -> list[NodeRow]:
        """Return every node and how many replicas are on it."""
        placements = self._changes.placements()
        held = [c.node_id for value in placements.values() for c in (*value.copies, *value.leaving)]
        return [NodeRow(node, held.count(node.node_id)) for node in self._changes.nodes()]

    def add(self, wanted: Wanted) -> NodeSpec:
        """Take a node in, and wait until its broker can be reached. A node that cannot be is removed again,
        before anything was given to it."""
        known = [node.spec for node in self._changes.nodes()]
        node = self._planned(known, wanted)
        self._check_place(known, node)
        self._changes.submit(
            AddNode(
                node.node_id,
                node.host,
                node.clients_port,
                node.rack,
                node.port,
                node.machine,
                node.ray_node,
                JOINING,
            )
        )
        try:
            self._await_broker(known, node)
        except TierError as error:
            self._changes.submit(RemoveNode(node.node_id))
            raise TierError(f"{error}; node {node.node_id} is not added") from None
        except KeyboardInterrupt:
            self._changes.submit(RemoveNode(node.node_id))
            raise
        self._changes.submit(SetNodeDuty(node.node_id, ACTIVE))
        return node

    def drain(self, node_id: int) -> None:
        """Begin to have a node give up what it holds."""
        self._changes.submit(SetNodeDuty(node_id, DRAINING))

    def keep(self, node_id: int) -> None:
        """Let a node that is drained hold replicas again."""
        self._changes.submit(SetNodeDuty(node_id, ACTIVE))

    def give_up(self, node_id: int) -> None:
        """Begin to replace a node whose machine is gone for good. It is removed when nothing is left
        there."""
        self._changes.submit(SetNodeDuty(node_id, LOST))

    def wait_until_empty(self, node_id: int, progress: Left) -> None:
        """Wait until nothing is left on a node, or until it is no node any more."""
        while True:
            row = next((row for row in self.rows() if row.node.node_id == node_id), None)
            progress(0 if row is None else row.replicas)
            if row is None or not row.replicas:
                return
            if row.node.duty not in (DRAINING, LOST):
                raise TierError(f"node {node_id} is to hold replicas again: somebody has ended its drain")
            time.sleep(LOOK_INTERVAL_S)

    def remove(self, node_id: int) -> None:
        """Forget a node on which nothing is left, and wait until its broker has ended."""
        self._changes.submit(RemoveNode(node_id))
        self.wait_until_gone(node_id)

    def wait_until_gone(self, node_id: int) -> None:
        deadline = time.monotonic() + GONE_WAIT_S
        while node_id in {node.node_id for node in self._changes.nodes()} or self._runs(node_id):
            if time.monotonic() > deadline:
                raise TierError(f"{broker_name(node_id)} has not ended after {GONE_WAIT_S:.0f} s")
            time.sleep(LOOK_INTERVAL_S)

    def note(self, data_dir: Path) -> None:
        """Write down the nodes of now, as `ReplicaChanges.note` does."""
        self._changes.note(data_dir)

    def _runs(self, node_id: int) -> bool:
        return broker_name(node_id) in runtime.list_actors(self._tier.namespace)

    # A new node.

    def _planned(self, known: list[NodeSpec], wanted: Wanted) -> NodeSpec:
        first = known[0]
        if first.machine is not None and wanted.machine is None:
            raise TierError("--machine is missing: host:port of the machine that is to have the node")
        if first.ray_node is not None and wanted.ray_node is None:
            raise TierError("--ray-node is missing: the address of the machine that is to have the node")
        if first.elsewhere is None and (wanted.machine or wanted.ray_node):
            raise TierError("this tier lives on one machine: leave --machine and --ray-node out")
        if wanted.machine is not None:
            self._check_machine(wanted.machine)
        node_id = wanted.node_id or int(self._changes.controller("nodes")["next_node_id"])
        return added_node(known, wanted._replace(node_id=node_id))

    def _check_machine(self, machine: str) -> None:
        machines = runtime.machines()
        assert machines is not None, "a tier on machines is asked through them"
        try:
            answers = machines.list_machines()
        except (ActorCallError, TimeoutError) as error:
            raise TierError(str(error) or "no machine answers") from None
        if machine not in answers:
            raise TierError(
                f"{machine} is none of the machines {', '.join(sorted(answers))}: "
                f"`groupd machine up --join {self._tier.nodes[0].machine}` there makes it one"
            )
        if not answers[machine]:
            raise TierError(f"machine {machine} does not answer")

    def _check_place(self, known: list[NodeSpec], node: NodeSpec) -> None:
        """Check that nobody has the node's port, before the tier hears of it."""
        for other in known:
            if (other.host, other.port) == (node.host, node.port):
                raise TierError(
                    f"{node.host}:{node.port} is node {other.node_id}'s: it is in the tier already"
                )
        if node.elsewhere is None:
            check_ports_free([(node.host, node.port)])
            return
        try:
            runtime.run_on_machine(node.elsewhere, try_to_listen, (node.host, node.port), MACHINE_TIMEOUT_S)
        except (ActorCallError, TimeoutError) as error:
            raise TierError(
                f"{node.elsewhere} cannot listen on {node.host}:{node.port}: {error or 'no answer'}"
            ) from None

    def _await_broker(self, known: list[NodeSpec], node: NodeSpec) -> None:
        """Wait until a broker has come up, and every machine can reach it."""
        name = broker_name(node.node_id)

        def not_up() -> str | None:
            status = gather_status(self._tier.namespace, [name])[name]
            if status.get("problem"):
                raise TierError(f"{name} did not start: {status['problem']}")
            return status.get("dead")

        _await_no(not_up, UP_WAIT_S)
        _await_no(lambda: self._unreachable(known, node), REACH_WAIT_S)

    def _unreachable(self, known: list[NodeSpec], node: NodeSpec) -> str | None:
        """Return from which machine a broker's port cannot be reached, in words; None if from everywhere."""
        machines = {other.elsewhere: other for other in (*known, node)}
        for machine, other in machines.items():
            try:
                _connect_from(other, node)
            except (OSError, ActorCallError, TimeoutError) as error:
                where = "" if machine is None else f" from {machine}"
                return f"{node.host}:{node.port} cannot be reached{where}: {error or 'no answer'}"
        return None


def _await_no(obstacle: Callable[[], str | None], timeout_s: float) -> None:
    """Wait until there is no obstacle any more. Raises TierError with the one that stays."""
    deadline = time.monotonic() + timeout_s
    while (why := obstacle()) is not None:
        if time.monotonic() > deadline:
            raise TierError(f"after {timeout_s:.0f} s: {why}")
        time.sleep(LOOK_INTERVAL_S)


def _connect_from(from_node: NodeSpec, to: NodeSpec) -> None:
    """Connect to a node from another one's machine. Raises OSError, ActorCallError, TimeoutError."""
    if from_node.elsewhere is None:
        reach.connect(to.host, to.port)
    else:
        runtime.run_on_machine(from_node.elsewhere, reach.connect, (to.host, to.port), MACHINE_TIMEOUT_S)
