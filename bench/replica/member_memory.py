"""What an idle member of either protocol costs in memory, on a follower and on the leader, in process.

The members come to the replica as they come to a follower, in log entries; then it leads, and gets a
heartbeat of every member. Each figure has a process of its own, so that memory freed before does not count as
free. The member's connection and the journal are not measured here.

All groups read one topic, or each one of its own: what groups have alike is kept once, and that is less if
they have different topics.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from actors.coordinator.consumer.model.metadata import metadata_hash
from actors.coordinator.shard import CoordinatorShard
from actors.ground import records
from actors.ground.contract import Record, Request
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.consumer_protocol import Assignment, write_assignment
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest
from actors.replica.entry import RecordType
from actors.replica.log_level import FORMAT_VERSION
from actors.replica.replica import Replica
from cluster.cli.common import console
from cluster.cli.tables import Table

PROTOCOLS = ("classic", "consumer")
MEMBERS = 100_000
GROUP_SIZES = (5, 1_000)
GOAL_BYTES = 1_024
NOW_MS = 1_700_000_000_000
EPOCH = 7
RECORDS_PER_ENTRY = 1_000
UUID_BASE64 = 22
"""The number of characters of a UUID in base64."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """The bytes for each member: those that Python allocated, and those by which the process grew."""

    protocol: str
    members: int
    group_size: int
    own_topics: bool
    """Whether each group reads a topic of its own."""
    follower_bytes: float
    leader_bytes: float
    leader_rss_bytes: float


def measure(
    protocol: str, members: int = MEMBERS, group_size: int = 5, *, own_topics: bool = False
) -> Memory:
    """Measure in two processes: tracing the allocations makes the process itself larger."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1, maxtasksperchild=1) as pool:
        shape = protocol, members, group_size, own_topics
        follower, leader, _ = pool.apply(_grow, (*shape, True))
        _, _, rss = pool.apply(_grow, (*shape, False))
    sizes = (size / members for size in (follower, leader, rss))
    return Memory(*shape, *sizes)


def _grow(
    protocol: str, members: int, group_size: int, own_topics: bool, traced: bool
) -> tuple[int, int, int]:
    replica, served = replica_of(group_size, members // group_size if own_topics else 1)
    gc.collect()
    before = _rss_bytes()
    if traced:
        tracemalloc.start()
    load(replica, protocol, members, group_size, own_topics=own_topics)
    gc.collect()
    follower = tracemalloc.get_traced_memory()[0] if traced else 0
    lead(replica)
    for group_id, member_id in ids(protocol, members, group_size):
        beat(replica, served, protocol, group_id, member_id)
    gc.collect()
    leader = tracemalloc.get_traced_memory()[0] if traced else 0
    return follower, leader, _rss_bytes() - before


class _Log:
    """The log of a leader that has its lease and is given nothing to commit."""

    is_leader = True
    term = 1
    pending_bytes = 0

    def propose(self, command: bytes) -> int:
        raise AssertionError("a steady heartbeat writes nothing")

    def has_lease(self) -> bool:
        return True


def replica_of(group_size: int, topics: int = 1) -> tuple[Replica, Iterator[int]]:
    ids, image = count(1), _image(group_size, topics)
    replica = Replica(
        new_shard=lambda: CoordinatorShard(GroupSettings(), lambda: f"id-{next(ids)}", image),
        record_types={kind: RecordType(*types) for kind, types in records.RECORD_TYPES.items()},
        release=lambda _token, _body: None,
        clock_ms=lambda: NOW_MS,
        on_events=lambda _events: None,
    )
    replica.log = _Log()
    return replica, ids


def _image(group_size: int, topics: int) -> MetadataImage:
    some = (TopicImage(_topic_id(number), _topic(number), (0,) * group_size) for number in range(topics))
    return MetadataImage(version=1, topics=tuple(some))


def _topic(number: int) -> str:
    """The topic that a group reads; groups that have no topic of their own read the first."""
    return f"orders-{number:06d}"


def _topic_id(number: int) -> bytes:
    return _topic(number).encode().rjust(16, b"-")


def lead(replica: Replica) -> None:
    """Let the replica lead, and do all the work that an elected leader does a slice a turn."""
    replica.on_leading(1)
    while replica.next_deadline_ms == 0:
        replica.run_timers(NOW_MS)
        replica.flush()


def beat(replica: Replica, tokens: Iterator[int], protocol: str, group_id: str, member_id: str) -> None:
    if protocol == "classic":
        api_key, version = api_keys.HEARTBEAT, 4
        body: Any = HeartbeatRequest(group_id, EPOCH, member_id)
    else:
        api_key, version = api_keys.CONSUMER_GROUP_HEARTBEAT, 1
        body = ConsumerGroupHeartbeatRequest(group_id, member_id, EPOCH)
    answer = replica.submit(
        Request(next(tokens), api_key, version, _client(member_id), "/10.1.2.3", body), NOW_MS
    )
    assert answer is not None
    assert answer.error_code.value == 0, answer


def ids(protocol: str, members: int, group_size: int) -> Iterator[tuple[str, str]]:
    """Make group and member ids as they are in a tier: of a classic member its client id and a UUID, of a
    consumer member a UUID in base64."""
    for number in range(members):
        group = number // group_size
        client = f"consumer-{group}-{number % group_size}"
        member_id = f"{client}-{number:036d}" if protocol == "classic" else f"{number:022d}"
        yield f"orders-service-{group}", member_id


def _client(member_id: str) -> str:
    """The client id of a member; every member has one of its own."""
    return member_id[:-37] if len(member_id) > UUID_BASE64 else f"consumer-{int(member_id)}"


def load(replica: Replica, protocol: str, members: int, group_size: int, *, own_topics: bool = False) -> None:
    entry, index = [msgpack.packb((FORMAT_VERSION, 1))], 0
    of_member = _classic_member if protocol == "classic" else _consumer_member
    image = _image(group_size, members // group_size if own_topics else 1)
    of_group = _classic_group if protocol == "classic" else _consumer_group(image)
    for number, (group_id, member_id) in enumerate(ids(protocol, members, group_size)):
        group, place = divmod(number, group_size)
        topic = group if own_topics else 0
        made = of_member(group_id, member_id, topic, place)
        if place == 0:
            made += of_group(group_id, member_id, topic)
        entry += map(msgpack.packb, made)
        if len(entry) > RECORDS_PER_ENTRY or number == members - 1:
            index += 1
            replica.apply(index, 1, b"".join(entry))
            del entry[1:]


def _classic_member(group_id: str, member_id: str, topic: int, partition: int) -> list[Record]:
    """Make the records of a member that joined as Java's consumer does: with two assignors, and the same
    topics for each."""
    name = _topic(topic).encode()
    named = b"\0\1\0" + bytes([len(name)]) + name
    subscription = b"\0\3\0\0" + named + b"\xff\xff\xff\xff\0\0\0\0\0\0\0\7\xff\xff"
    value = records.ClassicMemberValue(
        None,
        _client(member_id),
        "/10.1.2.3",
        300_000,
        45_000,
        (("range", subscription), ("cooperative-sticky", subscription + b"\0\0\0\7")),
        write_assignment(Assignment(((_topic(topic), (partition,)),)), 3),
    )
    return [Record(records.ClassicMemberKey(records.CLASSIC_MEMBER, group_id, member_id), value)]


def _classic_group(group_id: str, leader: str, topic: int) -> list[Record]:
    value = records.GroupMetadataValue("consumer", EPOCH, "range", leader, NOW_MS)
    return [Record(records.GroupMetadataKey(records.GROUP_METADATA, group_id), value)]


def _consumer_member(group_id: str, member_id: str, topic: int, partition: int) -> list[Record]:
    assigned = ((_topic_id(topic), partition.to_bytes(4, "big")),)
    value = records.ConsumerMemberValue(
        instance_id=None,
        rack_id=None,
        client_id=_client(member_id),
        client_host="/10.1.2.3",
        subscribed_topic_names=(_topic(topic),),
        subscribed_topic_regex="",
        rebalance_timeout_ms=300_000,
        server_assignor=None,
    )
    keys = (
        records.ConsumerMemberKey(kind, group_id, member_id)
        for kind in (
            records.CONSUMER_MEMBER_METADATA,
            records.TARGET_ASSIGNMENT_MEMBER,
            records.CURRENT_MEMBER_ASSIGNMENT,
        )
    )
    values = (
        value,
        records.TargetMemberValue(assigned),
        records.CurrentAssignmentValue(EPOCH, EPOCH - 1, 0, assigned, ()),
    )
    return [Record(key, value) for key, value in zip(keys, values, strict=True)]


def _consumer_group(image: MetadataImage) -> Callable[[str, str, int], list[Record]]:
    def of_group(group_id: str, _: str, topic: int) -> list[Record]:
        known = records.ConsumerGroupValue(EPOCH, metadata_hash((_topic(topic),), image))
        target = records.ConsumerGroupKey(records.TARGET_ASSIGNMENT_METADATA, group_id)
        metadata = records.ConsumerGroupKey(records.CONSUMER_GROUP_METADATA, group_id)
        return [Record(target, records.TargetMetadataValue(EPOCH, NOW_MS)), Record(metadata, known)]

    return of_group


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def figures() -> list[Memory]:
    shapes = [(protocol, size, False) for protocol in PROTOCOLS for size in GROUP_SIZES]
    shapes += [(protocol, GROUP_SIZES[0], True) for protocol in PROTOCOLS]
    return [measure(protocol, group_size=size, own_topics=own) for protocol, size, own in shapes]


def main() -> None:
    """Print the figures as a table."""
    title = f"Bytes for each of {MEMBERS:,} idle members, goal {GOAL_BYTES:,}"
    table = Table(title=title)
    for column in ("protocol", "group of", "topics", "follower", "leader", "leader, by RSS"):
        table.add_column(column, justify="right")
    for memory in figures():
        topics = "own" if memory.own_topics else "one"
        sizes = (f"{each:,.0f}" for each in memory[4:])
        table.add_row(memory.protocol, f"{memory.group_size:,}", topics, *sizes)
    console.print(table)


if __name__ == "__main__":
    main()
