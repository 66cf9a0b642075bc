"""Damaged files of one replica: it takes no harm, or it says so and does not start; the other two go on.

A replica that cannot start is wiped, comes back as somebody new, and is admitted in place of the old one.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
import uvloop

from bench.chaos.targets.damage import DETECTED, HARMLESS, LOST, damage, segments
from storage.raft.recovery import MARK_NAME
from tests.faults.clients import Clients
from tests.faults.history import Violation
from tests.faults.shape import REPLICAS, SEGMENT_BYTES
from tests.faults.supervisor import Supervisor

COMMIT_S_MAX = 10.0
"""The two others serve all the time: no commit waits for longer than an election on a busy machine takes."""
REFUSALS = ("JournalDamaged", "SnapshotDamaged")


class _Damages:
    """Damages one replica after another, and brings each back before the next.

    `leader_killed` is how often the leader is killed besides, while it lets a newcomer in: the group then has
    no majority until that leader is back."""

    def __init__(self, group: Supervisor, clients: Clients, seed: int, leader_killed: float) -> None:
        self.outcomes: Counter[str] = Counter()
        self._group = group
        self._clients = clients
        self._chance = random.Random(seed)
        self._leader_killed = leader_killed

    async def one(self) -> None:
        group, clients = self._group, self._clients
        replica = self._chance.choice(REPLICAS)
        before = await self._member_id(replica)
        group.kill(replica)
        await clients.progress(group.story)
        done = damage(group.directory(replica), self._chance)
        group.start(replica)
        refusal = await group.ready(replica)
        await clients.progress(group.story)
        if refusal is not None:
            assert refusal.startswith(REFUSALS), f"{done.text} was answered with {refusal}"
            outcome = DETECTED
            await self._wipe(replica)
        else:
            outcome = HARMLESS if await self._member_id(replica) == before else LOST
        assert outcome in done.outcomes, f"{done.text} was {outcome}: {refusal}"
        self.outcomes[f"{done.kind}: {outcome}"] += 1
        if outcome != HARMLESS:
            assert await self._member_id(replica) != before, "an empty directory must not have the old name"
            await self._admit(replica)
        await clients.quiet()
        clients.check(await group.equal_states())
        clients.go_on()

    async def _wipe(self, replica: int) -> None:
        shutil.rmtree(self._group.directory(replica))
        self._group.start(replica)
        assert await self._group.ready(replica) is None

    async def _admit(self, replica: int) -> None:
        """Admit the newcomer to the group, and perhaps kill the leader meanwhile."""
        group = self._group
        admitting = asyncio.create_task(group.admit(replica))
        if self._chance.random() < self._leader_killed:
            await asyncio.sleep(self._chance.uniform(0, 0.3))
            leader = await group.any_leader()
            group.kill(leader)
            group.start(leader)
            self.outcomes["leader killed meanwhile"] += 1
        await admitting
        await group.all_ready()

    async def _member_id(self, replica: int) -> str:
        assert await self._group.ready(replica) is None
        status = await self._group.ask(replica, "status")
        assert status is not None, f"replica {replica} does not answer"
        return str(status["id"])


async def _live_through(count: int, seed: int, leader_killed: float, root: Path) -> float:
    """Returns how long the slowest commit took, in seconds."""
    async with Supervisor(root) as group, Clients(group.run_dir) as clients:
        await group.snapshots_taken()
        damages = _Damages(group, clients, seed, leader_killed)
        for _ in range(count):
            await damages.one()
        await clients.progress(group.story)
    print(dict(damages.outcomes), f"slowest commit {clients.slowest_s:.1f} s")
    return clients.slowest_s


def test_damage_of_one_replica_is_harmless_or_detected_and_the_others_go_on(tmp_path: Path) -> None:
    """No acknowledged commit is lost, and in the end the replica is back with the state of the others."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        slowest_s = runner.run(_live_through(6, 1, 0, tmp_path))
    assert slowest_s < COMMIT_S_MAX


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_hundred_damages_are_harmless_or_detected_though_leaders_are_killed(tmp_path: Path) -> None:
    """A newcomer takes its place whoever leads meanwhile; nothing acknowledged is lost."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live_through(100, 2, 0.5, tmp_path))


def _lose_the_tail(directory: Path, tail_bytes: int) -> None:
    """Lose what was synced last so that the replica cannot know: the mark goes with it."""
    (directory / "journal" / MARK_NAME).unlink()
    for segment in reversed(segments(directory)):
        size = segment.stat().st_size
        if size > tail_bytes:
            os.truncate(segment, size - tail_bytes)
            return
        segment.unlink()
        tail_bytes -= size


@pytest.mark.slow
def test_loss_on_all_replicas_at_once_does_not_pass_unnoticed(tmp_path: Path) -> None:
    """More than any group of replicas can bear: it shows that the other tests' judge would see a loss."""

    async def scene() -> None:
        async with Supervisor(tmp_path) as group, Clients(group.run_dir) as clients:
            await group.snapshots_taken()
            for _ in range(20):
                await clients.progress(group.story)
            group.kill(*REPLICAS)
            for replica in REPLICAS:
                _lose_the_tail(group.directory(replica), SEGMENT_BYTES // 4)
                group.start(replica)
            await clients.progress(group.story)
            await clients.quiet()
            clients.check(await group.equal_states())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, pytest.raises(Violation, match="lost"):
        runner.run(scene())
