"""Faults that come by a file: whom they hit, and that they end."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.chaos.targets.fault_file import FaultFile
from bench.chaos.targets.site import until
from storage.raft.injected import SYNC, WRITE, ClockFault, DiskFault, Faults, InjectedFaults, LinkFault

DEADLINE_S = 10.0
GROUP = "partition-3"
Open = Callable[[int], InjectedFaults]


@pytest.fixture
def file(tmp_path: Path) -> FaultFile:
    return FaultFile(tmp_path / "faults.json")


@pytest.fixture
def replica(file: FaultFile) -> Iterator[Open]:
    """Opens the faults of replica N of partition 3."""
    opened: list[InjectedFaults] = []

    def open_(replica_id: int) -> InjectedFaults:
        opened.append(InjectedFaults(file.path, GROUP, replica_id))
        return opened[-1]

    yield open_
    for faults in opened:
        faults.close()


def test_a_link_fails_one_way_and_is_healed(file: FaultFile, replica: Open) -> None:
    first, second = replica(0), replica(1)
    end = file.add(Faults(links=(LinkFault(f"{GROUP}-0", f"{GROUP}-1", loss=1),)))
    until(lambda: first.delay_s("1.77") is None, "messages to replica 1 are lost", DEADLINE_S)
    assert first.delay_s("2.5") == 0
    assert second.delay_s("0.1") == 0
    end()
    until(lambda: first.delay_s("1.77") == 0, "messages pass", DEADLINE_S)


def test_delays_add_up_and_stay_within_their_jitter(file: FaultFile, replica: Open) -> None:
    file.add(Faults(links=(LinkFault("*", f"{GROUP}-1", delay_ms=10, jitter_ms=5),)))
    file.add(Faults(links=(LinkFault(f"{GROUP}-*", "*", delay_ms=20),)))
    delays = [replica(0).delay_s("1.1") for _ in range(3)]
    assert all(delay is not None and 0.030 <= delay <= 0.035 for delay in delays)


def test_two_injuries_that_do_the_same_end_one_by_one(file: FaultFile, replica: Open) -> None:
    faults = [Faults(links=(LinkFault("*", "*", delay_ms=10),)) for _ in range(2)]
    ends = [file.add(each) for each in faults]
    ends[0]()
    assert replica(0).delay_s("1.1") == 0.010
    ends[1]()
    assert replica(1).delay_s("0.1") == 0


def test_a_full_disk_shows_no_room_and_has_some_again(file: FaultFile, replica: Open, tmp_path: Path) -> None:
    faults = replica(0)
    disk = faults.disk()
    journal = disk.open_append(str(tmp_path / "journal"))
    journal.append(b"before")
    mark = disk.open_fixed(str(tmp_path / "mark"))
    end = file.add(Faults(disks=(DiskFault(f"{GROUP}-0", fails=WRITE, error="ENOSPC"),)))
    until(lambda: disk.free_bytes(str(tmp_path)) == 0, "there is no room", DEADLINE_S)
    for write in (
        lambda: journal.append(b"more"),
        lambda: disk.overwrite(str(tmp_path / "tail"), b"1"),
        lambda: mark.write(b"1"),
        lambda: disk.open_append(str(tmp_path / "next")),
    ):
        with pytest.raises(OSError, match="No space left") as failed:
            write()
        assert failed.value.errno == errno.ENOSPC
    assert disk.read(str(tmp_path / "journal")) == b"before"
    end()
    until(lambda: disk.free_bytes(str(tmp_path)) > 0, "there is room", DEADLINE_S)
    journal.append(b" and after")
    journal.close()
    mark.close()
    assert disk.read(str(tmp_path / "journal")) == b"before and after"


def test_a_sync_fails_or_takes_its_time(file: FaultFile, replica: Open, tmp_path: Path) -> None:
    file.add(Faults(disks=(DiskFault("*-0", fails=SYNC), DiskFault("*-1", delay_ms=50))))
    failing = replica(0).disk().open_append(str(tmp_path / "failing"))
    failing.append(b"written")
    with pytest.raises(OSError, match="Input/output error"):
        failing.sync()
    failing.close()
    slow = replica(1).disk().open_append(str(tmp_path / "slow"))
    slow.append(b"written")
    began = time.monotonic()
    slow.sync()
    assert time.monotonic() - began >= 0.05
    slow.close()


def test_the_wall_clock_is_read_once(file: FaultFile, replica: Open) -> None:
    """Whoever runs already is not moved, just as a real clock's reader."""
    before = replica(0)
    file.add(Faults(clocks=(ClockFault(f"{GROUP}-0", 5_000),)))
    assert replica(0).clock(lambda: 100)() == 5_100
    assert replica(1).clock(lambda: 100)() == 100
    assert before.clock(lambda: 100)() in (100, 5_100)
    clock = before.clock(lambda: 100)
    file.add(Faults(clocks=(ClockFault("*", 1),)))
    assert clock() in (100, 5_100)


def test_without_a_file_there_are_no_faults(tmp_path: Path) -> None:
    faults = InjectedFaults(tmp_path / "none.json", GROUP, 0)
    assert faults.delay_s("1.1") == 0
    assert faults.disk().free_bytes(str(tmp_path)) > 0
    faults.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"links": [{"from": "x"}], "disks": [], "clocks": []}'])
def test_a_file_that_says_nothing_changes_nothing(
    content: str, file: FaultFile, replica: Open, caplog: pytest.LogCaptureFixture
) -> None:
    file.add(Faults(links=(LinkFault("*", "*", loss=1),)))
    faults = replica(0)
    file.path.with_suffix(".new").write_text(content)
    file.path.with_suffix(".new").replace(file.path)
    until(lambda: "faults stay as they are" in caplog.text, "the log says so", DEADLINE_S)
    assert faults.delay_s("1.1") is None
