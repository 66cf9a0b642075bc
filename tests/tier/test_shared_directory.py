"""Where a Ray cluster keeps its directory of actors in a Redis, neither the directory's death nor the loss of
the Redis with all its data costs a group anything."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.chaos.targets.ray_nodes import RayNodes
from bench.chaos.targets.site import Site
from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.chaos.load import Load
from tests.polling import until

NODES = 3
RAFT_PORTS = 90
REDIS = shutil.which("redis-server")
BACK_S = 120.0

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(REDIS is None, reason="redis-server is missing (Debian's package redis-server)"),
]


@contextmanager
def redis(port: int, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Redis that keeps nothing on a disk."""
    assert REDIS is not None
    where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    command = [REDIS, *where, "--save", "", "--appendonly", "no"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert running.stdout is not None
    try:
        for line in running.stdout:
            if b"Ready to accept connections" in line:
                break
        yield running
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def test_groups_go_on_without_the_directory_and_without_its_redis(tmp_path: Path) -> None:
    port = free_ports(NODES + RAFT_PORTS + 1)
    redis_port = port + NODES + RAFT_PORTS
    told = {"RAY_REDIS_ADDRESS": f"127.0.0.1:{redis_port}"}
    with redis(redis_port, tmp_path) as store, RayNodes(1, told) as ray:
        tier = Tier(
            *("--ray-address", ray.address, "--partitions", "2", "--set", f"raft.port={port + NODES}"),
            *("--set", "accept.ray.settings=true"),
            port=port,
        )
        tier.__enter__()
        site = Site(tier.data_dir)
        try:
            with Load(site) as load:
                load.progress()
                ray.kill_directory()
                load.progress()
                ray.start_directory()
                until(lambda: asked_of_ray(tier), "Ray answers out of its Redis", BACK_S)
                replica = tier.replicas()[0]
                os.kill(replica["pid"], signal.SIGKILL)
                until(lambda: is_another_process(tier, replica), "Ray makes the replica anew", BACK_S)
                load.progress()
                store.kill()
                until(ray.has_no_directory, "the directory ends without its Redis", BACK_S)
                load.progress()
                load.check()
        finally:
            site.close()
            shutil.rmtree(tier.data_dir, ignore_errors=True)


def asked_of_ray(tier: Tier) -> bool:
    """Whether `groupd status` needs no other way than Ray: only of a tier that it asks so it knows more."""
    return bool(json.loads(tier.run("status", "--json", fine=(0, 1)))["ray_address"])


def is_another_process(tier: Tier, replica: dict[str, int]) -> bool:
    """Whether a replica answers that had another process before."""
    same = (each for each in tier.replicas() if is_same(each, replica))
    return tier.status()["healthy"] and any(each["pid"] != replica["pid"] for each in same)


def is_same(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(one[key] == other[key] for key in ("partition", "replica"))
