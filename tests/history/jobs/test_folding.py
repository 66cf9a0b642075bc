"""Tables made by tasks, of some offsets partitions each, are those that are made of all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.replayed_assignors import NAMES, replay
from storage.history.generator.plan import plan
from storage.history.generator.spec import Spec
from storage.history.generator.write import write
from storage.history.jobs.bundles import apart, packed
from storage.history.jobs.embedded import Embedded, embedded
from storage.history.jobs.engine import EngineError, Making
from storage.history.jobs.folding import Folding, Workers, share
from storage.history.jobs.run import ALWAYS
from storage.history.jobs.seen import look
from storage.history.jobs.staged import Staged
from storage.history.jobs.tables import MADE, TABLES
from storage.history.jobs.what_if import replayed_with
from storage.history.period import Period
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found, Segment
from tests.history.jobs.spoiled import spoil

SPEC = Spec(seed=4, events=6_000, days=2, groups=16, offsets_partitions=4, failovers_per_day=2)
SKEWED = Spec(seed=9, events=6_000, days=2, groups=16, hot_share=0.95, hot_restarts=20)
PLACES = frozenset({"offsets_partition", "terms"})
REPLAYED = replayed_with(NAMES, replay)


def call(work: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
    """Work off the tasks in this process, the last one first."""
    return [work(task) for task in tasks[::-1]][::-1]


def at_once(folder: Folder, making: Making, *, is_placed: bool = True) -> dict[str, list[str]]:
    """The rows of all tables, made by one engine of all events; unless `is_placed` without what their offsets
    partition tells."""
    with embedded(folder.url) as engine:
        engine.read(folder, look(folder).found)
        engine.look(making.counted)
        engine.make(making)
        made = TABLES if making.replayed is not None else MADE
        return _rows(engine, {table.name: table.name for table in made}, frozenset() if is_placed else PLACES)


def in_tasks(folder: Folder, making: Making, slots: int, directory: Path) -> dict[str, list[str]]:
    """The same, made by so many tasks."""
    staged = Staged(str(directory / f"staged-{slots}"))
    folding = Folding(Workers(call, slots, slots, "1g"), folder, look(folder).found)
    assert folding.look(making.counted)
    folding.make(making, staged)
    with embedded(folder.url) as engine:
        made = TABLES if making.replayed is not None else MADE
        return _rows(engine, {table.name: _read(staged, table.name) for table in made})


def _read(staged: Staged, name: str) -> str:
    files = [f"'{folder}/*/*.parquet'" for folder in staged.folders(name)]
    return f"read_parquet([{', '.join(files)}], hive_partitioning=true)" if files else ""


def _rows(
    engine: Embedded, relations: dict[str, str], without: frozenset[str] = frozenset()
) -> dict[str, list[str]]:
    columns = {
        table.name: ", ".join(f'"{each.name}"' for each in table.whole if each.name not in without)
        for table in TABLES
    }
    return {
        name: sorted(
            str(list(row.values())) for row in engine.rows(f"SELECT {columns[name]} FROM {relation}")
        )
        if relation
        else []
        for name, relation in relations.items()
    }


@pytest.mark.parametrize(("spec", "slots"), [(SPEC, 3), (SKEWED, 16)], ids=["split", "skewed"])
def test_tasks_make_what_is_made_at_once(tmp_path: Path, spec: Spec, slots: int) -> None:
    """They do so byte for byte, also where groups have moved to another offsets partition, where segments
    overlap, leaders changed and members came again."""
    folder = Folder(str(tmp_path / "history"))
    spoil(plan(spec), folder)
    expected = at_once(folder, Making(ALWAYS, REPLAYED))
    assert [name for name, rows in expected.items() if not rows] == []
    assert in_tasks(folder, Making(ALWAYS, REPLAYED), slots, tmp_path) == expected


def test_a_split_changes_nothing_that_is_told_of_groups(tmp_path: Path) -> None:
    """The terms of the partition to which a group moved begin anew: its later events were taken for its
    earlier ones, and its epoch was said to have fallen."""
    moved, stayed = Folder(str(tmp_path / "moved")), Folder(str(tmp_path / "stayed"))
    spoil(plan(SPEC), moved)
    write(plan(SPEC), stayed)
    after, before = (at_once(folder, Making(ALWAYS), is_placed=False) for folder in (moved, stayed))
    for name in ("rebalances", "storms", "groups", "members", "clients"):
        assert after[name] == before[name], name
    fallen = [[row for row in each["invariants"] if "epoch fell" in row] for each in (after, before)]
    assert fallen[0] == fallen[1] != []


def test_tasks_make_an_hour_of_it(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "history"))
    spoil(plan(SPEC), folder)
    noon_ms = SPEC.first_ms + 36 * 3_600_000
    making = Making(Period(noon_ms, noon_ms + 3_600_000))
    assert in_tasks(folder, making, 2, tmp_path) == at_once(folder, making)


def test_events_that_came_late_change_what_they_would_have_changed_in_time(tmp_path: Path) -> None:
    """Half of the segments were not there when the tables were made first."""
    folder = Folder(str(tmp_path / "history"))
    spoil(plan(SPEC), folder)
    files = sorted(Path(folder.url).rglob("*.parquet"))[1::2]
    for path in files:
        path.rename(path.with_name(f".{path.name}"))
    before = in_tasks(folder, Making(ALWAYS), 2, tmp_path)
    for path in files:
        path.with_name(f".{path.name}").rename(path)
    after = in_tasks(folder, Making(ALWAYS), 3, tmp_path)
    assert after == at_once(folder, Making(ALWAYS))
    assert after != before


def test_a_task_that_cannot_work_says_why(tmp_path: Path) -> None:
    """A segment vanished since it was listed: one line, and nothing is tried again."""
    folder = Folder(str(tmp_path / "history"))
    spoil(plan(SPEC), folder)
    found = look(folder).found
    folder.remove([found[0].segment])
    folding = Folding(Workers(call, 2, 2, "1g"), folder, found)
    with pytest.raises(EngineError, match=found[0].segment.name):
        folding.look(ALWAYS)


def test_offsets_partitions_that_share_a_group_are_kept_together() -> None:
    groups = {0: [1, 2], 1: [3], 8: [2, 4], 16: [4], 9: [], 17: [5]}
    sets = apart({number: np.array(hashes, np.uint64) for number, hashes in groups.items()})
    assert sorted(map(sorted, sets)) == [[0, 8, 16], [1], [9], [17]]
    assert apart({}) == []


def test_bundles_are_about_as_big_and_whole() -> None:
    found = [
        Found(Segment(number, at_ms, 1, at_ms, at_ms), size_bytes)
        for number, size_bytes in ((0, 50), (1, 10), (2, 30), (3, 5), (8, 5))
        for at_ms in (1, 2)
    ]
    sets = [frozenset({0, 8}), frozenset({1}), frozenset({2}), frozenset({3}), frozenset({77})]
    bundles = packed(found, sets, 2)
    assert [sorted({each.segment.offsets_partition for each in bundle}) for bundle in bundles] == [
        [0, 8],
        [1, 2, 3],
    ]
    assert sorted(each for bundle in bundles for each in bundle) == sorted(found)
    assert len(packed(found, sets, 9)) == 4


@pytest.mark.parametrize(
    ("memory", "count", "each"), [("2g", 2, "1024MiB"), ("512M", 4, "128MiB"), ("3 GB", 2, "3 GB")]
)
def test_tasks_share_memory(memory: str, count: int, each: str) -> None:
    assert share(memory, count) == each
