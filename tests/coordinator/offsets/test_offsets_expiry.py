"""Retention removes offsets and groups: which of them, when, and how little of it at a time."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from actors.coordinator.ground.timers import SLOT_MS
from actors.coordinator.offsets.pending import end_transaction, pend
from actors.coordinator.offsets.walk import STOPS_PER_SLICE_MAX
from actors.coordinator.told.events import OffsetsExpiring
from actors.ground.records import (
    PENDING_TXN_OFFSET,
    OffsetCommitValue,
    PendingTxnOffsetKey,
)
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
)
from tests.coordinator.driver import START_MS, Driver, topic_id

RETENTION_MS = 60_000
INTERVAL_MS = 20_000
SESSION_MS = 10_000
SETTINGS = GroupSettings(
    offsets_retention_minutes=1,
    offsets_retention_check_interval_ms=INTERVAL_MS,
    group_rebalance_batch_max_ms=0,
)
assert START_MS % INTERVAL_MS == 0


@pytest.fixture
def tier() -> Driver:
    return Driver(settings=SETTINGS, t=3, u=1)


def after(tier: Driver, time_ms: int) -> None:
    """Let time pass until just after the check that is due at `time_ms` after the start."""
    tier.advance(START_MS + time_ms + 2 * SLOT_MS - tier.now_ms)


def live_on(tier: Driver, until_ms: int, member_id: str) -> None:
    """Let time pass as `after` does, while the only member of group "g" keeps heartbeating."""
    while tier.now_ms < START_MS + until_ms:
        tier.advance(SESSION_MS // 2)
        assert tier.heartbeat("g", 1, member_id) == 0
    after(tier, until_ms)


def commit_with_retention(tier: Driver, partition: int, retention_time_ms: int) -> None:
    topics = (("t", (CommittedPartition(partition, 1),)),)
    tier.ask(api_keys.OFFSET_COMMIT, OffsetCommitRequest("g", -1, "", None, retention_time_ms, topics), 4)


def subscribed_to(topic: str) -> tuple[tuple[str, bytes], ...]:
    """The bytes of a consumer's subscription to a topic, in version 0."""
    name = topic.encode()
    return (("range", struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)),)


def stable_member(tier: Driver, *, topic: str = "t") -> str:
    """Bring group "g" to Stable with one member that is subscribed to `topic`."""
    member_id = ""
    for _ in range(2):
        body = JoinGroupRequest("g", SESSION_MS, 60_000, member_id, None, "consumer", subscribed_to(topic))
        token = tier.send(api_keys.JOIN_GROUP, body, 9)
        tier.advance(SETTINGS.group_initial_rebalance_delay_ms * 2)
        member_id = tier.replies[token].member_id
    tier.send_sync("g", tier.replies[token], ((member_id, b""),))
    assert tier.describe("g").group_state == "Stable"
    return str(member_id)


def beat(tier: Driver, epoch: int, topics: tuple[str, ...] | None = None) -> int:
    body = ConsumerGroupHeartbeatRequest(
        "g",
        "m",
        epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=topics,
        topic_partitions=() if epoch == 0 else None,
    )
    answer = tier.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
    assert answer.error_code == 0
    return int(answer.member_epoch)


def test_a_simple_groups_offset_expires_a_retention_after_its_commit(tier: Driver) -> None:
    """O14: each offset expires by itself; with the last one the group is gone (O15)."""
    tier.commit_offsets("g", offsets={0: 1})
    tier.advance(INTERVAL_MS + 1_000)
    tier.commit_offsets("g", offsets={1: 1})
    after(tier, RETENTION_MS - INTERVAL_MS)
    assert tier.offsets("g") == {("t", 0): 1, ("t", 1): 1}
    after(tier, RETENTION_MS)
    assert tier.offsets("g") == {("t", 1): 1}
    after(tier, RETENTION_MS + INTERVAL_MS)
    assert tier.offsets("g") == {("t", 1): 1}
    after(tier, RETENTION_MS + 2 * INTERVAL_MS)
    assert tier.list_groups() == []
    assert tier.records() == {}


def expiring(tier: Driver) -> list[tuple[int, OffsetsExpiring]]:
    """The offsets that the checks announced, by the time of their check after the start."""
    return [
        ((event.at_ms - START_MS) // INTERVAL_MS, event)
        for event in tier.events
        if isinstance(event, OffsetsExpiring)
    ]


def test_an_expiry_is_told_once_ahead_of_it(tier: Driver) -> None:
    """The first check in the last half of so short a retention announces it; an offset that is committed
    again is announced later."""
    tier.commit_offsets("g", offsets={0: 1, 1: 1, 2: 1})
    tier.advance(INTERVAL_MS + 1_000)
    tier.commit_offsets("g", offsets={2: 2})
    again_ms = tier.now_ms
    after(tier, RETENTION_MS)
    assert [(check, event.count, event.first_ms, event.last_ms) for check, event in expiring(tier)] == [
        (2, 2, START_MS + RETENTION_MS, START_MS + RETENTION_MS),
        (3, 1, again_ms + RETENTION_MS, again_ms + RETENTION_MS),
    ]


def test_an_empty_group_is_told_of_all_of_its_offsets_and_a_living_one_of_none(tier: Driver) -> None:
    """O14: all offsets expire a retention after the group became empty, whenever they were committed."""
    member_id = stable_member(tier)
    tier.commit_offsets("g", offsets={0: 1}, generation=1, member_id=member_id)
    live_on(tier, 2 * RETENTION_MS, member_id)
    assert expiring(tier) == []
    tier.leave("g", member_id)
    left_ms = tier.now_ms
    after(tier, 3 * RETENTION_MS)
    [(_, event)] = expiring(tier)
    assert (event.count, event.first_ms) == (1, left_ms + RETENTION_MS)


def test_an_expiry_named_by_the_commit_wins_over_retention(tier: Driver) -> None:
    """O5: this holds whether it is sooner or later than retention."""
    commit_with_retention(tier, 0, 1)
    commit_with_retention(tier, 1, 2 * RETENTION_MS)
    after(tier, INTERVAL_MS)
    assert tier.offsets("g") == {("t", 1): 1}
    after(tier, 2 * RETENTION_MS - INTERVAL_MS)
    assert tier.offsets("g") == {("t", 1): 1}
    after(tier, 2 * RETENTION_MS)
    assert tier.offsets("g") == {}


def test_all_offsets_of_an_empty_classic_group_expire_a_retention_after_it_became_empty(
    tier: Driver,
) -> None:
    """O14: this holds whenever they were committed, and the group goes with them (O15)."""
    member_id = stable_member(tier)
    tier.commit_offsets("g", offsets={0: 1}, generation=1, member_id=member_id)
    live_on(tier, 2 * RETENTION_MS, member_id)
    tier.leave("g", member_id)
    left_ms = tier.now_ms - START_MS
    after(tier, 3 * RETENTION_MS - INTERVAL_MS)
    tier.commit_offsets("g", offsets={1: 1})
    after(tier, 3 * RETENTION_MS)
    assert left_ms > 2 * RETENTION_MS
    assert tier.offsets("g") == {("t", 0): 1, ("t", 1): 1}
    after(tier, 3 * RETENTION_MS + INTERVAL_MS)
    assert tier.records() == {}
    assert tier.describe("g").error_code == 69


def test_a_stable_group_loses_offsets_of_topics_it_is_not_subscribed_to(tier: Driver) -> None:
    """O14: those offsets go a retention after their commit; those of the group's topics stay as long as it
    lives."""
    member_id = stable_member(tier, topic="t")
    for topic in ("t", "u"):
        tier.commit_offsets("g", topic, {0: 1}, generation=1, member_id=member_id)
    live_on(tier, RETENTION_MS, member_id)
    assert tier.offsets("g") == {("t", 0): 1, ("u", 0): 1}
    live_on(tier, RETENTION_MS + INTERVAL_MS, member_id)
    assert tier.offsets("g") == {("t", 0): 1}
    live_on(tier, 4 * RETENTION_MS, member_id)
    assert tier.offsets("g") == {("t", 0): 1}


def test_a_stable_group_of_unknown_subscriptions_loses_nothing(tier: Driver) -> None:
    """O14: the group may be subscribed to anything, as in O12."""
    [joined] = tier.stable_group("g")
    tier.commit_offsets("g", "u", {0: 1}, generation=1, member_id=joined.member_id)
    live_on(tier, 3 * RETENTION_MS, joined.member_id)
    assert tier.offsets("g") == {("u", 0): 1}


def test_a_group_waits_for_the_member_that_has_only_its_id(tier: Driver) -> None:
    """O15: it is empty, and no check of retention removes it under the member (Kafka does)."""
    asked = JoinGroupRequest(
        "g", 10 * RETENTION_MS, 10 * RETENTION_MS, "", None, "consumer", subscribed_to("t")
    )
    member_id = tier.ask(api_keys.JOIN_GROUP, asked, 9).member_id
    after(tier, 2 * RETENTION_MS)
    token = tier.send(api_keys.JOIN_GROUP, asked._replace(member_id=member_id), 9)
    tier.advance(SETTINGS.group_initial_rebalance_delay_ms * 2)
    assert tier.replies[token].error_code == 0


def test_nothing_expires_in_the_middle_of_a_rebalance(tier: Driver) -> None:
    """O14: this holds in PreparingRebalance and in CompletingRebalance, an explicit expiry included."""
    tier.commit_offsets("g", "u", {0: 1})
    commit_with_retention(tier, 0, 1)
    offsets = tier.offsets("g")
    slow = JoinGroupRequest(
        "g", 10 * RETENTION_MS, 10 * RETENTION_MS, "", None, "consumer", subscribed_to("t")
    )
    member_id = tier.ask(api_keys.JOIN_GROUP, slow, 9).member_id
    token = tier.send(api_keys.JOIN_GROUP, slow._replace(member_id=member_id), 9)
    tier.advance(SETTINGS.group_initial_rebalance_delay_ms * 2)
    assert token in tier.replies
    after(tier, 2 * RETENTION_MS)
    assert tier.describe("g").group_state == "CompletingRebalance"
    assert tier.offsets("g") == offsets
    newcomer = tier.ask(api_keys.JOIN_GROUP, slow, 9).member_id
    tier.send(api_keys.JOIN_GROUP, slow._replace(member_id=newcomer), 9)
    after(tier, 4 * RETENTION_MS)
    assert tier.describe("g").group_state == "PreparingRebalance"
    assert tier.offsets("g") == offsets


def test_a_consumer_group_loses_offsets_of_topics_it_is_not_subscribed_to(tier: Driver) -> None:
    """O14: those offsets go a retention after their commit. An empty group is subscribed to nothing, and goes
    at last (O15)."""
    epoch = beat(tier, 0, ("t",))
    for topic in ("t", "u"):
        tier.commit_offsets("g", topic, {0: 1}, generation=epoch, member_id="m")
    while tier.now_ms < START_MS + RETENTION_MS:
        tier.advance(INTERVAL_MS)
        epoch = beat(tier, epoch)
    after(tier, RETENTION_MS)
    assert tier.offsets("g") == {("t", 0): 1}
    beat(tier, -1)
    after(tier, RETENTION_MS + INTERVAL_MS)
    assert tier.records() == {}
    assert tier.list_groups() == []


def test_an_open_transaction_keeps_offset_and_group(tier: Driver) -> None:
    """O8: once the transaction has ended, the next check removes what has expired."""
    tier.commit_offsets("g", offsets={0: 1, 1: 1})
    state = tier.shard.state
    key = PendingTxnOffsetKey(PENDING_TXN_OFFSET, "g", "t", 0, 7)
    tier.shard.apply(*pend(state, key, 0, OffsetCommitValue(5, -1, "", tier.now_ms, -1, topic_id(1))))
    after(tier, RETENTION_MS)
    assert tier.offsets("g") == {("t", 0): 1}
    for record in end_transaction(state, 7, committed=False):
        tier.shard.apply(*record)
    after(tier, RETENTION_MS + INTERVAL_MS)
    assert tier.records() == {}


def test_a_group_that_never_had_offsets_goes_at_the_first_check_that_finds_it_empty(tier: Driver) -> None:
    """O15: retention is for offsets alone."""
    beat(tier, 0, ("t",))
    beat(tier, -1)
    assert [group.group_state for group in tier.list_groups()] == ["Empty"]
    after(tier, INTERVAL_MS)
    assert tier.list_groups() == []
    assert tier.records() == {}


def test_a_member_id_that_was_handed_out_keeps_its_group(tier: Driver) -> None:
    """A client is about to join: C12's time-out decides how long the group is kept, not retention."""
    tier.advance(INTERVAL_MS - 1)
    member_id = tier.replies[tier.send_join("g")].member_id
    after(tier, INTERVAL_MS)
    tier.send_join("g", member_id)
    assert len(tier.describe("g").members) == 1


def test_a_simple_group_outlives_its_last_offset_until_the_next_check(tier: Driver) -> None:
    """The group is listed until the check, as in Kafka."""
    tier.commit_offsets("g")
    assert tier.delete_offsets("g", "t", 0).topics == (("t", ((0, 0),)),)
    assert tier.describe("g").group_state == "Empty"
    assert tier.delete_offsets("g", "t", 0).error_code == 0
    after(tier, INTERVAL_MS)
    assert tier.describe("g").error_code == 69
    assert tier.delete_groups("g") == {"g": 69}


def test_a_failover_neither_delays_a_check_nor_prolongs_an_offsets_life(tier: Driver) -> None:
    """O15: the times of checks depend on the clock, not on the leader, and the records hold what they
    compare."""
    tier.commit_offsets("g")
    for _ in range(5):
        tier.advance(INTERVAL_MS // 2 + 1)
        tier.commit()
        tier.fail_over()
    after(tier, RETENTION_MS)
    assert tier.records() == {}


def test_a_million_offsets_would_hold_up_nobody(tier: Driver) -> None:
    """O15: a check is done in slices, one slot of the timers apart, and goes on where it was."""
    groups = [f"g{number}" for number in range(3 * STOPS_PER_SLICE_MAX)]
    for group_id in groups:
        tier.commit_offsets(group_id)
    tier.advance(RETENTION_MS - 1)
    sizes = []
    while tier.records():
        tier.advance(SLOT_MS)
        sizes.append(len(groups) - len(tier.records()))
    assert max(later - earlier for earlier, later in pairwise(sizes)) <= STOPS_PER_SLICE_MAX
    tier.commit_offsets("late")
    after(tier, RETENTION_MS + INTERVAL_MS)
    assert tier.offsets("late") == {("t", 0): 1}
    after(tier, 2 * RETENTION_MS + INTERVAL_MS)
    assert tier.records() == {}


def test_a_check_that_is_under_way_when_leadership_is_lost_begins_anew(tier: Driver) -> None:
    """O15: the new leader goes over all groups again at its next check."""
    for number in range(2 * STOPS_PER_SLICE_MAX):
        tier.commit_offsets(f"g{number}")
    after(tier, RETENTION_MS - 1)
    tier.commit()
    left = len(tier.records())
    assert 0 < left < 2 * STOPS_PER_SLICE_MAX
    tier.fail_over()
    tier.advance(10 * SLOT_MS)
    assert len(tier.records()) == left
    tier.advance(INTERVAL_MS)
    assert tier.records() == {}
