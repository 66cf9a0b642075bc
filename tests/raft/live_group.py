"""Raft replicas with real loops' transports, real journals and a real clock, in one process."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgpack
import uvloop

from storage.raft.disk import Disk, Worker
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import Member, Members, founders, incarnation_of, member_id, replica_of
from storage.raft.raft import Raft, RaftConfig, RaftFatal
from storage.raft.snapshot import SnapshotStore
from storage.raft.transport import LinkIdentity, PeerTransport
from tests.polling import reached

IDS = ("0.1", "1.1", "2.1")
CONFIG = RaftConfig(snapshot_journal_bytes_min=64 * 1024, pending_bytes_max=64 * 1024 * 1024)


class Whole:
    """A snapshot that is made in one step."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def step(self) -> bytes | None:
        return self._data


class Log:
    """A state machine that keeps every command."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.story: list[str] = []

    def apply(self, index: int, term: int, command: bytes) -> None:
        if command == b"poison":
            raise KeyError("poison")
        self.commands.append(command)

    def begin_snapshot(self) -> Whole:
        return Whole(msgpack.packb(self.commands))

    def restore(self, data: bytes) -> None:
        self.commands = msgpack.unpackb(data)

    def on_leading(self, term: int) -> None:
        self.story.append("leading")

    def on_fallen(self) -> None:
        self.story.append("fallen")


class Host:
    """Does around a Raft what an actor does: one tick per loop iteration in which something happened."""

    def __init__(self, directory: Path, genesis: tuple[str, Members], *, sync: bool) -> None:
        """`genesis` says to whom a directory without a journal belongs, and with whom its group begins."""
        self_id, founders = genesis
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.machine = Log()
        self.fatal: RaftFatal | None = None
        self._pending = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._stopped = False
        name = f"partition-0-{replica_of(self_id)}"
        home, identity = str(directory / name), Identity(tier_id="live", replica_id=name)

        def notify() -> None:
            loop.call_soon_threadsafe(self.soon)

        def address_of(member: Member) -> str:
            return f"unix:{directory}/partition-0-{replica_of(member.member_id)}.sock"

        journal = Journal(
            Disk(),
            home,
            identity,
            executor=Worker("journal") if sync else None,
            notify=notify,
            genesis=Genesis(incarnation_of(self_id), founders),
        )
        self.member_id = member_id(replica_of(self_id), journal.incarnation)
        own = LinkIdentity("live", "partition-0", self.member_id)
        listen = address_of(Member(self_id, 0, True))
        self.transport = PeerTransport(loop, own, listen, address_of, b"secret", self.soon)
        self.raft = Raft(
            self_id=self.member_id,
            transport=self.transport,
            journal=journal,
            snapshots=SnapshotStore(Disk(), home, identity, executor=Worker("snapshot"), notify=notify),
            machine=self.machine,
            clock=time.monotonic,
            random=random.Random(replica_of(self_id)),
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


class Group:
    def __init__(self, directory: Path, ids: tuple[str, ...] = IDS, *, sync: bool = True) -> None:
        self.directory = directory
        self.ids = ids
        self.sync = sync
        self.hosts: dict[str, Host] = {}

    async def start(self, *ids: str) -> None:
        members = founders({replica_of(replica_id): 0 for replica_id in self.ids})
        for replica_id in ids or self.ids:
            await self._start(replica_id, members)

    async def join(self, *ids: str) -> None:
        """Start these replicas as newcomers of the group."""
        for replica_id in ids:
            await self._start(replica_id, ())

    async def _start(self, replica_id: str, members: Members) -> None:
        self.hosts[replica_id] = Host(self.directory, (replica_id, members), sync=self.sync)
        await self.hosts[replica_id].start()

    async def change_to(self, *ids: str) -> None:
        """Tell whoever leads, as a controller does, until the group has these members."""

        def is_done() -> bool:
            for host in self.hosts.values():
                host.raft.set_target(dict.fromkeys(ids, 0))
                host.soon()
            leads = [host.raft for host in self.hosts.values() if host.raft.serving]
            return any(raft.status()["members"] == voters and raft.has_lease() for raft in leads)

        voters = [{"id": each, "node_id": 0, "votes": True} for each in sorted(ids)]
        await reached(is_done)

    async def stop(self, *ids: str) -> None:
        for replica_id in ids or tuple(self.hosts):
            await self.hosts.pop(replica_id).stop()

    async def leader(self) -> Host:
        await reached(
            lambda: any(host.raft.serving and host.raft.has_lease() for host in self.hosts.values())
        )
        return next(host for host in self.hosts.values() if host.raft.serving and host.raft.has_lease())

    async def follow(self, name: str) -> None:
        await reached(lambda: all(host.raft.leader_id == name for host in self.hosts.values()))

    async def commit(self, *commands: bytes) -> None:
        leader = await self.leader()
        for command in commands:
            leader.raft.propose(command)
        leader.soon()
        await reached(lambda: leader.machine.commands[-len(commands) :] == list(commands))

    async def all_hold(self, commands: list[bytes]) -> None:
        await reached(lambda: all(host.machine.commands == commands for host in self.hosts.values()))


def passed(moment: float) -> bool:
    return time.monotonic() >= moment


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())
