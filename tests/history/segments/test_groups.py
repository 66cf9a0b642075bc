"""Whether a history tells of a group is known from the files alone, and what else it tells of."""

from __future__ import annotations

from pathlib import Path

from storage.history.segments.folder import Folder
from storage.history.segments.groups import NAMED_MAX, others_than
from tests.history.segments.making import changed, publish, stretch


def named(root: Path, *groups: str) -> Folder:
    """A segment of each group, and one of all of them."""
    folder = Folder(str(root))
    events = [changed(number)._replace(group_id=group) for number, group in enumerate(groups)]
    for number, event in enumerate(events):
        publish(folder, stretch([event], first=1 + number))
    publish(folder, stretch(events, first=1_000))
    return folder


def test_a_group_that_is_told_of_is_found(tmp_path: Path) -> None:
    folder = named(tmp_path, "audit", "billing", "shop")
    for group in ("audit", "billing", "shop"):
        assert others_than(folder, folder.segments().found, group) is None


def test_for_a_wrong_name_the_most_alike_come_first(tmp_path: Path) -> None:
    folder = named(tmp_path, "audit", "billing", "shop")
    assert others_than(folder, folder.segments().found, "biling") == ["billing", "audit", "shop"]
    assert others_than(folder, folder.segments().found, "zzz") == ["audit", "billing", "shop"]


def test_only_a_few_are_named_and_damaged_files_are_passed_over(tmp_path: Path) -> None:
    folder = named(tmp_path, *(f"group-{number}" for number in range(10)))
    found = folder.segments().found
    (tmp_path / found[0].segment.path).write_bytes(b"PAR1")
    others = others_than(folder, found, "group-99")
    assert others is not None
    assert len(others) == NAMED_MAX


def test_no_segments_tell_of_nobody(tmp_path: Path) -> None:
    assert others_than(Folder(str(tmp_path)), [], "g") == []
