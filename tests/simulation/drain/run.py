"""The run of one seed: nodes are drained under faults and clients, and hold nothing in the end."""

from __future__ import annotations

from cluster.reconcile import Reconciler
from tests.simulation.drain.care import Cares
from tests.simulation.drain.draining import Creator, Operator
from tests.simulation.drain.judged import DrainRules
from tests.simulation.drain.tier import Tier
from tests.simulation.faults import Faults
from tests.simulation.run import FAULTS_S, HEAL_S
from tests.simulation.world import PRODUCTION, Code, Trace, Violation

CONTROLLER_SHARE, PARTITION_SHARE = 0.25, 0.5
"""Few enough faults that drains get somewhere while they come: groups have to be led for that."""


class DrainRun:
    """The tier of one seed, and who looks after it."""

    def __init__(
        self,
        seed: int,
        code: Code = PRODUCTION,
        reconciler: type[Reconciler] = Reconciler,
        trace: Trace | None = None,
    ) -> None:
        self.seed = seed
        self.tier = Tier(seed, code, trace)
        for world in self.tier.worlds:
            world.rules = DrainRules(world)
        self.operator = Operator(self.tier)
        creators = [Creator(self.tier.controllers, f"creator-{number}") for number in range(2)]
        self.tier.controllers.clients = [*creators, self.operator]
        self.cares = Cares(self.tier, reconciler)

    def play(self) -> None:
        """Raise Violation, whose text begins with the name of the checker, or what the code raised."""
        try:
            self._play()
        finally:
            self.cares.end()

    def _play(self) -> None:
        tier = self.tier
        for world in tier.worlds:
            share = CONTROLLER_SHARE if world is tier.controllers else PARTITION_SHARE
            Faults(world, share=share).schedule(FAULTS_S)
            world.start()
        tier.schedule_faults(FAULTS_S)
        self.cares.start()
        tier.controllers.run_until(FAULTS_S)
        tier.note("faults end")
        tier.heal()
        healed_at = tier.now
        while (complaint := tier.complaint(healed_at)) is not None:
            if tier.now > healed_at + HEAL_S:
                raise Violation(f"progress: seed {self.seed} is not well {HEAL_S} s after: {complaint}")
            tier.controllers.run_until(tier.now + 0.1)
        for world in reversed(tier.worlds):
            world.finish()
        tier.check_failure()


def run(
    seed: int,
    code: Code = PRODUCTION,
    reconciler: type[Reconciler] = Reconciler,
    trace: Trace | None = None,
) -> DrainRun:
    """Run one seed."""
    played = DrainRun(seed, code, reconciler, trace)
    played.play()
    return played
