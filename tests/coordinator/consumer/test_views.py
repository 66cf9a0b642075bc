"""The views of a consumer group: checks of commits and fetches, describe, list, delete, conversion (O1, O6,
O11, A12, M23, M27, C28)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.state import classic_groups
from actors.coordinator.consumer import area as consumer
from actors.coordinator.consumer import views
from actors.coordinator.consumer.model.state import consumer_groups
from actors.ground.contract import Record
from actors.ground.records import (
    CLASSIC_MEMBER,
    GROUP_METADATA,
    ClassicMemberKey,
    ClassicMemberValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from actors.protocol.errors import GroupError
from tests.coordinator.consumer.driver import (
    GROUP,
    NEVER_MS,
    Client,
    Driver,
    make_image,
    owned,
    settle,
    topic_id,
)


def code_of(call: object, *arguments: object, **named: object) -> ErrorCode:
    try:
        call(*arguments, **named)
    except GroupError as error:
        return error.error_code
    return ErrorCode.none


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "code"),
    [
        ("a", 2, 9, ErrorCode.none),
        ("a", 3, 9, ErrorCode.stale_member_epoch),
        ("a", 1, 9, ErrorCode.stale_member_epoch),
        ("a", -1, 9, ErrorCode.stale_member_epoch),
        ("b", 2, 9, ErrorCode.unknown_member_id),
        ("", -1, 9, ErrorCode.unknown_member_id),
        ("a", 2, 8, ErrorCode.unsupported_version),
    ],
)
def test_commits_need_the_members_epoch(member_id: str, epoch: int, version: int, code: ErrorCode) -> None:
    """These are rules O6 and O1."""
    driver = Driver()
    driver.join("a")
    assert code_of(lambda: driver.check_commit(member_id, epoch, version, orders=[0])) is code


def test_an_empty_group_takes_commits_without_a_member() -> None:
    """O1: a generation below 0 is taken with any member id; generation 0 is refused."""
    driver = Driver()
    driver.join("a")
    driver.beat("a", -1)
    assert code_of(driver.check_commit, "", -1) is ErrorCode.none
    assert code_of(driver.check_commit, "who", -1) is ErrorCode.none
    assert code_of(driver.check_commit, "", 0) is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, ErrorCode.none),
        (None, 0, ErrorCode.unknown_server_error),
        ("", -1, ErrorCode.unknown_member_id),
        ("a", 2, ErrorCode.none),
        ("a", -1, ErrorCode.stale_member_epoch),
        ("a", 0, ErrorCode.stale_member_epoch),
        ("b", 2, ErrorCode.unknown_member_id),
    ],
)
def test_fetches_check_member_and_epoch(member_id: str | None, epoch: int, code: ErrorCode) -> None:
    """O11: groups of other types are not checked."""
    driver = Driver()
    driver.join("a")
    assert code_of(views.validate_fetch, driver.state, GROUP, member_id, epoch) is code
    assert code_of(views.validate_fetch, driver.state, "other", member_id, epoch) is ErrorCode.none


def test_describe_shows_members_with_both_assignments() -> None:
    """A12, M23: topics have names, and one that is gone is left out."""
    driver = Driver(image=make_image(1, orders=2, returns=1))
    fields = {"rack_id": "r1", "subscribed_topic_regex": ""}
    a = Client(driver, "a", "orders", "returns", **fields).join()
    b = Client(driver, "b", "orders", instance_id="i").join()
    described = views.describe(driver.state, GROUP)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    assert described.assignor_name == "uniform"
    one, two = described.members
    assert (one.member_id, one.rack_id, one.instance_id, one.member_epoch) == ("a", "r1", None, 2)
    assert (one.client_id, one.client_host, one.member_type) == ("client", "/127.0.0.1", 1)
    assert (one.subscribed_topic_names, one.subscribed_topic_regex) == (("orders", "returns"), "")
    assert [t.topic_name for t in one.assignment] == ["orders", "returns"]
    assert (two.instance_id, two.assignment, len(two.target_assignment)) == ("i", (), 1)
    settle(a, b)
    assert [
        views.listed(driver.state, group_id).group_state for group_id in consumer_groups(driver.state)
    ] == ["Stable"]
    driver.set_image(make_image(2, returns=1))
    (still,) = views.describe(driver.state, GROUP).members[0].assignment
    assert (still.topic_id, still.partitions) == (topic_id("returns"), owned(returns=[0])[0][1])
    assert code_of(views.describe, driver.state, "other") is ErrorCode.group_id_not_found


def test_deletion_leaves_nothing_after_any_prefix() -> None:
    """O13: tombstones in Kafka's order; a non-empty group is not deleted."""
    driver = Driver(image=make_image(1, orders=2))
    driver.join("a", subscribed_topic_regex="o.*")
    assert code_of(views.delete_records, driver.state, GROUP) is ErrorCode.non_empty_group
    driver.beat("a", -1)
    records = views.delete_records(driver.state, GROUP)
    assert [record.key[0] for record in records] == [6, 3]
    views.forget(driver.state, GROUP)
    for record in records:
        driver.shard.apply(record.key, record.value)
        views.describe(driver.state, GROUP) if GROUP in consumer_groups(driver.state) else None
    assert not consumer_groups(driver.state)
    assert list(consumer.AREA.records(driver.state)) == []
    assert driver.state.timers.pop_due(driver.now_ms + NEVER_MS - 1) is None


def test_an_empty_classic_group_gives_way_and_another_does_not() -> None:
    """M27, C28 and R8: converted, it starts over at epoch 2, whatever its protocol type."""
    driver = Driver()
    key = GroupMetadataKey(GROUP_METADATA, GROUP)
    value = GroupMetadataValue("connect", 7, None, None, driver.now_ms)
    driver.begin_with([Record(key, value)])
    assert GROUP in classic_groups(driver.state)
    driver.refused(ErrorCode.group_id_not_found, "a", 3)
    driver.join("a")
    assert driver.last_records[0].key[0] == GROUP_METADATA
    assert driver.last_records[0].value is None
    assert GROUP not in classic_groups(driver.state)
    assert driver.group().group_epoch == 2


def test_a_classic_group_with_members_is_not_taken_over() -> None:
    """M27: the error is GROUP_ID_NOT_FOUND, and the classic group stays."""
    driver = Driver()
    member = ClassicMemberValue(None, "c", "/h", 1, 10_000, (("range", b""),), b"")
    metadata = GroupMetadataValue("consumer", 7, "range", "x", driver.now_ms)
    driver.begin_with(
        (
            Record(ClassicMemberKey(CLASSIC_MEMBER, GROUP, "x"), member),
            Record(GroupMetadataKey(GROUP_METADATA, GROUP), metadata),
        )
    )
    driver.refused_join(ErrorCode.group_id_not_found, "a")
    assert GROUP in classic_groups(driver.state)
    assert GROUP not in consumer_groups(driver.state)
