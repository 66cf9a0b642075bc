"""Lay one tier out by its settings, start it, wait for it, watch it and stop it.

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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors import ray_host, runtime
from actors.ground.spec import NodeSpec, TierSpec, controller_of, copies
from actors.metadata.replicas import is_formed
from actors.runtime import ActorCallError
from cluster import administrator, placement, tier_file, upstream_login
from cluster.balance import founded
from cluster.leaders_return import return_leaders_at_start
from cluster.repair import can_lead, is_newcomer
from cluster.settings import Settings
from cluster.tier_actors import TierActor, actors_of, create_actor, make_run_dir, on_node, remove_run_dirs
from cluster.tier_file import Running, TierError, TierFile

RECONCILER = "cluster.reconcile:Reconciler"
START_TIMEOUT_S = 120.0
"""How long, in seconds, all actors and their first leaders may take to start; a laptop under load needs half
a minute."""
STOP_TIMEOUT_S = 5.0
STATUS_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.1
STALE_WAIT_S = 5.0
"""How long, in seconds, a killed tier's actors are waited for, which notice within two seconds that their Ray
is gone."""

NO_MAJORITY = (
    "what they acknowledged cannot be had from a minority: restore the directories, or `groupd restore` a "
    "backup into a new tier, or go on with what is left: --set accept.loss=true"
)

Status = dict[str, Any]
Progress = Callable[[str, int, int], None]
"""A function that is called with what is being waited for, how many are there, and how many there will be."""
Interrupted = Callable[[], bool]


class StartInterruptedError(Exception):
    """Raised if somebody asked to stop before the tier was ready."""


def plan_tier(
    settings: Settings, existing: TierFile | None, nodes: tuple[NodeSpec, ...], tier_id: str
) -> TierFile:
    """Return what tier.json should say: a new tier, or the existing one at the addresses wanted now."""
    history_dir = settings["history.dir"]
    if history_dir and "://" not in history_dir:
        history_dir = str(Path(history_dir).resolve())
    if existing is not None:
        upstream = settings.upstream or existing.upstream
        return replace(existing, nodes=nodes, history_dir=history_dir, upstream=upstream)
    places = [placement.Place(node.node_id, node.rack) for node in nodes]
    replicas = settings["offsets.topic.replication.factor"]
    rows = placement.spread(places, settings["offsets.topic.num.partitions"], replicas)
    return TierFile(
        tier_id=tier_id,
        nodes=nodes,
        placement=founded(places, rows),
        controllers=copies(placement.controllers(places, replicas)),
        ray_address=settings["ray.address"],
        history_dir=history_dir,
        started_partitions=len(rows),
        upstream=settings.upstream,
    )


class Tier:
    """A tier that this process starts and stops. `kinds` names the actors' classes."""

    def __init__(
        self,
        spec: TierSpec,
        kinds: Mapping[str, str] = runtime.KINDS,
        *,
        accept_loss: bool = False,
        absent: frozenset[int] = frozenset(),
    ) -> None:
        """Take the tier of `spec`. With `accept_loss`, a group whose majority is gone goes on with what is
        left. The actors of the nodes in `absent` are not started: their machines do not answer."""
        self.spec = spec
        self._accept_loss = accept_loss
        self._alone: set[str] = set()
        """The groups that go on with what one replica has."""
        self._absent = absent
        self.actors = [actor for actor in actors_of(spec) if actor.node_id not in absent]
        self._kinds = kinds
        self.warnings = [
            f"node {node_id} is not started: its machine {spec.node(node_id).machine} does not answer"
            for node_id in sorted(absent)
        ]
        """What went wrong at the start and did not stop it, in words."""
        self._starting: dict[runtime.Ref, str] = {}
        """Call that waits for an actor's start -> the actor's name, while the start is not finished."""
        self._failed: dict[str, str] = {}
        """Name of a replica that did not come up -> why."""
        self._empty: list[TierActor] = []
        """The replicas whose directories this start made for nothing: the lost ones may be brought back."""

    def start(self, progress: Progress, interrupted: Interrupted) -> None:
        """Make all actors and wait until clients can be served. A replica that does not come up is no
        obstacle while its group can have a majority without it: see `warnings`.

        Raises TierError with the first actor's own words, StartInterruptedError.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in self.spec.nodes:
            if node.node_id in self._absent:
                continue
            try:
                make_run_dir(self.spec, node.node_id)
            except (ActorCallError, TimeoutError) as error:
                raise TierError(f"{self.spec.run_dir} on {node.host} cannot be made: {error}") from None
        self._check(deadline, interrupted, lambda: "Ray")
        for actor in self.actors:
            self._starting[runtime.submit(self._make(actor), "start")] = actor.name
        total = len(self.actors)
        while self._starting:
            progress("actors", total - len(self._starting), total)
            self._check(deadline, interrupted, lambda: ", ".join(self._starting.values()))
            for ref in runtime.finished(list(self._starting), POLL_INTERVAL_S):
                name = self._starting.pop(ref)
                actor = next(actor for actor in self.actors if actor.name == name)
                try:
                    runtime.result(ref, STATUS_TIMEOUT_S)
                except (ActorCallError, TimeoutError) as error:
                    if actor.group is None:
                        raise TierError(f"{name} did not start: {error}") from None
                    self._failed[name] = str(error)
                if actor.group is not None:
                    self._check_group(actor.group)
        progress("actors", total, total)
        self._wait_for_leaders(deadline, progress, interrupted)
        if self._kinds is runtime.KINDS and asyncio.run(return_leaders_at_start(self.spec)):
            self._wait_for_leaders(deadline, progress, interrupted)

    def _make(self, actor: TierActor) -> runtime.Handle:
        try:
            spec = self.spec._replace(formed=is_formed(self.spec, actor.group))
            return create_actor(spec, actor, self._kinds)
        except ValueError:  # the controller's leader was faster
            return runtime.find(actor.name, self.spec.namespace)

    def _check_group(self, group: str) -> None:
        """Check, once all replicas of a group have tried to start, that it can have a majority. Raises
        TierError."""
        actors = [actor for actor in self.actors if actor.group == group]
        names = [actor.name for actor in actors]
        if not set(names).isdisjoint(self._starting.values()):
            return
        problems = [f"{name} did not start: {self._failed[name]}" for name in names if name in self._failed]
        started = [actor for actor in actors if actor.name not in self._failed]
        statuses = gather_status(self.spec.namespace, [actor.name for actor in started])
        newcomers = [actor for actor in started if is_newcomer(statuses[actor.name])]
        for actor in newcomers:
            directory = self.spec.directory(group, actor.replica_id, actor.node_id)
            problems.append(f"{actor.name} begins anew: {directory} holds no journal")
        if can_lead(statuses.values()):
            self.warnings += [f"{problem}; its peers build it anew" for problem in problems]
        elif self._accept_loss and started and group not in self._alone:
            # An entry that a majority had, and that any of these replicas has, is in the log that is furthest
            # (Raft, section 5.4.1).
            furthest = max(started, key=lambda actor: _log_end(statuses[actor.name]))
            self.warnings.append(f"{group} had no majority left: {furthest.name} goes on with what it has")
            self._alone.add(group)
            self._make_alone(furthest, group)
        else:
            self._empty = newcomers
            first = problems[0] if problems else f"{', '.join(names)} do not agree who belongs to it"
            raise TierError(f"{group} has no majority: {first} ({len(names)} replicas; {NO_MAJORITY})")

    def _make_alone(self, actor: TierActor, group: str) -> None:
        spec = self.spec._replace(alone=(group, actor.replica_id))
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            handle = _find(actor.name, spec.namespace)
            if handle is not None:
                _ask_all({actor.name: handle}, "stop", STOP_TIMEOUT_S)
                runtime.kill(handle)
            try:
                handle = create_actor(spec, actor, self._kinds)
                break
            except ValueError:  # it has not ended yet, or the controller's leader was faster
                if time.monotonic() > deadline:
                    raise TierError(f"{actor.name} does not end") from None
                time.sleep(POLL_INTERVAL_S)
        self._starting[runtime.submit(handle, "start")] = actor.name

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
        problem = ray_host.local_problem()
        if problem is not None:
            raise TierError(problem)
        if time.monotonic() > deadline:
            raise TierError(f"after {START_TIMEOUT_S:.0f} s the tier still waits for {waiting_for()}")

    def status(self) -> dict[str, Status]:
        """Return what every actor says of itself, by name; {"dead": why} of those that do not answer."""
        return gather_status(self.spec.namespace, [actor.name for actor in self.actors])

    def stop(self, progress: Progress = lambda *_: None) -> None:
        """Stop every actor in order, then kill what is left. Never raises because of an actor."""
        namespace = self.spec.namespace
        names = _left(namespace)
        groups = [
            [name for name in names if controller_of(name) is not None],
            [name for name in names if controller_of(name) is None],
        ]
        done = 0
        for group in groups:
            handles = {name: handle for name in group if (handle := _find(name, namespace)) is not None}
            # An actor that is still starting serves nobody yet, and it would answer late.
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
        for actor in self._empty:
            assert actor.group is not None
            directory = self.spec.directory(actor.group, actor.replica_id, actor.node_id)
            with suppress(ActorCallError, TimeoutError):
                on_node(self.spec, actor.node_id, shutil.rmtree, directory, True)
        remove_run_dirs(self.spec)


def _log_end(status: Status) -> tuple[int, int]:
    return status.get("last_term", -1), status.get("last_index", -1)


def missing_leaders(spec: TierSpec, statuses: Mapping[str, Status]) -> list[str]:
    """Return the Raft groups that serve nobody yet, by name."""
    serving = {status.get("partition") for status in statuses.values() if status.get("serving")}
    missing = [
        f"partition {partition}" for partition in range(len(spec.placement)) if partition not in serving
    ]
    controllers = [status for name, status in statuses.items() if controller_of(name) is not None]
    if not any(status.get("serving", status.get("role") == "leader") for status in controllers):
        missing.append("the controller")
    return missing


def gather_status(namespace: str, names: Sequence[str]) -> dict[str, Status]:
    """Ask all actors at once for their status; {"dead": why} stands for one that is gone or does not answer
    in time."""
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
    """Return results by name, an exception in place of one that could not be had; all within one time-out."""
    refs = {name: runtime.submit(handle, method, timeout_s=timeout_s) for name, handle in handles.items()}
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
    """Return what the actors are told, and keep what they are told secretly for the next start."""
    if tier.upstream is not None:
        upstream_login.keep(data_dir, tier.upstream)
    return TierSpec(
        tier_id=tier.tier_id,
        secret=tier_file.secret(data_dir, "secret")[1],
        admin_password=administrator.prepare(settings, data_dir),
        data_dir=str(data_dir.resolve()),
        run_dir=str(run_dir),
        nodes=tier.nodes,
        placement=tier.placement,
        controllers=tier.controllers,
        leaving=tier.leaving,
        unmoved=tier.unmoved,
        undropped=tier.undropped,
        raft_port_base=settings["raft.port"] if tier.spans_machines else None,
        started_partitions=tier.started_partitions,
        formed=tier.formed,
        reconciler=RECONCILER,
        replica_balance_enable=settings["replica.balance.enable"],
        replica_lost_timeout_ms=settings["replica.lost.timeout.ms"],
        groups=settings.groups,
        raft=settings.raft,
        broker=settings.broker,
        history=settings.history,
        upstream=tier.upstream,
    )


def new_run_dir(tier_id: str, *, on_machines: bool) -> Path:
    """Make the directory for sockets and Ray's session; it must have the same name on every machine."""
    if on_machines:
        return Path(tempfile.gettempdir()) / f"groupd-{tier_id[:8]}"
    # The system's temporary directory may be long (macOS), and a socket's path has at most 107 bytes.
    return Path(tempfile.mkdtemp(prefix="groupd-", dir="/tmp"))


def clear_stale(data_dir: Path, tier: TierFile) -> None:
    """Put away the run directory that a killed tier left, and wait for its last actors to notice."""
    if tier.running is None or tier.spans_machines:
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


def running_here(spec: TierSpec, address: str, *, pid: int) -> Running:
    """Return the part of tier.json that says where the tier runs, while it starts. `address` is Ray's, empty
    if each machine has one."""
    import psutil

    return Running(
        pid=pid,
        pid_started_at=psutil.Process(pid).create_time(),
        bootstrap=tier_file.bootstrap_of(spec.nodes),
        ray_address=address,
        ray_is_ours=spec.nodes[0].elsewhere is None,
        machines=tuple(dict.fromkeys(node.machine for node in spec.nodes if node.machine is not None)),
        run_dir=spec.run_dir,
        ready=False,
    )
