"""A leader whose disk fails under it says so and steps down; the others serve, nothing told is lost.

A failing sync needs a disk that lies, which no test can mount; the simulation has such a disk. One that hangs
is injected.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from actors.replica.host import EXIT_RESTART
from storage.raft.injected import DiskFault, Faults
from tests.faults.clients import Clients
from tests.faults.shape import GROUP, REPLICAS, clients_socket, directory_of, disk_of, faults_of
from tests.faults.supervisor import Supervisor, until

DISK_MIB = 8
HANGS_S = 8.0
QUICK_DISK = Path("/dev/shm")
"""A file system whose syncs are so quick that a replica's loop waits for them."""


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[Path]:
    """A root in which each replica's disk is a file system of its own; only root can make one."""
    with contextlib.ExitStack() as mounted:
        for replica in REPLICAS:
            disk = disk_of(tmp_path, replica)
            disk.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(disk)]
            if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
                pytest.skip("mounting a file system is not allowed here")
            mounted.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        yield tmp_path


def _play(scene: Callable[[Supervisor, Clients], Coroutine[Any, Any, None]], root: Path) -> None:
    async def with_load() -> None:
        async with Supervisor(root) as group, Clients(group.run_dir) as clients:
            await clients.progress(group.story)
            await scene(group, clients)
            await clients.progress(group.story)
            await clients.quiet()
            clients.check(await group.equal_states())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(with_load())


async def _stepped_down(group: Supervisor, replica: int, reason: str) -> None:
    """Wait until the replica gives `reason` for taking no more part; somebody else leads then."""

    async def failed() -> bool:
        status = await group.ask(replica, "status")
        return status is not None and reason in (status["failure"] or "")

    await until(failed, f"replica {replica} fails: {reason}", group.story)
    status = await group.ask(replica, "status")
    assert status is not None
    assert not status["answers"]


def loop_syncs(group: Supervisor) -> Callable[[], Coroutine[Any, Any, int | None]]:
    """Return a check that finds the leader if its loop waits for its disk: after a slow sync, as a busy
    machine has them, a thread does that for a while, and no loop would hang."""

    async def found() -> int | None:
        leader = await group.any_leader()
        status = await group.ask(leader, "status")
        return leader if status is not None and status["loop_syncs"] else None

    return found


def test_leader_with_a_full_disk_steps_down_and_is_back_when_there_is_space(small_disks: Path) -> None:
    """The leader ends by itself, is started again and catches up: an operator only has to make room."""

    async def scene(group: Supervisor, clients: Clients) -> None:
        leader = await group.any_leader()
        filler = disk_of(small_disks, leader) / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(DISK_MIB << 20))
        await _stepped_down(group, leader, "No space left")
        await clients.progress(group.story)
        assert group.ended == [], "it waits for space, it does not start again and again"
        filler.unlink()

        async def started_anew() -> bool:
            return len(group.ended) == 1

        await until(started_anew, "the replica leaves to be started anew", group.story)
        await group.all_ready()
        assert f"exit code {EXIT_RESTART}" in group.ended[0]

    _play(scene, small_disks)


def test_leader_that_cannot_write_steps_down_until_it_is_started_anew(tmp_path: Path) -> None:
    """A limit on the size of its files cuts a write in the middle: after the restart the torn rest is gone
    and the replica catches up."""

    async def scene(group: Supervisor, clients: Clients) -> None:
        leader = await group.any_leader()
        newest = max((directory_of(tmp_path, leader) / "journal").glob("*.journal"))
        limit = (newest.stat().st_size + 1_000, resource.RLIM_INFINITY)
        resource.prlimit(group.pid(leader), resource.RLIMIT_FSIZE, limit)
        await _stepped_down(group, leader, "File too large")
        await clients.progress(group.story)
        group.kill(leader)
        await clients.progress(group.story)
        group.start(leader)
        await group.all_ready()

    _play(scene, tmp_path)


def test_leader_whose_directory_vanishes_steps_down_and_comes_back_as_somebody_new(tmp_path: Path) -> None:
    """An open file lives on without a name, so it shows when the next segment is begun. Under its old name
    the replica could vote for a leader that lacks what it had acknowledged."""

    async def scene(group: Supervisor, clients: Clients) -> None:
        leader = await group.any_leader()
        before = await group.ask(leader, "status")
        shutil.rmtree(group.directory(leader))
        await _stepped_down(group, leader, "No such file or directory")
        await clients.progress(group.story)
        group.kill(leader)
        group.start(leader)
        await group.all_ready()
        after = await group.ask(leader, "status")
        assert before is not None
        assert after is not None
        assert after["id"] != before["id"]
        assert after["role"] == "follower"
        await clients.progress(group.story)
        await group.admit(leader)

    _play(scene, tmp_path)


def test_leader_whose_disk_hangs_is_replaced_and_lets_its_clients_go() -> None:
    """A loop that waits for its disk sends no heartbeats, so another is elected. Whoever is connected to it
    hears so long before the disk comes back."""
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as directory:
        root = Path(directory)
        Faults().write(faults_of(root))

        async def scene(group: Supervisor, clients: Clients) -> None:
            leader = await until(loop_syncs(group), "the leader's own loop syncs", group.story)
            connection, writer = await asyncio.open_unix_connection(clients_socket(group.run_dir, leader))
            hangs = DiskFault(f"{GROUP}-{leader}", delay_ms=1_000 * HANGS_S)
            Faults(disks=(hangs,)).write(faults_of(root))
            began_at = time.monotonic()
            try:
                assert await asyncio.wait_for(connection.read(), HANGS_S) == b""
            finally:
                writer.close()
            assert await group.ask(leader, "status") is None, "its loop hangs still"
            await clients.progress(group.story)
            assert time.monotonic() < began_at + HANGS_S, "others have served before the disk came back"
            Faults().write(faults_of(root))

            async def follows() -> bool:
                status = await group.ask(leader, "status")
                return status is not None and status["role"] == "follower"

            await until(follows, "the replica follows when its disk is back", group.story)
            assert group.ended == [], "it was not started anew"

        _play(scene, root)
