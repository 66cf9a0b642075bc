"""Groups of a backup come back empty, with everything that outlives members."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.restore import RESTORE, RestoreRequest, RestoreResponse, emptied
from actors.coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from actors.ground.contract import Key, Value
from actors.ground.records import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    PRODUCER_ID_BLOCK,
    TRANSACTION,
    ProducerIdBlockKey,
    ProducerIdBlockValue,
    TransactionKey,
    TransactionValue,
)
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.driver import Driver

Records = tuple[tuple[Key, Value], ...]
MINUTE_MS = 60_000
DAY_MS = 86_400_000


def beat(driver: Driver, group_id: str, member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    joins = epoch == 0
    body = ConsumerGroupHeartbeatRequest(
        group_id,
        member_id,
        epoch,
        rebalance_timeout_ms=5_000 if joins else -1,
        subscribed_topic_names=("t",) if joins else None,
        topic_partitions=() if joins else None,
    )
    answer = driver.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


def lived_in() -> Driver:
    """Make the only partition of a tier, with a group of each kind that has members."""
    driver = Driver(t=4)
    member = driver.stable_group("classic", 2)[0]
    driver.commit_offsets(
        "classic", offsets={0: 10, 1: 11}, generation=member.generation_id, member_id=member.member_id
    )
    for number in range(3):
        beat(driver, "consumer", f"m{number}", 0)
    driver.commit_offsets(
        "consumer", offsets={2: 22}, generation=beat(driver, "consumer", "m0", 0).member_epoch, member_id="m0"
    )
    driver.commit_offsets("simple", offsets={3: 33})
    return driver


def backup_of(driver: Driver, now_ms: int) -> Records:
    """The requests that a restore of the driver's records sends."""
    kept = [emptied(tuple(key), tuple(value), now_ms) for key, value in driver.records().items()]
    return tuple((tuple(record.key), tuple(record.value or ())) for record in kept if record is not None)


def restore(driver: Driver, records: Records) -> RestoreResponse:
    answer = driver.ask(RESTORE, RestoreRequest(records), 0)
    assert isinstance(answer, RestoreResponse)
    return answer


def shown(driver: Driver) -> dict[str, Any]:
    groups = ("classic", "consumer", "simple")
    return {
        "groups": [(group.group_id, group.group_type, group.group_state) for group in driver.list_groups()],
        "offsets": {group_id: driver.offsets(group_id) for group_id in groups},
        "epochs": {group_id: driver.shard.summary(group_id) for group_id in groups},
    }


def test_groups_come_back_empty_with_offsets_generations_and_epochs() -> None:
    """The restored groups are still the same after another replica took over."""
    old, new = lived_in(), Driver(t=4)
    new.now_ms = old.now_ms + DAY_MS
    assert restore(new, backup_of(old, new.now_ms)).error_code == 0
    found = shown(new)
    assert found["groups"] == [
        ("classic", "classic", "Empty"),
        ("consumer", "consumer", "Empty"),
        ("simple", "classic", "Empty"),
    ]
    assert found["offsets"] == shown(old)["offsets"]
    for group_id, epoch in (("classic", "generation"), ("consumer", "group_epoch")):
        assert found["epochs"][group_id][epoch] == old.shard.summary(group_id)[epoch] > 0
        assert found["epochs"][group_id]["members"] == 0
    new.commit()
    new.fail_over()
    assert shown(new) == found


def test_members_that_come_back_get_epochs_that_nobody_had() -> None:
    """A member of the old tier is unknown, whatever epoch it names."""
    old, new = lived_in(), Driver(t=4)
    restore(new, backup_of(old, new.now_ms))
    epoch = old.shard.summary("consumer")["group_epoch"]
    assert beat(new, "consumer", "m0", epoch).error_code == ErrorCode.unknown_member_id
    assert beat(new, "consumer", "m0", 0).member_epoch > epoch
    generation = old.shard.summary("classic")["generation"]
    assert new.heartbeat("classic", generation, "whoever") == ErrorCode.unknown_member_id
    assert new.stable_group("classic")[0].generation_id > generation


def test_an_empty_group_is_kept_from_the_time_of_its_restore() -> None:
    """O14: the group became Empty when it was restored, not when the backup was made."""
    old = lived_in()
    later_ms = old.now_ms + 30 * DAY_MS
    (value,) = (value for key, value in backup_of(old, later_ms) if key[0] == GROUP_METADATA)
    assert value[4] == later_ms


def test_a_request_may_be_repeated() -> None:
    """The answer was lost, and another leader has the records that the first one wrote."""
    old, new = lived_in(), Driver(t=4)
    records = backup_of(old, new.now_ms)
    restore(new, records)
    new.commit()
    new.fail_over()
    assert restore(new, records) == RestoreResponse()
    assert not new.last.records
    assert {tuple(key): tuple(value) for key, value in new.records().items()} == dict(records)


@pytest.mark.parametrize("uncommitted", [True, False], ids=["before it was committed", "after"])
def test_a_leader_that_falls_while_restoring_leaves_no_half(uncommitted: bool) -> None:
    new = Driver(t=4)
    restore(new, backup_of(lived_in(), new.now_ms))
    if not uncommitted:
        new.commit()
    expected = {} if uncommitted else new.records()
    new.fail_over()
    assert new.records() == expected
    assert len(new.list_groups()) == (0 if uncommitted else 3)


def used_by_commit(driver: Driver) -> None:
    driver.commit_offsets("simple", offsets={3: 1})


def used_by_pending_member(driver: Driver) -> None:
    driver.send_join("classic")


def used_by_member(driver: Driver) -> None:
    driver.stable_group("classic")


def used_by_consumer(driver: Driver) -> None:
    beat(driver, "consumer", "early", 0)


def used_as_another_kind(driver: Driver) -> None:
    beat(driver, "classic", "early", 0)
    driver.advance(MINUTE_MS)


@pytest.mark.parametrize(
    "use", [used_by_commit, used_by_pending_member, used_by_member, used_by_consumer, used_as_another_kind]
)
def test_a_group_that_a_client_uses_is_not_written_over(use: Any) -> None:
    old, new = lived_in(), Driver(t=4)
    use(new)
    before = new.records()
    answer = restore(new, backup_of(old, new.now_ms))
    assert answer.error_code == ErrorCode.non_empty_group
    assert "is used by a client of this tier already" in (answer.message or "")
    assert new.records() == before


def test_offsets_may_come_before_and_after_the_group_they_belong_to() -> None:
    """A group's records are spread over several requests, in whatever order."""
    old = lived_in()
    records = backup_of(old, old.now_ms)
    offsets = tuple(record for record in records if record[0][0] == OFFSET_COMMIT)
    others = tuple(record for record in records if record[0][0] != OFFSET_COMMIT)
    for parts in ((offsets, others), (others, offsets), tuple((record,) for record in reversed(records))):
        new = Driver(t=4)
        assert [restore(new, part).error_code for part in parts] == [0] * len(parts)
        assert shown(new)["offsets"] == shown(old)["offsets"]
        assert [group.group_state for group in new.list_groups()] == ["Empty"] * 3


def test_transactional_ids_come_back_at_rest_and_producer_ids_go_on() -> None:
    """O18: an open transaction is aborted, its producer fenced; a decided one is as its markers leave it."""

    def value(producer_id: int, state: int) -> TransactionValue:
        return TransactionValue(producer_id, -1, 3, 2, 60_000, state, (("t", (0,)),), 5, 6)

    fresh, now_ms = Driver(t=4), 10_000
    states = {"open": ONGOING, "commits": PREPARE_COMMIT, "aborts": PREPARE_ABORT, "done": COMPLETE_COMMIT}
    kept = [
        emptied(TransactionKey(TRANSACTION, name), value(number, state), now_ms)
        for number, (name, state) in enumerate(states.items())
    ]
    block = (ProducerIdBlockKey(PRODUCER_ID_BLOCK, ""), ProducerIdBlockValue(0, 77))
    records = tuple((record.key, record.value) for record in kept if record is not None)
    assert restore(fresh, (*records, block)) == RestoreResponse()
    assert restore(fresh, (*records, block)) == RestoreResponse()
    restored = fresh.shard.state.transactions
    assert {name: (each.state, each.producer_epoch) for name, each in restored.items()} == {
        "open": (COMPLETE_ABORT, 4),
        "commits": (COMPLETE_COMMIT, 3),
        "aborts": (COMPLETE_ABORT, 3),
        "done": (COMPLETE_COMMIT, 3),
    }
    assert fresh.shard.state.producer_ids == ProducerIdBlockValue(0, 77)
    changed = value(9, COMPLETE_COMMIT)
    refused = restore(fresh, ((TransactionKey(TRANSACTION, "done"), changed),))
    assert refused.error_code == ErrorCode.non_empty_group
    assert refused.message == "transactional id done is used by a client of this tier already"
