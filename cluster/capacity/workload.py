"""What is asked of a tier, and what it runs on. PURE."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

Protocol = Literal["consumer", "classic"]
MEMBERS_MAX: Final = 100_000_000
HEARTBEAT_S: Final = (0.1, 3_600.0)
"""The shortest and longest heartbeat interval of which anything is said."""
COMMIT_S: Final = (0.01, 86_400.0)
COPIES: Final = (1, 3, 5, 7)
"""Numbers of copies that make sense: an even one survives no more than the odd one below it."""


class NonsenseError(ValueError):
    """A load or a machine that cannot be meant; the text says what is wrong and what is allowed."""


class Workload(NamedTuple):
    """A load that goes on day and night. Members are spread over groups of one size."""

    members: int
    group_size: int = 10
    heartbeat_s: float = 5.0
    """The seconds between two heartbeats of a member."""
    commit_s: float | None = 5.0
    """The seconds between two commits of a member; None: members do not commit."""
    offsets: int = 2
    """How many partitions a member has, and commits at a time."""
    rebalance_s: float | None = 3_600.0
    """The seconds between two rebalances of a group, in which all its members join; None: never."""
    protocol: Protocol = "consumer"
    is_held: bool = True
    """Whether the clients' heartbeats are held, as those of Java's and librdkafka's are by default."""
    members_per_connection: int = 1
    """How many members share a connection: real ones share none."""
    name_bytes: float = 20.0
    """The mean length of the names of clients, groups and topics, which every request says."""
    age_s: float = math.inf
    """How long the load has gone on: a journal grows until it is worth a snapshot."""

    @property
    def groups(self) -> int:
        return math.ceil(self.members / self.group_size)

    @property
    def heartbeats_per_s(self) -> float:
        return self.members / self.heartbeat_s

    @property
    def commits_per_s(self) -> float:
        return self.members / self.commit_s if self.commit_s else 0.0

    @property
    def joins_per_s(self) -> float:
        return self.members / self.rebalance_s if self.rebalance_s else 0.0

    @property
    def stored_offsets(self) -> int:
        return self.members * self.offsets if self.commit_s else 0

    @property
    def connections(self) -> float:
        return self.members / self.members_per_connection


class Machine(NamedTuple):
    """The machines of a tier, which are all alike."""

    cores: int = 16
    memory_bytes: float = 64 * 2**30


class Safety(NamedTuple):
    """What has to go wrong without harm."""

    copies: int = 3
    lost: int = 1
    """How many machines may be lost while the others carry the whole load."""


def check(workload: Workload, machine: Machine, safety: Safety) -> None:
    """Check that all of it can be meant. Raises NonsenseError, which names the command's flag."""
    _within("--members", workload.members, 1, MEMBERS_MAX)
    _within("--group-size", workload.group_size, 1, workload.members)
    _within("--heartbeat", workload.heartbeat_s, *HEARTBEAT_S, "s")
    if workload.commit_s is not None:
        _within("--commit", workload.commit_s, *COMMIT_S, "s")
    _within("--offsets", workload.offsets, 1, 10_000)
    _within("--name-bytes", workload.name_bytes, 1, 249)
    if workload.rebalance_s is not None:
        _within("--rebalance", workload.rebalance_s, workload.heartbeat_s, 365 * 86_400, "s")
    _within("--cores", machine.cores, 1, 1_024)
    _within("--memory", machine.memory_bytes / 2**30, 1, 65_536, "GiB")
    if safety.copies not in COPIES:
        raise NonsenseError(f"--replicas {safety.copies}: {', '.join(map(str, COPIES))} are sensible")
    survives = (safety.copies - 1) // 2
    if not 0 <= safety.lost <= survives:
        raise NonsenseError(
            f"--lose {safety.lost}: {safety.copies} copies survive the loss of {survives} machines at most; "
            f"more need --replicas {2 * max(safety.lost, 0) + 1}"
        )


def _within(flag: str, value: float, least: float, most: float, unit: str = "") -> None:
    if not least <= value <= most:
        between = f"{least:,g}{unit} to {most:,.12g}{unit}"
        raise NonsenseError(f"{flag} {value:,.12g}{unit}: {between} are allowed")
