"""Conversions, and classic members of consumer groups, when the partition's leader changes (M26, C26, R4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.state import classic_groups
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Record
from actors.ground.records import CLASSIC_MEMBER, CONSUMER_GROUP_METADATA, GROUP_METADATA
from actors.protocol.messages import LeavingMember
from tests.coordinator.consumer.migration.driver import AT_ONCE, GROUP, SESSION_MS, Both, subscribed

CLASSIC_KINDS = {GROUP_METADATA, CLASSIC_MEMBER}


def upgraded(both: Both) -> None:
    both.classic_group(None, None)
    both.commit()
    both.beat_in()


def downgraded(both: Both) -> None:
    members = both.classic_group(None, None)
    both.beat_in()
    for member in members:
        both.rejoin(member.member_id)
    both.commit()
    both.beat(-1)


CONVERSIONS = pytest.mark.parametrize("convert", [upgraded, downgraded])


@CONVERSIONS
def test_a_conversion_that_is_not_committed_never_was(convert: Callable[[Both], None]) -> None:
    """R4: the records are undone, newest first, until the group is as before."""
    both = Both()
    convert(both)
    both.fail_over()
    assert both.records() == both.committed
    both.check_snapshot()


def test_members_of_both_protocols_live_on_under_the_next_leader() -> None:
    """M26: each member has its own full session, and no member has to join again."""
    both = Both()
    [first] = both.classic_group(None)
    new = both.beat_in()
    joined, _ = both.rejoin(first.member_id)
    both.commit()
    both.fail_over()
    assert both.beat(new.member_epoch).error_code == ErrorCode.none
    assert both.alive(joined.generation_id, first.member_id) == ErrorCode.none
    both.advance(SESSION_MS + 1_000)
    assert [member.member_id for member in both.described().members] == ["new"]


def test_an_unrevoked_classic_member_is_told_to_join_by_the_next_leader() -> None:
    """M26, G5: the member has a join timer, which its next heartbeat starts, and no rebalance timer."""
    both = Both()
    [first] = both.classic_group(None)
    both.beat_in()
    joined, _ = both.rejoin(first.member_id, 0, 1, 2, 3, 4, 5)
    both.commit()
    both.fail_over()
    assert both.alive(joined.generation_id, first.member_id) == ErrorCode.rebalance_in_progress


def test_the_rebalance_of_a_downgrade_is_begun_again_by_the_next_leader() -> None:
    """G7, C26: otherwise the partitions of the member that left would stay unread."""
    both = Both()
    downgraded(both)
    both.commit()
    both.fail_over()
    described = both.describe(GROUP)
    assert described.group_state == "PreparingRebalance"
    generation = classic_groups(both.shard.state)[GROUP].generation
    for member in described.members:
        assert both.alive(generation, member.member_id) == ErrorCode.rebalance_in_progress


def test_a_stable_downgrade_stays_stable_under_the_next_leader() -> None:
    """G7, C26: this is the downgrade without a rebalance."""
    both = Both()
    both.beat_in(instance_id="a")
    joined = both.join(instance_id="a")
    both.commit()
    both.fail_over()
    assert both.describe(GROUP).group_state == "Stable"
    assert both.alive(joined.generation_id, joined.member_id, "a") == ErrorCode.none


@CONVERSIONS
def test_a_conversion_cut_in_two_is_ended_or_taken_back(convert: Callable[[Both], None]) -> None:
    """C26, M26: whichever records of it outlive their leader, the next one has a group of one kind with all
    members that it had, and nothing is left of the other kind."""
    both = Both()
    convert(both)
    before, conversion = dict(both.committed), list(both.last.records)
    members = {key[2] for key in before if len(key) > 2} - {"new"}
    seen = set()
    for cut in range(len(conversion) + 1):
        shard = _elected(both, [*(Record(key, value) for key, value in before.items()), *conversion[:cut]])
        kinds = {record.key[0] for record in shard.records()}
        is_consumer = CONSUMER_GROUP_METADATA in kinds
        seen.add(is_consumer)
        assert is_consumer or kinds == CLASSIC_KINDS
        assert not is_consumer or not kinds & CLASSIC_KINDS
        listed = (
            consumer_groups(shard.state)[GROUP].members
            if is_consumer
            else classic_groups(shard.state)[GROUP].members
        )
        assert members <= set(listed)
    assert seen == {True, False}


def _elected(both: Both, records: list[Record]) -> CoordinatorShard:
    shard = both.restored(records)
    for record in shard.on_elected(both.now_ms).records:
        shard.apply(*record)
    return shard


def test_a_member_that_changed_to_the_consumer_protocol_is_not_timed_as_a_classic_one() -> None:
    """G3: join and sync timers are those of classic members."""
    both = Both(AT_ONCE._replace(group_consumer_session_timeout_ms=600_000))
    both.beat_in()
    both.join("m", subscribed())
    epoch = both.beat_in("m").member_epoch
    both.advance(90_000)
    assert both.beat(epoch, "m").error_code in (ErrorCode.none, ErrorCode.fenced_member_epoch)
    both.let_leave(LeavingMember("m"))
    assert len(both.described().members) <= 1
