"""The machines of a simulated tier, as actors ask them: what actors.machines.far is in a real one.

Calls take time, are lost, or reach a machine that is away. The actor of a replica is its host, which starts
its process again by itself, as Ray does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from actors.ground.spec import CONTROLLER_GROUP, broker_name
from actors.machines.far import FarActor, Machines, Ref
from actors.machines.link import MachineUnreachable
from actors.replica.host import ReplicaHost
from actors.runtime import ActorGoneError
from cluster import sight
from cluster.replica_directory import remove, set_aside
from storage.raft.members import replica_of
from tests.simulation.drain.judged import check_ended
from tests.simulation.drain.tier import Group, Tier
from tests.simulation.hosts import Host
from tests.simulation.parts import Process

LOST = 0.02
WAY_S = (0.0001, 0.012)
CLOSE_S = 0.03
"""How long a replica that stops waits for its successor."""
sight.CALL_TIMEOUT_S = 0.3
sight.ENDED_LOOK_S = 0.01
sight.STOP_TIMEOUT_S = sight.END_TIMEOUT_S = 0.3
"""Short, as are all times in a run."""


class SimMachines(Machines):
    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self.on_transfer: Callable[[asyncio.AbstractEventLoop, str, int], None] = lambda *_: None
        """What hears of each transfer that somebody asks for: the loop of who asks, group, replica."""

    # What `actors.runtime` asks for.

    def find(self, name: str, namespace: str) -> FarActor | None:
        node_id = self._node_of(name)
        if node_id is None or self._tier.is_away(node_id):
            return None
        return FarActor(self._machine(node_id), name, namespace)

    def list_actors(self, namespace: str) -> set[str]:
        names = {broker_name(node_id) for node_id in self._tier.nodes}
        for group in self._tier.groups.values():
            names |= {f"{group.name}-{number}" for number, host in group.hosts.items() if not host.retired}
        return {name for name in names if self.find(name, namespace) is not None}

    def create(self, machine: str, kind: str, name: str, args: Any, options: Any) -> FarActor:
        node_id = self._node_at(machine)
        if self._tier.is_away(node_id):
            raise MachineUnreachable(f"{machine} is away")
        if self._node_of(name) is not None:
            raise ValueError(f"there is an actor {name}")
        group, number = self._replica(name)
        assert args[0].formed, "a founder is never made anew"
        group.note(name, f"is made on node {node_id}")
        group.replace_host(number, node_id)
        return FarActor(machine, name, options.namespace)

    def kill(self, handle: FarActor, no_restart: bool) -> None:
        group, number = self._replica(handle.name)
        host = group.hosts[number]
        if no_restart:
            check_ended(group, number)
            host.retired = True
            host.stop()
        else:
            host.stop(for_s=0.01)

    def list_machines(self) -> dict[str, bool]:
        return {self._machine(node_id): not self._tier.is_away(node_id) for node_id in self._tier.nodes}

    def is_formed(self, namespace: str) -> bool:
        """Return whether the tier was once ready, which its machines remember."""
        return all(world.checks.committed_index for world in self._tier.worlds)

    def moves(self) -> tuple[tuple[str, str, int], ...]:
        return ()

    def ask(self, op: str, *args: Any, timeout_s: float) -> Ref:
        """Run something on a machine, at once: whoever asks waits in a thread."""
        assert op == "run"
        machine, function, arguments = args
        outcome: Ref = Future()
        if self._tier.is_away(self._node_at(machine)):
            outcome.set_exception(MachineUnreachable(f"{machine} is away"))
            return outcome
        if function in (set_aside, remove):
            group, number = self._replica(arguments[0].rpartition("/")[2])
            host = group.hosts[number]
            assert host.retired, "its actor has ended"
            host.vanish()
            host.refused = None
            if function is remove:
                self._tier.dismissed_at.append(self._tier.now)
        outcome.set_result(None)
        return outcome

    def call(self, handle: FarActor, method: str, args: Sequence[Any], timeout_s: float) -> Ref:
        outcome: Ref = Future()
        world, chance = self._tier.controllers, self._tier.controllers.chance

        def answered(answer: Any) -> None:
            if not outcome.done():
                if isinstance(answer, Exception):
                    outcome.set_exception(answer)
                else:
                    outcome.set_result(answer)

        def travel(work: Callable[[], None]) -> None:
            if world.is_healed or chance.random() >= LOST:
                world.after(chance.uniform(*WAY_S), work)

        if method == "transfer":
            group, _ = self._replica(handle.name)
            self.on_transfer(asyncio.get_running_loop(), group.name, args[0] if args else -1)
        world.after(timeout_s, lambda: answered(TimeoutError(f"{method} was not answered")))
        travel(lambda: self._arrive(handle.name, method, args, lambda found: travel(lambda: answered(found))))
        return outcome

    # Actors.

    def _machine(self, node_id: int) -> str:
        return str(self._tier.spec.node(node_id).machine)

    def _node_at(self, machine: str) -> int:
        return next(node.node_id for node in self._tier.spec.nodes if node.machine == machine)

    def _replica(self, name: str) -> tuple[Group, int]:
        group, _, number = name.rpartition("-")
        return self._tier.groups[group], int(number)

    def _node_of(self, name: str) -> int | None:
        """Return the node of an actor; None if there is no such actor."""
        if name.startswith("broker-"):
            return int(name.removeprefix("broker-"))
        group, number = self._replica(name)
        host = group.hosts.get(number)
        return None if host is None or host.retired else group.node_of[number]

    def _arrive(self, name: str, method: str, args: Sequence[Any], answered: Callable[[Any], None]) -> None:
        node_id = self._node_of(name)
        if node_id is not None and self._tier.is_away(node_id):
            return
        if node_id is None:
            answered(ActorGoneError(f"there is no actor {name}"))
        elif name.startswith("broker-"):
            answered({"node_id": node_id, "problem": None})
        else:
            self._ask_replica(*self._replica(name), method, args, answered)

    def _ask_replica(
        self, group: Group, number: int, method: str, args: Sequence[Any], answered: Callable[[Any], None]
    ) -> None:
        host = group.hosts[number]
        process = host.process
        if process is not None:
            process.later(0.0, lambda: _do(group, process, method, args, answered))
        elif host.refused is not None and method == "status":
            answered({**_known(group, host), "problem": host.refused, "problem_kind": "JournalDamaged"})
        elif method == "stop":
            answered(None)
        else:
            answered(ActorGoneError("its process has ended, and is started again"))


def _known(group: Group, host: Host) -> dict[str, Any]:
    return {
        "replica": host.number,
        "node_id": group.node_of[host.number],
        "role": "starting",
        "serving": False,
        "problem": None,
        "problem_kind": None,
    }


def _do(
    group: Group, process: Process, method: str, args: Sequence[Any], answered: Callable[[Any], None]
) -> None:
    raft = process.raft
    if method == "status":
        replica: Any = SimpleNamespace(raft=raft, member_id=process.member_id)
        serving = raft.serving if group.name != CONTROLLER_GROUP else process.machine.serving
        answered({**_known(group, process.host), **ReplicaHost.health(replica), "serving": serving})
    elif method == "set_members":
        raft.set_target(args[0])
        process.wake()
        answered(None)
    elif method == "transfer":
        answered(_transfer(process, args[0] if args else None))
    else:
        assert method == "stop"
        if raft.is_leader:
            _transfer(process, None)
        group.after(CLOSE_S, lambda: _close(process, answered))


def _transfer(process: Process, to: int | None) -> bool:
    voters = [member.member_id for member in process.members if member.votes]
    found = next((each for each in voters if replica_of(each) == to), None)
    begun = (to is None or found is not None) and process.raft.transfer(found)
    process.wake()
    return bool(begun)


def _close(process: Process, answered: Callable[[Any], None]) -> None:
    if process.is_alive:
        process.host.guard(process.raft.close)
        process.host.stop(for_s=0.05)
    answered(None)
