"""Damages the files of a replica that does not run, as a bad disk or a bad cable would."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from storage.raft.recovery import MARK_NAME, SEGMENT_SUFFIX
from storage.raft.snapshot import NAME as SNAPSHOT_NAME

PAGE_BYTES = 4096


OF_SNAPSHOT = "bit of the snapshot flipped"
HARMLESS, DETECTED, LOST = "harmless", "detected", "lost"
"""Outcomes: the replica starts as before, refuses to start, or starts as somebody new."""


class Damage(NamedTuple):
    kind: str
    place: str
    outcomes: frozenset[str]
    """The outcomes that the damage may have."""

    @property
    def text(self) -> str:
        return f"{self.kind} ({self.place})"


def damage(directory: Path, chance: random.Random) -> Damage:
    """Do one random damage to a replica's directory."""
    kinds = dict(_KINDS)
    if not (directory / "snapshot" / SNAPSHOT_NAME).exists():
        del kinds[OF_SNAPSHOT]
    (kind,) = chance.choices(tuple(kinds), [weight for _, weight, _ in kinds.values()])
    harm, _, outcomes = _KINDS[kind]
    return Damage(kind, harm(directory, chance), frozenset(outcomes))


def segments(directory: Path) -> list[Path]:
    """The segments of a replica's journal, oldest first."""
    return sorted((directory / "journal").glob(f"*{SEGMENT_SUFFIX}"))


def _place(directory: Path, chance: random.Random) -> tuple[Path, int]:
    """A segment and an offset in it: any byte of the journal may be hit."""
    known = segments(directory)
    (segment,) = chance.choices(known, [path.stat().st_size for path in known])
    return segment, chance.randrange(segment.stat().st_size)


def _flip(path: Path, offset: int, chance: random.Random) -> str:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return f"{path.name} at byte {offset} of {path.stat().st_size}"


def _flip_a_bit(directory: Path, chance: random.Random) -> str:
    return _flip(*_place(directory, chance), chance)


def _flip_a_bit_of_the_snapshot(directory: Path, chance: random.Random) -> str:
    path = directory / "snapshot" / SNAPSHOT_NAME
    return _flip(path, chance.randrange(path.stat().st_size), chance)


def _zero_a_page(directory: Path, chance: random.Random) -> str:
    segment, offset = _place(directory, chance)
    start = offset - offset % PAGE_BYTES
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.seek(start)
        file.write(bytes(min(PAGE_BYTES, size - start)))
    return f"{segment.name} from byte {start} of {size}"


def _cut_a_segment(directory: Path, chance: random.Random) -> str:
    segment, offset = _place(directory, chance)
    size = segment.stat().st_size
    os.truncate(segment, offset)
    return f"{segment.name} to {offset} of {size} bytes"


def _remove_a_segment(directory: Path, chance: random.Random) -> str:
    known = segments(directory)
    segment = chance.choice(known)
    segment.unlink()
    return f"{segment.name} of {[path.name for path in known]}"


def _tear_the_tail(directory: Path, chance: random.Random) -> str:
    """Write half a record behind the last one, as a crash leaves it of a write that was never
    acknowledged."""
    newest = segments(directory)[-1]
    content = newest.read_bytes()
    with newest.open("ab") as file:
        file.write(content[-chance.randrange(1, 200) :])
    return f"{newest.name} of {len(content)} bytes"


def _flip_a_bit_of_the_mark(directory: Path, chance: random.Random) -> str:
    path = directory / "journal" / MARK_NAME
    return _flip(path, chance.randrange(path.stat().st_size), chance)


def _remove_the_mark(directory: Path, chance: random.Random) -> str:
    (directory / "journal" / MARK_NAME).unlink()
    return MARK_NAME


def _remove_the_journal(directory: Path, chance: random.Random) -> str:
    shutil.rmtree(directory / "journal")
    return f"{directory.name}/journal"


_KINDS: dict[str, tuple[Callable[[Path, random.Random], str], int, tuple[str, ...]]] = {
    "bit flipped": (_flip_a_bit, 25, (DETECTED, HARMLESS)),
    "page zeroed": (_zero_a_page, 15, (DETECTED, HARMLESS)),
    "segment cut": (_cut_a_segment, 15, (DETECTED, HARMLESS)),
    "segment removed": (_remove_a_segment, 15, (DETECTED, HARMLESS)),
    "tail torn": (_tear_the_tail, 10, (HARMLESS,)),
    "bit of the mark flipped": (_flip_a_bit_of_the_mark, 5, (HARMLESS,)),
    "mark removed": (_remove_the_mark, 5, (HARMLESS,)),
    OF_SNAPSHOT: (_flip_a_bit_of_the_snapshot, 5, (DETECTED,)),
    "journal removed": (_remove_the_journal, 5, (LOST,)),
}
"""The kinds of damage: how each is done, its weight, and its possible outcomes."""
