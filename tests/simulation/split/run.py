"""The run of one seed: a partition is split under faults and clients, and all is well in the end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from tests.simulation import testimony
from tests.simulation.faults import Faults
from tests.simulation.members_client import ClassicMember, ConsumerMember, Member, is_stable
from tests.simulation.run import FAULTS_S, HEAL_S
from tests.simulation.split import moved, producers
from tests.simulation.split.clients import Route, clients_of
from tests.simulation.split.controller import Controller
from tests.simulation.split.halves import Half
from tests.simulation.split.markers import Services
from tests.simulation.split.producers import TIMEOUT_MS, Producer, StableReader, open_in, producers_of
from tests.simulation.world import PRODUCTION, Code, Trace, Violation

NewController = Callable[[list[Half]], Controller]

OPEN_S_MAX = 2.0 + TIMEOUT_MS / 1_000
"""How long a transaction may be open whose producer has fallen silent."""


class SplitRun:
    """Both halves, their clients and the controller of one seed."""

    def __init__(
        self,
        seed: int,
        code: Code = PRODUCTION,
        new_controller: NewController = Controller,
        trace: Trace | None = None,
    ) -> None:
        self.seed = seed
        self.halves: list[Half] = []
        self.parent = Half(seed, code, trace, self.halves)
        self.child = Half(seed, code, trace, self.halves)
        self.clients = clients_of(self.halves)
        self.producers = producers_of(self.halves)
        self.readers = [StableReader(Route(self.halves, each.group_id), each) for each in self.producers]
        self.clients += [*self.producers, *self.readers]
        self.services = Services(self.halves)
        self.controller = new_controller(self.halves)

    def play(self) -> None:
        """Raise Violation, whose text begins with the name of the checker, or what the code raised."""
        try:
            self._play()
        finally:
            self.services.close()

    def _play(self) -> None:
        parent, chance = self.parent, self.parent.chance
        for half in self.halves:
            Faults(half).schedule(FAULTS_S)
        parent.start()
        parent.after(chance.uniform(0.2, 0.7), self.child.start)
        for client in self.clients:
            parent.after(chance.uniform(0.3, 0.8), client.start)
        self.controller.start(chance.uniform(0.8, 2.2))
        parent.run_until(FAULTS_S)
        for half in self.halves:
            half.heal()
        healed_at = parent.now
        while (complaint := self._complaint(healed_at)) is not None:
            if parent.now > healed_at + HEAL_S:
                raise Violation(f"progress: seed {self.seed} is not well {HEAL_S} s after: {complaint}")
            parent.run_until(parent.now + 0.1)
        self._end_transactions()
        for half in self.halves:
            half.finish()
        moved.check(*self.halves)
        producers.check(self.producers, self.halves)
        asked = chain.from_iterable(half.answers.all_asked() for half in self.halves)
        told = [each for each in asked if not isinstance(each.client, (Producer, StableReader))]
        testimony.check(sorted(told, key=lambda each: each.sent_at), parent.now)

    def _end_transactions(self) -> None:
        """Clients fall silent, and what they have left open ends. Raises Violation."""
        for half in self.halves:
            half.is_over = True
        deadline = self.parent.now + OPEN_S_MAX
        while (left := next(filter(None, map(open_in, self.halves)), None)) is not None:
            if self.parent.now > deadline:
                raise Violation(f"transactions: seed {self.seed}: {left}")
            self.parent.run_until(self.parent.now + 0.1)

    def _complaint(self, since: float) -> str | None:
        for half in self.halves:
            complaint = half.complaint(since)
            if complaint is not None:
                return f"partition {half.home.partition}: {complaint}"
        if not self.controller.is_done:
            return f"the split is not over after {self.controller.attempts} attempts"
        late = [client.name for client in self.clients if not client.is_well(since)]
        if late:
            return f"{late} get nothing done"
        groups: dict[str, list[Member]] = {}
        for client in self.clients:
            if isinstance(client, (ClassicMember, ConsumerMember)):
                groups.setdefault(client.group_id, []).append(client)
        unstable = [group_id for group_id, members in groups.items() if not is_stable(members)]
        return f"{unstable} are not stable" if unstable else None


def run(
    seed: int,
    code: Code = PRODUCTION,
    new_controller: NewController = Controller,
    trace: Trace | None = None,
) -> SplitRun:
    """Run one seed."""
    played = SplitRun(seed, code, new_controller, trace)
    played.play()
    return played
