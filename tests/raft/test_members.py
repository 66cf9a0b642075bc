"""The next step of a membership change: one member at a time, learners first, never below what can decide."""

from __future__ import annotations

from storage.raft.members import Member, Members, Memberships, View, check, founders, next_step, pack, unpack

A, B, C = "0.1", "1.1", "2.1"
NEW = "1.77"
THREE = founders({0: 1, 1: 2, 2: 3})


def view(self_id: str = A, *, online: str = f"{A} {B} {C} {NEW}", caught_up: str = "") -> View:
    there, ready = online.split(), caught_up.split()
    return View(self_id, lambda each: each in ready, lambda each: each in there)


def walk(members: Members, target: dict[str, int], seen_by: View) -> list[Members | str]:
    """Take every step until nothing is left to do; a hand-over ends the walk."""
    steps: list[Members | str] = []
    while (step := next_step(members, target, seen_by)) is not None:
        steps.append(step)
        if isinstance(step, str):
            break
        members = step
    return steps


def names(members: Members | str) -> str:
    assert not isinstance(members, str)
    return " ".join(each.member_id + ("" if each.votes else "?") for each in members)


def test_nothing_is_done_when_the_voters_are_the_target() -> None:
    assert next_step(THREE, {A: 1, B: 2, C: 3}, view()) is None


def test_a_newcomer_learns_before_it_votes() -> None:
    steps = walk(founders({0: 1}), {A: 1, NEW: 2}, view(caught_up=NEW))
    assert [names(step) for step in steps] == ["0.1 1.77?", "0.1 1.77"]


def test_a_learner_that_lags_gets_no_vote() -> None:
    steps = walk(founders({0: 1}), {A: 1, NEW: 2}, view())
    assert [names(step) for step in steps] == ["0.1 1.77?"]


def test_a_lost_voter_goes_before_its_successor_votes() -> None:
    """If the successor voted first, four voters would need three, one of whom is dead."""
    steps = walk(THREE, {A: 1, NEW: 2, C: 3}, view(online=f"{A} {C} {NEW}", caught_up=NEW))
    assert [names(step) for step in steps] == ["0.1 1.1 1.77? 2.1", "0.1 1.77? 2.1", "0.1 1.77 2.1"]


def test_a_voter_that_is_there_goes_after_its_successor_votes() -> None:
    steps = walk(THREE, {A: 1, NEW: 2, C: 3}, view(caught_up=NEW))
    assert [names(step) for step in steps][-2:] == ["0.1 1.1 1.77 2.1", "0.1 1.77 2.1"]


def test_a_leader_that_is_to_go_hands_over_first() -> None:
    steps = walk(THREE, {B: 2, C: 3}, view(online=f"{A} {C}"))
    assert steps == [C], "to one that is there"


def test_a_leader_that_nobody_can_follow_stays() -> None:
    assert next_step(THREE, {B: 2, C: 3}, view(online=A)) is None


def test_a_learner_that_is_wanted_no_more_leaves() -> None:
    members = (*THREE, Member("3.9", 4, False))
    assert names(next_step(members, {A: 1, B: 2, C: 3}, view()) or ()) == "0.1 1.1 2.1"


def test_growing_and_shrinking_is_one_member_at_a_time() -> None:
    grown = walk(founders({0: 1}), {A: 1, B: 2, C: 3}, view(caught_up=f"{B} {C}"))
    shrunk = walk(THREE, {A: 1}, view())
    assert names(grown[-1]) == "0.1 1.1 2.1"
    assert [names(step) for step in shrunk] == ["0.1 2.1", "0.1"]


def test_a_membership_taken_back_uncovers_the_one_before() -> None:
    memberships = Memberships(0, THREE)
    memberships.add(7, THREE[:2])
    memberships.add(9, THREE[:1])
    assert memberships.truncate_after(8)
    assert (memberships.current, memberships.index) == (THREE[:2], 7)
    assert not memberships.truncate_after(7)
    assert memberships.at(6) == THREE


def test_what_is_committed_over_is_forgotten() -> None:
    memberships = Memberships(0, THREE)
    memberships.add(7, THREE[:2])
    memberships.forget_before(8)
    assert not memberships.truncate_after(0)
    assert memberships.at(8) == THREE[:2]


def test_members_travel_as_bytes() -> None:
    assert unpack(pack(THREE)) == THREE


def test_what_is_no_membership_is_refused() -> None:
    for fields in (1, (1,), (("0.1", 1),), (("0.1", "1", True),), tuple(THREE) * 9):
        try:
            check(fields)
        except ValueError:
            continue
        raise AssertionError(f"{fields} was taken for a membership")
