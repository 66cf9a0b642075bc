"""Placement: copies apart, leaders even, nothing moved without need (design: placement and repair)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.placement import Place, Transfer, controllers, desired, leader_transfers, spread


@given(nodes=st.integers(1, 9), partitions=st.integers(1, 40), replicas=st.integers(1, 5))
@settings(derandomize=True, deadline=None)
def test_copies_are_apart_and_everything_is_even(nodes: int, partitions: int, replicas: int) -> None:
    places = [Place(node_id) for node_id in range(1, nodes + 1)]
    rows = spread(places, partitions, replicas)
    assert len(rows) == partitions
    for row in rows:
        assert len(row) == replicas
        assert len(set(row)) == min(nodes, replicas)
    leaders = Counter(row[0] for row in rows)
    assert max(leaders.values()) - min(leaders[place.node_id] for place in places) <= 1


@pytest.mark.parametrize("partitions", [4, 12, 50])
def test_followers_are_even_too(partitions: int) -> None:
    copies = Counter(
        node_id for row in spread([Place(n) for n in (1, 2, 3, 4, 5)], partitions, 3) for node_id in row
    )
    assert max(copies.values()) - min(copies.values()) <= 2


def test_copies_are_on_different_racks() -> None:
    places = [Place(1, "a"), Place(2, "a"), Place(3, "b"), Place(4, "b"), Place(5, "c"), Place(6, "c")]
    racks = dict(places)
    rows = spread(places, 12, 3)
    assert all({racks[node_id] for node_id in row} == {"a", "b", "c"} for row in rows)
    assert set(Counter(row[0] for row in rows).values()) == {2}


def test_one_node_takes_all_copies() -> None:
    assert spread([Place(1)], 2, 3) == ((1, 1, 1), (1, 1, 1))


def test_controllers_are_odd_and_at_most_three() -> None:
    places = [Place(n) for n in (1, 2, 3, 4)]
    assert [len(controllers(places, replicas)) for replicas in (1, 2, 3, 5)] == [1, 1, 3, 3]
    assert len(set(controllers(places, 3))) == 3


def test_a_lost_nodes_copies_move_and_nothing_else() -> None:
    places = [Place(n) for n in (1, 2, 3, 4)]
    actual = spread(places, 8, 3)
    wanted = desired(actual, [place for place in places if place.node_id != 2])
    for old, new in zip(actual, wanted, strict=True):
        assert 2 not in new
        assert len(set(new)) == 3
        assert [a for a, b in zip(old, new, strict=True) if a != b] == [n for n in old if n == 2]
    assert desired(actual, places) == actual


def test_leadership_returns_to_a_replica_that_has_caught_up() -> None:
    assert leader_transfers({0: 1, 1: 2, 2: 0}, {0: [0, 1], 1: [1, 2]}) == [Transfer(0, 1, 0)]
