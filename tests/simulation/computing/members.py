"""Members that compute their group's assignment, as they may: well, slowly, wrongly, twice, for another
epoch, not at all; and some end while they are at it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from actors.assignors.by_members.sticky import Sticky
from actors.assignors.by_members.weighted import CapacityWeighted
from actors.protocol.api_keys import CONSUMER_GROUP_INSTALL_ASSIGNMENT, CONSUMER_GROUP_PREPARE_ASSIGNMENT
from actors.protocol.client_assignor_messages import InstallAssignmentRequest, PrepareAssignmentResponse
from bench.client_assignors.swarm import spoiled
from bench.member import computing, consumer
from tests.simulation.asked import Ask, Asked
from tests.simulation.clients import Client, Script, Step
from tests.simulation.computing.judge import Judge
from tests.simulation.machines import TOPIC
from tests.simulation.members_client import AWAY_S, CONSUMER_REBALANCE_MS, ConsumerMember
from tests.simulation.parts import World

GROUP: Final = "consumer"
LOOK_S: Final = 0.02
WELL: Final = (0.1, 0.5, 0.5, 0.9)
"""How often members compute as they should while there are faults; a run draws one."""
TAKING_S: Final = (0.0, 0.0, 0.1, 0.25)
"""How long one takes that is in time, and meanwhile the group may go on."""
ASKING: Final = 0.15
"""How often a member's heartbeat asks for another assignment."""
VANISHING: Final = 0.02
SLOW_S: Final = (0.25, 0.8)
"""How long a slow member takes: about as long as the coordinator waits, or longer."""


class ComputingMember(ConsumerMember):
    """A member with assignors, which changes what they tell, and may vanish without a word."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, GROUP, None)
        self.weighted = CapacityWeighted(1)
        assignors = [self.weighted, Sticky()]
        if world.chance.random() < 0.5:
            assignors.reverse()
        terms = consumer.ConsumerTerms(GROUP, (TOPIC,), CONSUMER_REBALANCE_MS)
        self.fake = computing.ComputingMember(terms, f"member-{name}", assignors)
        self._member = self._fake = self.fake
        self.vanishes = False
        """Whether the member is to vanish instead of its next heartbeat."""

    def _is_served(self, asked: Any, began_at: float) -> Step:
        if self._chance(ASKING):
            reason = self.world.chance.choice((0, 7))
            if not reason:
                self.weighted.metadata = CapacityWeighted(self.world.chance.randint(1, 3)).metadata
            self.fake.ask_for_assignment(reason)
        yield from super()._is_served(asked, began_at)
        if self.vanishes or self._chance(VANISHING):
            yield from self._vanish()

    def _vanish(self) -> Step:
        self.vanishes = self.is_settled = False
        self.fake.lose()
        self.fake.member_id = f"member-{self.name}-{self.world.new_id()}"
        yield AWAY_S


class Computer(Client):
    """The thread of a member that computes while its heartbeats go on."""

    def __init__(self, world: World, name: str, member: ComputingMember, judge: Judge) -> None:
        super().__init__(world, name)
        self._of = member
        self._judge = judge
        self._well = random.Random(world.seed).choice(WELL)
        self._ways: tuple[Callable[[InstallAssignmentRequest], Step], ...] = (
            self._slowly,
            self._wrongly,
            self._failing,
            self._twice,
            self._for_another_epoch,
            self._dying,
            self._silently,
        )

    def is_well(self, since: float) -> bool:
        return True

    def script(self) -> Script:
        while True:
            fake = self._of.fake
            if fake.should_compute:
                fake.should_compute = False  # until a heartbeat says so again
                yield from self._compute()
            elif self._judge.handed and self._chance(0.01):
                yield from self._unasked()
            yield LOOK_S

    def _chance(self, share: float) -> bool:
        return not self.world.is_healed and self.world.chance.random() < share

    def _compute(self) -> Step:
        if self._chance(0.1):
            return  # it does not even ask for the group
        answer = yield from self.once(_prepare(self._of.fake.prepare()))
        if answer is None or answer.error_code:
            return
        install = self._of.fake.install(answer)
        if self.world.is_healed or self.world.chance.random() < self._well:
            yield self.world.chance.choice(TAKING_S)
            yield from self._send(install._replace(member_epoch=self._of.epoch))
        else:
            yield from self.world.chance.choice(self._ways)(install)

    def _send(self, install: InstallAssignmentRequest) -> Step:
        yield from self.once(Ask(CONSUMER_GROUP_INSTALL_ASSIGNMENT, 0, install))

    # -- ways --------------------------------------------------------------------------------------

    def _slowly(self, install: InstallAssignmentRequest) -> Step:
        yield self.world.chance.uniform(*SLOW_S)
        yield from self._send(install._replace(member_epoch=self._of.epoch))

    def _wrongly(self, install: InstallAssignmentRequest) -> Step:
        yield from self._send(spoiled(install, self.world.chance))

    def _failing(self, install: InstallAssignmentRequest) -> Step:
        yield from self._send(install._replace(error=1, error_message="a bug of the assignor's", members=()))

    def _twice(self, install: InstallAssignmentRequest) -> Step:
        yield from self._send(install)
        yield from self._send(install._replace(member_epoch=self._of.epoch))

    def _for_another_epoch(self, install: InstallAssignmentRequest) -> Step:
        step = self.world.chance.choice((-1, 1))
        yield from self._send(install._replace(group_epoch=install.group_epoch + step))

    def _dying(self, install: InstallAssignmentRequest) -> Step:
        self._of.vanishes = True
        yield LOOK_S

    def _silently(self, install: InstallAssignmentRequest) -> Step:
        yield LOOK_S

    def _unasked(self) -> Step:
        """Send what somebody was handed out, perhaps somebody else."""
        handed: PrepareAssignmentResponse = self._judge.handed[-1]
        yield from self._send(self._of.fake.install(handed))

    def answered(self, asked: Asked, body: Any | None) -> None:
        self._judge.heard(body)
        super().answered(asked, body)


def _prepare(body: Any) -> Ask:
    return Ask(CONSUMER_GROUP_PREPARE_ASSIGNMENT, 0, body)
