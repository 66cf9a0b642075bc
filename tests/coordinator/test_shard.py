"""Tests that cross the areas of the shard: members, offsets, failover, undo and snapshots."""

from __future__ import annotations

import random

import pytest

from actors.coordinator.areas import areas
from actors.coordinator.kinds import KINDS
from actors.ground.contract import Record
from actors.ground.records import RECORD_TYPES, TopicPartitions
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupResponse,
    OffsetFetchGroup,
)
from tests.coordinator.batches import one_by_one
from tests.coordinator.driver import Driver, image_of

SESSION_MS = 10_000


@pytest.fixture
def tier() -> Driver:
    return Driver(t=4)


def beat(
    tier: Driver, group_id: str, member_id: str, epoch: int, owned: TopicPartitions | None = None
) -> ConsumerGroupHeartbeatResponse:
    joining = epoch == 0
    body = ConsumerGroupHeartbeatRequest(
        group_id,
        member_id,
        epoch,
        rebalance_timeout_ms=60_000 if joining else -1,
        subscribed_topic_names=("t",) if joining else None,
        topic_partitions=() if joining else owned,
    )
    answer = tier.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


def member_of(tier: Driver, group_id: str) -> JoinGroupResponse:
    [joined] = tier.stable_group(group_id)
    return joined


def test_a_member_joins_commits_and_fetches(tier: Driver) -> None:
    """These are rules C7, C10, C18 and O1."""
    joined = member_of(tier, "g")
    committed = tier.commit_offsets("g", offsets={0: 5, 3: 7}, generation=1, member_id=joined.member_id)
    assert committed == {0: 0, 3: 0}
    assert tier.offsets("g") == {("t", 0): 5, ("t", 3): 7}
    tier.check_snapshot()


def test_offsets_of_a_stable_group_are_only_its_members_to_commit(tier: Driver) -> None:
    """O1: generation -1 without a member id gets error 25, with a real one 22, with an unknown one 25. A
    wrong generation gets 22."""
    member_id = member_of(tier, "g").member_id
    assert tier.commit_offsets("g") == {0: 25}
    assert tier.commit_offsets("g", member_id=member_id) == {0: 22}
    assert tier.commit_offsets("g", member_id="who") == {0: 25}
    assert tier.commit_offsets("g", generation=2, member_id=member_id) == {0: 22}
    assert tier.offsets("g") == {}


def test_a_simple_group_becomes_a_real_one_and_keeps_its_offsets(tier: Driver) -> None:
    """This is rule R8 (KAFKA-20254)."""
    tier.commit_offsets("g", offsets={1: 11})
    joined = member_of(tier, "g")
    assert tier.offsets("g") == {("t", 1): 11}
    tier.leave("g", joined.member_id)
    assert tier.commit_offsets("g", offsets={2: 22}) == {2: 0}
    assert [group.group_id for group in tier.list_groups()] == ["g"]


def test_failover_keeps_commits_and_members(tier: Driver) -> None:
    """C26: the group is Stable again, and the member's heartbeats go on in its generation."""
    joined = member_of(tier, "g")
    tier.commit_offsets("g", offsets={0: 5}, generation=1, member_id=joined.member_id)
    tier.commit()
    tier.fail_over()
    assert tier.heartbeat("g", 1, joined.member_id) == 0
    assert tier.offsets("g") == {("t", 0): 5}
    assert tier.commit_offsets("g", offsets={0: 6}, generation=1, member_id=joined.member_id) == {0: 0}


def test_failover_gives_silent_members_a_whole_session(tier: Driver) -> None:
    """C26, A21: timers are set anew, and fire."""
    joined = member_of(tier, "g")
    tier.advance(SESSION_MS - 1_000)
    tier.commit()
    tier.fail_over()
    tier.advance(SESSION_MS - 1_000)
    assert tier.describe("g").group_state == "Stable"
    tier.advance(2_000)
    assert tier.describe("g").group_state == "Empty"
    assert tier.heartbeat("g", 1, joined.member_id) == 25


def test_what_is_not_committed_is_undone_exactly(tier: Driver) -> None:
    """R4: the newest change is undone first, so that two changes of one record leave the committed one."""
    joined = member_of(tier, "g")
    tier.commit_offsets("g", offsets={0: 1}, generation=1, member_id=joined.member_id)
    tier.commit()
    for offset in (2, 3):
        tier.commit_offsets("g", offsets={0: offset, 1: offset}, generation=1, member_id=joined.member_id)
    tier.delete_offsets("g", "t", 0)
    tier.commit_offsets("other")
    tier.leave("g", joined.member_id)
    tier.fail_over()
    assert tier.offsets("g") == {("t", 0): 1}
    assert tier.offsets("other") == {}
    assert tier.heartbeat("g", 1, joined.member_id) == 0


def test_a_parked_join_is_refused_when_the_leader_falls(tier: Driver) -> None:
    """This is rule C27."""
    [first] = tier.stable_group("g")
    second = tier.replies[tier.send_join("g")].member_id
    token = tier.send_join("g", second)
    assert token not in tier.replies
    tier.commit()
    tier.fail_over()
    assert tier.replies[token].error_code == 16
    assert tier.parked == 0
    assert tier.heartbeat("g", 1, first.member_id) == 0


def test_a_consumer_group_member_joins_commits_and_survives_failover(tier: Driver) -> None:
    """M2, M18, M26, O6: the current epoch may commit; the member notices nothing of a failover."""
    answer = beat(tier, "c", "m1", 0)
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    tier.commit_offsets("c", offsets={0: 5}, generation=answer.member_epoch, member_id="m1")
    tier.commit()
    tier.fail_over()
    assert beat(tier, "c", "m1", answer.member_epoch).error_code == 0
    assert tier.offsets("c") == {("t", 0): 5}
    errors = tier.commit_offsets("c", generation=answer.member_epoch + 1, member_id="m1")
    assert errors == {0: 113}
    assert tier.commit_offsets("c", generation=answer.member_epoch, member_id="who") == {0: 25}
    tier.check_snapshot()


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, 0),
        ("m1", 2, 0),
        ("m1", 1, 113),
        ("m1", -1, 113),
        ("", 2, 25),
        ("who", 2, 25),
        (None, 2, -1),
    ],
)
def test_fetch_by_a_member_of_a_consumer_group_is_checked(
    tier: Driver, member_id: str | None, epoch: int, error: int
) -> None:
    """O11: a null member id with an epoch gets error -1, the id "" gets 25, a wrong epoch gets 113."""
    assert beat(tier, "c", "m1", 0).member_epoch == 2
    group = OffsetFetchGroup("c", (("t", (0,)),), member_id, epoch)
    fetched = tier.fetch_group(group)
    assert fetched.error_code == error
    assert bool(fetched.topics) is (error == 0)


def test_a_consumer_group_in_the_admin_apis(tier: Driver) -> None:
    """O12, O13, M23: DescribeGroups answers 69, and Dead before version 6; a live group is not deleted, nor
    are its offsets."""
    epoch = beat(tier, "c", "m1", 0).member_epoch
    tier.commit_offsets("c", generation=epoch, member_id="m1")
    assert (tier.describe("c").error_code, tier.describe("c").error_message) == (
        69,
        "Group c is not a classic group.",
    )
    assert (tier.describe("c", 5).error_code, tier.describe("c", 5).group_state) == (0, "Dead")
    [listed] = tier.list_groups(types=("consumer",))
    assert (listed.group_id, listed.protocol_type, listed.group_type) == ("c", "consumer", "consumer")
    assert tier.list_groups(types=("classic",)) == []
    assert tier.delete_groups("c") == {"c": 68}
    assert tier.delete_offsets("c", "t", 0).topics == (("t", ((0, 86),)),)
    assert beat(tier, "c", "m1", -1).member_epoch == -1
    assert tier.delete_offsets("c", "t", 0).topics == (("t", ((0, 0),)),)
    assert tier.delete_groups("c") == {"c": 0}
    assert tier.records() == {}
    tier.commit()
    tier.fail_over()
    assert tier.list_groups() == []


def test_an_empty_consumer_group_turned_classic_keeps_its_offsets(tier: Driver) -> None:
    """C28, R8: offsets survive both conversions; the classic group starts at generation 1."""
    epoch = beat(tier, "g", "m1", 0).member_epoch
    tier.commit_offsets("g", offsets={0: 5}, generation=epoch, member_id="m1")
    beat(tier, "g", "m1", -1)
    joined = member_of(tier, "g")
    assert joined.generation_id == 1
    tier.leave("g", joined.member_id)
    assert beat(tier, "g", "m2", 0).error_code == 0
    assert tier.offsets("g") == {("t", 0): 5}
    tier.commit()
    tier.check_snapshot()


def test_records_may_be_applied_in_any_order(tier: Driver) -> None:
    """A snapshot or a compacted log need not keep an order between records."""
    tier.commit_offsets("simple", offsets={0: 1, 1: 2})
    tier.stable_group("classic", size=3)
    for member_id in ("m1", "m2"):
        beat(tier, "consumer", member_id, 0)
    live = tier.records()
    assert len(live) > 10
    for seed in range(20):
        shuffled = [Record(key, value) for key, value in live.items()]
        random.Random(seed).shuffle(shuffled)
        shard = tier.restored(shuffled)
        assert dict(one_by_one(shard.records())) == live
        for record in shuffled:
            assert shard.apply(record.key, None) == record.value
        assert list(shard.records()) == [], f"seed {seed}"


def test_apply_returns_what_it_replaced(tier: Driver) -> None:
    tier.commit_offsets("g", offsets={0: 1})
    [(key, value)] = tier.records().items()
    assert tier.shard.apply(key, value) == value
    assert tier.shard.apply(key, None) == value
    assert tier.shard.apply(key, None) is None


def test_every_record_type_has_an_applier() -> None:
    assert set(areas(KINDS).appliers) == set(RECORD_TYPES)


def test_a_record_of_a_newer_release_is_skipped(tier: Driver) -> None:
    """This is rule R6."""
    assert tier.shard.apply((9_999, "g"), (1,)) is None
    assert tier.records() == {}


def test_a_topic_that_grows_takes_commits_for_its_new_partitions(tier: Driver) -> None:
    assert tier.commit_offsets("g", offsets={4: 1}) == {4: 3}
    tier.set_image(image_of(2, t=5))
    assert tier.commit_offsets("g", offsets={4: 1}) == {4: 0}
