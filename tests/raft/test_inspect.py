"""What an inspection shows of a disk: every replica below a directory, whole or damaged, running or
stopped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from storage.raft import inspect
from storage.raft.disk import Disk
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import founders, pack
from storage.raft.snapshot import Snapshot, SnapshotStore

MEMBERS = founders({0: 1, 1: 2, 2: 3})


def replica(home: Path, name: str = "partition-0-1") -> Path:
    """Write a replica with entries 1 to 20 over three segments and a snapshot at 5."""
    identity = Identity(tier_id="tier", replica_id=name)
    journal = opened(home, identity)
    journal.set_hard_state(3, "1.1")
    journal.append((b"\x02" + pack(MEMBERS), 1, 3))
    journal.append((b"\x01", 2, 3))
    for index in range(3, 21):
        journal.append((b"\x00" + b"%d" % index * 20, index, 3))
        journal.flush()
    journal.truncate_after(18)
    journal.append((b"\x00last", 19, 4))
    journal.close()
    SnapshotStore(Disk(), str(home / "snapshot"), identity).save(Snapshot.of(5, 3, b"state", MEMBERS))
    return home


def opened(home: Path, identity: Identity) -> Journal:
    return Journal(
        Disk(),
        str(home / "journal"),
        identity,
        executor=None,
        notify=lambda: None,
        segment_bytes=550,
        genesis=Genesis(9, MEMBERS),
    )


def decoded(replica_id: str, command: bytes) -> Any:
    if command == b"last":
        raise ValueError("not of this world")
    return f"{replica_id} {len(command)}"


def test_every_replica_below_a_directory_is_found(tmp_path: Path) -> None:
    homes = [replica(tmp_path / "node-1" / name, name) for name in ("controller-0", "partition-0-1")]
    homes.append(replica(tmp_path / "node-2" / "partition-0-2", "partition-0-2"))
    assert [place.path for place in inspect.places(str(tmp_path))] == [str(home) for home in homes]
    assert [place.path for place in inspect.places(str(tmp_path / "node-2"))] == [str(homes[2])]
    for part in (homes[0], homes[0] / "journal", homes[0] / "snapshot"):
        (place,) = inspect.places(str(part))
        assert place == inspect.Place(
            str(homes[0]), str(homes[0] / "journal"), str(homes[0] / "snapshot" / "snapshot")
        )
    assert inspect.places(str(Path(__file__).parent)) == []


def test_a_sound_replica_has_no_problems_and_its_disk_is_not_touched(tmp_path: Path) -> None:
    home = replica(tmp_path / "home")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}
    (place,) = inspect.places(str(home))
    report = inspect.check(place)
    assert (report.problems, report.notes, report.running_pid) == ([], [], None)
    assert report.identity == Identity(tier_id="tier", replica_id="partition-0-1")
    assert (report.incarnation, report.founders) == (9, MEMBERS)
    assert (report.first_index, report.last_index) == (0, 19)
    assert report.snapshot == inspect.SnapshotView(5, 3, 5, MEMBERS)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")} == before


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not list who holds which lock")
def test_the_process_that_runs_a_replica_is_named(tmp_path: Path) -> None:
    home = replica(tmp_path / "home")
    journal = opened(home, Identity(tier_id="tier", replica_id="partition-0-1"))
    (place,) = inspect.places(str(home))
    assert inspect.check(place).running_pid == os.getpid()
    journal.close()
    assert inspect.check(place).running_pid is None


def test_a_segment_shows_its_entries_terms_and_hard_state(tmp_path: Path) -> None:
    home = replica(tmp_path / "home")
    shown = [each for each in inspect.segments(str(home / "journal")) if not isinstance(each, str)]
    assert [each.sequence for each in shown] == [1, 2, 3]
    assert {each.version for each in shown} == {2}
    assert (shown[0].first_index, shown[-1].last_index) == (1, 20)
    assert shown[-1].terms == (3, 4)
    assert {(each.term, each.vote, each.state) for each in shown} == {(3, "1.1", "whole")}


def test_records_are_listed_from_an_entry_on_in_readable_form(tmp_path: Path) -> None:
    directory = str(replica(tmp_path / "home") / "journal")
    kinds = [record.kind for record in inspect.records(directory, 0, 4, decoded)]
    assert kinds == ["hard state", "members", "no-op", "entry"]
    tail = list(inspect.records(directory, 20, 10, decoded))
    assert [(record.kind, record.index, record.term, record.content) for record in tail] == [
        ("entry", 20, 3, "partition-0-1 40"),
        ("truncate after", 18, 3, None),
        ("entry", 19, 4, "not readable: not of this world"),
    ]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("flip", "000000000001.journal is damaged at byte"),
        ("segment", "follows segment 1: segment 2 is missing"),
        ("journal", "has a snapshot and no journal"),
        ("snapshot", "is damaged behind byte"),
        ("no snapshot", "the journal begins after entry 10, there is no snapshot"),
        ("another", "belongs to replica 'other' of tier 'tier', the journal to 'partition-0-1'"),
    ],
)
def test_each_kind_of_damage_is_told_in_one_line(tmp_path: Path, damage: str, problem: str) -> None:
    home = replica(tmp_path / "home")
    snapshot = home / "snapshot" / "snapshot"
    match damage:
        case "flip":
            path = home / "journal" / "000000000001.journal"
            content = bytearray(path.read_bytes())
            content[300] ^= 1
            path.write_bytes(content)
        case "segment":
            (home / "journal" / "000000000002.journal").unlink()
        case "journal":
            shutil.rmtree(home / "journal")
        case "snapshot":
            snapshot.write_bytes(snapshot.read_bytes()[:-1])
        case "no snapshot":
            journal = opened(home, Identity(tier_id="tier", replica_id="partition-0-1"))
            journal.compact(10)
            journal.close()
            snapshot.unlink()
        case "another":
            other = Identity(tier_id="tier", replica_id="other")
            SnapshotStore(Disk(), str(home / "snapshot"), other).save(Snapshot.of(5, 3, b"state", MEMBERS))
    (place,) = inspect.places(str(home))
    (told,) = inspect.check(place).problems
    assert problem in told
    assert "\n" not in told


def test_a_torn_tail_is_a_note_and_no_problem(tmp_path: Path) -> None:
    home = replica(tmp_path / "home")
    newest = home / "journal" / "000000000003.journal"
    newest.write_bytes(newest.read_bytes()[:-3])
    (place,) = inspect.places(str(home))
    report = inspect.check(place)
    assert report.problems == []
    (note,) = report.notes
    assert "that are no whole record, as a crash leaves them: the next start cuts them" in note
