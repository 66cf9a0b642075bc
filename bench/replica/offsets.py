"""What a commit and a fetch of offsets cost a replica, and what an offset takes in its memory, in process.

Where a leader gets a few requests a second, its caches are cold, and a call costs several times what it does
here: so calls are counted, too, those of Python functions and those of functions in C. They do not depend on
what else the machine does.

A leader gets OffsetCommit and OffsetFetch as frames, each in a turn of its own, and its log commits at once;
a follower applies the same entries. Sockets, Raft and the journal are not measured here. Times are CPU times
of the process, each the least of several rounds, so that what else runs on the machine disturbs little.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, cycle, islice
from types import FrameType
from typing import Any, Final, NamedTuple

from actors.catalog.headers import parse_header
from actors.coordinator.shard import CoordinatorShard
from actors.ground import records
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.release import LEVEL_MAX
from actors.ground.settings import GroupSettings
from actors.leader.group_server import GroupServer, Share
from actors.leader.known_requests import SCANNED_MAX, KnownRequests
from actors.network.wire import request_frame
from actors.protocol.partitioning import Partitioning
from actors.replica.entry import RecordType
from actors.replica.replica import Replica
from cluster.cli.common import console
from cluster.cli.tables import Table

COMMITTED: Final = (1, 10, 100)
"""How many partitions of a topic a request commits."""
FETCHED: Final = 100
MEMORY_OF: Final = (1, 10, 100, 1_000)
"""How many partitions of its topic a group has committed when its memory is measured."""
ALONE_OF: Final = (10, 100, 1_000)
"""The same, where each is committed by a request of its own."""
GROUPS: Final = SCANNED_MAX
ROUNDS: Final = 15
REQUESTS: Final = 512
"""How many requests a round has."""
OFFSETS: Final = 200_000
NOW_MS: Final = 1_700_000_000_000
TOPIC: Final = "orders"
PARTITIONS: Final = max(MEMORY_OF)


class Calls(NamedTuple):
    """How many calls one request is."""

    python: int
    c: int

    def __str__(self) -> str:
        return f"{self.python} + {self.c}"


class Costs(NamedTuple):
    """The CPU of one request in microseconds."""

    name: str
    calls: Calls
    """The leader's calls, from the request's bytes to those of the answer."""
    leader_us: float
    follower_us: float | None = None
    """It is None if the request writes nothing."""
    log_bytes: float | None = None
    """The bytes that the request adds to the log, or None."""


class Memory(NamedTuple):
    """The bytes that Python allocated for each offset."""

    each: int
    """How many partitions of its topic a group has committed."""
    follower_bytes: float
    leader_bytes: float
    is_alone: bool
    """Whether each partition was committed by a request of its own."""


class _Line:
    """The clients' connection, whose answers nobody reads."""

    identity = ClientIdentity("/10.1.2.3", "10.1.2.3:1")
    holding = None
    known: KnownRequests | None = None

    def answer(self, frame: bytes) -> None:
        pass


class Pair:
    """A leader, and a follower that gets its entries. The log is this object: a proposal is committed at
    once."""

    is_leader = True
    term = 1
    pending_bytes = 0

    def __init__(self, *, knows: bool = True) -> None:
        """Make a pair whose leader `knows` requests that are repeated, or decodes each of them."""
        self.entries: list[bytes] = []
        self._line = _Line()
        self._knows = knows
        self.leader, self.follower = self._replica(), self._replica()
        self._server = GroupServer(self.leader, Share(0, lambda: Partitioning(1)), lambda: NOW_MS)
        self.leader.log = self
        self.leader.on_leading(self.term)
        self._index = 0

    def _replica(self) -> Replica:
        ids, image = count(1), _image()
        replica = Replica(
            new_shard=lambda: CoordinatorShard(GroupSettings(), lambda: f"id-{next(ids)}", image),
            record_types={kind: RecordType(*types) for kind, types in records.RECORD_TYPES.items()},
            release=lambda token, body: self._server.release(token, body),
            clock_ms=lambda: NOW_MS,
            on_events=lambda _events: None,
        )
        replica.on_metadata(image, NOW_MS)
        return replica

    def has_lease(self) -> bool:
        return True

    def propose(self, command: bytes) -> int:
        self.entries.append(command)
        return len(self.entries)

    def serve(self, frame: bytes) -> None:
        """Serve one request in a turn of its own."""
        requests = self._line.known
        known = requests.find(frame, requests.image) if self._knows and requests is not None else None
        if known is not None:
            self._server.again(known, frame, self._line.answer)
        else:
            header, body_offset = parse_header(frame)
            self._server.serve(header, frame, body_offset, self._line)
        self.leader.flush()
        while self._index < len(self.entries):
            self._index += 1
            self.leader.apply(self._index, self.term, self.entries[self._index - 1])

    def serve_all(self, frames: Iterable[bytes]) -> None:
        for frame in frames:
            self.serve(frame)

    def follow(self) -> None:
        """Apply on the follower what the leader has committed, and forget it."""
        for index, command in enumerate(self.entries, 1):
            self.follower.apply(index, self.term, command)

    def forget(self) -> None:
        self.entries.clear()
        self._index = 0


def _image() -> MetadataImage:
    topics = (TopicImage(TOPIC.encode().rjust(16, b"-"), TOPIC, (0,) * PARTITIONS),)
    return MetadataImage(version=1, topics=topics, features=Features(1, ((GROUPD_VERSION, LEVEL_MAX),)))


def commit_frame(group: int, partitions: int, number: int, first: int = 0) -> bytes:
    """Make an OffsetCommit 8 without metadata, of partitions from `first` on. Of a higher `number` the
    offsets are higher."""
    asked = [
        {
            "partition_index": partition,
            "committed_offset": 1_000_000_000 + 1_000 * number + partition,
            "committed_leader_epoch": 5,
            "committed_metadata": "",
        }
        for partition in range(first, first + partitions)
    ]
    fields = {
        "group_id": f"orders-service-{group}",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": TOPIC, "partitions": asked}],
    }
    return request_frame("offset_commit", 8, 1, "bench", fields)[4:]


def fetch_frame(group: int, partitions: int) -> bytes:
    asked = [{"name": TOPIC, "partition_indexes": list(range(partitions))}]
    return request_frame(
        "offset_fetch", 7, 1, "bench", {"group_id": f"orders-service-{group}", "topics": asked}
    )[4:]


def measure() -> list[Costs]:
    """Measure commits and fetches, each kind of commit with replicas of its own."""
    gc.collect()
    gc.freeze()
    costs = [_commits(partitions) for partitions in COMMITTED]
    costs += [_commits(partitions, knows=False) for partitions in COMMITTED]
    return [*costs, _fetches()]


def _commits(partitions: int, *, knows: bool = True) -> Costs:
    pair = Pair(knows=knows)
    leader_us, follower_us, sizes = [], [], []
    for number in range(ROUNDS):
        frames = [commit_frame(group, partitions, number) for group in range(GROUPS)]
        some = list(islice(cycle(frames), REQUESTS))
        leader_us.append(_us(partial(pair.serve_all, some)))
        follower_us.append(_us(pair.follow))
        sizes.append(sum(map(len, pair.entries)) / REQUESTS)
        pair.forget()
    calls = counted(partial(pair.serve, some[-1]))
    name = f"OffsetCommit of {partitions}" + ("" if knows else ", new")
    return Costs(name, calls, min(leader_us), min(follower_us), min(sizes))


def _fetches() -> Costs:
    pair = Pair()
    for group in range(GROUPS):
        pair.serve(commit_frame(group, FETCHED, 0))
    some = list(islice(cycle([fetch_frame(group, FETCHED) for group in range(GROUPS)]), REQUESTS))
    fetched_us = [_us(partial(pair.serve_all, some)) for _ in range(ROUNDS)]
    return Costs(f"OffsetFetch of {FETCHED}", counted(partial(pair.serve, some[-1])), min(fetched_us))


def counted(work: Callable[[], Any]) -> Calls:
    """Count the calls of `work`, which calls one function that does all of it."""
    counted: Counter[str] = Counter()

    def count_call(frame: FrameType, event: str, function: Any) -> None:
        counted[event] += 1

    sys.setprofile(count_call)
    work()
    sys.setprofile(None)
    # The bench's own: its function, and the end of the profile.
    return Calls(counted["call"] - 1, counted["c_call"] - 1)


def _us(work: Callable[[], Any]) -> float:
    """Return the CPU time of one of the requests of `work`, in microseconds."""
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / REQUESTS / 1_000


def memory(each: int, *, alone: bool = False) -> Memory:
    """Measure in processes of their own what an offset takes in groups of so many."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        follower, leader = (pool.apply(_grown, (each, alone, leads)) for leads in (False, True))
    return Memory(each, follower, leader, alone)


def _grown(each: int, alone: bool, leads: bool) -> float:
    pair = Pair()
    pair.serve(commit_frame(0, each, 0))
    pair.follow()
    pair.forget()
    groups = OFFSETS // each
    frames = _frames_alone(each, groups) if alone else _frames(each, groups)
    if leads:
        tracemalloc.start()
        for frame in frames:
            pair.serve(frame)
            pair.forget()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / OFFSETS
    entries = []
    for frame in frames:
        pair.serve(frame)
        entries += pair.entries
        pair.forget()
    del pair.leader
    gc.collect()
    tracemalloc.start()
    for index, command in enumerate(entries, 1):
        pair.follower.apply(index, pair.term, command)
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / OFFSETS


def _frames(each: int, groups: int) -> Iterator[bytes]:
    template = commit_frame(10_000_000, each, 0)
    for group in range(10_000_000, 10_000_000 + groups):
        yield template.replace(b"-10000000", b"-%d" % group)


def _frames_alone(each: int, groups: int) -> Iterator[bytes]:
    templates = [commit_frame(10_000_000, 1, 0, first) for first in range(each)]
    for group in range(10_000_000, 10_000_000 + groups):
        for template in templates:
            yield template.replace(b"-10000000", b"-%d" % group)


def main() -> None:
    """Print the figures as tables."""
    table = Table(title="CPU of one request, in microseconds")
    for column in ("request", "calls (Python + C)", "leader", "follower", "bytes of log"):
        table.add_column(column, justify="right")
    for costs in measure():
        figures = ("-" if each is None else f"{each:,.1f}" for each in costs[2:])
        table.add_row(costs.name, str(costs.calls), *figures)
    console.print(table)
    table = Table(title="Bytes of memory for each offset")
    for column in ("a group's offsets of a topic", "follower", "leader"):
        table.add_column(column, justify="right")
    for found in (*map(memory, MEMORY_OF), *map(partial(memory, alone=True), ALONE_OF)):
        name = f"{found.each:,}" + (", each alone" if found.is_alone else "")
        table.add_row(name, f"{found.follower_bytes:,.0f}", f"{found.leader_bytes:,.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
