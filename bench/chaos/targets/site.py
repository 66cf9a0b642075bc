"""A tier of ours under attack: who runs where, how they are hit, and whether the tier is whole.

It asks the actors through Ray, by handles that it keeps: a look takes milliseconds, and works while Ray's
GCS is frozen. One process has one site at a time, because it has one Ray.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import psutil

from actors import ray_host, runtime
from actors.ground.spec import CONTROLLER_GROUP, TierSpec
from actors.runtime import ActorCallError
from bench.chaos.targets import aims
from bench.chaos.targets.actor import Actor
from bench.chaos.targets.fault_file import FaultFile
from bench.chaos.targets.proxy import Proxy
from bench.chaos.targets.ray_nodes import RayNodes
from bench.chaos.targets.target import (
    WHOLE_TIMEOUT_S,
    NothingToHit,
    Server,
    Target,
    until,
)
from bench.ground.interrupts import stay_terminable
from cluster import lifecycle, tier_file
from cluster.cli.screen import summary
from cluster.repair import Status, leader_of
from cluster.tier_actors import TierActor, actors_of

LOOK_TIMEOUT_S: Final = 1.0
"""An actor that does not answer within this time is frozen, starting or gone."""
CALL_TIMEOUT_S: Final = 10.0
BACK_TIMEOUT_S: Final = 60.0
NODE_TIMEOUT_S: Final = 120.0


class Equipment(NamedTuple):
    """What a tier of its own was given so that more faults can hit it."""

    fault_file: FaultFile
    """Where the replicas read which messages and writes are to fail."""
    proxy: Proxy
    """The proxy that stands before the nodes."""
    ray_nodes: RayNodes | None
    """Each node of the tier is in a Ray node of its own."""
    small_disk: Path | None
    """A file system of which the data directory is the only user."""


class Site(Target):
    """A tier of ours under attack. Made by `bench.chaos.targets.sites`."""

    term_grace_s = 5.0  # an actor of Ray that is asked to end while it is called may linger for ever

    def __init__(self, data_dir: Path, equipment: Equipment | None = None) -> None:
        """Attaches to the tier that runs in `data_dir`. `equipment` is what the tier has if it was started
        for the attack; None: it is somebody else's tier. Raises TierError."""
        self.data_dir = data_dir
        tier, running = tier_file.require_running(data_dir)
        self._ray_environment = _ray_environment()
        lifecycle.attach_to(data_dir, tier, running)
        stay_terminable()
        self.bootstrap = ",".join(f"{node.host}:{node.clients_port}" for node in tier.nodes)
        self.software = f"groupd {version('groupd')}"
        self.namespace = tier.namespace
        self.driver_pid = running.pid
        """The process that keeps the tier; None: the tier lives in a Ray cluster of its own."""
        self._equipment = equipment
        self._handles: dict[str, runtime.Handle] = {}
        self._guard = threading.Lock()
        self.gcs_is_deaf = False
        """While this is set no actor is looked up by its name: that would wait for Ray's GCS."""

    @property
    def has(self) -> frozenset[str]:
        there = {
            "replicas": True,
            "own": self._equipment is not None,
            "injection": self._equipment is not None,
            "proxy": self._equipment is not None,
            "ray-nodes": self._ray_nodes is not None,
            "tmpfs": self.small_disk is not None,
        }
        return frozenset(name for name, is_there in there.items() if is_there)

    @property
    def fault_file(self) -> FaultFile:
        assert self._equipment is not None, "the fault needs injection"
        return self._equipment.fault_file

    @property
    def proxy(self) -> Proxy:
        assert self._equipment is not None, "the fault needs a proxy"
        return self._equipment.proxy

    @property
    def ray_nodes(self) -> RayNodes:
        assert self._ray_nodes is not None, "the fault needs Ray nodes"
        return self._ray_nodes

    @property
    def small_disk(self) -> Path | None:
        """A file system of which the data directory is the only user."""
        return None if self._equipment is None else self._equipment.small_disk

    @property
    def _ray_nodes(self) -> RayNodes | None:
        return None if self._equipment is None else self._equipment.ray_nodes

    def close(self) -> None:
        """Let go of the tier, which runs on."""
        ray_host.shutdown()
        # Attaching sets variables, the way to this Ray's token among them: nothing for the next one.
        for name in _ray_environment():
            del os.environ[name]
        os.environ.update(self._ray_environment)

    # Looking.

    @property
    def spec(self) -> TierSpec:
        """The actors that the tier should have now, and where."""
        tier, running = tier_file.require_running(self.data_dir)
        return lifecycle.spec_of(tier, self.data_dir, running)

    def statuses(self, timeout_s: float = LOOK_TIMEOUT_S) -> dict[str, Status]:
        """The status of every actor, by name; {"dead": why} for one that does not answer."""
        return self._ask(actors_of(self.spec), timeout_s)

    def actors(self) -> list[Actor]:
        """The actors that answer now; each group's leader is marked."""
        actors = actors_of(self.spec)
        statuses = self._ask(actors, LOOK_TIMEOUT_S)
        groups = {actor.group for actor in actors if actor.group is not None}
        leaders = {
            group: leader_of(statuses[actor.name] for actor in actors if actor.group == group)
            for group in groups
        }
        return [
            _actor(actor, statuses[actor.name], leaders.get(actor.group or ""))
            for actor in actors
            if statuses[actor.name].get("pid")
        ]

    def replicas(self) -> list[Actor]:
        """The replicas of the offsets partitions."""
        return [actor for actor in self.actors() if actor.group not in (None, CONTROLLER_GROUP)]

    def copies(self, group: str) -> list[Actor]:
        """The replicas of one group that answer, its leader first."""
        found = [actor for actor in self.actors() if actor.group == group]
        return sorted(found, key=lambda actor: not actor.leads)

    def leader(self, group: str) -> Actor | None:
        return next((actor for actor in self.copies(group) if actor.leads), None)

    def is_whole(self) -> bool:
        """Whether each group has its leader and all its members, nobody complains (as `groupd status`
        asks), and no actor is frozen."""
        return bool(self.summary()["healthy"])

    def wait_until_whole(self, timeout_s: float = WHOLE_TIMEOUT_S) -> float:
        """Wait as every target does, and then until each replica holds what its group has committed by now: a
        replica may be there, vote, and get nothing any more."""
        began = time.monotonic()
        left_s = timeout_s - super().wait_until_whole(timeout_s)
        ends = self._commit_indexes()
        try:
            until(lambda: not self._behind(ends), "every replica holds what was committed", left_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {', '.join(self._behind(ends))}") from None
        return time.monotonic() - began

    def _commit_indexes(self) -> dict[str, int]:
        """How far each group has committed, by the group's name."""
        statuses = self.statuses()
        ends: dict[str, int] = {}
        for actor in actors_of(self.spec):
            if actor.group is not None:
                index = statuses[actor.name].get("commit_index", 0)
                ends[actor.group] = max(index, ends.get(actor.group, 0))
        return ends

    def _behind(self, ends: Mapping[str, int]) -> list[str]:
        """The replicas that do not hold, or do not tell that they hold, what their groups had committed."""
        statuses = self.statuses()
        return [
            actor.name
            for actor in actors_of(self.spec)
            if actor.group is not None
            and statuses[actor.name].get("last_index", -1) < ends.get(actor.group, 0)
        ]

    def summary(self) -> dict[str, Any]:
        """What `groupd status --json` prints."""
        tier, _ = tier_file.require_running(self.data_dir)
        return summary(tier, self.data_dir, self.statuses())

    def complaints(self) -> str:
        shown = self.summary()
        said = [f"broker {node['node_id']}: {node['problem']}" for node in shown["nodes"] if node["problem"]]
        groups = [(CONTROLLER_GROUP, shown["controller"])]
        groups += [(f"partition {each['partition']}", each) for each in shown["partitions"]]
        for name, group in groups:
            if group["leader_node"] is None:
                said.append(f"{name} has no leader")
            for replica in group["replicas"]:
                if words := replica["problem"] or replica["note"]:
                    said.append(f"{name}, replica {replica['replica']}: {words}")
        return "; ".join(said) or "nobody complains"

    # Hitting.

    @property
    def nodes(self) -> list[int]:
        return [node.node_id for node in self.spec.nodes]

    def find(self, whom: str, chance: Random) -> Sequence[Server]:
        return aims.AIMS[whom](self, chance)

    def bring_back(self, ended: Sequence[Server]) -> None:
        """Nothing has to be done: Ray starts ended actors anew."""

    def restart(self, node: int) -> None:
        before = {actor.name: actor.pid for actor in self.actors() if actor.node_id == node}
        for name in before:
            with suppress(ActorCallError, TimeoutError, NothingToHit):
                self.call(name, "stop", timeout_s=CALL_TIMEOUT_S)
            with suppress(NothingToHit):
                self.ray_kill(name, no_restart=False)

        def is_back() -> bool:
            now = {actor.name: actor.pid for actor in self.actors()}
            return all(now.get(name, pid) != pid for name, pid in before.items())

        until(is_back, f"the actors of node {node} are started anew", BACK_TIMEOUT_S)
        self.wait_until_whole(NODE_TIMEOUT_S)

    def call(self, name: str, method: str, *args: Any, timeout_s: float) -> Any:
        """Call an actor by its name. Raises NothingToHit if there is none, ActorCallError, TimeoutError."""
        return runtime.await_call(self._handle(name), method, *args, timeout_s=timeout_s)

    def ray_kill(self, name: str, *, no_restart: bool) -> None:
        """End an actor as Ray does. Raises NothingToHit."""
        runtime.kill(self._handle(name), no_restart=no_restart)

    def gcs(self) -> psutil.Process:
        """The process of Ray's GCS, the directory of actors. Raises NothingToHit if it was not started for
        this tier."""
        found: list[psutil.Process] = []
        if self._ray_nodes is not None:
            found = self._ray_nodes.head_processes()
        elif self.driver_pid is not None:
            found = psutil.Process(self.driver_pid).children(recursive=True)
        for each in found:
            with suppress(psutil.NoSuchProcess):
                if each.name() == "gcs_server":
                    return each
        raise NothingToHit("Ray's GCS is not the tier's own")

    def _handle(self, name: str) -> runtime.Handle:
        with self._guard:
            if name not in self._handles:
                handle = None if self.gcs_is_deaf else runtime.find(name, self.namespace)
                if handle is None:
                    raise NothingToHit(f"there is no actor {name}")
                self._handles[name] = handle
            return self._handles[name]

    def _ask(self, actors: list[TierActor], timeout_s: float) -> dict[str, Status]:
        """Ask all actors at once. An actor that was made anew under its name has another handle."""
        refs: dict[str, runtime.Ref] = {}
        for actor in actors:
            with suppress(NothingToHit):
                refs[actor.name] = runtime.submit(self._handle(actor.name), "status")
        deadline = time.monotonic() + timeout_s
        statuses: dict[str, Status] = {actor.name: {"dead": "there is no such actor"} for actor in actors}
        for name, ref in refs.items():
            try:
                statuses[name] = runtime.result(ref, max(deadline - time.monotonic(), 0.001))
            except (ActorCallError, TimeoutError) as error:
                statuses[name] = {"dead": str(error)}
                if not isinstance(error, TimeoutError):
                    with self._guard:
                        self._handles.pop(name, None)
        return statuses


def _ray_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_")}


def _actor(actor: TierActor, status: Status, leader: Status | None) -> Actor:
    return Actor(
        actor.name,
        actor.group,
        actor.replica_id,
        actor.node_id,
        status["pid"],
        leads=leader is status,
        is_up=not status.get("problem") and (actor.group is None or bool(status.get("member_id"))),
    )


def tier_of(target: Target) -> Site:
    """Narrow a target to a tier of ours, for faults that only a tier can have."""
    assert isinstance(target, Site), "the fault needs replicas"
    return target
