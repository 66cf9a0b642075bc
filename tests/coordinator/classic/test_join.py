"""Clients join a group: which are let in, and with which errors others are refused (C2 to C9, C24, W2)."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic import join as classic_join
from actors.coordinator.classic.group import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.classic.views import describe
from actors.ground.contract import Record
from actors.ground.records import GROUP_METADATA, GroupMetadataKey, GroupMetadataValue
from actors.protocol.messages import JoinGroupResponse
from tests.coordinator.classic.driver import (
    GROUP,
    NO_DELAY,
    START_MS,
    Driver,
)

CHANGED = (("range", b"\0\1changed"), ("sticky", b"\0\1sticky"))


def limited(size_max: int) -> Driver:
    return Driver(NO_DELAY._replace(group_max_size=size_max))


def test_first_request_is_told_a_member_id_and_the_group_is_stored_empty() -> None:
    """C3, C7: MEMBER_ID_REQUIRED with {client id}-{UUID}; the new group's record is written all the same."""
    driver = Driver()
    token = driver.join(client_id="app")
    assert driver.joined(token) == JoinGroupResponse(ErrorCode.member_id_required, member_id="app-uuid1")
    metadata = GroupMetadataValue("", 0, None, None, START_MS)
    assert driver.decided == [Record(GroupMetadataKey(GROUP_METADATA, GROUP), metadata)]


def test_pending_member_that_comes_back_is_let_in() -> None:
    """C8, B3: the second request, with the id, is answered with generation 1, and the first member leads."""
    driver = Driver()
    member_id = driver.joined(driver.join()).member_id
    answer = driver.joined(driver.join(member_id))
    assert answer == JoinGroupResponse(
        ErrorCode.none,
        1,
        "consumer",
        "range",
        member_id,
        member_id=member_id,
        members=((member_id, None, b"\0\1range"),),
    )


def test_old_clients_are_let_in_at_once() -> None:
    """C7: below version 4 no client is asked to join again with its member id."""
    driver = Driver()
    assert driver.joined(driver.new_member()).generation_id == 1


def test_static_member_is_named_after_its_instance_and_never_pending() -> None:
    """C7, E4: its member id is {instance id}-{UUID}, and it is a member at once, at any version."""
    driver = Driver()
    assert driver.joined(driver.join(instance="rack7")).member_id == "rack7-uuid1"


def test_instance_ids_are_not_checked() -> None:
    """C24: clients may use any characters."""
    for instance in ("", "a b", "ä", ".", "..", "x" * 250):
        driver = Driver()
        assert driver.joined(driver.join(instance=instance)).error_code == ErrorCode.none


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": "", "session_timeout_ms": 1}, ErrorCode.invalid_group_id),
        ({"session_timeout_ms": 5_999, "member_id": "x"}, ErrorCode.invalid_session_timeout),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"member_id": "x", "protocols": ()}, ErrorCode.unknown_member_id),
    ],
)
def test_refusals_come_in_kafkas_order_and_leave_nothing(fields: dict[str, Any], error: ErrorCode) -> None:
    """C2, C3, C6, W2: the first failed check names the error, the member id is echoed, no group appears."""
    driver = Driver()
    member_id = str(fields.pop("member_id", ""))
    answer = driver.joined(driver.join(member_id, **fields))
    assert answer == JoinGroupResponse(error, member_id=member_id)
    assert classic_groups(driver.state) == {}
    assert driver.log == []


@pytest.mark.parametrize(
    "fields", [{"protocol_type": ""}, {"protocols": ()}, {"protocols": (("a", b""), ("a", b""))}]
)
def test_protocols_that_are_none_are_refused_and_leave_an_empty_group(fields: dict[str, Any]) -> None:
    """C3, C6: this is as in Kafka. A client that then comes with a member id is refused for its protocols
    first, not for its id."""
    driver = Driver()
    refused = ErrorCode.inconsistent_group_protocol
    assert driver.joined(driver.join(**fields)) == JoinGroupResponse(refused)
    assert driver.group.state is EMPTY
    assert driver.joined(driver.join("x", **fields)) == JoinGroupResponse(refused, member_id="x")


def test_session_timeout_bounds_are_inclusive() -> None:
    """C2: the bounds are those of GroupSettings, and both are allowed."""
    for timeout_ms in (6_000, 1_800_000):
        driver = Driver()
        assert driver.joined(driver.new_member(session_timeout_ms=timeout_ms)).error_code == ErrorCode.none


def test_unknown_member_id_is_refused_by_an_existing_group() -> None:
    """C9, E6: this holds for an id that was never given out, with or without an instance id; the id is
    echoed."""
    driver = Driver()
    driver.stable_group("a")
    for instance in (None, "nobody"):
        answer = driver.joined(driver.join("ghost", instance=instance))
        assert answer == JoinGroupResponse(ErrorCode.unknown_member_id, member_id="ghost")


def test_empty_group_knows_no_member() -> None:
    """C9: after all members left, an id that comes back is unknown."""
    driver = Driver()
    [member] = driver.stable_group("a")
    driver.leave(member)
    assert driver.joined(driver.join(member)).error_code == ErrorCode.unknown_member_id


def test_pending_member_with_an_instance_id_is_a_server_error_and_stays_usable() -> None:
    """C8: the answer is UNKNOWN_SERVER_ERROR with member id ""; then the same id without instance id may
    join."""
    driver = Driver()
    member_id = driver.joined(driver.join()).member_id
    refused = driver.joined(driver.join(member_id, instance="i"))
    assert refused == JoinGroupResponse(ErrorCode.unknown_server_error)
    assert driver.joined(driver.join(member_id)).generation_id == 1


def test_member_whose_protocols_nobody_shares_is_refused() -> None:
    """C6: another protocol type, or no common protocol, gets INCONSISTENT_GROUP_PROTOCOL, and the group is
    not disturbed."""
    driver = Driver()
    driver.stable_group("a")
    for fields in ({"protocol_type": "connect"}, {"protocols": (("roundrobin", b""),)}):
        answer = driver.joined(driver.join(**fields))
        assert answer.error_code == ErrorCode.inconsistent_group_protocol
    assert driver.group.state is STABLE


def test_sole_member_cannot_change_to_another_protocol() -> None:
    """C6: the asking member itself counts among those that have to support a protocol; it stays as it was."""
    driver = Driver()
    [member] = driver.stable_group("a")
    for fields in ({"protocols": (("roundrobin", b""),)}, {"protocol_type": "connect"}):
        answer = driver.joined(driver.join(member, **fields))
        assert answer == JoinGroupResponse(ErrorCode.inconsistent_group_protocol, member_id=member)
    assert driver.group.state is STABLE
    assert driver.beat(member, 1) == ErrorCode.none


def test_protocol_listed_twice_drops_out() -> None:
    """C15: with range twice in one list, only sticky is common."""
    driver = Driver()
    protocols = (("range", b"1"), ("range", b"2"), ("sticky", b"3"))
    assert driver.joined(driver.new_member(protocols=protocols)).protocol_name == "sticky"


def test_known_member_in_completing_with_the_same_metadata_hears_the_generation_again() -> None:
    """C9: the member missed the answer. A leader gets the list of members, a follower does not."""
    driver = Driver()
    driver.stable_group("a", "b")
    leader, follower = driver.group.members
    driver.rejoin_all()
    assert driver.group.state is COMPLETING_REBALANCE
    assert len(driver.joined(driver.join(leader)).members) == 2
    assert driver.joined(driver.join(follower)).members == ()
    assert driver.group.generation == driver.joined(driver.join(follower)).generation_id
    assert driver.group.state is COMPLETING_REBALANCE


def test_known_member_in_completing_with_new_metadata_starts_over() -> None:
    """C9, C19: parked syncs get REBALANCE_IN_PROGRESS and all have to rejoin."""
    driver = Driver()
    driver.stable_group("a", "b")
    leader, follower = driver.group.members
    driver.rejoin_all()
    parked = driver.sync(follower, driver.group.generation)
    rejoin = driver.join(leader, protocols=CHANGED)
    assert driver.group.state is PREPARING_REBALANCE
    assert driver.waits(rejoin)
    assert driver.synced(parked).error_code == ErrorCode.rebalance_in_progress


def test_follower_in_stable_without_news_disturbs_nobody() -> None:
    """C9, E1: it is answered with the current generation, without a rebalance."""
    driver = Driver()
    driver.stable_group("a", "b")
    follower = list(driver.group.members)[1]
    answer = driver.joined(driver.join(follower))
    assert (answer.error_code, answer.generation_id, answer.members) == (
        ErrorCode.none,
        driver.group.generation,
        (),
    )
    assert driver.group.state is STABLE


def test_follower_in_stable_with_new_metadata_rebalances() -> None:
    """C9: its join is parked until the leader rejoins too."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    token = driver.join(follower, protocols=CHANGED)
    assert driver.waits(token)
    assert driver.beat(leader, driver.group.generation) == ErrorCode.rebalance_in_progress
    driver.join(leader)
    assert driver.joined(token).generation_id == driver.group.generation


def test_leader_in_stable_always_rebalances() -> None:
    """C9, E1: topic metadata may have changed, which its subscription does not show."""
    driver = Driver()
    leader, _ = driver.stable_group("a", "b")
    assert driver.waits(driver.join(leader))
    assert driver.group.state is PREPARING_REBALANCE


def test_second_join_of_one_member_answers_the_first() -> None:
    """C9: Kafka leaves the first connection without an answer; here it is told to rejoin."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    first = driver.join(follower, protocols=CHANGED)
    second = driver.join(follower, protocols=CHANGED)
    assert driver.joined(first) == JoinGroupResponse(ErrorCode.rebalance_in_progress, member_id=follower)
    assert driver.waits(second)
    driver.join(leader)
    assert driver.joined(second).error_code == ErrorCode.none


def test_full_group_refuses_newcomers_and_keeps_members() -> None:
    """C5: in Stable a newcomer gets GROUP_MAX_SIZE_REACHED with member id "", and a member may rejoin."""
    driver = limited(2)
    members = driver.stable_group("a", "b")
    assert driver.joined(driver.join()) == JoinGroupResponse(ErrorCode.group_max_size_reached)
    assert driver.joined(driver.join(members[1])).error_code == ErrorCode.none


def test_pending_member_refused_for_size_is_pending_no_longer() -> None:
    """C5: the refusal removes it, so a rebalance does not wait for it (C8)."""
    driver = limited(1)
    first = driver.joined(driver.join()).member_id
    second = driver.joined(driver.join()).member_id
    assert driver.joined(driver.join(first)).error_code == ErrorCode.none
    assert driver.joined(driver.join(second)) == JoinGroupResponse(ErrorCode.group_max_size_reached)
    assert driver.group.pending_joins == {}


def test_while_members_rejoin_only_parked_joins_count_against_the_limit() -> None:
    """C5: the limit is 2. One member and two newcomers make 3, and the next one is refused."""
    driver = limited(2)
    [member] = driver.stable_group("a")
    newcomers = [driver.new_member(), driver.new_member()]
    assert driver.group.state is PREPARING_REBALANCE
    assert driver.joined(driver.new_member()) == JoinGroupResponse(ErrorCode.group_max_size_reached)
    assert len(driver.group.members) == 3
    assert driver.joined(driver.join(member)) == JoinGroupResponse(ErrorCode.group_max_size_reached)
    assert [driver.joined(token).generation_id for token in newcomers] == [2, 2]


def test_known_member_that_finds_no_place_is_removed() -> None:
    """C5, C13: the last one to rejoin loses its place and the rest goes on without waiting for it."""
    driver = limited(3)
    a, b, c = driver.stable_group("a", "b", "c")
    driver.fail_over(NO_DELAY._replace(group_max_size=2))
    tokens = [driver.join(a), driver.join(b)]
    assert driver.joined(driver.join(c)) == JoinGroupResponse(ErrorCode.group_max_size_reached)
    assert [driver.joined(token).error_code for token in tokens] == [ErrorCode.none] * 2
    assert list(driver.group.members) == [a, b]


def test_rebalance_timeout_is_the_longest_of_the_members() -> None:
    """C11: the 90 s of one member count, not the minute of the other."""
    driver = Driver()
    quick, slow = driver.stable_group("quick", "slow")
    driver.join(slow, protocols=CHANGED, rebalance_timeout_ms=90_000)
    for _ in range(17):
        driver.advance(5_000)
        driver.beat(quick, driver.group.generation)
    assert driver.group.state is PREPARING_REBALANCE
    driver.advance(5_100)
    assert list(driver.group.members) == [slow]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_rebalance_timeout_of_nothing_is_taken_as_it_is(timeout_ms: int) -> None:
    """C11: JoinGroup is answered, then the member is removed at once."""
    driver = Driver()
    member_id = driver.joined(driver.new_member(rebalance_timeout_ms=timeout_ms)).member_id
    driver.advance(50)
    assert driver.beat(member_id, 1) == ErrorCode.unknown_member_id


def test_group_of_another_protocol_type_keeps_opaque_bytes() -> None:
    """C29: a Kafka Connect group's metadata and assignments pass through untouched."""
    driver = Driver()
    protocols = (("sessioned", b"\xff\x00\x01"), ("compatible", b"\x7f\xff\xff\xff"))
    members = driver.stable_group("w1", "w2", protocol_type="connect", protocols=protocols)
    described = describe(driver.state, GROUP)
    assert (described.protocol_type, described.protocol_data) == ("connect", "sessioned")
    assert [member.member_metadata for member in described.members] == [b"\xff\x00\x01"] * 2
    assert [member.member_assignment for member in described.members] == [
        b"for " + m.encode() for m in members
    ]


def test_consumer_bytes_that_are_no_subscription_do_no_harm() -> None:
    """C29: the topics are unknown then, and the group works."""
    for metadata in (
        b"",
        b"\0",
        b"\0\0",
        b"changed",
        bytes.fromhex("00007fffffff"),
        bytes.fromhex("0000ffffffff"),
    ):
        driver = Driver()
        driver.stable_group("a", protocols=(("range", metadata),))
        assert driver.group.state is STABLE


def test_reason_of_a_client_is_cut() -> None:
    """C24: the first 255 characters of the reason explain the rebalance."""
    driver = Driver()
    driver.new_member(reason="r" * 300)
    assert driver.events[0].reason == "r" * 255


def test_member_ids_handed_out_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: clients that never come back cannot fill the memory; static members and used ids still get in."""
    monkeypatch.setattr(classic_join, "CLASSIC_PENDING_MEMBERS_MAX", 2)
    driver = Driver()
    first = driver.joined(driver.join()).member_id
    driver.join()
    assert driver.joined(driver.join()) == JoinGroupResponse(ErrorCode.group_max_size_reached)
    assert driver.joined(driver.join(first)).generation_id == 1
    assert driver.joined(driver.join()).error_code == ErrorCode.member_id_required
