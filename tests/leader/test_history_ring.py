"""The history that a leader keeps in memory is bounded in groups, events and bytes (issue 8)."""

from __future__ import annotations

import pytest

from actors.coordinator.told.events import Commits, MemberJoined, RebalanceBegan, RebalanceEnded
from actors.ground.limits import HISTORY_EVENTS_PER_GROUP_MAX
from actors.leader import history_ring
from actors.leader.history_ring import HistoryRing, size_of
from storage.history.schema import Move


def joined(group_id: str, at_ms: int = 0) -> MemberJoined:
    return MemberJoined(at_ms, group_id, "classic", 1, f"m{at_ms}", None, "c", "/127.0.0.1")


def began(group_id: str, at_ms: int) -> RebalanceBegan:
    return RebalanceBegan(at_ms, group_id, "classic", 1, "new member", "C8", "m", "c", "/1", None, 1)


def ended(group_id: str, at_ms: int, duration_ms: int, moves: int = 0) -> RebalanceEnded:
    moved = tuple(Move("t", number, None, "m") for number in range(moves))
    why = "new member", "C8", "m", None
    phases = duration_ms, duration_ms, 0, None
    return RebalanceEnded(
        at_ms, group_id, "classic", 2, "Stable", *why, *phases, 1, moves, moves, moved, (), "r"
    )


def filled(*events: object) -> HistoryRing:
    ring = HistoryRing()
    ring.begin(0)
    for sequence, event in enumerate(events, start=1):
        ring.add(sequence, event)
    return ring


def test_a_groups_joins_do_not_push_out_its_rebalances() -> None:
    many = HISTORY_EVENTS_PER_GROUP_MAX + 10
    ring = filled(ended("g", 1, 5), *(joined("g", at_ms) for at_ms in range(many)))
    past = ring.past("g")
    assert past is not None
    assert len(past.rebalances) == 1
    assert [each.event.at_ms for each in past.events] == list(range(10, many))
    assert past.churn == many


def test_counts_are_what_top_shows() -> None:
    ring = filled(began("g", 100), ended("g", 150, 50), began("g", 400), Commits(500, "g", 1, 2, 7, 9, 0))
    past = ring.past("g")
    assert past is not None
    counts = past.counts(1_000)
    assert (counts["rebalances"], counts["commits"], counts["unstable_ms"]) == (2, 7, 650)


def test_the_last_rebalance_tells_since_when_a_group_is_as_it_is() -> None:
    past = filled(began("g", 100), ended("g", 150, 50)).past("g")
    assert past is not None
    assert (past.since_ms("Stable"), past.since_ms("Empty")) == (150, None)
    past = filled(ended("g", 150, 50), began("g", 400)).past("g")
    assert past is not None
    assert past.since_ms("Stable") is None


def test_who_was_quiet_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_ring, "HISTORY_GROUPS_MAX", 2)
    ring = filled(joined("a"), joined("b"), joined("a"), joined("c"))
    assert [group_id for group_id, _ in ring.groups()] == ["a", "c"]
    assert ring.size_bytes == 3 * size_of(joined("a"))


def test_bytes_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    big = ended("a", 1, 1, moves=1_000)
    monkeypatch.setattr(history_ring, "HISTORY_BYTES_MAX", size_of(big) + 1_000)
    ring = filled(big, ended("b", 1, 1, moves=1_000), joined("c"))
    assert [group_id for group_id, _ in ring.groups()] == ["b", "c"]
    assert ring.size_bytes == size_of(big) + size_of(joined("c"))
