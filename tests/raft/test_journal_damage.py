"""What is broken on the disk is refused, or harmless: no synced entry is ever lost without a word."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.raft import inspect
from storage.raft.disk import Disk
from storage.raft.errors import JournalDamaged, SnapshotDamaged, WrongDirectory
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import founders
from storage.raft.records import Entry
from storage.raft.snapshot import Snapshot, SnapshotStore
from tests.raft.inline import Inline

IDENTITY = Identity(tier_id="tier", replica_id="partition-0-1")
GENESIS = Genesis(5, founders({0: 1, 1: 2, 2: 3}))
SEGMENT_BYTES = 6_000
BLOCK_BYTES = 512
DAMAGES = 200


class History(NamedTuple):
    """A replica's directory as a killed process left it, and what it had promised."""

    home: Path
    synced: dict[int, Entry]
    unsynced: dict[int, Entry]
    hard_state: tuple[int, str | None]


def journal_of(home: Path, syncs: Inline) -> Journal:
    return Journal(
        Disk(),
        str(home / "journal"),
        IDENTITY,
        executor=syncs,
        notify=lambda: None,
        segment_bytes=SEGMENT_BYTES,
        genesis=GENESIS,
    )


def written(home: Path, chance: random.Random) -> History:
    """Write entries, votes and retractions over several segments, a snapshot, and a tail that was never
    synced."""
    syncs = Inline()
    journal = journal_of(home, syncs)
    store = SnapshotStore(Disk(), str(home / "snapshot"), IDENTITY)
    term = 1
    for _ in range(150):
        journal.append((chance.randbytes(chance.choice((20, 100, 700))), journal.last_index + 1, term))
        if chance.random() < 0.3:
            journal.flush()
            journal.collect()
        if chance.random() < 0.05:
            term += 1
            journal.truncate_after(max(journal.base_index, journal.last_index - chance.randrange(4)))
            journal.set_hard_state(term, chance.choice((None, "1.5")))
        if journal.last_index == 40 and store.index == 0:
            store.save(Snapshot.of(30, journal.term_at(30) or 0, chance.randbytes(3_000), GENESIS.founders))
            journal.compact(25)
    journal.flush()
    journal.collect()
    assert journal.durable_index == journal.last_index
    synced = {index: journal.entry(index) for index in range(31, journal.last_index + 1)}
    syncs.works = False
    for _ in range(3):
        journal.append((chance.randbytes(300), journal.last_index + 1, term))
        journal.flush()
    unsynced = {
        index: journal.entry(index) for index in range(journal.durable_index + 1, journal.last_index + 1)
    }
    shutil.copytree(home, home.with_name("left"))
    journal.close()
    return History(home.with_name("left"), synced, unsynced, (journal.term, journal.vote))


@pytest.fixture(scope="module", params=[1, 2])
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    return written(tmp_path_factory.mktemp("replica") / "home", random.Random(request.param))


def hurt(home: Path, chance: random.Random) -> str:
    """Damage one or two files. Returns what was done."""
    files = sorted(path for path in home.rglob("*") if path.is_file() and path.name != "lock")
    path = chance.choice(files)
    content = bytearray(path.read_bytes())
    position = chance.randrange(len(content))
    kind = chance.choice(("flip", "zero", "truncate", "stale", "insert", "exchange", "remove", "noise"))
    block = slice(position // BLOCK_BYTES * BLOCK_BYTES, position // BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES)
    other = chance.choice([each for each in files if each != path])
    match kind:
        case "flip":
            content[position] ^= 1 << chance.randrange(8)
        case "zero":
            content[block] = bytes(len(content[block]))
        case "truncate":
            del content[position:]
        case "stale":
            start = chance.randrange(0, len(content), BLOCK_BYTES)
            content[block] = content[start : start + BLOCK_BYTES]
        case "insert":
            content[block.start : block.start] = content[block]
        case "noise":
            content[block] = chance.randbytes(len(content[block]))
        case "exchange":
            content, theirs = bytearray(other.read_bytes()), content
            other.write_bytes(theirs)
        case "remove":
            path.unlink()
            return f"{kind} {path.name}"
    path.write_bytes(content)
    return f"{kind} {path.name} at byte {position}, {other.name}"


def loss(history: History, home: Path) -> str | None:
    """Open a damaged directory. Returns None if it is refused, else which promise it does not keep ("" if it
    keeps all). Raft refuses a log that does not reach down to the snapshot."""
    try:
        journal = journal_of(home, Inline())
    except (JournalDamaged, WrongDirectory):
        return None
    try:
        snapshot = SnapshotStore(Disk(), str(home / "snapshot"), IDENTITY).load()
    except (SnapshotDamaged, WrongDirectory):
        return None
    finally:
        journal.close()
    if (0 if snapshot is None else snapshot.index) < journal.base_index:
        return None
    lost = [
        index
        for index, entry in history.synced.items()
        if not journal.base_index < index <= journal.last_index or journal.entry(index) != entry
    ]
    if lost:
        return f"entries {lost} are lost"
    if (journal.term, journal.vote) != history.hard_state:
        return f"the vote is {(journal.term, journal.vote)}"
    tail = {**history.synced, **history.unsynced}
    if any(journal.entry(index) != tail[index] for index in range(31, journal.last_index + 1)):
        return "an entry was made up"
    return ""


def test_undamaged_everything_written_is_there(history: History, tmp_path: Path) -> None:
    home = shutil.copytree(history.home, tmp_path / "home")
    assert len(list((home / "journal").glob("*.journal"))) >= 4
    assert loss(history, home) == ""


def test_random_damage_is_refused_or_harmless(history: History, tmp_path: Path) -> None:
    """`verify` says before a start what the start will say."""
    refused = 0
    for seed in range(DAMAGES):
        home = shutil.copytree(history.home, tmp_path / str(seed))
        story = f"seed {seed}: {hurt(home, random.Random(seed))}"
        (place,) = inspect.places(str(home))
        problems = inspect.check(place).problems
        outcome = loss(history, home)
        assert not outcome, f"{story}: {outcome}"
        assert bool(problems) == (outcome is None), f"{story}: {problems}"
        refused += outcome is None
        shutil.rmtree(home)
    assert DAMAGES // 2 < refused < DAMAGES, f"{refused} of {DAMAGES} refused: the damage says too little"


def test_the_last_synced_record_is_protected_by_the_mark(history: History, tmp_path: Path) -> None:
    """A torn tail may begin behind what was synced, and not one byte before it."""
    journal = sorted((history.home / "journal").glob("*.journal"))[-1]
    (place,) = inspect.places(str(history.home))
    whole = journal.read_bytes()
    mark_end = int.from_bytes((history.home / "journal" / "synced").read_bytes()[12:20], "little")
    assert mark_end < len(whole)
    for size in range(mark_end - 50, len(whole), 7):
        home = shutil.copytree(history.home, tmp_path / str(size))
        (home / "journal" / journal.name).write_bytes(whole[:size])
        assert (loss(history, home) is None) == (size < mark_end)
        shutil.rmtree(home)
    assert inspect.check(place).problems == []


def test_the_text_says_what_where_and_the_way_out(history: History, tmp_path: Path) -> None:
    home = shutil.copytree(history.home, tmp_path / "home")
    first = sorted((home / "journal").glob("*.journal"))[0]
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    with pytest.raises(JournalDamaged) as raised:
        journal_of(home, Inline())
    text = str(raised.value)
    assert f"{first} is damaged at byte " in text
    assert "nothing was changed; the replica has to be rebuilt from its peers" in text
    assert "`groupd replicas replace`" in text
    assert first.read_bytes() == content


def test_forged_marks_of_records_do_not_make_a_start_slow(tmp_path: Path) -> None:
    """Behind a torn record lies what a client wrote: a megabyte of beginnings of records that are none."""
    journal = Journal(Disk(), str(tmp_path), IDENTITY, executor=None, notify=lambda: None)
    journal.append((b"\x00first", 1, 1))
    forged = (b"\xf5\x9arj" + (400_000).to_bytes(4, "little") + bytes(4)) * 80_000
    journal.append((forged, 2, 1))
    journal.close()
    (segment,) = tmp_path.glob("*.journal")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    with pytest.raises(JournalDamaged, match="whole records seem to follow"):
        Journal(Disk(), str(tmp_path), IDENTITY, executor=None, notify=lambda: None)


def votes(directory: Path) -> tuple[Path, list[int]]:
    """Write a segment of three votes, all of one length. Returns it, and where each record begins."""
    journal = Journal(Disk(), str(directory), IDENTITY, executor=None, notify=lambda: None)
    for term, vote in enumerate(("1.1", "2.1", "3.1"), start=1):
        journal.set_hard_state(term, vote)
    journal.append((b"\x00entry", 1, 3))
    journal.close()
    (segment,) = directory.glob("*.journal")
    content = segment.read_bytes()
    starts = [at for at in range(len(content)) if content.startswith(b"\xf5\x9arj", at)]
    return segment, starts


def test_an_old_record_in_the_place_of_a_new_one_is_damage(tmp_path: Path) -> None:
    """The old record is whole, but was written elsewhere: taken for a record, it would give a vote twice."""
    segment, (first, second, third, _) = votes(tmp_path)
    content = bytearray(segment.read_bytes())
    content[third : third + second - first] = content[first:second]
    segment.write_bytes(content)
    with pytest.raises(JournalDamaged, match=f"is damaged at byte {third} of"):
        Journal(Disk(), str(tmp_path), IDENTITY, executor=None, notify=lambda: None)


def test_an_older_segment_cut_between_two_records_is_damage(tmp_path: Path) -> None:
    """Every record that is left is whole: only the next segment's header shows that a vote is missing."""
    journal = Journal(Disk(), str(tmp_path), IDENTITY, executor=None, notify=lambda: None)
    journal.append((b"\x00entry", 1, 1))
    journal.append((b"\x00entry", 2, 1))
    journal.set_hard_state(2, "1.1")
    journal.compact(1)
    journal.close()
    older = min(tmp_path.glob("*.journal"))
    content = older.read_bytes()
    older.write_bytes(content[: content.rindex(b"\xf5\x9arj")])
    with pytest.raises(JournalDamaged, match="but the segment before it ends at"):
        Journal(Disk(), str(tmp_path), IDENTITY, executor=None, notify=lambda: None)


def test_a_renamed_segment_is_damage(tmp_path: Path) -> None:
    """The next segment would take its place in the order of names."""
    segment, _ = votes(tmp_path)
    segment.rename(segment.with_name("000000000007.journal"))
    with pytest.raises(JournalDamaged, match="holds segment 1: files were renamed or exchanged"):
        Journal(Disk(), str(tmp_path), IDENTITY, executor=None, notify=lambda: None)
