"""The long pieces of work of one group, each the time in which no other group's heartbeat is answered.

A real shard runs in a real replica, in process. Each call that the loop makes is timed, in CPU time of the
thread, so that other programs do not count. Packing an answer is a call of its own, because a large one is
packed in a thread (`actors.leader.large_answers`). Not measured here are assignments (`groupd bench kernels`)
and snapshots (`groupd bench snapshot`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import msgpack

from actors.catalog import codec
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.shard import CoordinatorShard
from actors.ground import records
from actors.ground.collector import keep_collections_short
from actors.ground.contract import Request
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.leader.large_answers import is_large
from actors.protocol import api_keys
from actors.protocol import messages as m
from actors.replica.entry import RecordType
from actors.replica.log_level import FORMAT_VERSION
from actors.replica.replica import Replica
from bench.replica import member_memory
from cluster.cli.common import console
from cluster.cli.tables import Table

GOAL_MS = 20
MEMBERS = 10_000
GROUPS = 100_000
OFFSETS = 1_000_000
TOPICS = 1_000
NOW_MS = member_memory.NOW_MS
RECORDS_PER_ENTRY = 1_000


class Work(NamedTuple):
    """The figures of one kind of work: its longest call, all its calls together, and their number."""

    name: str
    longest_ms: float
    total_ms: float
    calls: int


class _Served:
    """A leading replica that is its own log: a proposal is committed one turn later."""

    is_leader = True
    term = 1
    pending_bytes = 0

    def __init__(self, topics: int = TOPICS) -> None:
        ids, self._tokens = count(1), count(1)
        self._index = 0
        self._proposed: list[tuple[int, bytes]] = []
        self._asked: dict[int, tuple[int, int]] = {}
        self.answers: list[Any] = []
        self.now_ms = NOW_MS
        self._calls_ms: list[float] = []
        image = MetadataImage(
            version=1,
            topics=tuple(TopicImage(n.to_bytes(16, "big"), f"t{n}", (0,) * TOPICS) for n in range(topics)),
        )
        settings = GroupSettings(group_initial_rebalance_delay_ms=0)
        self.replica = Replica(
            new_shard=lambda: CoordinatorShard(settings, lambda: f"{next(ids):036d}", image),
            record_types={kind: RecordType(*types) for kind, types in records.RECORD_TYPES.items()},
            release=self._release,
            clock_ms=lambda: self.now_ms,
            on_events=lambda _events: None,
        )
        self.replica.log = self

    def has_lease(self) -> bool:
        return True

    def propose(self, command: bytes) -> int:
        self._index += 1
        self._proposed.append((self._index, command))
        return self._index

    def load(self, pairs: Iterator[tuple[Any, Any]]) -> None:
        """Load records as a follower gets them: entry by entry."""
        head = msgpack.packb((FORMAT_VERSION, self.term))
        packed = [head]
        for pair in pairs:
            packed.append(msgpack.packb(pair))
            if len(packed) > RECORDS_PER_ENTRY:
                self._apply(b"".join(packed))
                packed = [head]
        self._apply(b"".join(packed))

    def lead(self) -> None:
        self.replica.on_leading(self.term)
        self.slices()
        self._calls_ms.clear()

    def _apply(self, command: bytes) -> None:
        self._index += 1
        self.replica.apply(self._index, self.term, command)

    def ask(self, api_key: int, version: int, body: Any) -> None:
        """Submit one request, and time it and each of the turns of the loop that follow."""
        token = next(self._tokens)
        self._asked[token] = (api_key, version)
        request = Request(token, api_key, version, "bench", "/127.0.0.1", body)
        self.timed(lambda: self._submit(request))
        self.turn()
        self.slices()

    def slices(self) -> None:
        """Do the work that is done a slice a turn."""
        while self.replica.next_deadline_ms == 0:
            self.timed(lambda: self.replica.run_timers(self.now_ms))
            self.turn()

    def _submit(self, request: Request) -> None:
        answer = self.replica.submit(request, self.now_ms)
        if answer is not None:
            self._release(request.token, answer)

    def turn(self) -> None:
        self.timed(self.replica.flush)
        proposed, self._proposed = self._proposed, []
        for index, command in proposed:
            self.timed(partial(self.replica.apply, index, self.term, command))

    def timed(self, call: Callable[[], None]) -> None:
        started = time.thread_time()
        call()
        self._calls_ms.append(1_000 * (time.thread_time() - started))

    def work(self, name: str) -> Work:
        """The figures since the last call, as those of one kind of work."""
        calls, self._calls_ms = self._calls_ms, []
        return Work(name, max(calls), sum(calls), len(calls))

    def _release(self, token: int, body: Any) -> None:
        api_key, version = self._asked.pop(token)
        if not is_large(api_key, body):
            codec.encode(api_key, version, 1, body)
        self.answers.append(body)


def _of_classic(members: int, groups: int = 1) -> _Served:
    """Make stable classic groups."""
    served = _Served()
    member_memory.load(served.replica, "classic", members * groups, members)
    served.lead()
    return served


def describe_classic() -> Work:
    served = _of_classic(MEMBERS)
    served.ask(api_keys.DESCRIBE_GROUPS, 6, m.DescribeGroupsRequest(("orders-service-0",)))
    return served.work(f"DescribeGroups, one group of {MEMBERS:,}")


def describe_consumer() -> Work:
    served = _Served()
    member_memory.load(served.replica, "consumer", MEMBERS, MEMBERS)
    served.lead()
    served.ask(api_keys.CONSUMER_GROUP_DESCRIBE, 1, m.ConsumerGroupDescribeRequest(("orders-service-0",)))
    return served.work(f"ConsumerGroupDescribe, one group of {MEMBERS:,}")


def list_groups() -> Work:
    served = _of_classic(1, GROUPS)
    served.timed(lambda: None)
    served.work("")
    served.ask(api_keys.LIST_GROUPS, 5, m.ListGroupsRequest())
    return served.work(f"ListGroups of {GROUPS:,}")


def elect() -> Work:
    served = _Served()
    member_memory.load(served.replica, "classic", GROUPS, 5)
    served.timed(lambda: served.replica.on_leading(served.term))
    served.slices()
    return served.work(f"begin to lead {GROUPS:,} members")


def _with_offsets() -> _Served:
    served = _Served()
    value = records.OffsetCommitValue(1, -1, "", NOW_MS, records.NO_EXPIRY, bytes(16))
    served.load(
        (records.OffsetCommitKey(records.OFFSET_COMMIT, "big", f"t{n // TOPICS}", n % TOPICS), value)
        for n in range(OFFSETS)
    )
    served.lead()
    return served


def fetch_all() -> Work:
    served = _with_offsets()
    group = m.OffsetFetchGroup("big", None)
    served.ask(api_keys.OFFSET_FETCH, 8, m.OffsetFetchRequest((group,), False))
    return served.work(f"OffsetFetch of all {OFFSETS:,} offsets")


def delete_group() -> Work:
    served = _with_offsets()
    served.ask(api_keys.DELETE_GROUPS, 2, m.DeleteGroupsRequest(("big",)))
    while not served.answers:
        served.turn()
    served.now_ms += 20
    served.timed(lambda: served.replica.run_timers(served.now_ms))
    served.slices()
    return served.work(f"DeleteGroups of {OFFSETS:,} offsets")


def _join(group_id: str, member_id: str, reason: str = "") -> m.JoinGroupRequest:
    protocols = (("range", b"\0\1" + reason.encode()),)
    return m.JoinGroupRequest(group_id, 45_000, 300_000, member_id, None, "consumer", protocols)


def rebalance() -> Work:
    """Measure a rebalance: all members rejoin, the leader's answer names them all, and its SyncGroup assigns
    to them all."""
    served = _of_classic(MEMBERS)
    ids = list(member_memory.ids("classic", MEMBERS, MEMBERS))
    for group_id, member_id in ids:
        served.ask(api_keys.JOIN_GROUP, 9, _join(group_id, member_id, "again"))
    group_id, leader = ids[0]
    generation = classic_groups(served.replica.shard.state)[group_id].generation  # type: ignore[attr-defined]
    for member in [*(each for _, each in ids[1:]), leader]:
        assignments = tuple((each, bytes(30)) for _, each in ids) if member == leader else ()
        body = m.SyncGroupRequest(group_id, generation, member, None, "consumer", "range", assignments)
        served.ask(api_keys.SYNC_GROUP, 5, body)
    return served.work(f"JoinGroup and SyncGroup, one group of {MEMBERS:,}")


def expire() -> Work:
    """Measure the expiry of a group whose members all fall silent at once."""
    served = _of_classic(MEMBERS)
    served.now_ms += 60_000
    while (due_ms := served.replica.next_deadline_ms) is not None and due_ms <= served.now_ms:
        served.timed(lambda: served.replica.run_timers(served.now_ms))
        served.turn()
    served.slices()
    return served.work(f"sessions of {MEMBERS:,} members of one group end")


KINDS = (
    describe_classic,
    describe_consumer,
    list_groups,
    elect,
    rebalance,
    expire,
    fetch_all,
    delete_group,
)


def measure() -> list[Work]:
    keep_collections_short()
    return [kind() for kind in KINDS]


def main() -> None:
    """Print the work as a table."""
    table = Table(title=f"Longest calls, goal {GOAL_MS} ms")
    for column in ("work", "longest call", "all of it", "calls"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for work in measure():
        table.add_row(work.name, f"{work.longest_ms:,.1f} ms", f"{work.total_ms:,.0f} ms", f"{work.calls:,}")
    console.print(table)


if __name__ == "__main__":
    main()
