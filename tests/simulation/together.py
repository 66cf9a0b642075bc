"""Several worlds with one time: a run in which there is more than one Raft group."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.hosts import Host
from tests.simulation.machines import Kind
from tests.simulation.world import Code, Trace, World


class Together(World):
    """One of the worlds of a run, of which the first has the clock."""

    initial = "r"
    """The letter with which the names of its hosts begin."""

    def __init__(
        self,
        seed: int,
        others: list[Together],
        *,
        replicas: int | None = None,
        code: Code,
        trace: Trace | None,
        kind: Kind | None = None,
    ) -> None:
        """`others` are the worlds made before, to which this one is added."""
        self._clock: Together | None = others[0] if others else None
        others.append(self)
        super().__init__(seed, replicas=replicas, code=code, trace=trace, kind=kind)
        for host in self.hosts.values():
            self._rename(host)

    def _rename(self, host: Host) -> None:
        host.name = f"{self.initial}{host.number}"

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
        return self.add_replica(len(self.hosts))

    def add_replica(self, number: int) -> Host:
        """Add a host with a number that no host had, for a newcomer."""
        host = self.hosts[number] = Host(self, number, is_founder=False)
        self._rename(host)
        host.start()
        return host
