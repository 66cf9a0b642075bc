"""How long a snapshot keeps a replica from its requests: the longest single pause, in one process.

A real coordinator shard runs in a real replica, whose log commits at once. Between two slices of a build the
replica serves heartbeats and commits, so that the build has changes to keep track of. Not measured here are
the journal, the network, and the writing of the file, which has a thread of its own.
"""

from __future__ import annotations

import gc
import random
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar

import msgpack
from crc32c import crc32c

from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import OFFSET_COMMIT, RECORD_TYPES, OffsetCommitKey, OffsetCommitValue
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
)
from actors.replica.entry import RecordType
from actors.replica.log_level import FORMAT_VERSION
from actors.replica.replica import Replica
from cluster.cli.common import console
from cluster.cli.tables import Table

T = TypeVar("T")
GOAL_MS = 20
GROUPS = (200, 1)
"""The number of groups that share the same offsets: the walk copies the keys of one group at a time."""
PARTITIONS = 500
"""The number of partitions of each topic."""
BUILDS = 5
RESTORES = 3
PAUSES = ("begin", "step", "crc", "restore")
REQUESTS_PER_STEP = 50
RECORDS_PER_ENTRY = 1_000
NOW_MS = 1_700_000_000_000
MEMBER_GROUP, MEMBER = "beating", "member"


class Pauses(NamedTuple):
    """The size of a snapshot, and the longest of each pause in milliseconds."""

    live_offsets: int
    groups: int
    snapshot_bytes: int
    steps: int
    begin_ms: float
    step_ms: float
    """The longest step; the last one, which gives the bytes, is among them."""
    crc_ms: float
    restore_ms: float
    """The time to restore the whole state at once, as when a process starts, or on a follower that lags too
    far."""


def measure(live_offsets: int = 100_000, groups: int = 200) -> Pauses:
    """Build snapshots of so many offsets while requests are served, and restore them."""
    served, watch = _Served(live_offsets, groups), _Watch()
    steps, data = 0, b""
    for _ in range(BUILDS):
        steps, data = _build(served, watch)
    for _ in range(RESTORES):
        watch.time("restore", partial(served.replica.restore, data))
    return Pauses(live_offsets, groups, len(data), steps, *(watch.longest_ms[name] for name in PAUSES))


def _build(served: _Served, watch: _Watch) -> tuple[int, bytes]:
    """Build one snapshot. Returns how many steps it took, and its data."""
    build = watch.time("begin", served.replica.begin_snapshot)
    steps, data = 0, None
    while data is None:
        served.serve()
        data = watch.time("step", build.step)
        steps += 1
    watch.time("crc", partial(crc32c, data))
    return steps, data


class _Watch:
    """The longest time of each kind of work, in CPU time of this thread: the work waits for nothing, and
    other programs do not count."""

    def __init__(self) -> None:
        self.longest_ms: defaultdict[str, float] = defaultdict(float)

    def time(self, name: str, work: Callable[[], T]) -> T:
        started = time.thread_time()
        result = work()
        self.longest_ms[name] = max(self.longest_ms[name], 1000 * (time.thread_time() - started))
        return result


class _Served:
    """A leading replica with offsets and one member. It is its own log: a proposal is committed at once."""

    is_leader = True
    term = 1
    pending_bytes = 0

    def __init__(self, live_offsets: int, groups: int) -> None:
        topics = -(-live_offsets // groups // PARTITIONS)
        self._chance = random.Random(1)
        self._tokens = count(1)
        self._entries = 0
        self._proposed: list[tuple[int, bytes]] = []
        self._places = [
            (f"group-{n % groups}", f"topic-{n // groups // PARTITIONS}", n // groups % PARTITIONS)
            for n in range(live_offsets)
        ]
        image = MetadataImage(
            version=1,
            topics=tuple(
                TopicImage(n.to_bytes(16, "big"), f"topic-{n}", (0,) * PARTITIONS) for n in range(topics)
            ),
        )
        ids = count(1)
        self.replica = Replica(
            new_shard=lambda: CoordinatorShard(GroupSettings(), lambda: f"id-{next(ids)}", image),
            record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
            release=lambda _token, _body: None,
            clock_ms=lambda: NOW_MS,
            on_events=lambda _events: None,
        )
        self.replica.log = self
        # Every actor does this once it has started; its state comes later and is not frozen.
        gc.collect()
        gc.freeze()
        self._load()
        self.replica.on_leading(self.term)
        self._send(api_keys.CONSUMER_GROUP_HEARTBEAT, 1, self._beat(0))

    def has_lease(self) -> bool:
        return True

    def propose(self, command: bytes) -> int:
        self._entries += 1
        self._proposed.append((self._entries, command))
        return self._entries

    def serve(self) -> None:
        """Serve one turn of the loop: heartbeats, and now and then a commit."""
        for number in range(REQUESTS_PER_STEP):
            if number % 5:
                self._send(api_keys.CONSUMER_GROUP_HEARTBEAT, 1, self._beat(2))
                continue
            group_id, topic, partition = self._chance.choice(self._places)
            topics = ((topic, (CommittedPartition(partition, number),)),)
            self._send(api_keys.OFFSET_COMMIT, 9, OffsetCommitRequest(group_id, -1, "", None, -1, topics))
        self.replica.flush()
        for index, command in self._proposed:
            self.replica.apply(index, self.term, command)
        self._proposed.clear()

    def _send(self, api_key: int, version: int, body: Any) -> None:
        request = Request(next(self._tokens), api_key, version, "bench", "/127.0.0.1", body)
        self.replica.submit(request, NOW_MS)

    def _beat(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        if epoch:
            return ConsumerGroupHeartbeatRequest(MEMBER_GROUP, MEMBER, epoch)
        return ConsumerGroupHeartbeatRequest(
            MEMBER_GROUP, MEMBER, 0, None, None, 30_000, ("topic-0",), topic_partitions=()
        )

    def _load(self) -> None:
        """Load records as a follower gets them: entry by entry."""
        for first in range(0, len(self._places), RECORDS_PER_ENTRY):
            packed = [msgpack.packb((FORMAT_VERSION, self.term))]
            for group_id, topic, partition in self._places[first : first + RECORDS_PER_ENTRY]:
                key = OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition)
                packed.append(
                    msgpack.packb((key, OffsetCommitValue(partition, -1, "", NOW_MS, -1, bytes(16))))
                )
            self._entries += 1
            self.replica.apply(self._entries, self.term, b"".join(packed))


def main() -> None:
    """Print the pauses as a table."""
    table = Table(title=f"Longest pauses, goal {GOAL_MS} ms")
    for column in ("live offsets", "groups", "MB", "steps", *PAUSES):
        table.add_column(column, justify="right")
    for groups in GROUPS:
        pauses = measure(groups=groups)
        table.add_row(
            f"{pauses.live_offsets:,}",
            f"{pauses.groups:,}",
            f"{pauses.snapshot_bytes / 1e6:.1f}",
            f"{pauses.steps}",
            *(f"{pause_ms:.1f} ms" for pause_ms in pauses[4:]),
        )
    console.print(table)


if __name__ == "__main__":
    main()
