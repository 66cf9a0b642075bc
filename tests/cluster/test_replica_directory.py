"""Directories of replicas that begin anew are kept for a while, those of replicas that left are not."""

from __future__ import annotations

from pathlib import Path

from cluster.replica_directory import remove, set_aside, set_founder_aside


def made(path: Path, content: str) -> None:
    path.mkdir(parents=True)
    (path / "journal").write_text(content)


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    directory, began = tmp_path / "partition-0-1", tmp_path / "partition-0-1.began"
    neighbour = tmp_path / "partition-0-11.damaged-1"
    neighbour.mkdir()
    for life in ("first", "second", "third"):
        made(directory, life)
        set_aside(str(directory), str(began))
        assert began.exists(), "without a journal it is a newcomer"
    kept = {path.name: (path / "journal").read_text() for path in tmp_path.glob("partition-0-1.damaged-*")}
    assert kept == {"partition-0-1.damaged-2": "second", "partition-0-1.damaged-3": "third"}
    assert neighbour.exists()


def test_nothing_to_set_aside_is_no_error(tmp_path: Path) -> None:
    set_aside(str(tmp_path / "controller-0"), str(tmp_path / "controller-0.began"))
    assert [path.name for path in tmp_path.iterdir()] == ["controller-0.began"]


def test_a_replica_that_left_leaves_nothing(tmp_path: Path) -> None:
    for name in ("partition-0-1", "partition-0-1.damaged-7", "partition-0-12"):
        made(tmp_path / name, name)
    remove(str(tmp_path / "partition-0-1"))
    remove(str(tmp_path / "nowhere" / "partition-0-1"))
    assert [path.name for path in tmp_path.iterdir()] == ["partition-0-12"]


def test_a_founder_that_begins_anew_has_never_run(tmp_path: Path) -> None:
    directory, began = tmp_path / "partition-2-0", tmp_path / "partition-2-0.began"
    directory.mkdir()
    began.touch()
    set_founder_aside(str(directory), str(began))
    assert [path.name for path in tmp_path.iterdir()] == ["partition-2-0.damaged-1"]
    set_founder_aside(str(directory), str(began))  # nothing is there
