"""Where a machine is now: the newest move counts, in whatever order machines hear of it."""

from __future__ import annotations

from itertools import permutations

import pytest

from actors.ground.spec import NodeSpec
from cluster.machine_moves import Moves, address_now, merged, moved_node

NODE = NodeSpec(node_id=1, host="a", port=9_092, machine="a:9900")


@pytest.mark.parametrize(
    ("moves", "now"),
    [
        ((), "a:1"),
        ((("a:1", "b:1", 1),), "b:1"),
        ((("a:1", "b:1", 1), ("b:1", "c:1", 2)), "c:1"),
        ((("a:1", "b:1", 1), ("b:1", "a:1", 2)), "a:1"),
        ((("a:1", "b:1", 1), ("b:1", "a:1", 2), ("a:1", "b:1", 3)), "b:1"),
        ((("a:1", "b:1", 1), ("a:1", "a:1", 2)), "a:1"),
    ],
    ids=["stays", "once", "twice", "back", "back-and-forth", "another-machine-has-it"],
)
def test_a_machine_is_where_it_moved_last(moves: Moves, now: str) -> None:
    for order in permutations(moves):
        known: Moves = ()
        for move in order:
            known = merged(known, (move,))
        assert address_now(known, "a:1") == now


def test_a_node_goes_with_its_machine_unless_it_has_a_host_of_its_own() -> None:
    moves = (("a:9900", "b:9900", 1),)
    assert moved_node(NODE, moves) == NodeSpec(node_id=1, host="b", port=9_092, machine="b:9900")
    own = NodeSpec(node_id=1, host="proxy", port=9_092, machine="a:9900")
    assert moved_node(own, moves).host == "proxy"
