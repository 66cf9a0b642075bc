"""Placement: copies apart, leaders even, nothing moved without need (design: placement and repair)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ground.spec import Copy, copies
from actors.metadata.commands import NEW_REPLICA
from cluster.placement import (
    Place,
    Transfer,
    best_place,
    controllers,
    grown,
    leader_transfers,
    shrunk,
    spread,
)


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


def test_one_more_copy_goes_to_an_empty_rack_and_there_to_the_emptiest_node() -> None:
    places = [Place(1, "a"), Place(2, "a"), Place(3, "b"), Place(4, "b"), Place(5, "c")]
    actual = [copies((1, 3)), copies((3, 5)), copies((5, 2))]
    assert best_place(copies((1, 5)), actual, places, places) == Place(4, "b")
    assert best_place(copies((1, 5)), actual, [Place(2, "a"), Place(3, "b")], places) == Place(3, "b")


def test_a_group_grows_over_all_nodes_and_shrinks_without_those_that_matter() -> None:
    places = [Place(n) for n in (1, 2, 3)]
    row = grown(copies((2,)), 3, [copies((2,)), copies((1,))], places, places)
    assert row == (Copy(0, 2), Copy(NEW_REPLICA, 3), Copy(NEW_REPLICA, 1))
    assert grown(copies((1,)), 3, [], [Place(1)], places) == (Copy(0, 1), *(Copy(NEW_REPLICA, 1),) * 2)
    four = copies((1, 2, 3, 1))
    assert shrunk(four, 2, keep=(3, 1)) == (Copy(1, 2), Copy(3, 1))
    assert shrunk(four, 1, keep=(3, 1)) == (Copy(3, 1),)
    assert shrunk(four, 4, keep=()) == four


def test_leadership_returns_to_a_replica_that_has_caught_up() -> None:
    assert leader_transfers({0: 1, 1: 2, 2: 0}, {0: [0, 1], 1: [1, 2]}, [0, 0, 0]) == [Transfer(0, 1, 0)]
