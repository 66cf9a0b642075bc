"""Where chaos happens: a throw-away tier made for it, with whatever faults need, or one that runs already."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.chaos.targets import kafka_site
from bench.chaos.targets.attached_site import AttachedSite
from bench.chaos.targets.fault_file import FaultFile
from bench.chaos.targets.kafka_site import KafkaSite
from bench.chaos.targets.proxy import Proxy, Way
from bench.chaos.targets.ray_nodes import RayNodes
from bench.chaos.targets.site import Equipment, Site
from bench.ground.throwaway import Tier
from cluster.ports import free_ports

HOST: Final = "127.0.0.1"
RAFT_PORTS: Final = 90
"""How many ports Raft needs where its links are TCP: enough for three replicas of up to 29 partitions."""
SMALL_DISK_MIB: Final = 512
"""The size of the file system: fifteen replicas with segments of 1 MiB have room, and `groupd up` finds as
much free as it wants."""
SMALL_FILES: Final = (
    *("--set", "raft.journal.segment.bytes=1048576"),
    *("--set", "raft.snapshot.journal.bytes.min=1048576"),
)
"""Settings by which snapshots are taken, sent and damaged often, not once an hour."""


@contextmanager
def throw_away(
    *flags: str,
    nodes: int = 3,
    small_disk: bool = False,
    ray_nodes: bool = False,
    kafka: KafkaSite | None = None,
) -> Iterator[Site]:
    """Start a new tier with a proxy before its nodes, into which faults can be injected; it is gone
    afterwards. `flags` are further flags of `groupd up`.

    With `small_disk` its data directory is a file system of its own, if that is allowed here (see
    `Site.has`). With `ray_nodes` each of its nodes is in a Ray node of its own. With `kafka` it stands in
    front of these brokers.
    """
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="groupd-chaos-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        disk = stack.enter_context(_small_disk(directory / "disk")) if small_disk else None
        fault_file = FaultFile(directory / "faults.json")
        port = free_ports(2 * nodes + RAFT_PORTS)
        cluster = stack.enter_context(RayNodes(nodes)) if ray_nodes else None
        # On each machine the first node has the first port.
        ways = [Way(HOST, port + nodes + n, port + n) for n in range(nodes)]
        if cluster is not None:
            ways = [Way(host, port + nodes, port) for host in cluster.hosts]
        proxy = stack.enter_context(Proxy(ways))
        own = [f"--nodes={nodes}", "--set", f"advertised.port={port + nodes}"]
        own += ["--set", f"raft.faults.file={fault_file.path}", *SMALL_FILES]
        if cluster is not None:
            # Its nodes are given up within seconds: that is what is watched.
            own += [
                "--ray-address",
                cluster.address,
                "--set",
                "accept.ray.settings=true",
                "--set",
                f"raft.port={port + 2 * nodes}",
            ]
        if kafka is not None:
            own += ["--upstream", kafka.bootstrap, "--controllers", kafka.controllers]
        tier = Tier(*own, *flags, port=port)
        tier.data_dir.rmdir()
        tier.data_dir = (disk or directory) / "data"
        stack.enter_context(tier)
        equipment = Equipment(fault_file, proxy, cluster, disk)
        if kafka is not None:
            site: Site = AttachedSite(tier.data_dir, equipment, kafka)
        else:
            site = Site(tier.data_dir, equipment)
        stack.callback(site.close)
        yield site


@contextmanager
def in_front_of_kafka(*flags: str, brokers: int, home: Path | None) -> Iterator[Site]:
    """Start new brokers, and a new tier in front of them, which has taken nothing over yet. Raises TierError,
    RuntimeError as `kafka_site.throw_away`."""
    with (
        kafka_site.throw_away(brokers, flags, home, proxied=False) as kafka,
        throw_away(*flags, small_disk=True, kafka=kafka) as site,
    ):
        yield site


@contextmanager
def running(data_dir: Path) -> Iterator[Site]:
    """Attach to the tier that runs in a data directory, which runs on afterwards. Raises TierError."""
    site = Site(data_dir)
    try:
        yield site
    finally:
        site.close()


@contextmanager
def _small_disk(where: Path) -> Iterator[Path | None]:
    """Mount a small file system; None where that is not allowed: as a rule only root may do it."""
    where.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    options = ["-t", "tmpfs", "-o", f"size={SMALL_DISK_MIB}m,mode=0700", "tmpfs", str(where)]
    if not mount or not umount or subprocess.run([mount, *options], capture_output=True).returncode:
        where.rmdir()
        yield None
        return
    try:
        yield where
    finally:
        subprocess.run([umount, "--lazy", str(where)], check=True)
