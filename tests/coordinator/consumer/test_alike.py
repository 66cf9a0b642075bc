"""What members of many groups have alike is kept once, within bounds, and nobody can tell."""

from __future__ import annotations

from typing import Any

import msgpack

from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.member import ConsumerMember
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground import alike
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Record
from actors.ground.records import (
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    RECORD_TYPES,
    TARGET_ASSIGNMENT_MEMBER,
    ConsumerMemberKey,
    ConsumerMemberValue,
    CurrentAssignmentValue,
    TargetMemberValue,
    TopicPartitions,
)
from tests.coordinator.shards import new_shard

ORDERS = b"orders".rjust(16, b"-")
FIRST: TopicPartitions = ((ORDERS, bytes(4)),)


def member_records(
    group_id: str, member_id: str, assigned: TopicPartitions = FIRST, names: tuple[str, ...] = ("orders",)
) -> list[Record]:
    metadata = ConsumerMemberValue(None, "rack", "client", "/10.1.2.3", names, "", 300_000, None)
    values: dict[int, Any] = {
        CONSUMER_MEMBER_METADATA: metadata,
        TARGET_ASSIGNMENT_MEMBER: TargetMemberValue(assigned),
        CURRENT_MEMBER_ASSIGNMENT: CurrentAssignmentValue(700, 699, 0, assigned, (), (b"\0\0\0\7",)),
    }
    return [Record(ConsumerMemberKey(kind, group_id, member_id), value) for kind, value in values.items()]


def apply(shard: CoordinatorShard, records: list[Record]) -> None:
    """Apply records as a log brings them: each with objects of its own."""
    for record in records:
        key, value = msgpack.unpackb(msgpack.packb(record), use_list=False)
        key_class, value_class = RECORD_TYPES[key[0]]
        shard.apply(key_class(*key), value_class(*value))


def group_of(shard: CoordinatorShard, group_id: str) -> ConsumerGroup:
    return consumer_groups(shard.state)[group_id]


def member_of(shard: CoordinatorShard, group_id: str, member_id: str) -> ConsumerMember:
    return group_of(shard, group_id).members[member_id]


def test_members_of_two_groups_that_are_alike_are_made_of_the_same_objects() -> None:
    shard = new_shard()
    apply(shard, member_records("g", "a"))
    apply(shard, member_records("h", "b"))
    one, other = member_of(shard, "g", "a"), member_of(shard, "h", "b")
    assert one.terms is other.terms
    assert one.standing is other.standing
    assert one.assigned is other.assigned is one.target is other.target
    assert one.client_id is other.client_id
    assert one.client_host is other.client_host
    [mine], [theirs] = group_of(shard, "g").subscriptions, group_of(shard, "h").subscriptions
    assert mine is theirs


def test_a_subscription_that_no_table_keeps_is_kept_once_for_its_group() -> None:
    shard, many = new_shard(), tuple(f"topic-{number:03d}" for number in range(alike.SHARED_ITEMS_MAX + 1))
    before = alike.shared.cache_info().currsize
    for member_id in ("a", "b", "c"):
        apply(shard, member_records("g", member_id, names=many)[:1])
    assert alike.shared.cache_info().currsize == before
    kept = [member.terms for member in group_of(shard, "g").members.values()]
    assert len({id(terms) for terms in kept}) == 1
    assert [member.metadata for member in group_of(shard, "g").members.values()] == [
        member_records("g", "a", names=many)[0].value
    ] * 3


def test_the_tables_stay_within_their_bound_and_forget_nothing_that_is_kept() -> None:
    shard, members = new_shard(), alike.SHARED_MAX + 50
    written = {}
    for number in range(members):
        assigned = ((ORDERS, number.to_bytes(4, "big")),)
        records = member_records(f"g-{number % 7}", f"m-{number}", assigned)
        apply(shard, records)
        written.update(records)
    tables = (alike.shared, alike.shared_id, alike._texts, alike._assignments)
    assert [table.cache_info().currsize <= alike.SHARED_MAX for table in tables] == [True] * len(tables)
    assert dict(shard.records()) == written


def test_what_is_large_is_in_no_table() -> None:
    wide = ((ORDERS, bytes(4 * alike.SHARED_CHARS_MAX)),)
    before = alike._assignments.cache_info(), alike._texts.cache_info()
    assert alike.shared_topics(wide) == wide
    assert alike.shared_text("c" * (alike.SHARED_CHARS_MAX + 1)) == "c" * (alike.SHARED_CHARS_MAX + 1)
    assert (alike._assignments.cache_info(), alike._texts.cache_info()) == before
