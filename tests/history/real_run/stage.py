"""A swarm with faults on a real tier: what it leaves behind is a history, and the swarm's own record."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from actors.ground.spec import partition_group
from actors.protocol.java_hash import partition_for
from bench.chaos.targets import sites
from bench.chaos.targets.site import Site
from bench.chaos.targets.target import process, send
from bench.ground.throwaway import Tier
from bench.swarm.load.driver import Second, run_swarm
from bench.swarm.planning import scenario as scenarios
from bench.swarm.planning.plan import Plan
from bench.swarm.planning.scenario import Changes
from storage.history.call_files import read_history
from storage.history.segments.folder import Folder
from tests.history.real_run.answers import Back
from tests.history.real_run.record import Record

KILLED_AFTER: Final = 0.6
"""The moment at which the leader is killed, as a share of the run."""
BEFORE: Final = 100
AFTER: Final = 40
"""The offset to which a test sets a group back, from BEFORE, so that history has something to find."""
DEADLINE_S: Final = 30.0


class Played(NamedTuple):
    """A run that is over and whose tier is stopped."""

    folder: Folder
    record: Record
    killed_partition: int
    killed_ms: int
    rewound: Back
    """The offset that the test reset by hand, so that there is something to find."""


def play(
    directory: Path,
    file: Path,
    *,
    duration_s: float | None,
    partitions: int,
    segment_ms: int,
    heartbeat_ms: int,
) -> Played:
    """Run a scenario to its end and kill the leader of its first group's offsets partition on the way."""
    plan = scenarios.load(str(file)).changed(Changes(duration_s=duration_s)).plan(seed=8)
    partition = partition_for(plan.members[0].group_id, partitions)
    interval = "group.consumer.{}heartbeat.interval.ms={}"
    settings = (
        f"history.dir={directory}/history",
        f"history.segment.ms={segment_ms}",
        "group.initial.rebalance.delay.ms=200",
        interval.format("min.", heartbeat_ms),
        interval.format("", heartbeat_ms),
    )
    flags = [part for setting in settings for part in ("--set", setting)]
    with Tier("--partitions", str(partitions), *flags) as tier, sites.running(tier.data_dir) as site:
        site.wait_until_whole()
        kill = _Kill(site, partition, plan.duration_s * KILLED_AFTER)
        calls = run_swarm(plan, tier.bootstrap, directory / "swarm", on_second=kill)
        site.wait_until_whole()
        rewound = _rewind(tier.bootstrap, plan)
    return Played(
        Folder(f"{directory}/history"), Record(plan, read_history(calls)), partition, kill.at_ms, rewound
    )


class _Kill:
    """Follows the swarm's seconds, and kills the leader when it is time."""

    def __init__(self, site: Site, partition: int, after_s: float) -> None:
        self._site = site
        self._partition = partition
        self._after_s = after_s
        self.at_ms = 0

    def __call__(self, second: Second) -> None:
        if self.at_ms or second.at_s < self._after_s:
            return
        leader = self._site.leader(partition_group(self._partition))
        if leader is not None:
            send(process(leader.pid), signal.SIGKILL)
            self.at_ms = time.time_ns() // 1_000_000


def _rewind(bootstrap: str, plan: Plan) -> Back:
    """Rewind a group as an administrator does who has it read again what it has read."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = plan.topics[Random(plan.seed).randrange(len(plan.topics))].name
    for offset in (BEFORE, AFTER):
        wanted = ConsumerGroupTopicPartitions("rewound", [TopicPartition(topic, 0, offset)])
        admin.alter_consumer_group_offsets([wanted])["rewound"].result(DEADLINE_S)
    return Back("rewound", topic, 0, BEFORE, AFTER)
