"""Tiers whose clients speak TLS, and what these need."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aiokafka.helpers import create_ssl_context

from bench.ground.throwaway import Tier
from cluster.child_process import ROOT
from cluster.ports import free_ports
from tests.authority import Authority

NODES: Final = 3
PARTITIONS: Final = 6
PASSWORD: Final = "alice's password"
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Guarded:
    """A tier with TLS, and what its clients need."""

    def __init__(self, tier: Tier, authority: Authority, keystore: Path) -> None:
        self.tier = tier
        self.authority = authority
        self.keystore = keystore

    def login(self, mechanism: str = MECHANISMS[0]) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.tier.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.path),
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }

    def python_login(self, mechanism: str) -> dict[str, Any]:
        """The same for kafka-python and aiokafka."""
        return {
            "bootstrap_servers": self.tier.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": create_ssl_context(cafile=str(self.authority.path)),
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": PASSWORD,
        }


@contextlib.contextmanager
def running(directory: Path, *flags: str) -> Iterator[Guarded]:
    authority = Authority(directory / "ca")
    keystore = directory / "keystore.pem"
    shutil.copy(authority.certify("node", subject="/O=groupd/CN=node").both, keystore)
    files = (f"--set=ssl.keystore.location={keystore}", f"--set=ssl.truststore.location={authority.path}")
    with Tier(*files, "--set=group.initial.rebalance.delay.ms=0", *flags, port=free_ports(NODES)) as tier:
        yield Guarded(tier, authority, keystore)


@contextlib.contextmanager
def with_users(directory: Path, *flags: str) -> Iterator[Guarded]:
    """A tier with a topic and a user, who logs in by SCRAM."""
    with running(directory, "--set=listener.security.protocol=SASL_SSL", *flags) as guarded:
        guarded.tier.run("topics", "create", "orders", "--partitions", str(PARTITIONS))
        command = [sys.executable, "-m", "cluster.cli", "users", "add", "alice", "--password-stdin"]
        command += ["--data-dir", str(guarded.tier.data_dir)]
        subprocess.run(command, input=PASSWORD + "\n", text=True, timeout=60, check=True, cwd=ROOT)
        yield guarded
