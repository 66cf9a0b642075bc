"""Long work beside a probe group on a real tier: how long its steady heartbeats take with the work and
without.

The tier has one node, one offsets partition and one replica, so that all groups are of one actor. The probe
and the client that asks for the work are processes of their own. A heartbeat's time counts from the moment at
which it was due, so that a delay of one counts for those behind it, too.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import cycle
from multiprocessing.synchronize import Event
from typing import Any, Final, NamedTuple

import uvloop
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from actors.network.wire import request_frame
from bench.ground.steady_heartbeat import steady_heartbeat
from bench.ground.throwaway import Tier
from bench.peers.members import Member
from bench.peers.settling import settle_group
from bench.replica.long_work import GOAL_MS
from cluster.cli.tables import Table

Say = Callable[[str], None]
Address = tuple[str, int]
RATE: Final = 200
"""How many heartbeats a second the probe group sends."""
PROBES: Final = 20
SECONDS: Final = 10.0
"""How many seconds each kind of work is repeated."""
TOPIC_PARTITIONS: Final = 1_000
LINES: Final = 8
TIMEOUT_S: Final = 120.0
LENGTH_BYTES: Final = 4
_PLAIN: Final = {"committed_leader_epoch": 0, "committed_metadata": ""}
TIER_FLAGS: Final = (
    *("--nodes", "1", "--replicas", "1", "--partitions", "1"),
    *("--set", "group.initial.rebalance.delay.ms=300"),
    *("--set", "group.consumer.session.timeout.ms=60000"),
)


class Plan(NamedTuple):
    """How big the work is."""

    groups: int = 100_000
    offsets: int = 200_000
    """How many offsets each of the groups has that are fetched and deleted."""
    members: int = 5_000
    deletions: int = 5


class Row(NamedTuple):
    """How long heartbeats took beside one kind of work."""

    work: str
    latencies_ms: list[float]
    """The latencies of the heartbeats, in rising order."""
    times: int
    """How often the work was done."""
    work_s: float
    """How long the work took once, as the client sees it."""

    def at(self, quantile: float) -> float:
        return self.latencies_ms[min(int(quantile * len(self.latencies_ms)), len(self.latencies_ms) - 1)]


# The probe group.


def _probe(members: list[Member], until: Event, told: Any) -> None:
    told.send(uvloop.run(_beaten(members, until)))


async def _beaten(members: list[Member], until: Event) -> list[float]:
    lines = [await asyncio.open_connection(member.host, member.port) for member in members]
    due: list[asyncio.Queue[float]] = [asyncio.Queue() for _ in members]
    latencies_ms: list[float] = []
    readers = [
        asyncio.create_task(_heard(line[0], queue, latencies_ms))
        for line, queue in zip(lines, due, strict=True)
    ]
    loop = asyncio.get_running_loop()
    began = loop.time()
    frames = [member.heartbeat_frame() for member in members]
    for number, place in enumerate(cycle(range(len(members)))):
        at = began + number / RATE
        if until.is_set():
            break
        await asyncio.sleep(max(at - loop.time(), 0))
        due[place].put_nowait(at)
        lines[place][1].write(frames[place])
    async with asyncio.timeout(TIMEOUT_S):
        while not all(queue.empty() for queue in due):
            await asyncio.sleep(0.01)
    for reader in readers:
        reader.cancel()
    for _, writer in lines:
        writer.close()
    return latencies_ms


async def _heard(reader: asyncio.StreamReader, due: asyncio.Queue[float], latencies_ms: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await _answer(reader)
        latencies_ms.append(1_000 * (loop.time() - due.get_nowait()))


async def _answer(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    return await reader.readexactly(size)


# The work.


async def ask_all(at: Address, frames: Iterator[bytes]) -> None:
    """Send these requests over a few connections, one at a time on each, and wait for all answers."""

    async def on_one_line() -> None:
        reader, writer = await asyncio.open_connection(*at)
        for frame in frames:
            writer.write(frame)
            await _answer(reader)
        writer.close()

    await asyncio.gather(*(on_one_line() for _ in range(LINES)))


def commits(group_ids: list[str], topics: list[str], partitions: int) -> Iterator[bytes]:
    """Make OffsetCommits of `partitions` partitions of each topic for each group; ids all have the same
    length."""
    model = group_ids[0].encode()
    for topic in topics:
        rows = [
            {
                "partition_index": n,
                "committed_offset": n,
                "committed_leader_epoch": 0,
                "committed_metadata": "",
            }
            for n in range(partitions)
        ]
        fields = {
            "group_id": group_ids[0],
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": rows}],
        }
        frame = request_frame("offset_commit", 8, 1, "bench", fields)
        for group_id in group_ids:
            yield frame.replace(model, group_id.encode(), 1)


def joins(group_id: str, topic: str, members: int) -> Iterator[bytes]:
    """Make the first heartbeats of so many members of a consumer group."""
    model = f"member-{0:06d}".encode()
    said = {"rebalance_timeout": 60_000, "subscribed_topic_names": [topic], "topic_partitions": []}
    fields = steady_heartbeat(group_id, model.decode(), 0, **said)
    frame = request_frame("consumer_group_heartbeat", 1, 1, "bench", fields)
    for number in range(members):
        yield frame.replace(model, f"member-{number:06d}".encode(), 1)


def _list() -> bytes:
    return request_frame("list_groups", 5, 1, "bench", {"states_filter": [], "types_filter": []})


def _describe(group_id: str) -> bytes:
    fields = {"group_ids": [group_id], "include_authorized_operations": False}
    return request_frame("consumer_group_describe", 1, 1, "bench", fields)


def _fetch(group_id: str) -> bytes:
    fields = {"groups": [{"group_id": group_id, "topics": None}], "require_stable": False}
    return request_frame("offset_fetch", 8, 1, "bench", fields)


def _delete(group_id: str) -> bytes:
    return request_frame("delete_groups", 2, 1, "bench", {"groups_names": [group_id]})


async def _done_for(at: Address, frames: Iterator[bytes], seconds: float) -> tuple[int, float]:
    """Do work for so many seconds. Returns how often it was done, and how long it took once."""
    reader, writer = await asyncio.open_connection(*at)
    began, times, busy_s = time.monotonic(), 0, 0.0
    for frame in frames:
        asked = time.monotonic()
        writer.write(frame)
        await _answer(reader)
        busy_s += time.monotonic() - asked
        times += 1
        if time.monotonic() - began > seconds:
            break
    left_s = seconds - (time.monotonic() - began)
    await asyncio.sleep(max(left_s, 0))  # work that goes on after the answer counts, too
    writer.close()
    return times, busy_s / max(times, 1)


def _beside(
    name: str, probes: list[Member], work: Callable[[], Coroutine[Any, Any, tuple[int, float]]]
) -> Row:
    context = multiprocessing.get_context("spawn")
    until = context.Event()
    hears, tells = context.Pipe(duplex=False)
    probe = context.Process(target=_probe, args=(probes, until, tells))
    probe.start()
    try:
        times, work_s = uvloop.run(work())
    finally:
        until.set()
    latencies_ms = hears.recv()
    probe.join()
    return Row(name, sorted(latencies_ms), times, work_s)


def measure(plan: Plan, say: Say) -> list[Row]:
    """Measure on a throw-away tier, which is started and stopped."""
    with Tier(*TIER_FLAGS, nodes=1) as tier:
        host, port = tier.bootstrap.rsplit(":", 1)
        return _on((host, int(port)), plan, say)


def _on(at: Address, plan: Plan, say: Say) -> list[Row]:
    topics = [f"t{number}" for number in range(max(plan.offsets // TOPIC_PARTITIONS, 1))]
    admin = AdminClient({"bootstrap.servers": f"{at[0]}:{at[1]}"})
    for future in admin.create_topics([NewTopic(name, TOPIC_PARTITIONS, 1) for name in topics]).values():
        future.result(TIMEOUT_S)
    probes = uvloop.run(settle_group(at, "probe", PROBES))
    rows = [_beside("none", probes, lambda: _done_for(at, iter(()), SECONDS))]

    def beside(name: str, frames: Iterator[bytes]) -> None:
        say(name)
        rows.append(_beside(name, probes, lambda: _done_for(at, frames, SECONDS)))

    say("members")
    uvloop.run(ask_all(at, joins("crowd", topics[0], plan.members)))
    beside(f"ConsumerGroupDescribe, {plan.members:,} members", cycle((_describe("crowd"),)))
    say("offsets")
    doomed = [f"big-{number}" for number in range(plan.deletions)]
    uvloop.run(ask_all(at, commits(doomed, topics, TOPIC_PARTITIONS)))
    beside(f"OffsetFetch of all {plan.offsets:,} offsets", cycle((_fetch(doomed[0]),)))
    beside(f"DeleteGroups, {plan.offsets:,} offsets each", map(_delete, doomed))
    say("groups")
    small = [f"g{number:06d}" for number in range(plan.groups)]
    uvloop.run(ask_all(at, commits(small, topics[:1], 1)))
    beside(f"ListGroups of {plan.groups:,}", cycle((_list(),)))
    return rows


def show(console: Console, rows: list[Row]) -> None:
    title = f"Heartbeats of another group, {RATE} a second, in ms; goal {GOAL_MS} at p99.9"
    table = Table(title=title)
    for column in ("beside", "p50", "p99", "p99.9", "max", "heartbeats", "times", "each s"):
        table.add_column(column, justify="left" if column == "beside" else "right")
    for row in rows:
        spread = (f"{row.at(quantile):.1f}" for quantile in (0.5, 0.99, 0.999, 1.0))
        table.add_row(row.work, *spread, f"{len(row.latencies_ms):,}", f"{row.times:,}", f"{row.work_s:.2f}")
    console.print(table)
