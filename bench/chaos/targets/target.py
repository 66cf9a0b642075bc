"""What is attacked: processes that coordinate groups, and how they are hit and brought back.

Schedules, parts and reports ask nothing else of a target. `Target.has` tells what only some targets can
suffer (see `FaultKind.needs`).
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, ClassVar, Final, Protocol

import psutil

from bench.chaos.targets.proxy import Proxy

LOOK_INTERVAL_S: Final = 0.1
WHOLE_TIMEOUT_S: Final = 120.0
"""How long a target may take to be whole again: a disk that failed is tried again after half a minute, and a
damaged replica is built anew."""

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
BROKER: Final = "broker"
NODE: Final = "node"
EVERYBODY: Final = "everybody"
REPLICA: Final = "replica"
MAJORITY: Final = "majority"
COPIES: Final = "copies"
CONTROLLER: Final = "controller"
KAFKA_BROKER: Final = "kafka-broker"
KAFKA_CONTROLLER: Final = "kafka-controller"
KAFKA: Final = "kafka"
"""What a fault can hit; from REPLICA on only a target that has "replicas" can find it, and from KAFKA_BROKER
on one that has "upstream"."""


class NothingToHit(Exception):
    """There is nothing of that name to hit right now; another fault is tried."""


class Server(Protocol):
    """A process of a target."""

    @property
    def pid(self) -> int: ...

    @property
    def label(self) -> str:
        """The name that reports use."""


class Target(ABC):
    """A target of faults. All methods but `close` may be called from several threads."""

    bootstrap: str
    """The bootstrap servers for clients, which lead through the proxy if there is one."""
    software: str
    """The name and version of the target, for reports."""
    term_grace_s: ClassVar[float]
    """How long a process that was asked to end has: then it is killed, as supervisors do."""

    @property
    @abstractmethod
    def has(self) -> frozenset[str]:
        """What the target has of the things that kinds of faults need."""

    @property
    @abstractmethod
    def proxy(self) -> Proxy:
        """The proxy, if the target has one."""

    @property
    @abstractmethod
    def nodes(self) -> list[int]:
        """The numbers of the target's nodes."""

    def begin_under_load(self) -> None:
        """Begin what the target does while clients work on it; called once, before the first fault. Raises
        TierError."""
        return  # most targets are there from the start

    @abstractmethod
    def find(self, whom: str, chance: Random) -> Sequence[Server]:
        """Find one of the processes that a name means, or all of them. One that leaves every group a majority
        is sought where no replica is missing. Raises NothingToHit."""

    @abstractmethod
    def bring_back(self, ended: Sequence[Server]) -> None:
        """See that ended processes are started anew. Returns at once."""

    @abstractmethod
    def restart(self, node: int) -> None:
        """Restart all processes of a node, as an upgrade does; returns when the target is whole again. Raises
        TimeoutError."""

    @abstractmethod
    def is_whole(self) -> bool:
        """Whether no process is missing and every group has a coordinator."""

    @abstractmethod
    def complaints(self) -> str:
        """What is not well, in words."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the target."""

    def wait_until_whole(self, timeout_s: float = WHOLE_TIMEOUT_S) -> float:
        """Wait until the target is whole. Returns how many seconds it took. Raises TimeoutError with what is
        not well."""
        began = time.monotonic()
        while not self.is_whole():
            if time.monotonic() - began > timeout_s:
                raise TimeoutError(f"not whole after {timeout_s:g} s: {self.complaints()}")
            time.sleep(LOOK_INTERVAL_S)
        return time.monotonic() - began


def process(pid: int) -> psutil.Process:
    """The process of a pid; it can be told from a later one of the same number. Raises NothingToHit."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        raise NothingToHit(f"process {pid} has ended already") from None


def send(target: psutil.Process, number: int) -> None:
    """Send a signal, unless the process has ended."""
    assert target.pid != os.getpid(), "a fault must not hit its own process"
    with suppress(psutil.NoSuchProcess):
        target.send_signal(number)


def until(holds: Callable[[], Any], what: str, timeout_s: float) -> None:
    """Poll until `holds()`. Raises TimeoutError that says `what` was waited for."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(LOOK_INTERVAL_S)
