"""A replica of groupd's Raft with as little around it as possible: storage's classes on a uvloop, as in an
actor."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgpack
import uvloop

from bench.raft.engine import ELECTION_MAX_S, ELECTION_MIN_S, HEARTBEAT_S, Done, Options, some_records
from storage.raft.disk import Disk, Worker
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import FOUNDING_INCARNATION, Member, founders, member_id
from storage.raft.raft import NotLeader, Raft, RaftConfig
from storage.raft.snapshot import SnapshotStore
from storage.raft.transport import LinkIdentity, PeerTransport

TIER_ID: Final = "bench"
GROUP: Final = "bench"
SECRET: Final = b"of a bench, known to everybody"
CONFIG: Final = RaftConfig(
    heartbeat_s=HEARTBEAT_S, election_min_s=ELECTION_MIN_S, election_max_s=ELECTION_MAX_S
)
NEVER: Final = float("inf")


class Counter:
    """The state machine, which counts records. `applied` is called with each entry's index."""

    def __init__(self, applied: Callable[[int], None], fallen: Callable[[], None]) -> None:
        self.count = 0
        self._applied = applied
        self._fallen = fallen

    def apply(self, index: int, term: int, command: bytes) -> None:
        self.count += len(msgpack.unpackb(command))
        self._applied(index)

    def begin_snapshot(self) -> Counted:
        return Counted(self.count)

    def restore(self, data: bytes) -> None:
        self.count = msgpack.unpackb(data)

    def on_leading(self, term: int) -> None:
        """Nothing has to be done: `Raft.serving` is looked at after each tick."""

    def on_fallen(self) -> None:
        self._fallen()


class Counted:
    """A snapshot of one number, made in one step."""

    def __init__(self, count: int) -> None:
        self._count = count

    def step(self) -> bytes | None:
        content: bytes = msgpack.packb(self._count)
        return content


class Groupd:
    """The engine of groupd's Raft, as bench.raft.engine.Engine says."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._records = some_records()
        self._loop = uvloop.new_event_loop()
        self._ended = asyncio.Event()
        self._machine = Counter(self._applied, self._fallen)
        self._submitted: list[tuple[int, Done]] = []
        self._waiting: deque[tuple[int, int, Done]] = deque()
        """Index, number of records and `done` of each entry that is not applied yet."""
        self._acts: list[Callable[[], None]] = []
        self._tick_is_due = self._ticking = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    def run(self, ready: Callable[[], None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._run(ready))

    async def _run(self, ready: Callable[[], None]) -> None:
        self._loop.set_exception_handler(_die)
        began = time.monotonic()
        self._open()
        self._opened_s = time.monotonic() - began
        await self._transport.start()
        self._soon()
        ready()
        await self._ended.wait()
        if self._timer is not None:
            self._timer.cancel()
        self._raft.close()
        await self._transport.close()

    def _open(self) -> None:
        options = self._options
        replicas = range(len(options.ports))
        own_id = member_id(options.number, FOUNDING_INCARNATION)
        disk, home = Disk(), Path(options.directory)
        identity = Identity(tier_id=TIER_ID, replica_id=str(options.number))
        journal = Journal(
            disk,
            str(home / "journal"),
            identity,
            executor=Worker("journal-sync") if options.durable else None,
            notify=self._soon_from_thread,
            genesis=Genesis(FOUNDING_INCARNATION, founders({replica: replica for replica in replicas})),
        )
        self._transport = PeerTransport(
            self._loop,
            LinkIdentity(TIER_ID, GROUP, own_id),
            self._address(options.number),
            self._address_of,
            SECRET,
            self._heard,
        )
        self._raft = Raft(
            self_id=own_id,
            transport=self._transport,
            journal=journal,
            snapshots=SnapshotStore(
                disk,
                str(home / "snapshot"),
                identity,
                executor=Worker("snapshot-save"),
                notify=self._soon_from_thread,
            ),
            machine=self._machine,
            clock=self._loop.time,
            random=random.Random(time.monotonic_ns()),
            settings=CONFIG if options.compacts else replace(CONFIG, snapshot_journal_bytes_min=2**60),
        )

    def _address(self, replica: int) -> str:
        return f"127.0.0.1:{self._options.ports[replica]}"

    def _address_of(self, member: Member) -> str:
        return self._address(member.node_id)

    # -- asked --------------------------------------------------------------------------------------

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)

    def call(self, work: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(work)

    def submit(self, records: int, done: Done) -> None:
        self._submitted.append((records, done))
        self._soon()

    def status(self) -> dict[str, Any]:
        raft, status = self._raft, self._raft.status()
        return {
            "leads": raft.is_leader,
            "serving": raft.serving,
            "follows": raft.leader_id is not None,
            "applied": raft.applied_index,
            "journal_bytes": status["journal_bytes"],
            "opened_s": self._opened_s,
        }

    def transfer(self) -> bool:
        begun = self._raft.transfer()
        self._soon()
        return begun

    def when_leading(self, act: Callable[[], None]) -> None:
        self._acts.append(act)
        self._soon()

    # -- one tick per loop iteration in which something happened ------------------------------------

    def _soon(self) -> None:
        if not self._tick_is_due and not self._ended.is_set():
            self._tick_is_due = True
            self._loop.call_soon(self._tick)

    def _heard(self) -> None:
        """Tick soon or at once, as `actors.replica.host` does."""
        if self._tick_is_due or self._ticking or self._raft.is_leader:
            self._soon()
        else:
            self._tick()

    def _soon_from_thread(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._soon)

    def _tick(self) -> None:
        self._tick_is_due = False
        if self._ended.is_set():
            return
        self._ticking = True
        if self._submitted:
            self._propose()
        self._raft.tick()
        self._ticking = False
        if self._acts and self._raft.serving:
            acts, self._acts = self._acts, []
            for act in acts:
                act()
        self._arm()

    def _propose(self) -> None:
        """Propose all records that were submitted since the last tick as one entry."""
        submitted, self._submitted = self._submitted, []
        count = sum(records for records, _ in submitted)
        try:
            index = self._raft.propose(msgpack.packb(self._records[:count]))
        except NotLeader:
            for _, done in submitted:
                done(0)
            return
        self._waiting.extend((index, records, done) for records, done in submitted)

    def _applied(self, index: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= index:
            _, records, done = waiting.popleft()
            done(records)

    def _fallen(self) -> None:
        lost, self._waiting = self._waiting, deque()
        for _, _, done in lost:
            done(0)

    def _arm(self) -> None:
        at, now = self._raft.next_tick_at, self._loop.time()
        if at <= now:
            self._soon()
        elif at < self._timer_at:  # an early timer costs less than a new one for each message
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._timer_at = NEVER
        self._soon()


def _die(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End the process: after a tick that raised there must be no other."""
    loop.default_exception_handler(context)
    os._exit(1)
