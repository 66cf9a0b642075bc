"""The run of one seed: a partition is split under faults and clients, and all is well in the end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from tests.simulation import testimony
from tests.simulation.faults import Faults
from tests.simulation.members_client import ClassicMember, ConsumerMember, Member, is_stable
from tests.simulation.run import FAULTS_S, HEAL_S
from tests.simulation.split import moved
from tests.simulation.split.clients import Image, clients_of
from tests.simulation.split.controller import Controller
from tests.simulation.split.halves import Half
from tests.simulation.world import PRODUCTION, Code, Trace, Violation

NewController = Callable[[list[Half], Image], Controller]


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
        self.image = Image()
        self.halves: list[Half] = []
        self.parent = Half(seed, code, trace, self.halves)
        self.child = Half(seed, code, trace, self.halves)
        self.clients = clients_of(self.halves, self.image)
        self.controller = new_controller(self.halves, self.image)

    def play(self) -> None:
        """Raise Violation, whose text begins with the name of the checker, or what the code raised."""
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
        for half in self.halves:
            half.finish()
        moved.check(*self.halves)
        asked = chain.from_iterable(half.answers.all_asked() for half in self.halves)
        testimony.check(sorted(asked, key=lambda each: each.sent_at), parent.now)

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
