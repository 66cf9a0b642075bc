"""A tier of ours in front of Kafka, both under attack: clients know the brokers and the nodes of the tier,
which takes the groups over while they work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from actors.ground.calls import ActorCallError
from actors.ground.upstream_goal import DETACHED
from bench.chaos.targets.kafka_site import Broker, KafkaSite
from bench.chaos.targets.operating import operate
from bench.chaos.targets.site import Equipment, Site
from bench.chaos.targets.target import (
    BROKER,
    EVERYBODY,
    KAFKA,
    KAFKA_BROKER,
    KAFKA_CONTROLLER,
    NothingToHit,
    Server,
    Target,
    until,
)
from cluster import tier_file
from cluster.taking_over import TakeOver, TakeOverState
from cluster.tier_file import TierError

LEAVE_TIMEOUT_S: Final = 60.0
DETACHED_TIMEOUT_S: Final = 120.0
NOT_REGISTERED: Final = "not registered"
"""What a node is to the cluster that does not have it for a broker."""


class AttachedSite(Site):
    """A tier in front of the brokers of `kafka`. Made by `bench.chaos.targets.sites`."""

    def __init__(self, data_dir: Path, equipment: Equipment, kafka: KafkaSite) -> None:
        super().__init__(data_dir, equipment)
        self.kafka = kafka
        self.bootstrap = f"{kafka.bootstrap},{self.bootstrap}"
        self.software = f"{self.software} in front of {kafka.software}"

    @property
    def has(self) -> frozenset[str]:
        return super().has | {"upstream"}

    def begin_under_load(self) -> None:
        self.attach()

    def attach(self) -> None:
        """Have the tier take over all groups, as an operator does. Returns when it has begun."""
        self._operate("attach", "--despite-warnings", "--no-wait")
        self.kafka.guests = len(self.nodes)

    def detach(self) -> None:
        """Have the tier give all groups back, as an operator does. Returns when the first partition leaves.
        Raises TimeoutError."""
        self._operate("detach", "--no-wait")
        self.kafka.guests = 0
        until(
            lambda: self._state().served < self.spec.offsets_partitions, "a partition leaves", LEAVE_TIMEOUT_S
        )

    def attach_again(self) -> None:
        """Wait until everything is given back and no node is a broker, and have the tier take it over. Raises
        TimeoutError."""

        def has_left() -> bool:
            state = self._state()
            return state.goal == DETACHED and set(state.nodes.values()) == {NOT_REGISTERED}

        until(has_left, "all groups are given back", DETACHED_TIMEOUT_S)
        self.attach()

    def resume(self) -> None:
        """Have the tier take back what leaves; all of it, if that has left already."""
        if self._state().goal == DETACHED:
            self.attach()
        else:
            self._operate("attach", "resume", "--no-wait")
            self.kafka.guests = len(self.nodes)

    # Looking.

    def is_whole(self) -> bool:
        return super().is_whole() and not self._complaint()

    def complaints(self) -> str:
        said = (super().complaints() if not super().is_whole() else "", self._complaint())
        return "; ".join(filter(None, said)) or "nobody complains"

    def _complaint(self) -> str:
        """Say what is not well with the brokers, or not taken over; empty if all is as it is wanted."""
        if words := self.kafka.complaint():
            return words
        try:
            state = self._state()
        except (TierError, ActorCallError) as error:
            return str(error)
        return "" if state.goal == DETACHED or state.is_over else state.in_words()

    def _state(self) -> TakeOverState:
        tier, _ = tier_file.require_running(self.data_dir)
        return TakeOver(tier, self.data_dir).state()

    # Hitting.

    def find(self, whom: str, chance: Random) -> Sequence[Server]:
        if whom not in OF_KAFKA:
            return super().find(whom, chance)
        found = self.kafka.find(OF_KAFKA[whom], chance)
        if whom != KAFKA_CONTROLLER:
            return found
        active = self.kafka.active_controller()
        if active is None:
            raise NothingToHit("no controller of Kafka's is active")
        return [active]

    def bring_back(self, ended: Sequence[Server]) -> None:
        self.kafka.bring_back([each for each in ended if isinstance(each, Broker)])

    def _operate(self, *arguments: str) -> None:
        """Give a command of `groupd`. Raises TierError with its words."""
        done = operate(self.data_dir, *arguments)
        if done.returncode:
            raise TierError(f"{' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()}")


OF_KAFKA: Final = {KAFKA_BROKER: BROKER, KAFKA_CONTROLLER: BROKER, KAFKA: EVERYBODY}
"""What the names of faults mean among the brokers: a controller is hit where a broker can be spared."""


def attached(target: Target) -> AttachedSite:
    """Narrow a target to a tier in front of Kafka."""
    assert isinstance(target, AttachedSite), "the fault needs an upstream cluster"
    return target
