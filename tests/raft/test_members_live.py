"""Membership changes of a living group: it grows, shrinks, and replaces who has lost its disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.polling import reached
from tests.raft.live_group import IDS, Group, play


def test_a_group_grows_from_one_to_three_and_shrinks_back(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path, IDS[:1])
        await group.start()
        await group.commit(b"alone")
        await group.join("1.77", "2.78")
        await group.change_to("0.1", "1.77", "2.78")
        await group.commit(b"three")
        await group.all_hold([b"alone", b"three"])
        await group.change_to("2.78")
        await group.stop("0.1", "1.77")
        await group.commit(b"one")
        await group.all_hold([b"alone", b"three", b"one"])
        await group.stop()

    play(scene)


def test_a_replica_without_its_disk_comes_back_as_somebody_else(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path)
        await group.start()
        await group.commit(b"a")
        leader = await group.leader()
        lost = next(each for each in IDS if group.hosts[each] is not leader)
        await group.stop(lost)
        shutil.rmtree(tmp_path / f"partition-0-{lost[0]}")
        newcomer = f"{lost[0]}.99"
        await group.join(newcomer)
        await group.change_to(newcomer, *(each for each in IDS if each != lost))
        await group.commit(b"b")
        await group.all_hold([b"a", b"b"])
        await group.stop()

    play(scene)


def test_a_newcomer_gets_what_is_compacted_as_a_snapshot(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path, IDS[:1])
        await group.start()
        commands = [b"%d" % number + b"." * 2_000 for number in range(100)]
        for start in range(0, 100, 10):
            await group.commit(*commands[start : start + 10])
        await reached(lambda: group.hosts["0.1"].raft.status()["snapshot_index"] > 0)
        await group.join("1.77")
        await group.change_to("0.1", "1.77")
        await group.all_hold(commands)
        assert group.hosts["1.77"].raft.status()["snapshot_index"] > 0
        await group.stop()

    play(scene)


def test_the_new_membership_is_known_after_a_restart_of_all(tmp_path: Path) -> None:
    async def scene() -> None:
        group = Group(tmp_path, IDS[:2])
        await group.start()
        await group.commit(b"a")
        await group.join("2.78")
        await group.change_to("0.1", "2.78")
        await group.stop()
        await group.start("0.1")
        await group.join("2.78")
        await group.commit(b"b")
        await group.all_hold([b"a", b"b"])
        await group.stop()

    play(scene)
