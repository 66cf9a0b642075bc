"""Members that compute, and the judge of their swarm, without a tier."""

from __future__ import annotations

import random
from collections.abc import Mapping

from actors.assignors.by_members.sticky import Sticky
from actors.assignors.by_members.weighted import CapacityWeighted
from actors.assignors.spec import AssignmentSpec
from actors.coordinator.ground.partitions import from_lists
from actors.network.wire import frame_of, request_frame
from actors.protocol.client_assignor_messages import (
    INVALID_ASSIGNMENT,
    ClientSide,
    InstalledMember,
    PrepareAssignmentResponse,
    PreparedMember,
    PreparedTopic,
)
from actors.protocol.messages import NO_ERROR, ConsumerGroupHeartbeatResponse
from bench.client_assignors.judge import Judge
from bench.client_assignors.swarm import spoiled
from bench.client_assignors.wire import (
    HEARTBEAT,
    INSTALL,
    class_with_tags,
    heartbeat_fields,
    heartbeat_told,
    install_fields,
)
from bench.member.computing import FAILED, ComputingMember, MemberAssignor, listed
from bench.member.consumer import ConsumerTerms

TOPIC = bytes(15) + b"\1"


class Broken(Sticky):
    name = "broken"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, list[int]]]:
        raise ValueError("no idea")


def member(*assignors: MemberAssignor) -> ComputingMember:
    return ComputingMember(ConsumerTerms("g", ("t",)), "a", assignors)


def joined(*assignors: MemberAssignor, should_compute: bool = False) -> ComputingMember:
    made = member(*assignors)
    made.next_request(0)
    told = ConsumerGroupHeartbeatResponse(NO_ERROR, None, "a", 3, 1_000, (), ClientSide(should_compute))
    made.received(told)
    return made


def handed(assignor: str, *capacities: bytes) -> PrepareAssignmentResponse:
    """A group of members a, b and so on, none of which has anything yet."""
    members = tuple(
        PreparedMember(name, 3, None, None, frozenset({TOPIC}), 0, 0, told, ())
        for name, told in zip("abc", capacities, strict=False)
    )
    topics = (PreparedTopic(TOPIC, "t", 6, ()),)
    return PrepareAssignmentResponse(0, None, 7, assignor, members, topics)


def test_a_member_says_its_assignors_when_it_joins_and_when_it_asks_for_an_assignment() -> None:
    made = joined(CapacityWeighted(2), Sticky())
    made.reconcile()
    assert made.heartbeat().client_assignors is None
    made.received(ConsumerGroupHeartbeatResponse(NO_ERROR, None, "a", 3, 1_000))
    made.ask_for_assignment(5)
    said = made.heartbeat().client_assignors
    assert said is not None
    assert [(each.name, each.reason, each.metadata) for each in said] == [
        ("capacity-weighted", 5, b"\0\0\0\2"),
        ("sticky", 5, b""),
    ]


def test_what_is_computed_says_for_which_epoch() -> None:
    made = joined(CapacityWeighted(), should_compute=True)
    assert made.should_compute
    install = made.install(handed("capacity-weighted", b"\0\0\0\1", b"\0\0\0\2"))
    assert (install.group_epoch, install.member_epoch, install.error) == (7, 3, 0)
    assert [(each.member_id, len(each.topic_partitions[0][1])) for each in install.members] == [
        ("a", 2),
        ("b", 4),
    ]


def test_an_assignor_that_fails_is_told_of() -> None:
    install = joined(Broken()).install(handed("broken", b""))
    assert (install.error, install.error_message, install.members) == (FAILED, "ValueError('no idea')", ())


def test_a_member_that_lost_its_group_computes_no_more() -> None:
    made = joined(Sticky(), should_compute=True)
    made.lose()
    assert not made.should_compute
    assert made.heartbeat().client_assignors is not None


def test_what_the_fake_member_says_can_be_sent() -> None:
    made = joined(CapacityWeighted(3))
    made.lose()
    heartbeat = heartbeat_fields(made.heartbeat())
    assert b"capacity-weighted" in frame_of(class_with_tags(*HEARTBEAT, "request"), 1, "c", heartbeat)
    install = install_fields(made.install(handed("capacity-weighted", b"", b"")))
    assert TOPIC in request_frame(*INSTALL, 1, "c", install)


def test_what_a_member_is_told_beside_kafkas_answer_is_read() -> None:
    told = heartbeat_told(
        {
            "error_code": 0,
            "error_message": None,
            "member_id": "a",
            "member_epoch": 4,
            "heartbeat_interval": 1_000,
            "assignment": None,
            "should_compute_assignment": True,
            "assignment_error": 0,
            "pending_topic_partitions": [],
            "metadata_version": -1,
            "metadata_bytes": None,
        }
    )
    assert (told.member_epoch, told.assignment, told.client) == (4, None, ClientSide(True))


def test_partitions_are_listed_one_by_one() -> None:
    assert listed(from_lists({TOPIC: [2, 0]})) == [(TOPIC, 0), (TOPIC, 2)]


def test_the_judge_sees_two_owners() -> None:
    owned = [("g", "a", [("t", 0)]), ("g", "b", [("t", 0), ("t", 1)]), ("h", "c", [("t", 0)])]
    [words] = Judge().owners(owned)
    assert "is owned by a and b" in words


def test_the_judge_sees_a_commit_that_is_lost() -> None:
    judge = Judge()
    judge.committed("g", {("t", 0): 7, ("t", 1): 2})
    judge.committed("g", {("t", 0): 5})
    [words] = judge.fetched("g", {("t", 0): 6, ("t", 1): 2})
    assert "is fetched at 6, after 7" in words


def test_the_judge_sees_a_wrong_assignment_that_is_taken_and_a_good_one_that_is_not() -> None:
    judge = Judge()
    assert list(judge.installed("g", False, 0, None)) == []
    assert list(judge.installed("g", True, INVALID_ASSIGNMENT, "a is no member")) == []
    assert len(list(judge.installed("g", True, 0, None))) == 1
    assert len(list(judge.installed("g", False, INVALID_ASSIGNMENT, "a is no member"))) == 1
    assert len(list(judge.installed("g", False, 42, "no"))) == 1
    assert (judge.taken, judge.refused) == (2, 2)


def test_a_spoiled_assignment_is_another_one() -> None:
    install = joined(Sticky()).install(handed("sticky", b"", b""))
    for seed in range(10):
        wrong = spoiled(install, random.Random(seed))
        assert wrong.members != install.members
        assert all(isinstance(each, InstalledMember) for each in wrong.members)
