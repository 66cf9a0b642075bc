"""One tier: planned from settings, started, waited for, watched, stopped.

A `Tier` is what the process that runs `groupd up` holds. Ray comes first, then all actors at once (each is
a process and takes a third of a second of CPU to come up), then their first leaders. Stopping goes the
other way: controllers first, so that nobody brings back what is being stopped.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors import runtime
from actors.runtime import ActorCallError
from actors.spec import NodeSpec, TierSpec
from cluster import placement, tier_file
from cluster.actor_plan import actors_of, create_actor, make_run_dir, remove_run_dirs
from cluster.reconcile import settle_leaders
from cluster.settings import Settings
from cluster.tier_file import Running, TierError, TierFile

RECONCILER = "cluster.reconcile:step"
START_TIMEOUT_S = 120.0
"""Of all actors and their first leaders; a laptop under load needs half a minute."""
STOP_TIMEOUT_S = 5.0
STATUS_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.1
STALE_WAIT_S = 5.0
"""Actors of a killed tier notice within two seconds that their Ray is gone."""

Status = dict[str, Any]
Progress = Callable[[str, int, int], None]
"""Called with what is being waited for, how many are there, and how many there will be."""
Interrupted = Callable[[], bool]


class StartInterruptedError(Exception):
    """Somebody asked to stop before the tier was ready."""


def plan_nodes(settings: Settings, machines: Sequence[runtime.RayNode]) -> tuple[NodeSpec, ...]:
    """Nodes from settings: on this machine if `machines` is empty, else spread over a Ray cluster's.

    Nodes that share an address take ports one after the other.
    """
    racks = settings["racks"]
    used: dict[str, int] = {}
    nodes = []
    for index in range(settings["nodes"]):
        machine = machines[index % len(machines)] if machines else None
        host = settings["host"] if machine is None else machine.host
        port = settings["port"] + used.setdefault(host, 0)
        used[host] += 1
        nodes.append(
            NodeSpec(
                node_id=index + 1,
                host=host,
                port=port,
                rack=racks[index] if racks else None,
                ray_node=None if machine is None else machine.ray_node,
            )
        )
    return tuple(nodes)


def plan_tier(
    settings: Settings, existing: TierFile | None, nodes: tuple[NodeSpec, ...], tier_id: str
) -> TierFile:
    """What tier.json should say: a new tier, or the existing one at the addresses wanted now."""
    if existing is not None:
        return replace(existing, nodes=nodes)
    places = [placement.Place(node.node_id, node.rack) for node in nodes]
    replicas = settings["offsets.topic.replication.factor"]
    return TierFile(
        tier_id=tier_id,
        nodes=nodes,
        placement=placement.spread(places, settings["offsets.topic.num.partitions"], replicas),
        controllers=placement.controllers(places, replicas),
        ray_address=settings["ray.address"],
    )


class Tier:
    """A tier that this process starts and stops. `kinds` names the actors' classes."""

    def __init__(self, spec: TierSpec, kinds: Mapping[str, str] = runtime.KINDS) -> None:
        self.spec = spec
        self.plans = actors_of(spec)
        self._kinds = kinds
        self._starting: dict[runtime.Ref, str] = {}
        """Names of the actors that did not finish their start, by the call that waits for it."""

    def start(self, progress: Progress, interrupted: Interrupted) -> None:
        """Make all actors and wait until clients can be served.

        Raises TierError with the first actor's own words, StartInterruptedError.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in self.spec.nodes:
            try:
                make_run_dir(self.spec, node.node_id)
            except (ActorCallError, TimeoutError) as error:
                raise TierError(f"{self.spec.run_dir} on {node.host} cannot be made: {error}") from None
        self._check(deadline, interrupted, lambda: "Ray")
        for plan in self.plans:
            handle = create_actor(self.spec, plan, self._kinds)
            self._starting[runtime.submit(handle, "start")] = plan.name
        total = len(self.plans)
        while self._starting:
            progress("actors", total - len(self._starting), total)
            self._check(deadline, interrupted, lambda: ", ".join(self._starting.values()))
            for ref in runtime.finished(list(self._starting), POLL_INTERVAL_S):
                name = self._starting.pop(ref)
                try:
                    runtime.result(ref, STATUS_TIMEOUT_S)
                except (ActorCallError, TimeoutError) as error:
                    raise TierError(f"{name} did not start: {error}") from None
        progress("actors", total, total)
        self._wait_for_leaders(deadline, progress, interrupted)
        if self._kinds is runtime.KINDS and asyncio.run(settle_leaders(self.spec)):
            self._wait_for_leaders(deadline, progress, interrupted)

    def _wait_for_leaders(self, deadline: float, progress: Progress, interrupted: Interrupted) -> None:
        total = len(self.spec.placement) + 1
        while True:
            missing = missing_leaders(self.spec, self.status())
            progress("leaders", total - len(missing), total)
            if not missing:
                return
            self._check(deadline, interrupted, lambda: "a leader of " + ", ".join(missing))  # noqa: B023
            time.sleep(POLL_INTERVAL_S)

    def _check(self, deadline: float, interrupted: Interrupted, waiting_for: Callable[[], str]) -> None:
        if interrupted():
            raise StartInterruptedError
        problem = runtime.local_problem()
        if problem is not None:
            raise TierError(problem)
        if time.monotonic() > deadline:
            raise TierError(f"after {START_TIMEOUT_S:.0f} s the tier still waits for {waiting_for()}")

    def status(self) -> dict[str, Status]:
        """What every actor says of itself, by name; {"dead": why} of those that do not answer."""
        return gather_status(self.spec.namespace, [plan.name for plan in self.plans])

    def stop(self, progress: Progress = lambda *_: None) -> None:
        """Stop every actor in order, then kill what is left. Never raises for an actor's sake."""
        namespace = self.spec.namespace
        names = [plan.name for plan in self.plans]
        groups = [
            [name for name in names if name.startswith("controller-")],
            [name for name in names if not name.startswith("controller-")],
        ]
        done = 0
        for group in groups:
            handles = {name: handle for name in group if (handle := _find(name, namespace)) is not None}
            # Nobody is served yet by one that is still starting, and it would answer late.
            started = {name: handles[name] for name in handles.keys() - self._starting.values()}
            _ask_all(started, "stop", STOP_TIMEOUT_S)
            for handle in handles.values():
                runtime.kill(handle)
            done += len(group)
            progress("actors stopped", done, len(names))
        for name in _left(namespace):
            handle = _find(name, namespace)
            if handle is not None:
                runtime.kill(handle)
        remove_run_dirs(self.spec)


def missing_leaders(spec: TierSpec, statuses: Mapping[str, Status]) -> list[str]:
    """Raft groups that serve nobody yet, by name."""
    serving = {status.get("partition") for status in statuses.values() if status.get("serving")}
    missing = [
        f"partition {partition}" for partition in range(len(spec.placement)) if partition not in serving
    ]
    controllers = [status for name, status in statuses.items() if name.startswith("controller-")]
    if not any(status.get("serving", status.get("role") == "leader") for status in controllers):
        missing.append("the controller")
    return missing


def gather_status(namespace: str, names: Sequence[str]) -> dict[str, Status]:
    """Ask all at once; {"dead": why} stands for an actor that is gone or does not answer in time."""
    statuses: dict[str, Status] = {}
    handles: dict[str, runtime.Handle] = {}
    for name in names:
        handle = _find(name, namespace)
        if handle is None:
            statuses[name] = {"dead": "there is no such actor"}
        else:
            handles[name] = handle
    statuses |= {
        name: answer if isinstance(answer, dict) else {"dead": str(answer)}
        for name, answer in _ask_all(handles, "status", STATUS_TIMEOUT_S).items()
    }
    return {name: statuses[name] for name in names}


def _ask_all(handles: Mapping[str, runtime.Handle], method: str, timeout_s: float) -> dict[str, Any]:
    """Results by name, an exception in place of one that could not be had; all within one time-out."""
    refs = {name: runtime.submit(handle, method) for name, handle in handles.items()}
    deadline = time.monotonic() + timeout_s
    answers: dict[str, Any] = {}
    for name, ref in refs.items():
        try:
            answers[name] = runtime.result(ref, max(deadline - time.monotonic(), 0.001))
        except (ActorCallError, TimeoutError) as error:
            answers[name] = error
    return answers


def _find(name: str, namespace: str) -> runtime.Handle | None:
    try:
        return runtime.find(name, namespace)
    except Exception:
        return None  # Ray itself is gone, and its actors with it


def _left(namespace: str) -> list[str]:
    try:
        return sorted(runtime.list_actors(namespace))
    except Exception:
        return []


def make_spec(tier: TierFile, settings: Settings, data_dir: Path, run_dir: Path) -> TierSpec:
    """What the actors are told."""
    on_machines = bool(tier.ray_address)
    return TierSpec(
        tier_id=tier.tier_id,
        secret=tier_file.secret(data_dir, "secret")[1],
        data_dir=str(data_dir.resolve()),
        run_dir=str(run_dir),
        nodes=tier.nodes,
        placement=tier.placement,
        controllers=tier.controllers,
        raft_port_base=settings["raft.port"] if on_machines else None,
        formed=tier.formed and not settings["accept.loss"],
        reconciler=RECONCILER,
        groups=settings.groups,
        raft=settings.raft,
        broker=settings.broker,
    )


def new_run_dir(tier_id: str, *, on_machines: bool) -> Path:
    """For sockets and Ray's session; in a Ray cluster it must have the same name on every machine."""
    if on_machines:
        return Path(tempfile.gettempdir()) / f"groupd-{tier_id[:8]}"
    # The system's temporary directory may be long (macOS), and a socket's path has at most 107 bytes.
    return Path(tempfile.mkdtemp(prefix="groupd-", dir="/tmp"))


def clear_stale(data_dir: Path, tier: TierFile) -> None:
    """Put away what a killed tier left: its run directory; wait for its last actors to notice."""
    if tier.running is None or tier.ray_address:
        return
    deadline = time.monotonic() + STALE_WAIT_S
    while time.monotonic() < deadline:
        try:
            tier_file.check_ports_free([(node.host, node.port) for node in tier.nodes])
            break
        except TierError:
            time.sleep(POLL_INTERVAL_S)
    shutil.rmtree(tier.running.run_dir, ignore_errors=True)
    tier_file.stopped(data_dir)


def bootstrap_of(nodes: Sequence[NodeSpec]) -> str:
    return ",".join(f"{node.host}:{node.port}" for node in nodes)


def running_here(spec: TierSpec, address: str, *, pid: int) -> Running:
    """The part of tier.json that says where the tier runs, while it starts."""
    import psutil

    return Running(
        pid=pid,
        pid_started_at=psutil.Process(pid).create_time(),
        bootstrap=bootstrap_of(spec.nodes),
        ray_address=address,
        ray_is_ours=spec.nodes[0].ray_node is None,
        run_dir=spec.run_dir,
        ready=False,
    )
