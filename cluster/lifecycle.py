"""Check, start, keep, stop and put away a tier: what `groupd up` and `groupd down` do, without the screen.

Whatever happens, leaving `run` leaves no process, no port and no temporary file behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType

from actors import ray_host, runtime
from actors.ground.calls import ActorCallError
from actors.ground.spec import CONTROLLER_GROUP, NodeSpec, TierSpec, partition_group
from cluster import child_process, machine_secret, ray_settings, saved_placements, tier_file
from cluster.machine_moves import moved_node
from cluster.node_plan import nodes_again, plan_nodes
from cluster.settings import Settings
from cluster.settings_table import SETTINGS
from cluster.tier import (
    Progress,
    Tier,
    clear_stale,
    make_spec,
    new_run_dir,
    plan_tier,
    running_here,
)
from cluster.tier_actors import MACHINE_TIMEOUT_S
from cluster.tier_file import LOG_NAME, Running, TierError, TierFile, hint

WATCH_INTERVAL_S = 0.5
DOWN_TIMEOUT_S = 40.0
DETACHED_START_TIMEOUT_S = 150.0
POLL_INTERVAL_S = 0.1
LOG_BYTES_MAX = 8 * 1024 * 1024
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """The wish that the tier stops, remembered when a signal comes; further signals change nothing."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def listen(self) -> None:
        """Take the signals. This is called again after Ray has started, because Ray puts its own handlers in
        place."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)

    def asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, timeout_s: float) -> bool:
        return self._asked.wait(timeout_s)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._asked.set()


def check(settings: Settings) -> tuple[Settings, TierFile | None]:
    """Check what can be checked before anything starts. Return the settings, with those that an existing
    directory fixes, and its tier.

    Raises TierError.
    """
    data_dir = Path(settings["data.dir"])
    tier_file.prepare(data_dir)
    existing = tier_file.read(data_dir)
    if existing is not None:
        given = {name: settings[name] for name in SETTINGS if settings.is_given(name)}
        tier_file.check_same_shape(data_dir, existing, given)
        settings = settings.changed(tier_file.shape(existing), f"file {data_dir / 'tier.json'}")
    return settings, existing


def run(
    settings: Settings,
    progress: Progress,
    ready: Callable[[Tier, TierFile], None],
    *,
    stay: bool = True,
    kinds: Mapping[str, str] = runtime.KINDS,
) -> None:
    """Start a tier, call `ready`, keep it until a signal comes, stop it.

    With `stay` false the tier is left behind in its Ray cluster. `kinds` names the actors' classes.
    Raises TierError, StartInterruptedError.
    """
    settings, _ = check(settings)
    data_dir = Path(settings["data.dir"]).resolve()
    stop = StopRequest()
    with tier_file.locked(data_dir):
        existing = tier_file.read(data_dir)
        if existing is not None:
            clear_stale(data_dir, existing)
            if settings["accept.loss"]:
                existing = tier_file.begin_anew(data_dir, existing)
        stop.listen()
        tier_id = tier_file.new_tier_id() if existing is None else existing.tier_id
        run_dir: Path | None = None
        tier: Tier | None = None
        left_behind = False
        try:
            run_dir = _run_dir(settings, existing, tier_id)
            runtime.preload(kinds)
            address = _connect(settings, tier_id, data_dir, run_dir)
            stop.listen()
            existing = _as_noted(settings, existing, data_dir)
            nodes, absent = _nodes(settings, existing)
            file = plan_tier(settings, existing, nodes, tier_id)
            spec = make_spec(file, settings, data_dir, run_dir)
            running = running_here(spec, address, pid=os.getpid())
            tier_file.write(data_dir, replace(file, running=running))
            tier = Tier(spec, kinds, accept_loss=settings["accept.loss"], absent=absent)
            tier.start(progress, stop.asked)
            running = replace(
                running, ready=True, pid=os.getpid() if stay else None, warnings=tuple(tier.warnings)
            )
            file = replace(file, running=running, formed=True)
            tier_file.write(data_dir, file)
            known = runtime.machines()
            if known is not None:
                known.form(spec.namespace)
            ready(tier, file)
            left_behind = not stay
            if stay:
                _keep(stop)
        finally:
            if not left_behind:
                _put_away(tier, run_dir, data_dir, progress)


def _run_dir(settings: Settings, existing: TierFile | None, tier_id: str) -> Path:
    """Return the directory of sockets and Ray's session; the ports are looked at before anything is made."""
    on_machines = bool(settings["ray.address"] or settings["machine.address"])
    if not on_machines:
        nodes = plan_nodes(settings, ()) if existing is None else nodes_again(settings, existing.nodes)
        tier_file.check_ports_free([(node.host, node.port) for node in nodes])
    return new_run_dir(tier_id, on_machines=on_machines)


def _as_noted(settings: Settings, existing: TierFile | None, data_dir: Path) -> TierFile | None:
    """Return the tier with its replicas where its machines know them to be. They forget that if a loss is
    accepted, as `tier_file.begin_anew` does here."""
    if existing is None:
        return None
    noted = saved_placements.newest(existing, data_dir)
    if settings["accept.loss"]:
        saved_placements.forget(data_dir)
        noted = replace(noted, placement_version=0)
    return noted


def _nodes(settings: Settings, existing: TierFile | None) -> tuple[tuple[NodeSpec, ...], frozenset[int]]:
    """Return the tier's nodes and where they are, and those that cannot be started now. On machines they stay
    where they were; one that does not answer is waited for only by a tier that is new, and by a group that
    has no majority without it. Raises TierError."""
    if not settings["machine.address"]:
        return _nodes_of_one_ray(settings, existing), frozenset()
    known = runtime.machines()
    assert known is not None, "the machines are asked by now"
    try:
        answers, moves = known.list_machines(), known.moves()
    except (ActorCallError, TimeoutError) as error:
        raise TierError(str(error) or f"{settings['machine.address']} does not answer") from None
    silent = sorted(machine for machine, answer in answers.items() if not answer)
    if existing is None and silent:
        raise TierError(
            f"machine {', '.join(silent)} does not answer: a tier begins with all of its machines"
        )
    if existing is None:
        return plan_nodes(settings, sorted(answers)), frozenset()
    # A machine may have got another address since this directory was written.
    nodes = tuple(moved_node(node, moves) for node in existing.nodes)
    absent = frozenset(node.node_id for node in nodes if not answers.get(node.machine or ""))
    if not settings["accept.loss"]:
        _check_majorities(replace(existing, nodes=nodes), absent)
    return nodes, absent


def _check_majorities(tier: TierFile, absent: frozenset[int]) -> None:
    """Check that every group has a majority without these nodes. Raises TierError."""
    for group in (CONTROLLER_GROUP, *map(partition_group, range(len(tier.placement)))):
        row = tier.row(group)
        if 2 * sum(copy.node_id in absent for copy in row) >= len(row):
            machines = sorted({str(node.machine) for node in tier.nodes if node.node_id in absent})
            raise TierError(
                f"machine {', '.join(machines)} does not answer, and {group} has no majority without it"
            )


def _nodes_of_one_ray(settings: Settings, existing: TierFile | None) -> tuple[NodeSpec, ...]:
    if settings["ray.address"]:
        planned = plan_nodes(settings, ray_host.ray_nodes())
        ids = [node.node_id for node in planned]
        has_changed = existing is not None and ids != [node.node_id for node in existing.nodes]
        return existing.nodes if existing is not None and has_changed else planned
    return plan_nodes(settings, ()) if existing is None else nodes_again(settings, existing.nodes)


def _connect(settings: Settings, tier_id: str, data_dir: Path, run_dir: Path) -> str:
    """Connect to a Ray, ours or the one named, and return its address. Raises TierError."""
    namespace = f"groupd-{tier_id}"
    if settings["machine.address"]:
        runtime.use_machines([settings["machine.address"]], _machine_secret(settings, data_dir))
        return ""
    try:
        if settings["ray.address"]:
            ray_host.attach(settings["ray.address"], namespace)
            if not settings["accept.ray.settings"]:
                _check_ray_settings(settings["ray.address"])
            return str(settings["ray.address"])
        token_path, _ = tier_file.secret(data_dir, "ray-token")
        return ray_host.start_local(namespace, run_dir, token_path=token_path)
    except (RuntimeError, ray_host.RayUnreachableError) as error:
        raise TierError(str(error)) from None


def _check_ray_settings(address: str) -> None:
    """Refuse a Ray cluster whose settings would kill the tier. Raises TierError that names them."""
    machines = {}
    for machine in ray_host.ray_nodes():
        try:
            told = runtime.run_on_machine(machine, ray_host.told_settings, (), MACHINE_TIMEOUT_S)
        except (ActorCallError, TimeoutError) as error:
            raise TierError(f"groupd cannot run on machine {machine} of the Ray cluster: {error}") from None
        machines[machine] = told | ray_host.cluster_settings()
    problems = ray_settings.problems(ray_host.ray_head(), machines)
    if problems:
        raise TierError(
            f"the Ray cluster at {address} would kill the tier: {'; '.join(problems)}. Ray takes them from "
            "the environment of `ray start`; --set accept.ray.settings=true takes the cluster as it is, and "
            "`groupd machine up` needs no such cluster"
        )


def _machine_secret(settings: Settings, data_dir: Path) -> str:
    """Return the machines' secret, and keep a copy for the commands that use this directory. Raises
    TierError."""
    machine_secret.take(data_dir, Path(settings["machine.secret"] or data_dir / machine_secret.NAME))
    return machine_secret.read(data_dir)


def _keep(stop: StopRequest) -> None:
    while not stop.wait(WATCH_INTERVAL_S):
        problem = ray_host.local_problem()
        if problem is not None:
            raise TierError(f"{problem}; the tier is stopped, its data is whole: start it again")


def _put_away(tier: Tier | None, run_dir: Path | None, data_dir: Path, progress: Progress) -> None:
    try:
        if tier is not None and ray_host.local_problem() is None:  # a dead Ray would be waited for
            tier.stop(progress)
    finally:
        ray_host.shutdown()
        if run_dir is not None:
            shutil.rmtree(run_dir, ignore_errors=True)
        tier_file.stopped(data_dir)


# Running in the background.


def run_detached(arguments: list[str], data_dir: Path) -> TierFile:
    """Start `groupd up` in a session of its own and wait until its tier is ready. Raises TierError."""
    with tier_file.locked(data_dir):
        pass
    log_path = data_dir / LOG_NAME
    mode = "ab" if log_path.exists() and log_path.stat().st_size < LOG_BYTES_MAX else "wb"
    with log_path.open(mode) as log:
        log_starts_at = log.tell()
        child = subprocess.Popen(
            child_process.python("cluster.cli", "up", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=child_process.environment(),
        )
    try:
        return _await_ready(child, data_dir, log_path, log_starts_at)
    except BaseException:
        child.terminate()
        child.wait(DOWN_TIMEOUT_S)
        raise


def _await_ready(
    child: subprocess.Popen[bytes], data_dir: Path, log_path: Path, log_starts_at: int
) -> TierFile:
    deadline = time.monotonic() + DETACHED_START_TIMEOUT_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            with log_path.open("rb") as log:
                log.seek(log_starts_at)
                said = log.read().decode(errors="replace").strip().splitlines()
            why = said[-1].removeprefix("groupd: ") if said else f"exit code {child.returncode}"
            raise TierError(f"{why} (more in {log_path})")
        tier = tier_file.read(data_dir)
        running = None if tier is None else tier.running
        if tier is not None and running is not None and running.ready and running.pid == child.pid:
            return tier
        time.sleep(POLL_INTERVAL_S)
    raise TierError(f"the tier was not ready within {DETACHED_START_TIMEOUT_S:.0f} s (more in {log_path})")


# Stopping from outside.


def down(data_dir: Path, progress: Progress) -> None:
    """Stop the tier of a directory and wait until it is gone. Raises TierError."""
    tier, running = tier_file.require_running(data_dir)
    if running.pid is None:
        attach_to(data_dir, tier, running)
        silent = _silent_machines(running)
        Tier(spec_of(tier, data_dir, running)).stop(progress)
        ray_host.shutdown()
        if silent:  # it would start its actors again, and nobody would stop them
            raise TierError(
                f"machine {', '.join(silent)} does not answer and may still run its part of the tier; the "
                f"rest is stopped: {hint('down', data_dir)} again when it answers"
            )
        tier_file.stopped(data_dir)
        return
    try:
        os.kill(running.pid, signal.SIGTERM)
    except PermissionError:
        raise TierError(f"process {running.pid} belongs to another user") from None
    deadline = time.monotonic() + DOWN_TIMEOUT_S
    while tier_file.is_alive(running):
        if time.monotonic() > deadline:
            raise TierError(f"process {running.pid} still runs after {DOWN_TIMEOUT_S:.0f} s")
        time.sleep(POLL_INTERVAL_S)


def _silent_machines(running: Running) -> list[str]:
    """Return the tier's machines that do not answer. Raises TierError if none does."""
    known = runtime.machines()
    if known is None:
        return []
    try:
        answers = known.list_machines()
    except (ActorCallError, TimeoutError) as error:
        raise TierError(f"none of the machines {', '.join(running.machines)} answers: {error}") from None
    return sorted(machine for machine in running.machines if not answers.get(machine))


def attach_to(data_dir: Path, tier: TierFile, running: Running) -> None:
    """Connect to the Ray in which the tier lives, or to its machines. Raises TierError."""
    if running.machines:
        runtime.use_machines(running.machines, machine_secret.read(data_dir))
        return
    token_path = (data_dir / "ray-token").resolve() if running.ray_is_ours else None
    try:
        ray_host.attach(running.ray_address, tier.namespace, token_path=token_path)
    except ray_host.RayUnreachableError as error:
        raise TierError(f"the tier in {data_dir} cannot be asked: {error}") from None


def spec_of(tier: TierFile, data_dir: Path, running: Running | None) -> TierSpec:
    """Return enough of a spec to name the actors; it carries no secret and makes none."""
    return TierSpec(
        tier_id=tier.tier_id,
        secret="",
        data_dir=str(data_dir),
        run_dir="" if running is None else running.run_dir,
        nodes=tier.nodes,
        placement=tier.placement,
        controllers=tier.controllers,
        leaving=tier.leaving,
        unmoved=tier.unmoved,
        undropped=tier.undropped,
        upstream=tier.upstream,
    )
