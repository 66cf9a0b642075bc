"""Our tier as a peer: one node with one copy, and three nodes with three copies. Kafka does not wait for the
disk before it answers: beside it, the same tiers stand with a journal that is not synced either."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Final

from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from bench.peers.lines import Address
from bench.peers.options import Options, Refused
from bench.peers.peer import POLL_S, SETTINGS, Peer

MEND_TIMEOUT_S: Final = 120.0
LAG_MAX: Final = 100
UNSYNCED: Final[Mapping[str, str]] = {**SETTINGS, "journal.sync": "off"}


class _Groupd(Peer):
    nodes: ClassVar[int]
    settle_s: ClassVar[float] = 35.0
    """How long it takes until a leader has written a file of history: it does so every 30 s."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._tier: Tier | None = None
        self._own_pids: list[int] = []

    @property
    def tier(self) -> Tier:
        assert self._tier is not None, "started"
        return self._tier

    def start(self) -> None:
        settings = (f"--set={name}={value}" for name, value in self.settings.items())
        flags = ("--nodes", str(self.nodes), "--replicas", str(self.copies), *settings)
        tier = Tier(*flags, nodes=self.nodes)
        self.launched_at = time.monotonic()
        self._tier = tier.__enter__()  # a start that fails stops what it has started

    def _end(self) -> None:
        if self._tier is not None:
            self._tier.__exit__()
            self._tier = None
        self._own_pids = []

    @property
    def bootstrap(self) -> list[Address]:
        return [("127.0.0.1", self.tier.port + number) for number in range(self.nodes)]

    def pids(self) -> list[int]:
        return [process.pid for process in self.tier.processes()]

    def own_pids(self) -> list[int]:
        if not self._own_pids:
            self._own_pids = self.tier.pids()
        return self._own_pids

    def software(self) -> str:
        return f"{release()}, {self.copies} {'copy' if self.copies == 1 else 'copies'}"

    def kill_leader(self, groups: Sequence[str]) -> tuple[float, list[str]]:
        if self.copies == 1:
            raise Refused("nobody takes over from a single copy")
        self._own_pids = []
        return kill_leader(self.tier, self.copies, groups)

    def mend(self) -> None:
        leaders(self.tier, self.copies)


class GroupdOne(_Groupd):
    """Our tier with one node, and one replica of everything."""

    name = "groupd-1"
    nodes = 1


class GroupdThree(_Groupd):
    """Our tier with three nodes and three replicas."""

    name = "groupd-3"
    nodes = 3
    copies = 3


class UnsyncedOne(GroupdOne):
    """Our tier with one replica of everything, whose journal is not synced."""

    name = "unsynced-1"
    settings: ClassVar[Mapping[str, str]] = UNSYNCED


class UnsyncedThree(GroupdThree):
    """Our tier with three replicas, whose journals are not synced."""

    name = "unsynced-3"
    settings: ClassVar[Mapping[str, str]] = UNSYNCED


def release() -> str:
    """Return the name and version of ours."""
    try:
        return f"groupd {version('groupd')}"
    except PackageNotFoundError:  # it runs from its source
        return "groupd"


def kill_leader(tier: Tier, copies: int, groups: Sequence[str]) -> tuple[float, list[str]]:
    """Kill the process that leads the offsets partition of most of these groups, as `Peer.kill_leader`
    does."""
    led = leaders(tier, copies)
    by_partition = Counter(partition_for(group, len(led)) for group in groups)
    ((partition, _),) = by_partition.most_common(1)
    hit = [group for group in groups if partition_for(group, len(led)) == partition]
    os.kill(led[partition]["pid"], signal.SIGKILL)
    return time.monotonic(), hit


def leaders(tier: Tier, copies: int) -> dict[int, dict[str, Any]]:
    """Return the leader of each offsets partition. Wait until Ray has started killed processes again, and
    each partition has all its replicas, hardly behind."""
    deadline = time.monotonic() + MEND_TIMEOUT_S
    while time.monotonic() < deadline:
        rows = tier.status()["partitions"]
        if all(_is_whole(row, copies) for row in rows):
            return {
                row["partition"]: next(replica for replica in row["replicas"] if replica["serving"])
                for row in rows
            }
        time.sleep(POLL_S)
    raise RuntimeError(f"a replica that was killed is not back after {MEND_TIMEOUT_S:.0f} s")


def _is_whole(row: dict[str, Any], copies: int) -> bool:
    answering = [replica for replica in row["replicas"] if replica["pid"]]
    lags = [replica["lag"] for replica in answering]
    return (
        len(answering) == copies
        and any(replica["serving"] for replica in answering)
        and all(lag is not None and lag < LAG_MAX for lag in lags)
    )
