"""Faults of Ray itself: its kill, the loss of a whole node, a GCS that does not answer."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import psutil

from bench.chaos.faults.processes import thaw
from bench.chaos.targets import aims
from bench.chaos.targets.aims import Aim
from bench.chaos.targets.fault import SAFE, FaultKind, Injury
from bench.chaos.targets.site import Site, tier_of
from bench.chaos.targets.target import Target, send

NOTICED_S: Final = 3.0
"""The time after a thaw until a node that was taken for dead has heard of it, and ended."""


@dataclass(slots=True, kw_only=True)
class RayKill:
    """Kill an actor by `ray.kill`. If Ray may not restart it, the tier itself has to make it again."""

    name: str
    about: str
    aim: Aim
    no_restart: bool
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"replicas"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        [hit] = self.aim(site, chance)
        site.ray_kill(hit.name, no_restart=self.no_restart)
        return Injury(hit.label, lambda: None, killed=1)


@dataclass(slots=True, kw_only=True)
class KillRayNode:
    """Kill all processes of a Ray node at once, as when a machine loses power. The fault ends when the node
    is back."""

    name: str = "kill-ray-node"
    about: str = "A whole Ray node with all its actors is killed, and comes back."
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"ray-nodes"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        node = chance.choice(site.ray_nodes.others)
        killed = len(site.ray_nodes.processes(node))
        site.ray_nodes.kill(node)
        return Injury(f"Ray node {node}", partial(site.ray_nodes.start, node), killed=killed)


@dataclass(slots=True, kw_only=True)
class FreezeRayNode:
    """Freeze all processes of a Ray node, as when a machine hangs."""

    name: str = "freeze-ray-node"
    about: str = "A whole Ray node with all its actors stands still for a while."
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"ray-nodes"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        node = chance.choice(site.ray_nodes.others)
        processes = site.ray_nodes.processes(node)
        for each in processes:
            send(each, signal.SIGSTOP)
        return Injury(f"Ray node {node}", partial(_wake_node, site, node, processes), silences=True)


def _wake_node(site: Site, node: str, processes: list[psutil.Process]) -> None:
    thaw(processes)
    psutil.wait_procs(processes, NOTICED_S)
    if not all(each.is_running() for each in site.ray_nodes.processes(node)[:1]):
        site.ray_nodes.kill(node)
        site.ray_nodes.start(node)


@dataclass(slots=True, kw_only=True)
class FreezeGcs:
    """Freeze Ray's GCS: the data path must not need it. It is not killed, because a tier with a Ray of its
    own ends with its GCS."""

    name: str = "freeze-gcs"
    about: str = "Ray's GCS does not answer for a while: nobody is found or started anew."
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"own"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        gcs = site.gcs()
        site.actors()  # the site learns the handles of actors that were made anew
        site.gcs_is_deaf = True
        send(gcs, signal.SIGSTOP)
        return Injury("Ray's GCS", partial(_wake_gcs, site, gcs))


def _wake_gcs(site: Site, gcs: psutil.Process) -> None:
    send(gcs, signal.SIGCONT)
    site.gcs_is_deaf = False


KINDS: tuple[FaultKind, ...] = (
    RayKill(
        name="ray-kill",
        about="ray.kill of a leader, which Ray starts anew.",
        aim=aims.leader,
        no_restart=False,
    ),
    RayKill(
        name="ray-kill-for-good",
        about="ray.kill(no_restart=True) of a replica, which the controller has to make again.",
        aim=aims.replica,
        no_restart=True,
    ),
    KillRayNode(),
    FreezeRayNode(),
    FreezeGcs(),
)
