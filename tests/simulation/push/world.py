"""A world whose clients are consumers of a group whose coordinator pushes."""

from __future__ import annotations

from functools import partial
from typing import Any

from actors.ground.features import PUSH_LEVEL
from tests.simulation.clients import Committer, Reader
from tests.simulation.faults import Faults
from tests.simulation.machines import COORDINATOR, PARTITIONS, TOPIC, Kind
from tests.simulation.parts import Process
from tests.simulation.push.channels import Channels
from tests.simulation.push.consumers import Owners, PushConsumer, Remover
from tests.simulation.run import FAULTS_S, HEAL_S
from tests.simulation.world import PRODUCTION, Code, Trace, Violation, World

CONSUMERS = 4


def _machine(process: Process) -> Any:
    replica = COORDINATOR.machine(process)
    replica.push = partial(process.world.answers.push, process)
    return replica


PUSHING: Kind = COORDINATOR._replace(machine=_machine)


class PushWorld(World):
    """A world with one push group, and commits of another group beside it."""

    def _clients(self) -> list[Any]:
        self.releases.are_mixed, self.releases.level = False, PUSH_LEVEL
        self.answers = channels = Channels(self)
        self.owners = Owners(self)
        return [
            Reader(self, "reader", "simple"),
            Committer(self, "committer-0", "simple", 0.03),
            Remover(self, "remover"),
            *(PushConsumer(self, f"push-{each}", self.owners, channels) for each in range(CONSUMERS)),
        ]

    def change_topics(self) -> None:
        self.image_version += 1
        image = self.image()
        for process in self.processes():
            self.after(self.chance.uniform(0, 0.3), partial(process.on_metadata, image))

    def start(self) -> None:
        super().start()
        self.every(0.01, self.owners.check)

    def complaint(self, since: float) -> str | None:
        complaint = super().complaint(since)
        if complaint is not None:
            return complaint
        read = [
            partition
            for consumer in self.owners.consumers
            if consumer.is_settled
            for topic, partition in consumer.member.positions
            if topic == TOPIC
        ]
        return None if sorted(read) == list(range(PARTITIONS)) else f"only {sorted(read)} of {TOPIC} are read"


def run(seed: int, *, code: Code = PRODUCTION, trace: Trace | None = None) -> PushWorld:
    """Run one seed. Raises Violation, whose text begins with the name of the checker, or what the code
    raised."""
    world = PushWorld(seed, replicas=None, code=code, trace=trace, kind=PUSHING)
    Faults(world).schedule(FAULTS_S)
    world.start()
    world.run_until(FAULTS_S)
    world.note("faults", "end")
    world.heal()
    healed_at = world.now
    while (complaint := world.complaint(healed_at)) is not None:
        if world.now > healed_at + HEAL_S:
            raise Violation(f"progress: seed {seed} is not well {HEAL_S} s after the last fault: {complaint}")
        world.run_until(world.now + 0.1)
    world.finish()
    world.owners.at_the_end()
    return world
