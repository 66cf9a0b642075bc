"""Whoever asks the controller: for topics, or to have nodes drained, and thinks better of it."""

from __future__ import annotations

from typing import Any

from actors.ground.image import ACTIVE, DRAINING
from actors.metadata.node_commands import SetNodeDuty
from actors.metadata.records import NODE
from tests.simulation.asked import Ask
from tests.simulation.clients import Administrator, Client, Script, Step
from tests.simulation.drain.tier import Tier

RESTS_S = (0.05, 0.9)
KEEPING = 0.3
"""How often a node that is drained is to hold replicas again."""


class Creator(Administrator):
    """Creates topics, by brokers that open their ports when the tier is founded."""

    def begin(self) -> Step:
        while not any(key[0] == NODE for key in self.world.state.live):
            yield 0.1


class Operator(Client):
    """Asks the controller as `groupd nodes drain` and `groupd nodes keep` do."""

    def __init__(self, tier: Tier) -> None:
        super().__init__(tier.controllers, "operator")
        self._tier = tier
        self.drained = 0

    def is_well(self, since: float) -> bool:
        return bool(self._tier.draining())

    def script(self) -> Script:
        chance = self._tier.chance
        while True:
            yield chance.uniform(*RESTS_S)
            draining = self._tier.draining()
            if self.world.is_healed and draining:
                continue
            if draining and chance.random() < KEEPING:
                command = SetNodeDuty(chance.choice(draining), ACTIVE)
            else:
                command = SetNodeDuty(self._whom(), DRAINING)
            answer: Any = yield from self.call(Ask(-1, 0, command))
            self._tier.note(f"{command}: {answer.error_message or 'done'}")
            self.drained += command.duty == DRAINING and not answer.error_code

    def _whom(self) -> int:
        """Choose a node: often one that leads."""
        chance = self._tier.chance
        world = chance.choice(self._tier.worlds)
        leader = world.leader()
        if leader is not None and chance.random() < 0.5:
            return world.node_of[leader.number]
        return chance.choice(self._tier.nodes)
