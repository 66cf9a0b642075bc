"""A real Kafka with the tier in front of it, where clients live through the same stories: topics and records
are the broker's, groups the tier's, and it is the tier's leaders that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.attached.site import Ground, Site, in_front_of, kafka
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import KafkaNodes
from tests.matrix.cell import OFFSETS_PARTITIONS, TIER_FLAGS, group_id_in

HEAP: Final = "512m"
SETTINGS: Final = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "auto.create.topics.enable": "false",
}


class Attached(NamedTuple):
    """The cluster's address, and the tier that coordinates its groups."""

    bootstrap: str
    tier: Tier

    def replicas(self) -> list[dict[str, Any]]:
        """Return the replicas of the tier's offsets partitions, as `Tier.replicas`."""
        return self.tier.replicas()


class _Nodes(KafkaNodes):
    controllers_apart = 1


class _OneBroker(Ground):
    def nodes(self, home: Path | None) -> KafkaNodes:
        """Return the processes of Kafka's."""
        return _Nodes(1, SETTINGS, home, heap=HEAP)


@contextmanager
def attached() -> Iterator[Attached]:
    """Start a broker, its controller and a tier, which takes all groups over. Raises CannotRun, and
    RuntimeError with their words."""
    with kafka(None, _OneBroker()) as nodes, in_front_of(nodes, *TIER_FLAGS) as tier:
        tier.run("attach", "--despite-warnings")
        site = Site(nodes, tier)
        site.check_taken_over([group_id_in(each, "attached") for each in range(OFFSETS_PARTITIONS)])
        yield Attached(site.bootstrap, tier)
