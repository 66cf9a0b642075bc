"""While a majority of the controller lives, every command that looks at a tier answers over its port, from
anywhere: Ray's directory of actors is gone for good here, as it is when the head of a cluster is lost."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.chaos.targets.ray_nodes import RayNodes
from bench.ground.throwaway import Tier
from bench.peers.settling import settle_group
from cluster import child_process
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until

GROUP = "billing"
TOPIC = "orders"
NODES = 3
RAFT_PORTS = 90
COMMAND_TIMEOUT_S = 60

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

ANSWERS = {
    "status": "healthy",
    "metrics": "num_partitions",
    f"explain {GROUP}": "Stable",
    "top --once": GROUP,
    "leaders": "preferred",
    "leaders move 0": "handed over",
    "replicas list": "voter",
    "topics list": TOPIC,
    "topics create payments": "created",
    "groups list": GROUP,
    f"groups describe {GROUP} --state": GROUP,
    "users list": "no users",
    "acls list": "no ACLs",
    "backup monday": "holds",
}
"""Command -> what stands in its answer."""


@pytest.fixture(scope="module")
def orphan() -> Iterator[Tier]:
    """A tier with a topic and a group, whose Ray has no directory of actors any more."""
    port = free_ports(NODES + RAFT_PORTS)
    with RayNodes(1) as ray:
        tier = Tier(
            *("--ray-address", ray.address, "--partitions", "2", "--set", f"raft.port={port + NODES}"),
            *("--set", "accept.ray.settings=true"),
            port=port,
        )
        tier.__enter__()
        try:
            [host] = ray.hosts
            admin = AdminClient({"bootstrap.servers": f"{host}:{port}"})
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_S)
            asyncio.run(settle_group((host, port), GROUP, 1))
            until(lambda: tier.status()["healthy"], "the tier is whole")
            ray.kill_directory()
            yield tier
        finally:
            # Its processes end with the node: a Ray without a directory cannot be asked to stop them.
            shutil.rmtree(tier.data_dir, ignore_errors=True)


def asked(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The outcome of a command that is given in this directory."""
    return subprocess.run(
        child_process.python("cluster.cli", *arguments),
        cwd=where,
        capture_output=True,
        text=True,
        env=child_process.environment(),
        timeout=COMMAND_TIMEOUT_S,
    )


@pytest.mark.parametrize("command", ANSWERS)
def test_a_node_is_asked_from_anywhere(orphan: Tier, tmp_path: Path, command: str) -> None:
    done = asked(tmp_path, *command.split(), "--bootstrap", bootstrap_of(orphan))
    assert (done.returncode, done.stderr) == (0, "")
    assert ANSWERS[command] in done.stdout


def test_the_port_is_asked_if_ray_does_not_answer(orphan: Tier, tmp_path: Path) -> None:
    done = asked(tmp_path, "status", "--json", "--data-dir", str(orphan.data_dir))
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert [node["state"] for node in shown["nodes"]] == ["up"] * NODES
    assert len(done.stderr.splitlines()) == 1
    assert f"asked over its port instead ({bootstrap_of(orphan)}" in done.stderr


def test_a_silent_node_is_shown(orphan: Tier, tmp_path: Path) -> None:
    """The last story: the node's broker is frozen, and thaws when the tier ends."""
    shown = json.loads(asked(tmp_path, "status", "--json", "--bootstrap", bootstrap_of(orphan)).stdout)
    broker = psutil.Process(shown["nodes"][1]["pid"])
    broker.suspend()
    try:
        done = asked(tmp_path, "status", "--json", "--bootstrap", bootstrap_of(orphan))
    finally:
        broker.resume()
    assert [node["state"] for node in json.loads(done.stdout)["nodes"]] == ["up", "silent", "up"]
    assert done.returncode == 1


def bootstrap_of(tier: Tier) -> str:
    """The address of the tier's first node."""
    shown = json.loads((tier.data_dir / "tier.json").read_text())
    return str(shown["bootstrap"]).partition(",")[0]
