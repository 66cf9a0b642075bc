"""What a tier's own history says of some groups: the other side of a lie.

The tier writes down what reached it; lies on the way are none of its doing, and it must not accuse itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from storage.history.jobs.invariants import COMMIT_REGRESSED
from storage.history.segments.folder import Folder
from tests.history.read_back import read_all
from tests.lies.lie import EXPIRED, REFUSED, SERVED, WENT_BACK

SEGMENT_MS: Final = 1_000
"""How soon the history of the tier that is lied about can be read."""
GONE: Final = frozenset({"member_expired", "member_fenced"})


class Said(NamedTuple):
    """What the server's history says of the groups of one swarm."""

    events: int
    removed: Mapping[str, int]
    """Members by the cause for which they were removed."""
    regressed: int
    """How many commits went back."""
    bad_commits: int
    """OffsetCommit requests of the whole tier that were refused for their generation or member."""
    broken: Mapping[str, int]
    """Invariants by the rule: what went back is among them."""

    @property
    def kinds(self) -> frozenset[str]:
        """Return which of the things that a lie may expect are in this history."""
        found = set()
        if self.removed:
            found.add(EXPIRED)
        if self.regressed:
            found.add(WENT_BACK)
        if self.bad_commits:
            found.add(REFUSED)
        return frozenset(found or {SERVED})

    def fits(self, expected: str) -> bool:
        """Whether it says so, and accuses nobody of anything else."""
        if set(self.broken) - ({COMMIT_REGRESSED} if expected == WENT_BACK else set()):
            return False
        if expected == SERVED:
            return not self.removed and not self.regressed
        return expected in self.kinds and (expected == WENT_BACK or not self.regressed)

    def words(self, expected: str) -> str:
        """Words for the table; refused commits are counted for all groups, and told where they are
        expected."""
        told = [f"{count} x {cause}" for cause, count in sorted(self.removed.items())]
        told += [f"{self.regressed} x {WENT_BACK}"] if self.regressed else []
        told += [REFUSED] if expected == REFUSED and self.bad_commits else []
        told += [f"{n} x {rule}" for rule, n in self.broken.items() if rule != COMMIT_REGRESSED]
        return "; ".join(told) or SERVED


def folder_of(data_dir: Path) -> Folder:
    """Return the folder into which a tier with this data directory writes its history by default."""
    return Folder(str(data_dir / "history"))


def read(folder: Folder, prefixes: Iterable[str]) -> dict[str, Said]:
    """Read what is said by prefix of group names. Raises OSError."""
    table, skipped = read_all(folder)
    assert not skipped, skipped[:3]
    rows = table.to_pylist()
    bad_commits = sum(row["count"] or 0 for row in rows if _is_bad_commit(row))
    held = accused(folder)
    return {
        prefix: _said(
            [row for row in rows if _is_of(row, prefix)],
            bad_commits,
            Counter(rule for group_id, rule in held if group_id.startswith(prefix)),
        )
        for prefix in prefixes
    }


def _is_of(row: Mapping[str, Any], prefix: str) -> bool:
    return (row["group_id"] or "").startswith(prefix)


def _is_bad_commit(row: Mapping[str, Any]) -> bool:
    """Whether a commit was refused because of its generation or member epoch."""
    return (
        row["kind"] == "requests_refused"
        and row["api"] == "OffsetCommit"
        and row["error_code"] in (22, 110, 113)
    )


def _said(rows: list[dict[str, Any]], bad_commits: int, broken: Mapping[str, int]) -> Said:
    return Said(
        len(rows),
        Counter(row["cause"] for row in rows if row["kind"] in GONE),
        sum(row["kind"] == "commit_regressed" for row in rows),
        bad_commits,
        broken,
    )


def accused(folder: Folder) -> list[tuple[str, str]]:
    """Group and rule of every invariant that the history says was broken, once for each time. Raises
    OSError."""
    from storage.history.jobs.embedded import embedded
    from storage.history.jobs.run import made
    from storage.history.jobs.seen import look

    with embedded(folder.url) as engine, made(engine, folder, look(folder)):
        rows = engine.rows("SELECT group_id, rule FROM invariants")
    return [(row["group_id"] or "", row["rule"]) for row in rows]
