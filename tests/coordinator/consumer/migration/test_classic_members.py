"""Members of the classic protocol in a consumer group: which requests they may send, and their answers (G3 to
G6)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.protocol.consumer_protocol import read_version
from actors.protocol.messages import JoinGroupResponse, LeavingMember
from tests.coordinator.consumer.migration.driver import (
    AT_ONCE,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    Both,
    numbers_of,
    owned_in,
    subscribed,
)
from tests.coordinator.driver import image_of

UPGRADE_ONLY = AT_ONCE._replace(group_consumer_migration_policy="upgrade")


@pytest.fixture
def both() -> Both:
    """Make a consumer group with one member of the consumer protocol, "new"."""
    tier = Both()
    tier.beat_in()
    return tier


def test_a_dynamic_member_is_told_its_id_first(both: Both) -> None:
    """G3, KIP-394: this holds from version 4 on, and nothing is written before the member comes back."""
    before = both.records()
    told = both.replies[both.start_join()]
    assert told == JoinGroupResponse(ErrorCode.member_id_required, member_id=told.member_id)
    assert both.records() == before
    assert both.replies[both.start_join(told.member_id)].error_code == ErrorCode.none
    assert both.replies[both.start_join(version=3)].error_code == ErrorCode.none


def test_a_made_up_member_id_is_taken(both: Both) -> None:
    """G3: the member is a new one. With an instance id that is not known it gets UNKNOWN_MEMBER_ID."""
    assert both.join("made-up").member_id == "made-up"
    refused = both.join("made-up", instance_id="i")
    assert refused == JoinGroupResponse(ErrorCode.unknown_member_id)


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1", b"\0\0\x7f\xff\xff\xff"])
def test_an_unreadable_subscription_is_refused(both: Both, metadata: bytes) -> None:
    """G3: the error is INCONSISTENT_GROUP_PROTOCOL, with member id ""."""
    assert both.join("m", metadata) == JoinGroupResponse(ErrorCode.inconsistent_group_protocol)
    assert len(both.described().members) == 1


def test_protocols_must_fit_those_of_the_other_classic_members(both: Both) -> None:
    """G3, C6: the type has to be "consumer", and one name common to all classic members; members of the
    consumer protocol do not count."""
    refused = JoinGroupResponse(ErrorCode.inconsistent_group_protocol)
    assert both.replies[both.start_join("m", protocol_type="connect")] == refused
    assert both.join("m", names=()) == refused
    assert both.join("m", names=("range", "sticky")).protocol_name == "range"
    assert both.join("n", names=("roundrobin",)) == refused
    assert both.join("n", names=("sticky",)).protocol_name == "sticky"
    assert both.join("m", names=("range",)) == refused


def test_a_full_group_takes_nobody() -> None:
    """M3, G3: GROUP_MAX_SIZE_REACHED comes before all checks but the policy; a member may join again."""
    both = Both(AT_ONCE._replace(group_consumer_max_size=2))
    both.beat_in()
    assert both.join("m").error_code == ErrorCode.none
    assert both.replies[both.start_join()] == JoinGroupResponse(ErrorCode.group_max_size_reached)
    assert both.join("m").error_code == ErrorCode.none


def test_migration_policy_disabled_keeps_classic_members_out() -> None:
    """These are rules G1 and C28."""
    both = Both(AT_ONCE._replace(group_consumer_migration_policy="disabled"))
    both.beat_in()
    assert both.join("m") == JoinGroupResponse(ErrorCode.inconsistent_group_protocol)


def test_sync_is_refused_for_its_reasons_in_order(both: Both) -> None:
    """G4: the order is UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, then
    REBALANCE_IN_PROGRESS once the group has gone on; a member of the consumer protocol cannot sync."""
    joined = both.join("m")
    assert both.sync(joined._replace(member_id="x")).error_code == ErrorCode.unknown_member_id
    assert both.sync(joined._replace(member_id="new")).error_code == ErrorCode.unknown_member_id
    assert both.sync(joined._replace(generation_id=9)).error_code == ErrorCode.illegal_generation
    for wrong in (joined._replace(protocol_name="sticky"), joined._replace(protocol_type="connect")):
        assert both.sync(wrong).error_code == ErrorCode.inconsistent_group_protocol
    assert both.sync(joined, instance_id="i").error_code == ErrorCode.unknown_member_id
    both.beat_in("another")
    assert both.sync(joined).error_code == ErrorCode.rebalance_in_progress


def test_heartbeat_is_refused_for_its_reasons(both: Both) -> None:
    """G5, C20: an unknown member and one of the consumer protocol get UNKNOWN_MEMBER_ID, another epoch gets
    ILLEGAL_GENERATION."""
    epoch = both.join("m").generation_id
    assert both.alive(epoch, "x") == ErrorCode.unknown_member_id
    assert both.alive(epoch, "new") == ErrorCode.unknown_member_id
    assert both.alive(epoch - 1, "m") == ErrorCode.illegal_generation
    assert both.alive(epoch, "m") == ErrorCode.none


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignment_comes_in_the_members_own_version(both: Both, version: int) -> None:
    """This is rule G4."""
    synced = both.sync(both.join("m", subscribed(version=version)))
    assert read_version(synced.assignment) == version


def test_a_member_that_does_not_sync_is_removed(both: Both) -> None:
    """G3: the sync timer runs for the member's rebalance timeout, even if it heartbeats."""
    generation = both.join("m").generation_id
    epoch = 2
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        epoch = both.beat(epoch, owned=()).member_epoch
        both.alive(generation, "m")
        both.advance(SESSION_MS // 2)
    both.advance(1_000)
    assert [member.member_id for member in both.described().members] == ["new"]


def test_a_member_that_does_not_rejoin_is_removed(both: Both) -> None:
    """G5: the join timer begins when the member is first told to rejoin, and heartbeats do not put it off."""
    joined, _ = both.rejoin("m")
    both.beat_in("another")
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        assert both.alive(joined.generation_id, "m") == ErrorCode.rebalance_in_progress
        both.advance(SESSION_MS // 2)
        both.beat(both.described().members[0].member_epoch)
    both.advance(1_000)
    assert both.alive(joined.generation_id, "m") == ErrorCode.unknown_member_id


def test_a_batch_removes_members_of_both_protocols_at_once(both: Both) -> None:
    """G6: members are named by member id or instance id, each has its own error, and there is one epoch for
    all."""
    both.beat_in("static", instance_id="i")
    both.rejoin("m")
    both.rejoin("kept")
    epoch = both.described().group_epoch
    left = both.let_leave(
        LeavingMember("m"),
        LeavingMember("m"),
        LeavingMember("", "i"),
        LeavingMember("x"),
        LeavingMember(""),
        LeavingMember("", "unknown"),
        LeavingMember("m", "i"),
    )
    assert [int(member.error_code) for member in left] == [0, 0, 0, 25, 25, 25, 82]
    assert both.described().group_epoch == epoch + 1
    assert {member.member_id for member in both.described().members} == {"new", "kept"}


def test_empty_batches_and_strangers_change_nothing(both: Both) -> None:
    """These are rules G6 and C23."""
    before = both.records()
    assert both.let_leave() == ()
    assert [member.error_code for member in both.let_leave(LeavingMember("x"))] == [25]
    assert both.records() == before


def test_static_members_restart_in_either_protocol(both: Both) -> None:
    """G3, M21: the member changes from consumer to classic and back, at once, and keeps its partitions."""
    both.beat_in("a1", instance_id="a")
    both.beat(both.described().group_epoch, owned=(0, 1, 2))
    had = numbers_of(both.beat(both.described().group_epoch, "a1", instance_id="a").assignment)
    joined = both.join(instance_id="a")
    assert owned_in(both.sync(joined, instance_id="a")) == had
    assert both.alive(joined.generation_id, joined.member_id, "a") == ErrorCode.none
    back = both.beat_in("a2", instance_id="a")
    assert numbers_of(back.assignment) == had
    assert both.alive(joined.generation_id, joined.member_id, "a") == ErrorCode.fenced_instance_id


def test_commits_of_classic_members_name_their_generation(both: Both) -> None:
    """O6: this holds below version 9, too; a wrong one gets ILLEGAL_GENERATION, not STALE_MEMBER_EPOCH."""
    joined, _ = both.rejoin("m")
    generation = joined.generation_id
    commit = both.commit_offsets
    assert commit(GROUP, member_id="m", generation=generation, version=7) == {0: 0}
    assert commit(GROUP, member_id="m", generation=generation + 1, version=7) == {0: 22}


def test_group_of_classic_members_alone_reassigns_what_a_leaver_had() -> None:
    """G5, G7: where no downgrade is allowed, no member has the consumer protocol's heartbeat. In Kafka the
    partitions of the member that left stay unread."""
    both = Both(UPGRADE_ONLY)
    first, second = both.classic_group(None, None)
    both.beat_in()
    for member in (first, second):
        both.rejoin(member.member_id)
    both.let_leave(LeavingMember("new"))
    assert len(both.described().members) == 2
    epochs = {member.member_id: member.member_epoch for member in both.described().members}
    assert both.alive(epochs[first.member_id], first.member_id) == ErrorCode.rebalance_in_progress
    got = [numbers for member in (first, second) for numbers in both.rejoin(member.member_id)[1]]
    assert sorted(got) == [0, 1, 2, 3, 4, 5]


def test_group_of_classic_members_alone_notices_new_partitions() -> None:
    """G5, A21: in Kafka new partitions stay unread in such a group, too."""
    both = Both(UPGRADE_ONLY)
    [first] = both.classic_group(None)
    both.beat_in()
    both.let_leave(LeavingMember("new"))
    joined, _ = both.rejoin(first.member_id)
    both.set_image(image_of(2, t=6, other=3))
    assert both.alive(joined.generation_id, first.member_id) == ErrorCode.none
    both.set_image(image_of(3, t=8, other=3))
    assert both.alive(joined.generation_id, first.member_id) == ErrorCode.rebalance_in_progress
    assert both.rejoin(first.member_id)[1] == tuple(range(8))


def test_topics_that_do_not_exist_are_subscribed_to_all_the_same(both: Both) -> None:
    """G3, A18: their partitions are assigned when the topics exist."""
    joined = both.join("m", subscribed("nowhere", TOPIC))
    assert joined.error_code == ErrorCode.none
    names = {member.member_id: member.subscribed_topic_names for member in both.described().members}
    assert names["m"] == ("nowhere", TOPIC)
