"""Segments that a release of schema version 1 wrote are read as those of this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from actors.coordinator.told.events import CLASSIC, MemberJoined
from actors.leader.history import RequestsRefused
from storage.history.segments import compaction
from storage.history.segments.folder import Folder
from storage.history.segments.names import Segment
from tests.history.read_back import read_all
from tests.history.segments.making import NOON_MS, publish, rewritten_as_version_1, stretch

APIS = ("join_group", "consumer_group_heartbeat", "init_producer_id", "12345")
NAMES = ["JoinGroup", "ConsumerGroupHeartbeat", "InitProducerId", "12345"]


def joined(number: int, timeout_ms: int | None) -> MemberJoined:
    """A join of some member."""
    at_ms = NOON_MS + number
    return MemberJoined(at_ms, "g", CLASSIC, 1, f"m{number}", None, "c", "/h", session_timeout_ms=timeout_ms)


def history(root: Path) -> tuple[Folder, list[Segment]]:
    """A segment of version 1 and one of this version: a join and refused requests each."""
    folder = Folder(str(root))
    segments: list[Segment] = []
    for first, timeout_ms, apis in ((1, None, APIS), (6, 10_000, NAMES)):
        refused = [RequestsRefused(NOON_MS + first + place, api, 25, 1) for place, api in enumerate(apis, 1)]
        segments += publish(folder, stretch([joined(first, timeout_ms), *refused], first=first))
    rewritten_as_version_1(root / segments[0].path)
    return folder, segments


def changed_columns(rows: Iterable[Mapping[str, Any]]) -> tuple[list[int | None], list[str]]:
    """The session timeouts of joins and the names of refused requests, in the order of their events."""
    told = sorted(rows, key=lambda row: row["sequence"])
    return (
        [row["session_timeout_ms"] for row in told if row["kind"] == "member_joined"],
        [row["api"] for row in told if row["kind"] == "requests_refused"],
    )


BOTH = ([None, 10_000], [*NAMES, *NAMES])


def test_both_versions_are_read_alike(tmp_path: Path) -> None:
    folder, _ = history(tmp_path)
    for columns in (None, ["api", "session_timeout_ms", "kind", "sequence"]):
        table, skipped = read_all(folder, columns=columns)
        assert (changed_columns(table.to_pylist()), skipped) == (BOTH, [])


def test_both_versions_are_merged_into_one_segment(tmp_path: Path) -> None:
    folder, segments = history(tmp_path)
    merged = compaction.merge(folder, segments, (), lambda: None)
    folder.remove(segments)
    table, skipped = read_all(folder)
    assert [each.segment for each in folder.segments().found] == [merged]
    assert (changed_columns(table.to_pylist()), skipped) == (BOTH, [])
