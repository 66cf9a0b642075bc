"""Who should belong to a group now: out of what its replicas say, without ever giving up a majority."""

from __future__ import annotations

from typing import Any

from actors.ground.spec import Copies, Copy, copies
from cluster.repair import can_lead, can_spare, has_left, has_lost, is_in_place, leader_of, note_of, target_of

ROW = copies((1, 2, 3))
NODES = {"0.1": 1, "1.1": 2, "2.1": 3, "1.77": 2, "3.88": 4, "4.99": 5}


def status(member_id: str, members: str, *, serving: bool = False, **fields: Any) -> dict[str, Any]:
    """Return a replica's status; `members` is such as "0.1 1.1 ?3.88" (? marks a learner)."""
    return {
        "replica": int(member_id.partition(".")[0]),
        "member_id": member_id,
        "members": [
            {"id": name.strip("?"), "node_id": NODES[name.strip("?")], "votes": "?" not in name, "lag": 1234}
            for name in members.split()
        ],
        "members_committed": True,
        "serving": serving,
        "term": 3,
        "problem": None,
        **fields,
    }


def target(row: Copies, leader: dict[str, Any], *others: dict[str, Any]) -> list[str] | None:
    wanted = target_of(row, leader, {each["replica"]: each for each in (leader, *others)})
    assert wanted is None or all(NODES[name] == node_id for name, node_id in wanted.items())
    return None if wanted is None else sorted(wanted)


LEADER = status("0.1", "0.1 1.1 2.1", serving=True)
SECOND, THIRD = status("1.1", "0.1 1.1 2.1"), status("2.1", "0.1 1.1 2.1")
NEW_SECOND = status("1.77", "")
FOURTH = status("3.88", "")
MOVED = (Copy(0, 1), Copy(3, 4), Copy(2, 3))


def test_a_whole_group_is_left_alone() -> None:
    assert target(ROW, LEADER, SECOND, THIRD) is None


def test_who_lacks_what_it_had_acknowledged_does_not_count() -> None:
    members = [{**each, "has_lost": each["id"] == "1.1"} for each in LEADER["members"]]
    leader = {**LEADER, "members": members}
    assert has_lost(leader, SECOND)
    assert not has_lost(leader, THIRD)
    assert note_of(leader, SECOND) == "it lacks what it had acknowledged: it has to begin anew"


def test_a_replica_that_does_not_answer_keeps_its_name() -> None:
    assert target(ROW, LEADER, THIRD) is None


def test_who_came_back_without_its_directory_takes_its_own_place() -> None:
    assert target(ROW, LEADER, NEW_SECOND, THIRD) == ["0.1", "1.77", "2.1"]


def test_a_learner_that_stops_answering_is_waited_for() -> None:
    leader = status("0.1", "0.1 1.1 2.1 ?1.77", serving=True)
    assert target(ROW, leader, THIRD) == ["0.1", "1.77", "2.1"]


def test_nobody_leaves_before_its_successor_is_there() -> None:
    assert target(MOVED, LEADER, SECOND, THIRD) is None
    assert target(MOVED, LEADER, SECOND, THIRD, FOURTH) == ["0.1", "2.1", "3.88"]
    two_come = (Copy(0, 1), Copy(3, 4), Copy(4, 5))
    assert target(two_come, LEADER, SECOND, THIRD, FOURTH) == ["0.1", "1.1", "2.1", "3.88"]


def test_a_name_that_was_given_up_goes_though_somebody_else_is_awaited() -> None:
    row = (*ROW, Copy(3, 4))
    assert target(row, LEADER, NEW_SECOND, THIRD) == ["0.1", "1.77", "2.1"]


def test_no_change_begins_that_would_end_without_a_majority() -> None:
    """One of three voters is away: if another one left the group, both of the rest would be needed."""
    assert target(ROW[:2], LEADER, THIRD) is None
    assert target(ROW[:2], LEADER, SECOND, THIRD) == ["0.1", "1.1"]
    assert target(ROW[:1], LEADER, THIRD) == ["0.1"]
    broken = status("1.1", "0.1 1.1 2.1", problem="sync failed")
    assert target(ROW[:2], LEADER, broken, THIRD) is None


def test_a_replica_is_spare_while_the_others_are_a_majority() -> None:
    def spare(replica_id: int, *others: dict[str, Any]) -> bool:
        return can_spare(LEADER, {each["replica"]: each for each in (LEADER, *others)}, replica_id)

    assert spare(2, SECOND)
    assert not spare(1, SECOND)
    assert spare(1, SECOND, THIRD)
    alone = status("0.1", "0.1", serving=True)
    assert not can_spare(alone, {0: alone}, 0)


def test_a_replica_has_left_when_that_is_committed() -> None:
    leader = status("0.1", "0.1 1.1", serving=True)
    assert has_left(leader, 2)
    assert not has_left({**leader, "members_committed": False}, 2)
    assert not has_left(status("0.1", "0.1 1.1 ?2.1", serving=True), 2)


def test_settled_is_who_should_be_there_under_the_present_names_with_votes() -> None:
    def settled(leader: dict[str, Any], *others: dict[str, Any]) -> bool:
        return is_in_place(ROW, leader, {each["replica"]: each for each in (leader, *others)})

    assert settled(LEADER, SECOND, THIRD)
    assert not settled(LEADER, SECOND)
    assert not settled(LEADER, NEW_SECOND, THIRD)
    assert not settled(status("0.1", "0.1 1.1 ?2.1", serving=True), SECOND, THIRD)
    assert not settled(status("0.1", "0.1 1.1 2.1 3.88", serving=True), SECOND, THIRD)


def test_a_group_can_lead_while_a_majority_of_some_replicas_members_is_there() -> None:
    assert can_lead([LEADER, SECOND])
    assert not can_lead([LEADER, NEW_SECOND, {"dead": "gone"}])
    assert not can_lead([NEW_SECOND, FOURTH])
    assert can_lead([status("0.1", "0.1"), NEW_SECOND, FOURTH]), "one voter, two that are to come"


def test_the_newest_term_decides_who_leads() -> None:
    newer = status("1.1", "0.1 1.1 2.1", serving=True, term=4)
    assert leader_of([LEADER, newer, THIRD]) is newer
    assert leader_of([SECOND, THIRD]) is None


def test_who_does_not_count_yet_says_why() -> None:
    leader = status("0.1", "0.1 1.1 2.1 ?1.77", serving=True)
    assert note_of(leader, NEW_SECOND) == "built from its peers: learner, 1,234 behind"
    assert note_of(leader, FOURTH) == "it is new and waits to be admitted"
    assert note_of(None, FOURTH) == "it is new and waits for its group's leader"
    assert note_of(leader, THIRD) is note_of(leader, {"role": "starting"}) is None
