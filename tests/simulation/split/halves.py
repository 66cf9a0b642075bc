"""Two worlds with one time: the Raft groups of an offsets partition and of its child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.coordinator.ground.state import Home
from tests.simulation.hosts import Host
from tests.simulation.machines import COORDINATOR
from tests.simulation.world import Code, Trace, World

PARTITIONS = 2
"""How many offsets partitions there are after the split."""
PARENT, CHILD = 0, 1


class Half(World):
    """One of the two groups. Its clients are those of the run, which ask both."""

    def __init__(self, seed: int, code: Code, trace: Trace | None, others: list[Half]) -> None:
        """`others` are the halves made before, the first of which has the clock."""
        self.halves = others
        self._clock: Half | None = others[0] if others else None
        others.append(self)
        is_child = self._clock is not None
        self.home = Home(CHILD if is_child else PARENT, is_child)
        super().__init__(2 * seed + is_child, replicas=None, code=code, trace=trace)
        self.kind = COORDINATOR
        self.answers.judge = lambda: None  # type: ignore[method-assign]
        for host in self.hosts.values():
            self._rename(host)

    def _rename(self, host: Host) -> None:
        if self.home.partition == CHILD:
            host.name = f"c{host.number}"

    def _clients(self) -> list[Any]:
        return []

    @property  # type: ignore[override]
    def now(self) -> float:
        return self._now if self._clock is None else self._clock.now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now

    def at(self, when: float, work: Callable[[], None]) -> None:
        if self._clock is None:
            super().at(when, work)
        else:
            self._clock.at(when, work)

    def run_until(self, end: float) -> None:
        if self._clock is None:
            super().run_until(end)
        else:
            self._clock.run_until(end)

    def new_id(self) -> str:
        return super().new_id() if self._clock is None else self._clock.new_id()

    def add_host(self) -> Host:
        number = len(self.hosts)
        host = self.hosts[number] = Host(self, number, is_founder=False)
        self._rename(host)
        host.start()
        return host

    def change_topics(self) -> None:
        for half in self.halves:
            super(Half, half).change_topics()
