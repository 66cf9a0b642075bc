"""A tier of toy actors on a real Ray: started, seen, repaired, stopped, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors import ray_host, runtime
from actors.ground.spec import TierSpec
from actors.metadata.commands import ReportLeader
from cluster import lifecycle, tier_file
from cluster.ports import free_ports
from cluster.reconcile import LOOK_EVERY_STEPS, Reconciler
from cluster.tier_file import Running, TierFile
from tests.cluster.toys import KINDS
from tests.polling import until

pytestmark = pytest.mark.ray
ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


def test_a_tier_starts_is_seen_repaired_and_stopped_without_a_trace(tmp_path: Path) -> None:
    """The design's control path: start all, status from outside, reconcile, a stop that leaves nothing."""
    ports = neighbours(2)
    with toy_tier(tmp_path, ports) as process:
        file, running = tier_file.require_running(tmp_path)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert running.bootstrap == ",".join(f"127.0.0.1:{port}" for port in ports)
        assert Path(running.run_dir).is_dir()
        nothing_listens_beyond_this_machine(family)

        seen = groupd("status", "--json", f"--data-dir={tmp_path}")
        shown = json.loads(seen.stdout)
        assert (seen.returncode, shown["healthy"]) == (0, True)
        assert [partition["groups"] for partition in shown["partitions"]] == [{"Stable": 2}] * 2
        assert {partition["leader_node"] for partition in shown["partitions"]} == {1, 2}

        refused = groupd("up", f"--data-dir={tmp_path}")
        assert refused.returncode == 1
        assert f"in use by process {process.pid}" in refused.stderr

        repair_what_is_missing(file, running, tmp_path)

        for _ in range(2):  # as a closed terminal does: to the whole process group, and more than once
            os.killpg(process.pid, signal.SIGHUP)
        assert process.wait(DEADLINE_S) == 0
        _, alive = psutil.wait_procs(family, timeout=5)
        assert alive == []
        assert not Path(running.run_dir).exists()
        assert all(not is_open(port) for port in ports)
        stopped = tier_file.read(tmp_path)
        assert stopped is not None
        assert stopped.running is None

    with toy_tier(tmp_path, ports) as process:
        again = tier_file.read(tmp_path)
        assert again is not None
        assert again.tier_id == file.tier_id
        down = groupd("down", f"--data-dir={tmp_path}")
        assert (down.returncode, process.wait(DEADLINE_S)) == (0, 0)


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "refuse-broker").touch()
    (port,) = neighbours(1)
    process = start_toys(tmp_path, [port])
    said = process.communicate(timeout=DEADLINE_S)[0]
    assert process.returncode == 1
    assert "FAILED broker-1 did not start: the toy was told to refuse" in said
    assert tier_file.read(tmp_path) is not None


def test_a_killed_tier_can_be_started_again(tmp_path: Path) -> None:
    """After SIGKILL its actors go by themselves; the next start waits for them and clears what they left."""
    ports = neighbours(1)
    with toy_tier(tmp_path, ports) as process:
        _, running = tier_file.require_running(tmp_path)
        process.kill()
        process.wait(DEADLINE_S)
    seen = groupd("status", f"--data-dir={tmp_path}")
    assert (seen.returncode, "does not run" in seen.stderr) == (1, True)
    with toy_tier(tmp_path, ports) as process:
        assert not Path(running.run_dir).exists()
        a_dead_ray_ends_the_tier(process, tmp_path)


# What the stories above need.


def a_dead_ray_ends_the_tier(process: subprocess.Popen[str], data_dir: Path) -> None:
    """When Ray dies, the tier ends at once, and none of its processes is left."""
    _, running = tier_file.require_running(data_dir)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    (gcs_server,) = (member for member in family if member.name() == "gcs_server")
    gcs_server.kill()
    said = process.communicate(timeout=DEADLINE_S)[0]
    assert said.startswith("FAILED Ray's ")
    assert "gcs_server" in said
    assert psutil.wait_procs(family, timeout=5)[1] == []
    assert not Path(running.run_dir).exists()


@contextmanager
def toy_tier(data_dir: Path, ports: list[int]) -> Iterator[subprocess.Popen[str]]:
    process = start_toys(data_dir, ports)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("READY"), said
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


def repair_what_is_missing(file: TierFile, running: Running, data_dir: Path) -> None:
    """Killed for good: made again at the next step. Failed to start: constructed again within ten."""
    lifecycle.attach_to(data_dir, file, running)
    spec = lifecycle.spec_of(file, data_dir, running)
    try:
        killed = runtime.find("partition-1-0", spec.namespace)
        before = runtime.await_call(killed, "status", timeout_s=5)["pid"]
        runtime.kill(killed)
        done = steps_until(spec, "partition-1-0 was missing: made again")
        assert [what for what in done if "missing" in what] == ["partition-1-0 was missing: made again"]
        assert status_of(spec, "partition-1-0")["pid"] != before

        (data_dir / "refuse-broker").touch()
        broken = runtime.find("broker-1", spec.namespace)
        runtime.kill(broken, no_restart=False)
        until(lambda: status_of(spec, "broker-1")["problem"] is not None, "it has a problem", DEADLINE_S)
        (data_dir / "refuse-broker").unlink()
        steps_until(spec, "broker-1 could not start (the toy was told to refuse): tried again")
        until(lambda: status_of(spec, "broker-1")["problem"] is None, "it has none", DEADLINE_S)
    finally:
        ray_host.shutdown()


def steps_until(spec: TierSpec, what: str) -> list[str]:
    done: list[str] = []

    async def steps() -> None:
        reconciler = Reconciler(spec, nothing_is_decided, KINDS)
        for _ in range(LOOK_EVERY_STEPS):
            done.extend(await reconciler.step(spec))

    def stepped() -> bool:
        asyncio.run(steps())
        return what in done

    until(stepped, what, DEADLINE_S)
    return done


async def nothing_is_decided(command: Any) -> Any:
    """Take news of leaders, which change nothing here."""
    assert isinstance(command, ReportLeader), f"this story changes no placement: {command}"


def status_of(spec: TierSpec, name: str) -> dict[str, Any]:
    """Asked until the actor answers: it may be starting."""
    answers: list[dict[str, Any]] = []

    def answered() -> bool:
        try:
            answers.append(runtime.await_call(runtime.find(name, spec.namespace), "status", timeout_s=5))
        except (runtime.ActorCallError, TimeoutError, AttributeError):
            return False
        return True

    until(answered, "they answer", DEADLINE_S)
    return answers[-1]


def nothing_listens_beyond_this_machine(family: list[psutil.Process]) -> None:
    """Whoever reaches a port of Ray can run code: all of them are bound to loopback."""
    addresses = set()
    for process in family:
        for connection in process.net_connections("tcp"):
            if connection.status == "LISTEN":
                addresses.add(connection.laddr.ip.removeprefix("::ffff:"))
    assert addresses == {"127.0.0.1"}


def groupd(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cluster.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def start_toys(data_dir: Path, ports: list[int]) -> subprocess.Popen[str]:
    settings = [f"data.dir={data_dir}", f"nodes={len(ports)}", f"port={ports[0]}"]
    settings += ["offsets.topic.num.partitions=2", f"offsets.topic.replication.factor={len(ports)}"]
    command = [sys.executable, "-m", "tests.cluster.run_toys", *settings]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)


def neighbours(count: int) -> list[int]:
    first = free_ports(count)
    return list(range(first, first + count))


def is_open(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
