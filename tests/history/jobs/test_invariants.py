"""Who owned a partition from when until when, what nobody can know of it, and which epochs fell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage.history.jobs.engine import Engine, Row
from storage.history.jobs.invariants import FAR
from storage.history.jobs.run import made
from storage.history.jobs.seen import look
from tests.history.jobs.told import told

Told = tuple[int, str, str | int | None]


@contextmanager
def known(engine: Engine, directory: Path, events: Sequence[Told]) -> Iterator[None]:
    """Events as (at_ms, kind, what): an election begins a term; what "gains" is a member that gets the
    group's only partition; "cut" moves it without a word; a number is the group's epoch, any other text a
    member."""
    rows: list[dict[str, Any]] = []
    term = 0
    for at_ms, kind, what in events:
        term += kind == "coordinator_elected"
        row: dict[str, Any] = {"term": term, "at_ms": at_ms, "kind": kind}
        if kind != "coordinator_elected":
            row |= {"group_id": "g", "member_id" if isinstance(what, str) else "group_epoch": what}
        if kind == "rebalance_ended":
            row["state"] = "Stable"
        if kind == "gains":
            moves = [{"topic": "t", "partition": 0, "to_member": what}]
            row |= {"kind": "rebalance_ended", "moved": 1, "moves": moves}
        if kind == "cut":
            row |= {"kind": "rebalance_ended", "moved": 1}
        rows.append(row)
    folder = told(directory, rows)
    with made(engine, folder, look(folder)):
        yield


def owned(engine: Engine) -> dict[str, tuple[int, int]]:
    return {
        row["member_id"]: (row["from_ms"], row["until_ms"]) for row in engine.rows("SELECT * FROM intervals")
    }


def broken(engine: Engine) -> list[Row]:
    return engine.rows("SELECT * FROM invariants")


def test_a_leader_that_died_left_what_it_knew_untold(engine: Engine, tmp_path: Path) -> None:
    """The leader's last events are lost: who owned something then may have lost it. What its heir tells is
    known, though no leader dies after it."""
    events: list[Told] = [
        (0, "coordinator_elected", None),
        (10, "gains", "a"),
        (20, "coordinator_elected", None),
        (30, "gains", "b"),
    ]
    with known(engine, tmp_path, events):
        assert owned(engine) == {"a": (10, 20), "b": (30, FAR)}
        assert broken(engine) == []


def test_what_a_rebalance_moved_beyond_its_row_is_not_known(engine: Engine, tmp_path: Path) -> None:
    """A row names the first of its moves only: whoever had a partition then may have lost it."""
    events: list[Told] = [(0, "coordinator_elected", None), (10, "gains", "a"), (20, "cut", None)]
    with known(engine, tmp_path, [*events, (30, "gains", "b"), (40, "cut", None)]):
        assert owned(engine) == {"a": (10, 20), "b": (30, 40)}
        assert broken(engine) == []


def test_two_owners_under_one_leader_are_found(engine: Engine, tmp_path: Path) -> None:
    events: list[Told] = [(0, "coordinator_elected", None), (30, "gains", "b"), (40, "gains", "c")]
    with known(engine, tmp_path, events):
        [found] = broken(engine)
    assert (found["at_ms"], found["until_ms"], found["members"]) == (40, None, ["b", "c"])


def test_a_member_that_was_fenced_may_come_back(engine: Engine, tmp_path: Path) -> None:
    """A KIP-848 member keeps its id for life, so it comes back with the same one."""
    events: list[Told] = [(5, "gains", "a"), (6, "member_fenced", "a"), (10, "gains", "a")]
    with known(engine, tmp_path, events):
        found = engine.rows("SELECT from_ms, until_ms FROM intervals ORDER BY from_ms")
    assert [tuple(row.values()) for row in found] == [(5, 6), (10, FAR)]


def test_a_rebalance_that_ends_because_the_epoch_rose_is_no_epoch_that_fell(
    engine: Engine, tmp_path: Path
) -> None:
    """It ends with its own epoch, is told right after the rise, and may even call the group Stable: "epoch
    fell 5 -> 4" was told of a healthy tier."""
    risen: list[Told] = [
        (1, "group_epoch_bumped", 5),
        (2, "group_epoch_bumped", 6),
        (2, "rebalance_ended", 5),
    ]
    with known(engine, tmp_path / "fine", [*risen, (2, "rebalance_began", 6)]):
        assert broken(engine) == []
    with known(engine, tmp_path / "fell", [*risen, (3, "rebalance_began", 4)]):
        [found] = broken(engine)
    assert (found["rule"], found["before"], found["after"]) == ("epoch fell", 6, 4)


def test_a_rebalance_that_ends_by_itself_with_an_older_epoch_is_told(engine: Engine, tmp_path: Path) -> None:
    events: list[Told] = [(1, "group_epoch_bumped", 6), (2, "rebalance_began", 6), (3, "rebalance_ended", 5)]
    with known(engine, tmp_path, events):
        [found] = broken(engine)
    assert (found["before"], found["after"]) == (6, 5)
