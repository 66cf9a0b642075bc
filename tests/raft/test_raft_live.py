"""Replicas with real loops' transports, real journals and a real clock, in one process."""

from __future__ import annotations

import functools
import time
from pathlib import Path

import pytest

from storage.raft.raft import Busy, NotLeader, RaftFatal
from tests.polling import reached
from tests.raft.live_group import CONFIG, Group, passed, play


@pytest.mark.parametrize("sync", [True, False])
def test_what_is_committed_outlives_the_leader_and_a_restart_of_all(tmp_path: Path, sync: bool) -> None:
    async def scene() -> None:
        group = Group(tmp_path, sync=sync)
        await group.start()
        first = [b"a%d" % number for number in range(100)]
        await group.commit(*first)
        await group.all_hold(first)
        leader = await group.leader()
        name = next(replica_id for replica_id, host in group.hosts.items() if host is leader)
        await group.stop(name)
        second = [b"b%d" % number for number in range(100)]
        await group.commit(*second)
        await group.start(name)
        await group.all_hold(first + second)
        await group.stop()
        await group.start()
        await group.commit(b"c")
        await group.all_hold([*first, *second, b"c"])
        await group.stop()

    play(scene)


def test_a_leader_that_goes_is_replaced_much_faster_than_an_election_timeout(tmp_path: Path) -> None:
    """The leader's host closes its connections, which its followers see. The best of five runs shows it."""

    async def scene() -> None:
        group = Group(tmp_path, sync=False)
        await group.start()
        times = []
        for _ in range(5):
            leader = await group.leader()
            name = next(replica_id for replica_id, host in group.hosts.items() if host is leader)
            await group.follow(name)
            resume = time.monotonic() + CONFIG.election_min_s  # past the hold after a restart
            await reached(functools.partial(passed, resume))
            before = time.monotonic()
            await group.stop(name)
            await group.leader()
            times.append(time.monotonic() - before)
            await group.start(name)
        assert min(times) < CONFIG.election_min_s
        await group.stop()

    play(scene)


def test_entries_of_a_mebibyte_replicate_in_order(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path)
        await group.start()
        commands = [bytes([number]) * (1 << 20) for number in range(12)]
        await group.commit(*commands)
        await group.all_hold(commands)
        await group.stop()

    play(scene)


def test_a_replica_that_was_away_for_long_catches_up_by_snapshot(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path)
        await group.start()
        await group.commit(b"before")
        await group.all_hold([b"before"])
        leader = await group.leader()
        away = next(replica_id for replica_id, host in group.hosts.items() if host is not leader)
        await group.stop(away)
        commands = [b"%d" % number + b"." * 2_000 for number in range(100)]
        for start in range(0, 100, 10):
            await group.commit(*commands[start : start + 10])
        await reached(lambda: all(host.raft.status()["snapshot_index"] > 0 for host in group.hosts.values()))
        await group.start(away)
        await group.all_hold([b"before", *commands])
        assert group.hosts[away].raft.status()["snapshot_index"] > 0
        await group.stop()

    play(scene)


def test_leadership_is_handed_over_without_an_election_timeout(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path)
        await group.start()
        leader = await group.leader()
        target = next(replica_id for replica_id, host in group.hosts.items() if host is not leader)
        assert not leader.raft.transfer("nobody")
        assert leader.raft.transfer(target)
        with pytest.raises(Busy):
            leader.raft.propose(b"now?")
        leader.soon()
        await reached(lambda: group.hosts[target].raft.serving)
        assert leader.machine.story == ["leading", "fallen"]
        with pytest.raises(NotLeader):
            leader.raft.propose(b"still?")
        await group.commit(b"after")
        await group.all_hold([b"after"])
        await group.stop()

    play(scene)


def test_one_replica_alone_serves_at_once_and_remembers(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path, ("0.1",))
        await group.start()
        await group.commit(b"x", b"y")
        await group.stop()
        await group.start()
        await group.commit(b"z")
        await group.all_hold([b"x", b"y", b"z"])
        assert not group.hosts["0.1"].raft.transfer()
        await group.stop()

    play(scene)


def test_an_exception_in_apply_ends_every_replica_instead_of_being_retried(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path)
        await group.start()
        leader = await group.leader()
        leader.raft.propose(b"poison")
        leader.soon()
        await reached(lambda: leader.fatal is not None)
        assert "poison" in str(leader.fatal)
        with pytest.raises(RaftFatal):
            leader.raft.tick()
        await group.stop()

    play(scene)


def test_a_leader_without_its_majority_loses_its_lease_and_steps_down(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path)
        await group.start()
        leader = await group.leader()
        others = [replica_id for replica_id, host in group.hosts.items() if host is not leader]
        await group.stop(*others)
        assert not leader.raft.has_lease(), "its peers hung up: their promises no longer count"
        await reached(lambda: not leader.raft.is_leader)
        assert leader.machine.story == ["leading", "fallen"]
        await group.stop()

    play(scene)


def test_what_is_not_committed_is_bounded(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path)
        await group.start()
        leader = await group.leader()
        for _ in range(63):
            leader.raft.propose(bytes(1 << 20))
        with pytest.raises(Busy):
            leader.raft.propose(bytes(1 << 20))
        with pytest.raises(ValueError, match="at most"):
            leader.raft.propose(bytes(33 << 20))
        assert leader.raft.status()["pending_bytes"] <= CONFIG.pending_bytes_max + 100
        await group.stop()

    play(scene)
