"""Three replicas with real loops' transports, real journals and a real clock, in one process."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgpack
import pytest
import uvloop

from storage.disk import Disk, Worker
from storage.journal import Identity, Journal
from storage.raft import Busy, NotLeader, Raft, RaftConfig, RaftFatal
from storage.snapshot import SnapshotStore
from storage.transport import PeerTransport

DEADLINE_S = 20.0
IDS = ("r0", "r1", "r2")
CONFIG = RaftConfig(snapshot_journal_bytes_min=64 * 1024, pending_bytes_max=64 * 1024 * 1024)


class Log:
    """A state machine that keeps every command."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.story: list[str] = []

    def apply(self, index: int, term: int, command: bytes) -> None:
        if command == b"poison":
            raise KeyError("poison")
        self.commands.append(command)

    def snapshot(self) -> bytes:
        content: bytes = msgpack.packb(self.commands)
        return content

    def restore(self, data: bytes) -> None:
        self.commands = msgpack.unpackb(data)

    def on_leading(self, term: int) -> None:
        self.story.append("leading")

    def on_fallen(self) -> None:
        self.story.append("fallen")


class Host:
    """What an actor does around a Raft: one tick per loop iteration in which something happened."""

    def __init__(self, directory: Path, self_id: str, ids: tuple[str, ...], *, sync: bool) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.machine = Log()
        self.fatal: RaftFatal | None = None
        self._pending = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._stopped = False
        addresses = {peer: f"unix:{directory}/{peer}.sock" for peer in ids}
        peers = {peer: address for peer, address in addresses.items() if peer != self_id}
        home, identity = str(directory / self_id), Identity(tier_id="live", replica_id=self_id)

        def notify() -> None:
            loop.call_soon_threadsafe(self.soon)

        self.transport = PeerTransport(loop, self_id, addresses[self_id], peers, b"secret", self.soon)
        journal = Journal(Disk(), home, identity, executor=Worker("journal") if sync else None, notify=notify)
        self.raft = Raft(
            self_id=self_id,
            peer_ids=tuple(peers),
            transport=self.transport,
            journal=journal,
            snapshots=SnapshotStore(Disk(), home, identity, executor=Worker("snapshot"), notify=notify),
            machine=self.machine,
            clock=time.monotonic,
            random=random.Random(int(self_id[1:])),
            settings=CONFIG,
        )

    async def start(self) -> None:
        await self.transport.start()
        self.soon()

    def soon(self) -> None:
        if not self._pending and not self._stopped:
            self._pending = True
            self.loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._pending = False
        if self._stopped:
            return
        try:
            self.raft.tick()
        except RaftFatal as error:
            self.fatal = error
            self._stopped = True
            return
        at = self.raft.next_tick_at
        if at >= self._timer_at:
            return  # an early timer costs less than a new one for each message
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        delay_s = at - time.monotonic()
        if delay_s <= 0:
            self._timer_at = float("inf")
            self.soon()
        elif at != float("inf"):
            self._timer = self.loop.call_later(delay_s + 0.001, self._due)

    def _due(self) -> None:
        self._timer_at = float("inf")
        self.soon()

    async def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self.raft.close()
        await self.transport.close()


class Tier:
    def __init__(self, directory: Path, ids: tuple[str, ...] = IDS, *, sync: bool = True) -> None:
        self.directory = directory
        self.ids = ids
        self.sync = sync
        self.hosts: dict[str, Host] = {}

    async def start(self, *ids: str) -> None:
        for replica_id in ids or self.ids:
            self.hosts[replica_id] = Host(self.directory, replica_id, self.ids, sync=self.sync)
            await self.hosts[replica_id].start()

    async def stop(self, *ids: str) -> None:
        for replica_id in ids or tuple(self.hosts):
            await self.hosts.pop(replica_id).stop()

    async def leader(self) -> Host:
        await until(lambda: any(host.raft.serving and host.raft.has_lease() for host in self.hosts.values()))
        return next(host for host in self.hosts.values() if host.raft.serving and host.raft.has_lease())

    async def follow(self, name: str) -> None:
        await until(lambda: all(host.raft.leader_id == name for host in self.hosts.values()))

    async def commit(self, *commands: bytes) -> None:
        leader = await self.leader()
        for command in commands:
            leader.raft.propose(command)
        leader.soon()
        await until(lambda: leader.machine.commands[-len(commands) :] == list(commands))

    async def all_hold(self, commands: list[bytes]) -> None:
        await until(lambda: all(host.machine.commands == commands for host in self.hosts.values()))


def passed(moment: float) -> bool:
    return time.monotonic() >= moment


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.001)


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())


@pytest.mark.parametrize("sync", [True, False])
def test_what_is_committed_outlives_the_leader_and_a_restart_of_all(tmp_path: Path, sync: bool) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path, sync=sync)
        await tier.start()
        first = [b"a%d" % number for number in range(100)]
        await tier.commit(*first)
        await tier.all_hold(first)
        leader = await tier.leader()
        name = next(replica_id for replica_id, host in tier.hosts.items() if host is leader)
        await tier.stop(name)
        second = [b"b%d" % number for number in range(100)]
        await tier.commit(*second)
        await tier.start(name)
        await tier.all_hold(first + second)
        await tier.stop()
        await tier.start()
        await tier.commit(b"c")
        await tier.all_hold([*first, *second, b"c"])
        await tier.stop()

    play(scene)


def test_a_leader_that_goes_is_replaced_much_faster_than_an_election_timeout(tmp_path: Path) -> None:
    """Its host closes its connections, which its followers see: the best of five shows it."""

    async def scene() -> None:
        tier = Tier(tmp_path, sync=False)
        await tier.start()
        times = []
        for _ in range(5):
            leader = await tier.leader()
            name = next(replica_id for replica_id, host in tier.hosts.items() if host is leader)
            await tier.follow(name)
            resume = time.monotonic() + CONFIG.election_min_s  # past the hold after a restart
            await until(functools.partial(passed, resume))
            before = time.monotonic()
            await tier.stop(name)
            await tier.leader()
            times.append(time.monotonic() - before)
            await tier.start(name)
        assert min(times) < CONFIG.election_min_s
        await tier.stop()

    play(scene)


def test_entries_of_a_mebibyte_replicate_in_order(tmp_path: Path) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path)
        await tier.start()
        commands = [bytes([number]) * (1 << 20) for number in range(12)]
        await tier.commit(*commands)
        await tier.all_hold(commands)
        await tier.stop()

    play(scene)


def test_a_replica_that_was_away_for_long_catches_up_by_snapshot(tmp_path: Path) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path)
        await tier.start()
        await tier.commit(b"before")
        await tier.all_hold([b"before"])
        leader = await tier.leader()
        away = next(replica_id for replica_id, host in tier.hosts.items() if host is not leader)
        await tier.stop(away)
        commands = [b"%d" % number + b"." * 2_000 for number in range(100)]
        for start in range(0, 100, 10):
            await tier.commit(*commands[start : start + 10])
        await until(lambda: all(host.raft.status()["snapshot_index"] > 0 for host in tier.hosts.values()))
        await tier.start(away)
        await tier.all_hold([b"before", *commands])
        assert tier.hosts[away].raft.status()["snapshot_index"] > 0
        await tier.stop()

    play(scene)


def test_leadership_is_handed_over_without_an_election_timeout(tmp_path: Path) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path)
        await tier.start()
        leader = await tier.leader()
        target = next(replica_id for replica_id, host in tier.hosts.items() if host is not leader)
        assert not leader.raft.transfer("nobody")
        assert leader.raft.transfer(target)
        with pytest.raises(Busy):
            leader.raft.propose(b"now?")
        leader.soon()
        await until(lambda: tier.hosts[target].raft.serving)
        assert leader.machine.story == ["leading", "fallen"]
        with pytest.raises(NotLeader):
            leader.raft.propose(b"still?")
        await tier.commit(b"after")
        await tier.all_hold([b"after"])
        await tier.stop()

    play(scene)


def test_one_replica_alone_serves_at_once_and_remembers(tmp_path: Path) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path, ("r0",))
        await tier.start()
        await tier.commit(b"x", b"y")
        await tier.stop()
        await tier.start()
        await tier.commit(b"z")
        await tier.all_hold([b"x", b"y", b"z"])
        assert not tier.hosts["r0"].raft.transfer()
        await tier.stop()

    play(scene)


def test_an_exception_in_apply_ends_every_replica_instead_of_being_retried(tmp_path: Path) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path)
        await tier.start()
        leader = await tier.leader()
        leader.raft.propose(b"poison")
        leader.soon()
        await until(lambda: leader.fatal is not None)
        assert "poison" in str(leader.fatal)
        with pytest.raises(RaftFatal):
            leader.raft.tick()
        await tier.stop()

    play(scene)


def test_a_leader_without_its_majority_loses_its_lease_and_steps_down(tmp_path: Path) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path)
        await tier.start()
        leader = await tier.leader()
        others = [replica_id for replica_id, host in tier.hosts.items() if host is not leader]
        await tier.stop(*others)
        assert not leader.raft.has_lease(), "its peers hung up: their promises no longer count"
        await until(lambda: not leader.raft.is_leader)
        assert leader.machine.story == ["leading", "fallen"]
        await tier.stop()

    play(scene)


def test_what_is_not_committed_is_bounded(tmp_path: Path) -> None:
    async def scene() -> None:
        tier = Tier(tmp_path)
        await tier.start()
        leader = await tier.leader()
        for _ in range(63):
            leader.raft.propose(bytes(1 << 20))
        with pytest.raises(Busy):
            leader.raft.propose(bytes(1 << 20))
        with pytest.raises(ValueError, match="at most"):
            leader.raft.propose(bytes(33 << 20))
        assert leader.raft.status()["pending_bytes"] <= CONFIG.pending_bytes_max + 100
        await tier.stop()

    play(scene)
