"""A world whose clients are members of a group that compute its assignment."""

from __future__ import annotations

from typing import Any

from actors.ground.features import CLIENT_ASSIGNORS_LEVEL
from tests.simulation.answers import Answers
from tests.simulation.asked import Asked
from tests.simulation.clients import Committer, Reader
from tests.simulation.computing.judge import Judge
from tests.simulation.computing.members import GROUP, Computer, ComputingMember
from tests.simulation.machines import COORDINATOR, GROUP_SETTINGS
from tests.simulation.parts import Process
from tests.simulation.run import play
from tests.simulation.world import PRODUCTION, Code, Trace, World

LIMIT_MS = 300
INTERVAL_MS = 250
"""So long that the next computation is seen to begin before it is over."""


class JudgedAnswers(Answers):
    """Answers that the judge of members that compute sees, too."""

    def __init__(self, world: World, judge: Judge) -> None:
        super().__init__(world)
        self._judge = judge

    def arrived(self, asked: Asked) -> None:
        super().arrived(asked)
        self._judge.arrived(asked)

    def given(self, process: Process, token: int, body: Any) -> None:
        super().given(process, token, body)
        self._judge.given(process, self._asked[token], body)

    def fallen(self, process: Process) -> None:
        super().fallen(process)
        self._judge.ended(process)

    def closed(self, process: Process, *, power_lost: bool) -> None:
        super().closed(process, power_lost=power_lost)
        self._judge.ended(process)


class ComputingWorld(World):
    """A world with one group whose members compute, and commits of another group beside it."""

    group_settings = GROUP_SETTINGS._replace(
        group_consumer_client_assignor_timeout_ms=LIMIT_MS, group_consumer_assignment_interval_ms=INTERVAL_MS
    )

    def _clients(self) -> list[Any]:
        self.releases.are_mixed, self.releases.level = False, CLIENT_ASSIGNORS_LEVEL
        self.judge = Judge(self, GROUP)
        self.answers = JudgedAnswers(self, self.judge)
        members = [ComputingMember(self, f"consumer-{each}") for each in range(self.chance.randint(2, 4))]
        return [
            Reader(self, "reader", "simple"),
            Committer(self, "committer-0", "simple", 0.03),
            *members,
            *(Computer(self, f"computer-{at}", each, self.judge) for at, each in enumerate(members)),
        ]

    def on_event(self, process: Process, event: Any) -> None:
        self.judge.told(process, event)

    def start(self) -> None:
        super().start()
        self.every(0.02, self.judge.check)


def run(seed: int, *, code: Code = PRODUCTION, trace: Trace | None = None) -> ComputingWorld:
    """Run one seed. Raises Violation, whose text begins with the name of the checker, or what the code
    raised."""
    world = ComputingWorld(seed, replicas=None, code=code, trace=trace, kind=COORDINATOR)
    play(world)
    world.finish()
    world.judge.at_the_end()
    return world
