"""What is attacked: processes that coordinate groups, and how they are hit and brought back.

Schedules, parts and reports ask nothing else of it. What only some targets can suffer is told by what they
have (see `FaultKind.needs`).
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
"""A disk that failed is tried again after half a minute, and a damaged replica is built anew."""

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
BROKER: Final = "broker"
NODE: Final = "node"
EVERYBODY: Final = "everybody"
REPLICA: Final = "replica"
MAJORITY: Final = "majority"
COPIES: Final = "copies"
CONTROLLER: Final = "controller"
"""Whom a fault hits; from REPLICA on only a target that has "replicas" can say who that is."""


class NothingToHit(Exception):
    """There is nobody of that name right now; another fault is tried."""


class Server(Protocol):
    """A process of a target."""

    @property
    def pid(self) -> int: ...

    @property
    def label(self) -> str:
        """The name that reports use."""


class Target(ABC):
    """All methods but `close` may be called from several threads."""

    bootstrap: str
    """What clients are to be given: it leads through the proxy if there is one."""
    software: str
    """Name and version, for the reports."""
    term_grace_s: ClassVar[float]
    """Who was asked to end has so long: then it is killed, as whoever stops machines does."""

    @property
    @abstractmethod
    def has(self) -> frozenset[str]:
        """What kinds of faults may need of it."""

    @property
    @abstractmethod
    def proxy(self) -> Proxy:
        """The proxy, if the target has one."""

    @property
    @abstractmethod
    def nodes(self) -> list[int]:
        """The numbers of its nodes."""

    @abstractmethod
    def find(self, whom: str, chance: Random) -> Sequence[Server]:
        """One of those that the name means, or all that it means. Who leaves every group a majority is sought
        where nobody is missing. Raises NothingToHit."""

    @abstractmethod
    def bring_back(self, ended: Sequence[Server]) -> None:
        """See that whoever was ended is started anew. Returns at once."""

    @abstractmethod
    def restart(self, node: int) -> None:
        """All processes of a node, as an upgrade does it; returns when it is whole again. Raises
        TimeoutError."""

    @abstractmethod
    def is_whole(self) -> bool:
        """Nobody is missing, and every group has a coordinator."""

    @abstractmethod
    def complaints(self) -> str:
        """Who is not well, in words."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    def wait_until_whole(self, timeout_s: float = WHOLE_TIMEOUT_S) -> float:
        """Seconds that it took. Raises TimeoutError that names who is not well."""
        began = time.monotonic()
        while not self.is_whole():
            if time.monotonic() - began > timeout_s:
                raise TimeoutError(f"not whole after {timeout_s:g} s: {self.complaints()}")
            time.sleep(LOOK_INTERVAL_S)
        return time.monotonic() - began


def process(pid: int) -> psutil.Process:
    """Knows its process from a later one of the same number. Raises NothingToHit."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        raise NothingToHit(f"process {pid} has ended already") from None


def send(target: psutil.Process, number: int) -> None:
    """A signal, unless the process has ended."""
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
