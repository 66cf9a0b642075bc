"""A world whose clients are consumers of a group whose coordinator pushes."""

from __future__ import annotations

from functools import partial
from typing import Any

from actors.ground.features import PUSH_LEVEL
from actors.ground.image import MetadataImage, TopicImage
from tests.simulation.clients import Committer, Reader
from tests.simulation.machines import COORDINATOR, PARTITIONS, TOPIC, TOPIC_ID, Kind
from tests.simulation.parts import Process
from tests.simulation.push.channels import Channels
from tests.simulation.push.consumers import FOUND, Owners, PushConsumer, Remover
from tests.simulation.run import play, until_well
from tests.simulation.world import PRODUCTION, Code, Trace, World

CONSUMERS = 4
CHANGE_EVERY_S = 0.1, 1.5
QUIET_CHANGES = 3
"""How often topics change twice when nothing else happens: what is overlooked then stays so."""
CHANGES_A_PARTITION = 2
"""After how many changes of topics one has another partition, and there is one more of those to be found."""


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

    def image(self) -> MetadataImage:
        """Return what the controller would tell now: a topic that grows, one that comes and goes, and ever
        more that only a wildcard finds."""
        image = super().image()
        more = min(self.image_version // CHANGES_A_PARTITION, PARTITIONS)
        grown = TopicImage(TOPIC_ID, TOPIC, (0,) * (PARTITIONS + more))
        others = (each for name, each in image.topics.items() if name != TOPIC)
        found = (TopicImage(b"found-%010d" % each, f"{FOUND}{each}", (0,) * 2) for each in range(more))
        return MetadataImage(version=image.version, topics=(grown, *others, *found), features=image.features)

    def wanted(self) -> list[tuple[str, int]]:
        """Return the partitions that somebody has to read, in order."""
        topics = self.image().topics
        names = {name for each in self.owners.consumers for name in each.wanted(topics)}
        return sorted((name, number) for name in names for number in range(topics[name].partition_count))

    def change_topics(self) -> None:
        self.image_version += 1
        image = self.image()
        for process in self.processes():
            self.after(self.chance.uniform(0, 0.3), partial(process.on_metadata, image))

    def start(self) -> None:
        super().start()
        self.every(0.01, self.owners.check)
        self.after(self.chance.uniform(*CHANGE_EVERY_S), self._change_on)

    def _change_on(self) -> None:
        """Change topics now and then, besides the faults that do."""
        if not self.is_healed:
            self.change_topics()
            self.after(self.chance.uniform(*CHANGE_EVERY_S), self._change_on)

    def complaint(self, since: float) -> str | None:
        complaint = super().complaint(since)
        if complaint is not None:
            return complaint
        settled = (each for each in self.owners.consumers if each.is_settled)
        read = sorted(place for consumer in settled for place in consumer.member.positions)
        return None if read == self.wanted() else f"{read} are read, and {self.wanted()} are to be"


def run(seed: int, *, code: Code = PRODUCTION, trace: Trace | None = None) -> PushWorld:
    """Run one seed. Raises Violation, whose text begins with the name of the checker, or what the code
    raised."""
    world = PushWorld(seed, replicas=None, code=code, trace=trace, kind=PUSHING)
    play(world)
    for _ in range(QUIET_CHANGES):
        world.change_topics()
        world.run_until(world.now + world.chance.choice((0.02, 0.5)))
        world.change_topics()
        until_well(world, "topics changed while all was quiet")
    world.finish()
    world.owners.at_the_end()
    return world
