"""What members, groups and offsets take in a replica's memory and in its snapshot, each measured alone."""

from __future__ import annotations

import gc
import multiprocessing
import tracemalloc
from itertools import count
from typing import Final, NamedTuple

import msgpack

from actors.ground import records
from actors.replica.log_level import FORMAT_VERSION
from actors.replica.replica import Replica
from bench.replica import member_memory

MEMBERS: Final = 20_000
OFFSETS: Final = 50_000
OFFSETS_EACH: Final = 50
"""The offsets of a group."""
SMALL, LARGE = 5, 500
"""Sizes of groups: what differs between both is the groups' own share."""
RECORDS_PER_ENTRY: Final = 1_000


class Kept(NamedTuple):
    """Bytes for each."""

    member_leader_bytes: float
    member_follower_bytes: float
    group_leader_bytes: float
    group_follower_bytes: float
    member_snapshot_bytes: float
    offset_bytes: float
    offset_snapshot_bytes: float


def measure() -> Kept:
    """Measure KIP-848 members in small and in large groups, and offsets."""
    small, large = (member_memory.measure("consumer", MEMBERS, size) for size in (SMALL, LARGE))
    leader = _shares(small.leader_bytes, large.leader_bytes)
    follower = _shares(small.follower_bytes, large.follower_bytes)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        member_snapshot = pool.apply(_members_snapshot) / MEMBERS
        offset, offset_snapshot = (each / OFFSETS for each in pool.apply(_offsets))
    members, groups = zip(leader, follower, strict=True)
    return Kept(*members, *groups, member_snapshot, offset, offset_snapshot)


def _shares(small_bytes: float, large_bytes: float) -> tuple[float, float]:
    """Return the share of a member and that of its group, by what a member takes in groups of both sizes."""
    group = max(0.0, (small_bytes - large_bytes) / (1 / SMALL - 1 / LARGE))
    return large_bytes - group / LARGE, group


def _members_snapshot() -> int:
    replica, _ = member_memory.replica_of(SMALL)
    member_memory.load(replica, "consumer", MEMBERS, SMALL)
    return _snapshot_bytes(replica)


def _offsets() -> tuple[int, int]:
    """Return how many bytes the offsets take in memory, and in a snapshot."""
    replica, _ = member_memory.replica_of(SMALL)
    gc.collect()
    tracemalloc.start()
    for index, first in enumerate(range(0, OFFSETS, RECORDS_PER_ENTRY), 1):
        packed = [msgpack.packb((FORMAT_VERSION, 1))]
        for number in range(first, first + RECORDS_PER_ENTRY):
            group, partition = divmod(number, OFFSETS_EACH)
            key = records.OffsetCommitKey(records.OFFSET_COMMIT, f"orders-{group}", "orders", partition)
            value = records.OffsetCommitValue(number, -1, "", member_memory.NOW_MS, -1, bytes(16))
            packed.append(msgpack.packb((key, value)))
        replica.apply(index, 1, b"".join(packed))
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return grown, _snapshot_bytes(replica)


def _snapshot_bytes(replica: Replica) -> int:
    build = replica.begin_snapshot()
    for _ in count():
        data = build.step()
        if data is not None:
            return len(data)
    raise AssertionError("a build ends")
