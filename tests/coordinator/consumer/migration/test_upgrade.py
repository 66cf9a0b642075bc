"""A classic group becomes a consumer group when a member of the new protocol joins it (A24, G1, G2)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.records import GROUP_METADATA
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, JoinGroupResponse, SyncGroupResponse
from tests.coordinator.consumer.migration.driver import (
    AT_ONCE,
    GROUP,
    SESSION_MS,
    Both,
    assigned,
    numbers_of,
    owned_in,
    subscribed,
)


def test_members_keep_their_partitions_until_the_newcomer_gets_its_share() -> None:
    """G2, G3, G4, G5: no member is removed, and at no time do two members own one partition."""
    both = Both()
    first, second = both.classic_group(None, None)
    new = both.beat_in()
    assert (new.error_code, numbers_of(new.assignment)) == (ErrorCode.none, ())
    assert new.member_epoch == first.generation_id + 1
    group = both.described()
    assert (group.group_epoch, group.assignment_epoch) == (new.member_epoch, new.member_epoch)
    assert {member.member_type for member in group.members} == {0, 1}
    assert [both.alive(2, answer.member_id) for answer in (first, second)] == [27, 27]
    joined, of_first = both.rejoin(first.member_id)
    assert (joined.leader, joined.members, joined.protocol_name) == ("", (), "range")
    _, of_second = both.rejoin(second.member_id)
    of_new = numbers_of(both.beat(new.member_epoch).assignment)
    assert sorted(of_first + of_second + of_new) == [0, 1, 2, 3, 4, 5]
    assert both.alive(new.member_epoch, first.member_id) == ErrorCode.none
    assert both.described().group_state == "Stable"
    both.check_snapshot()


def test_a_cooperative_member_revokes_before_another_gets_its_partitions() -> None:
    """G3, M11, M12: partitions that it still owns (ownedPartitions, version 1 on) are not assigned to
    others."""
    both = Both()
    [first] = both.classic_group(None)
    new = both.beat_in()
    assert both.alive(1, first.member_id) == ErrorCode.rebalance_in_progress
    joined, kept = both.rejoin(first.member_id, 0, 1, 2, 3, 4, 5)
    assert (joined.generation_id, len(kept)) == (first.generation_id, 3)
    assert numbers_of(both.beat(new.member_epoch).assignment) == ()
    # The member is asked to join until it has given the partitions up.
    assert both.alive(joined.generation_id, first.member_id) == ErrorCode.rebalance_in_progress
    joined, kept = both.rejoin(first.member_id, *kept)
    assert (joined.generation_id, len(kept)) == (new.member_epoch, 3)
    got = numbers_of(both.beat(new.member_epoch).assignment)
    assert sorted(kept + got) == [0, 1, 2, 3, 4, 5]


def test_classic_member_that_waits_for_partitions_is_told_when_they_are_free() -> None:
    """G5: an UNRELEASED member does not have to rejoin until the partitions that it waits for are free."""
    both = Both()
    [first] = both.classic_group(None)
    new = both.beat_in()
    both.rejoin(first.member_id)
    of_new = numbers_of(both.beat(new.member_epoch).assignment)
    third = both.join()
    epoch = third.generation_id
    assert owned_in(both.sync(third)) == ()
    told = both.beat(new.member_epoch, owned=of_new)
    assert len(numbers_of(told.assignment)) == 2
    both.rejoin(first.member_id)
    assert both.alive(epoch, third.member_id) == ErrorCode.none
    both.beat(new.member_epoch, owned=numbers_of(told.assignment))
    assert both.alive(epoch, third.member_id) == ErrorCode.rebalance_in_progress
    _, got = both.rejoin(third.member_id)
    assert len(got) == 2


def test_whoever_is_parked_is_told_to_join_again() -> None:
    """G2: a parked JoinGroup and a parked SyncGroup get REBALANCE_IN_PROGRESS."""
    both = Both()
    [first] = both.classic_group(None)
    handed_out = both.replies[both.start_join()].member_id
    parked = both.start_join(handed_out)
    both.beat_in()
    again = ErrorCode.rebalance_in_progress
    assert both.replies[parked] == JoinGroupResponse(again, member_id=handed_out)
    assert both.parked == 0
    assert {member.member_id for member in both.described().members} == {first.member_id, handed_out, "new"}


def test_parked_sync_is_told_to_join_again() -> None:
    """G2, C19: this holds in CompletingRebalance, too."""
    both = Both()
    first = both.join()
    both.sync(first)
    second = both.replies[both.start_join()].member_id
    parked = both.start_join(second)
    both.join(first.member_id)
    waiting = both.start_sync(both.replies[parked])
    both.beat_in()
    assert both.replies[waiting] == SyncGroupResponse(ErrorCode.rebalance_in_progress)


def test_group_in_its_first_rebalance_is_upgraded() -> None:
    """G2, C10: the group has no generation and no protocol yet; Kafka answers UNKNOWN_SERVER_ERROR."""
    both = Both(AT_ONCE._replace(group_initial_rebalance_delay_ms=3_000))
    handed_out = both.replies[both.start_join()].member_id
    parked = both.start_join(handed_out)
    assert both.beat_in().error_code == ErrorCode.none
    assert both.replies[parked].error_code == ErrorCode.rebalance_in_progress
    joined, _ = both.rejoin(handed_out)
    assert joined.generation_id == both.described().group_epoch


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_policy_may_forbid_it(policy: str) -> None:
    """G1: GROUP_ID_NOT_FOUND; an empty group changes its kind all the same."""
    both = Both(AT_ONCE._replace(group_consumer_migration_policy=policy))
    [first] = both.classic_group(None)
    assert both.beat_in().error_code == ErrorCode.group_id_not_found
    assert both.alive(1, first.member_id) == ErrorCode.none
    both.leave(GROUP, first.member_id)
    assert both.beat_in().member_epoch == 2


def test_group_larger_than_consumer_groups_may_be_is_refused() -> None:
    """G2: a group of exactly this size takes no further member: the error is GROUP_MAX_SIZE_REACHED, and the
    group stays as it was."""
    both = Both(AT_ONCE._replace(group_consumer_max_size=1))
    both.classic_group(None, None)
    assert both.beat_in().error_code == ErrorCode.group_id_not_found
    both = Both(AT_ONCE._replace(group_consumer_max_size=1))
    both.classic_group(None)
    assert both.beat_in().error_code == ErrorCode.group_max_size_reached
    assert GROUP_METADATA in both.kinds()


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\1", b"\0\0\x7f\xff\xff\xff", b"changed"]
)
def test_unreadable_subscription_refuses_the_upgrade(metadata: bytes) -> None:
    """This is rule G2."""
    both = Both()
    [first] = both.classic_group(None, metadata=metadata)
    assert both.beat_in().error_code == ErrorCode.group_id_not_found
    assert both.alive(1, first.member_id) == ErrorCode.none


@pytest.mark.parametrize("given", [b"junk", b"\0", assigned(0, user_data=b"sticky")])
def test_unreadable_assignment_or_one_with_user_data_refuses_the_upgrade(given: bytes) -> None:
    """G2: user data of an assignment would be lost; that of a subscription may be dropped."""
    both = Both()
    first = both.join()
    both.sync(first, {first.member_id: given})
    assert both.beat_in().error_code == ErrorCode.group_id_not_found
    assert both.alive(1, first.member_id) == ErrorCode.none


def test_assigned_topic_that_is_gone_is_dropped() -> None:
    """G2: nothing is told of it, and existing topics are kept."""
    both = Both()
    first = both.join()
    both.sync(first, {first.member_id: assigned(0, 1, topic="gone")})
    both.beat_in()
    [classic] = [member for member in both.described().members if member.member_type == 0]
    assert classic.assignment == ()


def test_refused_heartbeat_leaves_the_group_as_it_was() -> None:
    """G2, M1: an upgrade happens with the heartbeat that asks for it, or not at all."""
    both = Both()
    [first] = both.classic_group(None)
    handed_out = both.replies[both.start_join()].member_id
    parked = both.start_join(handed_out)
    before = both.records()
    body = ConsumerGroupHeartbeatRequest(
        GROUP, "new", 0, rebalance_timeout_ms=1, subscribed_topic_regex="(", topic_partitions=()
    )
    assert both.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1).error_code == 128
    assert both.records() == before
    assert parked not in both.replies
    assert both.alive(1, first.member_id) == ErrorCode.rebalance_in_progress


def test_group_of_another_type_is_not_upgraded() -> None:
    """M27, C29: its members' bytes have another meaning; when it is empty it is converted."""
    both = Both()
    told = both.replies[both.start_join(protocol_type="connect")].member_id
    both.start_join(told, protocol_type="connect")
    assert both.beat_in().error_code == ErrorCode.group_id_not_found
    both.leave(GROUP, told)
    assert both.beat_in().member_epoch == 2


def test_static_members_upgrade_by_restarting() -> None:
    """G2, M21: the instance comes back with the new protocol, under a new member id, to what it had."""
    both = Both()
    first, second = both.classic_group("a", "b")
    again = both.beat_in("new", instance_id="a")
    assert numbers_of(again.assignment) == (0, 1, 2)
    # The subscription is the same: nobody else needs to join again.
    assert again.member_epoch == first.generation_id
    assert both.alive(again.member_epoch, second.member_id, "b") == ErrorCode.none
    assert both.alive(2, first.member_id, "a") == ErrorCode.fenced_instance_id
    assert len(both.described().members) == 2


def test_member_keeps_its_own_session_timeout() -> None:
    """G3: a classic member's session is what it asked for, not the consumer group's."""
    both = Both()
    [first] = both.classic_group(None)
    both.beat_in()
    both.advance(SESSION_MS - 1_000)
    assert len(both.described().members) == 2
    both.advance(2_000)
    assert [member.member_id for member in both.described().members] == ["new"]
    assert both.alive(1, first.member_id) == ErrorCode.unknown_member_id


def test_racks_and_newer_versions_of_subscriptions_are_understood() -> None:
    """G2: version 3 tells the rack; a version nobody knows yet begins like version 3."""
    both = Both()
    newer = subscribed(version=3, rack_id="east")
    both.classic_group(None, metadata=b"\0\7" + newer[2:] + b"more")
    both.beat_in()
    [classic] = [member for member in both.described().members if member.member_type == 0]
    assert (classic.rack_id, classic.subscribed_topic_names) == ("east", ("t",))


def test_a_cooperative_member_keeps_what_it_says_it_owns_when_its_assignment_was_voided() -> None:
    """G2, C19, M12: a rebalance that is cut short voids the assignments, but members go on reading."""
    both = Both()
    [first] = both.classic_group(None)
    second = both.replies[both.start_join()].member_id
    both.start_join(second)
    both.join(first.member_id, subscribed(owned=(0, 1, 2, 3, 4, 5)))
    both.leave(GROUP, second)
    assert both.describe(GROUP).members[0].member_assignment == b""
    new = both.beat_in()
    assert numbers_of(new.assignment) == ()
    _, kept = both.rejoin(first.member_id, 0, 1, 2, 3, 4, 5)
    assert len(kept) == 3
