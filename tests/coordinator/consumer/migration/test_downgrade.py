"""A consumer group becomes a classic one when its last member of the consumer protocol is gone (G7)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.records import CLASSIC_MEMBER, GROUP_METADATA
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupDescribeRequest, JoinGroupResponse, LeavingMember
from tests.coordinator.consumer.migration.driver import AT_ONCE, GROUP, Both, assigned, owned_in, subscribed

CLASSIC_KINDS = {GROUP_METADATA, CLASSIC_MEMBER}


def mixed(both: Both, *instance_ids: str | None, instance_id: str | None = None) -> list[JoinGroupResponse]:
    """Make a group of classic members and "new" of the consumer protocol, each with its share. Returns the
    classic members."""
    members = both.classic_group(*instance_ids)
    epoch = both.beat_in(instance_id=instance_id).member_epoch
    joined = []
    for member, static in zip(members, instance_ids, strict=True):
        joined.append(both.join(member.member_id, instance_id=static))
        both.sync(joined[-1], instance_id=static)
    both.beat(epoch)
    assert both.described().group_state == "Stable"
    return joined


def rebalanced(both: Both, *members: JoinGroupResponse) -> list[JoinGroupResponse]:
    """Let all members rejoin the classic group, whose leader assigns."""
    tokens = [both.start_join(member.member_id) for member in members]
    answers: list[JoinGroupResponse] = [both.replies[token] for token in tokens]
    leader = next(answer for answer in answers if answer.member_id == answer.leader)
    assert {member_id for member_id, _, _ in leader.members} == {answer.member_id for answer in answers}
    shares = {answer.member_id: assigned(place) for place, answer in enumerate(answers)}
    both.sync(leader, shares)
    for answer in answers:
        assert owned_in(both.sync(answer)) != ()
    return answers


def test_the_last_consumer_member_leaves_and_the_classic_ones_rebalance() -> None:
    """G7: the group is PreparingRebalance, and its generation goes on from the group epoch."""
    both = Both()
    first, second = mixed(both, None, None)
    epoch = both.described().group_epoch
    both.beat(-1)
    assert both.kinds() == CLASSIC_KINDS
    described = both.describe(GROUP)
    assert (described.group_state, described.protocol_type) == ("PreparingRebalance", "consumer")
    refused = both.ask(api_keys.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest((GROUP,)), 1).groups
    assert refused[0].error_code == ErrorCode.group_id_not_found
    assert both.alive(first.generation_id, first.member_id) == ErrorCode.rebalance_in_progress
    assert rebalanced(both, first, second)[0].generation_id == epoch + 1
    assert both.describe(GROUP).group_state == "Stable"
    both.check_snapshot()


def test_the_last_consumer_member_is_fenced() -> None:
    """G7, M17: its session timeout fences it; an administrator's LeaveGroup does the same."""
    both = Both()
    [first] = mixed(both, None)
    for _ in range(10):
        both.alive(first.generation_id, first.member_id)
        both.advance(5_000)
    assert both.kinds() == CLASSIC_KINDS
    both = Both()
    mixed(both, None)
    assert both.let_leave(LeavingMember("new"))[0].error_code == ErrorCode.none
    assert both.kinds() == CLASSIC_KINDS


def test_members_that_leave_together_with_the_last_consumer_member_are_gone() -> None:
    """G6, G7: they leave in one request; if no member stays, the group is an empty consumer group."""
    both = Both()
    first, second = mixed(both, None, None)
    both.let_leave(LeavingMember("new"), LeavingMember(second.member_id))
    assert [member.member_id for member in both.describe(GROUP).members] == [first.member_id]
    both = Both()
    [first] = mixed(both, None)
    both.let_leave(LeavingMember("new"), LeavingMember(first.member_id))
    assert both.described().group_state == "Empty"


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_policy_may_forbid_it(policy: str) -> None:
    """G1, G7: the group then stays a consumer group of classic members."""
    both = Both(AT_ONCE._replace(group_consumer_migration_policy="bidirectional"))
    mixed(both, None)
    both.shard.state.settings = AT_ONCE._replace(group_consumer_migration_policy=policy)
    both.beat(-1)
    assert [member.member_type for member in both.described().members] == [0]


def test_group_larger_than_classic_groups_may_be_stays_what_it_is() -> None:
    """G7: the limit is `group.max.size`."""
    both = Both()
    mixed(both, None, None)
    both.shard.state.settings = AT_ONCE._replace(group_max_size=1)
    both.beat(-1)
    assert len(both.described().members) == 2


def test_a_static_member_comes_back_with_the_classic_protocol_and_nobody_notices() -> None:
    """G7, KAFKA-19546: with the same subscription in a settled group it takes over the instance's partitions,
    in the group's generation, without a rebalance."""
    both = Both()
    [first] = mixed(both, "a", instance_id="b")
    joined = both.join(instance_id="b")
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, first.generation_id)
    assert both.kinds() == CLASSIC_KINDS
    assert both.describe(GROUP).group_state == "Stable"
    assert both.alive(first.generation_id, first.member_id, "a") == ErrorCode.none
    of_first, of_second = (
        owned_in(both.sync(first, instance_id="a")),
        owned_in(both.sync(joined, instance_id="b")),
    )
    assert sorted(of_first + of_second) == [0, 1, 2, 3, 4, 5]
    assert both.alive(first.generation_id, "new", "b") == ErrorCode.fenced_instance_id


def test_a_static_member_comes_back_with_another_subscription_and_all_rebalance() -> None:
    """G7, KAFKA-19546: its JoinGroup is part of the rebalance."""
    both = Both()
    [first] = mixed(both, "a", instance_id="b")
    parked = both.start_join(metadata=subscribed("t", "other"), instance_id="b")
    assert parked not in both.replies
    assert both.describe(GROUP).group_state == "PreparingRebalance"
    assert both.alive(first.generation_id, first.member_id, "a") == ErrorCode.rebalance_in_progress
    again = both.join(first.member_id, instance_id="a")
    assert both.replies[parked].generation_id == again.generation_id == first.generation_id + 1


def test_a_sole_static_member_comes_back_with_the_classic_protocol() -> None:
    """G7: the group has no other members; even with another subscription its JoinGroup is answered at
    once."""
    both = Both()
    both.beat_in(instance_id="a")
    joined = both.join(instance_id="a")
    assert owned_in(both.sync(joined, instance_id="a")) == (0, 1, 2, 3, 4, 5)
    both = Both()
    both.beat_in(instance_id="a")
    joined = both.join(metadata=subscribed("other"), instance_id="a")
    assert (joined.leader, joined.generation_id) == (joined.member_id, 3)


def test_there_and_back_again() -> None:
    """G2, G7: members of both protocols come and go; offsets stay, and the generation only rises."""
    both = Both()
    [first] = both.classic_group(None)
    both.commit_offsets(GROUP, offsets={0: 7}, member_id=first.member_id, generation=1)
    generation = 1
    for _ in range(3):
        both.beat_in()
        both.beat(-1)
        [answer] = rebalanced(both, first)
        assert answer.generation_id > generation
        generation = answer.generation_id
    assert both.offsets(GROUP) == {("t", 0): 7}
    assert both.kinds() == CLASSIC_KINDS | {1}
