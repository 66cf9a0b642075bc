"""What the operators of a Kafka cluster do to it while a tier stands in front: brokers are restarted, and
offsets partitions are moved by hand."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from bench.chaos.faults.upkeep import Work
from bench.chaos.targets.attached_site import AttachedSite, attached
from bench.chaos.targets.fault import SAFE, FaultKind, Injury
from bench.chaos.targets.kafka_site import OFFSETS_TOPIC
from bench.chaos.targets.target import (
    CONTROLLER,
    KAFKA_BROKER,
    KAFKA_CONTROLLER,
    LEADER,
    NODE,
    NothingToHit,
    Target,
    process,
    send,
)

NEEDS: Final = frozenset({"upstream"})
ANSWER_MS: Final = 10_000
REASSIGN_VERSION: Final = 0
ELECT_VERSION: Final = 2
PREFERRED: Final = 0
ELECTION_NOT_NEEDED: Final = 84


@dataclass(slots=True, kw_only=True)
class RestartBrokers:
    """Restart one of Kafka's brokers after the other, as for an upgrade."""

    name: str = "kafka-rolling-restart"
    about: str = "One broker after the other is shut down, without waiting for the tier, and started anew."
    reach: str = SAFE
    needs: frozenset[str] = NEEDS

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        """Begin the restart. The fault ends when the last broker is back, however long that takes."""
        kafka = attached(target).kafka
        numbers = kafka.nodes

        def work(stop: threading.Event) -> None:
            for number in numbers:
                kafka.restart_politely(number)

        return Injury(f"brokers {', '.join(map(str, numbers))}", Work(work, "restarting brokers").end)


@dataclass(slots=True, kw_only=True)
class Detach:
    """Have the groups given back to the brokers, and taken over again."""

    name: str
    about: str
    undo: Callable[[AttachedSite], None]
    hits: tuple[str, ...] = ()
    """One of these is killed while the first partition leaves; with () nobody is."""
    reach: str = SAFE
    needs: frozenset[str] = NEEDS

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = attached(target)
        hit = site.find(chance.choice(self.hits), chance) if self.hits else ()
        site.detach()
        for each in hit:
            send(process(each.pid), signal.SIGKILL)

        def undo() -> None:
            site.bring_back(hit)
            self.undo(site)

        return Injury(", ".join(each.label for each in hit) or "all groups", undo, killed=len(hit))


@dataclass(slots=True, kw_only=True)
class ByHand:
    """One request to a broker that changes who leads which offsets partitions. Nobody takes it back."""

    name: str
    about: str
    ask: Callable[[AttachedSite, Random], str]
    """Sends it. Returns what was done, in words. Raises NothingToHit if Kafka refuses it now."""
    reach: str = SAFE
    needs: frozenset[str] = NEEDS

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        return Injury(self.ask(attached(target), chance), lambda: None)


def _reassign(site: AttachedSite, chance: Random) -> str:
    """Have the brokers take a partition back."""
    partition = chance.randrange(site.spec.offsets_partitions)
    brokers = chance.sample(site.kafka.nodes, len(site.kafka.nodes))
    row = {"partition_index": partition, "replicas": brokers}
    topic = {"name": OFFSETS_TOPIC, "partitions": [row]}
    told = site.kafka.ask(
        "alter_partition_reassignments", REASSIGN_VERSION, timeout=ANSWER_MS, topics=[topic]
    )
    _check([told, *(row for each in told["responses"] for row in each["partitions"])])
    return f"partition {partition} to brokers {', '.join(map(str, brokers))}"


def _elect(site: AttachedSite, chance: Random) -> str:
    told = site.kafka.ask(
        "elect_leaders", ELECT_VERSION, election_type=PREFERRED, topic_partitions=None, timeout=ANSWER_MS
    )
    rows = [row for each in told["replica_election_results"] for row in each["partition_result"]]
    _check([told, *(row for row in rows if row["error_code"] != ELECTION_NOT_NEEDED)])
    return "all partitions"


def _check(rows: list[dict[str, Any]]) -> None:
    """Check that nothing was refused. Raises NothingToHit."""
    if errors := [row["error_code"] for row in rows if row["error_code"]]:
        raise NothingToHit(f"Kafka refuses it: error {errors[0]}")


KINDS: tuple[FaultKind, ...] = (
    RestartBrokers(),
    Detach(
        name="detach",
        about="All groups are given back to the brokers (`groupd detach`), and taken over again.",
        undo=AttachedSite.attach_again,
    ),
    Detach(
        name="detach-resumed",
        about="Groups are being given back to the brokers when the tier is told to take them over again.",
        undo=AttachedSite.resume,
    ),
    Detach(
        name="detach-killed",
        about="A process of either side is killed while groups are given back; they are taken over again.",
        undo=AttachedSite.attach_again,
        hits=(LEADER, CONTROLLER, NODE, KAFKA_BROKER, KAFKA_CONTROLLER),
    ),
    ByHand(
        name="kafka-reassigned",
        about="An offsets partition is reassigned to the brokers by hand.",
        ask=_reassign,
    ),
    ByHand(
        name="kafka-elected",
        about="The preferred leaders of all partitions are elected by hand.",
        ask=_elect,
    ),
)
