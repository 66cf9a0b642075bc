"""Which replicas move: what leaves first, racks before numbers, few at a time, and an end to it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ground.spec import Copies, Copy, copies
from actors.metadata.commands import NEW_REPLICA
from cluster.balance import Change, Nodes, founded, next_changes
from cluster.placement import Place, spread

AT_ONCE = 2
CHANGES_MAX = 500
Placements = dict[str, Copies]


def nodes(*racks: str | None, leaving: tuple[int, ...] = (), away: tuple[int, ...] = ()) -> Nodes:
    """Nodes 1, 2 ... in these racks."""
    places = tuple(Place(number, rack) for number, rack in enumerate(racks, 1))
    open_ids = frozenset(place.node_id for place in places) - set(leaving) - set(away)
    return Nodes(places, open_ids, frozenset(leaving))


def carried_out(changes: list[Change], placements: Placements) -> Placements:
    """The placements after the changes; a new replica gets the next number."""
    after = dict(placements)
    for change in changes:
        assert after[change.group] == change.before
        number = 1 + max(copy.replica_id for copy in change.before)
        after[change.group] = tuple(
            Copy(number, copy.node_id) if copy.replica_id == NEW_REPLICA else copy for copy in change.after
        )
    return after


def settled(tier: Nodes, placements: Placements) -> Placements:
    """The placements once nothing is to be changed any more, each step checked."""
    for _ in range(CHANGES_MAX):
        changes = next_changes(tier, placements, frozenset(), AT_ONCE)
        if not changes:
            return placements
        assert len(changes) <= AT_ONCE
        assert len({change.group for change in changes}) == len(changes)
        for change in changes:
            before = {copy.node_id for copy in change.before}
            added = [copy.node_id for copy in change.after if copy.replica_id == NEW_REPLICA]
            assert len(added) <= 1
            assert set(added) <= tier.open_ids - before
            assert len(change.after) == len(change.before)
        placements = carried_out(changes, placements)
    raise AssertionError("it does not end")


def counts(placements: Placements) -> Counter[int]:
    return Counter(copy.node_id for row in placements.values() for copy in row)


def racks_of(tier: Nodes, row: Copies) -> list[str]:
    racks = {place.node_id: place.rack or str(place.node_id) for place in tier.places}
    return [racks[copy.node_id] for copy in row]


def partitions(*rows: tuple[int, ...]) -> Placements:
    return {f"partition-{number}": copies(row) for number, row in enumerate(rows)}


@pytest.mark.parametrize("racks", [[None] * 3, [None] * 4, ["a", "b", "c", "a"], ["a", "b", "b"]])
@pytest.mark.parametrize("partitions_count", [1, 2, 4, 8])
def test_a_tier_as_it_begins_stays_as_it_is(racks: list[str | None], partitions_count: int) -> None:
    tier = nodes(*racks)
    for replicas in range(1, 4):
        rows = founded(tier.places, spread(tier.places, partitions_count, replicas))
        begun = {f"partition-{number}": row for number, row in enumerate(rows)}
        assert next_changes(tier, begun, frozenset(), AT_ONCE) == []


def test_copies_that_shared_the_only_node_part_when_there_are_others() -> None:
    tier = nodes(None, None, None)
    after = settled(tier, {**partitions(*[(1, 1, 1)] * 4), "controller": copies((1, 1, 1))})
    assert all({copy.node_id for copy in row} == {1, 2, 3} for row in after.values())
    leaders = Counter(row[0].node_id for group, row in after.items() if group != "controller")
    assert max(leaders.values()) - min(leaders[node] for node in (1, 2, 3)) <= 1


def test_what_leaves_goes_before_all_else_the_controller_too() -> None:
    tier = nodes(*[None] * 4, leaving=(2,))
    before = {**partitions((1, 2, 3), (2, 3, 1), (1, 1, 1)), "controller": copies((1, 2, 3))}
    first = next_changes(tier, before, frozenset(), AT_ONCE)
    assert [change.group for change in first] == ["partition-0", "partition-1"]
    assert all(change.why == "node 2 gives up what it holds" for change in first)
    assert 2 not in counts(settled(tier, before))


def test_a_copy_in_a_rack_that_has_another_one_goes_to_a_rack_that_has_none() -> None:
    tier = nodes("a", "a", "b", "c")
    (change,) = next_changes(tier, partitions((1, 2, 3)), frozenset(), AT_ONCE)
    assert change.after == (Copy(0, 1), Copy(NEW_REPLICA, 4), Copy(2, 3))


def test_even_numbers_do_not_put_two_copies_into_one_rack() -> None:
    """Rack a has one node, which has a copy of everything; that is not to be mended."""
    tier = nodes("a", "b", "b", "b")
    placements = settled(tier, partitions(*[(1, 2), (1, 3), (1, 4)] * 2))
    assert all(sorted(racks_of(tier, row)) == ["a", "b"] for row in placements.values())


def test_leadership_is_evened_out_without_a_move() -> None:
    (change,) = next_changes(nodes(None, None), partitions((1, 2), (1, 2)), frozenset(), AT_ONCE)
    assert change.after == (Copy(1, 2), Copy(0, 1))


def test_while_a_node_is_away_only_what_is_due_is_done() -> None:
    uneven = partitions((1,), (1,), (1,), (1,))
    assert next_changes(nodes(None, None, None, away=(3,)), uneven, frozenset(), AT_ONCE) == []
    assert next_changes(nodes(None, None, None), uneven, frozenset(), AT_ONCE) != []
    assert next_changes(nodes(None, None, leaving=(1,)), uneven, frozenset(), AT_ONCE) != []


def test_what_is_under_way_is_left_alone() -> None:
    tier = nodes(None, None, leaving=(1,))
    assert next_changes(tier, partitions((1,)), frozenset({"partition-0"}), AT_ONCE) == []


RACKS = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=7)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(RACKS, st.data())
def test_from_any_placement_it_ends_even_and_apart(racks: list[str | None], data: st.DataObject) -> None:
    numbers = range(1, len(racks) + 1)
    leaving = tuple(data.draw(st.sets(st.sampled_from(numbers), max_size=len(racks) - 1)))
    tier = nodes(*racks, leaving=leaving)
    row = st.lists(st.sampled_from(numbers), min_size=1, max_size=3).map(tuple)
    before = partitions(*data.draw(st.lists(row, min_size=1, max_size=8)))
    if data.draw(st.booleans()):
        before["controller"] = copies(data.draw(row))
    after = settled(tier, before)
    open_ids = tier.open_ids
    for placed in after.values():
        used = [copy.node_id for copy in placed]
        if len(placed) <= len(open_ids):
            assert open_ids.issuperset(used), "nothing is left where nothing is to be"
            assert len(set(used)) == len(used)
        free = {rack for (rack,) in zip(racks_of(tier, copies(sorted(open_ids))))} - {*racks_of(tier, placed)}
        if len(set(used)) == len(used) and open_ids.issuperset(used):
            assert not free or len({*racks_of(tier, placed)}) == len(placed)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 3), st.data())
def test_without_racks_numbers_are_as_even_as_can_be(
    count: int, rows: int, copies_each: int, data: st.DataObject
) -> None:
    if copies_each > count:
        return
    row = st.permutations(range(1, count + 1)).map(lambda ids: tuple(ids[:copies_each]))
    before = partitions(*data.draw(st.lists(row, min_size=rows, max_size=rows)))
    after = settled(nodes(*[None] * count), before)
    found = counts(after)
    assert max(found.values()) - min(found[node] for node in range(1, count + 1)) <= 1


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_tier_that_grew_by_one_moves_no_more_than_the_newcomer_gets(count: int) -> None:
    places = [Place(number) for number in range(1, count + 1)]
    before = partitions(*spread(places, 6, min(3, count)))
    tier = nodes(*[None] * (count + 1))
    after = settled(tier, before)
    moved = sum(
        len({copy.node_id for copy in after[group]} - {copy.node_id for copy in row})
        for group, row in before.items()
    )
    assert moved == counts(after)[count + 1]
