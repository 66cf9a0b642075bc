"""The views of a classic group for other parts: describe, list, subscriptions, deletion (C25, O12 to O14)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.protocols import subscribed_topics as read_topics
from actors.coordinator.classic.rebalance import forget
from actors.coordinator.classic.state import classic_groups, stored_groups
from actors.coordinator.classic.views import delete_records, describe, is_empty, listed, subscribed_topics
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    DeleteGroupsRequest,
    DescribedClassicGroup,
    DescribedClassicMember,
    ListedGroup,
)
from tests.coordinator.classic.driver import GROUP, RETENTION, Driver

NO_USER_DATA = b"\xff\xff\xff\xff"


def subscription(*topics: str, version: int = 0, rest: bytes = b"") -> bytes:
    """Make a ConsumerProtocolSubscription as clients send it."""
    names = b"".join(len(topic.encode()).to_bytes(2, "big") + topic.encode() for topic in topics)
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + NO_USER_DATA + rest


def offering(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(*topics)),)


def test_stable_group_is_described_in_full() -> None:
    """C25: protocol, the metadata of that protocol, and assignments are described."""
    driver = Driver()
    [member] = driver.stable_group("app")
    assert describe(driver.state, GROUP) == DescribedClassicGroup(
        ErrorCode.none,
        GROUP,
        "Stable",
        "consumer",
        "range",
        (DescribedClassicMember(member, None, "app", "/127.0.0.1", b"\0\1range", b"for " + member.encode()),),
    )


def test_rebalancing_group_hides_metadata_but_not_the_last_assignment() -> None:
    """C25: this holds in PreparingRebalance and in CompletingRebalance."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    for state, rejoins in (("PreparingRebalance", leader), ("CompletingRebalance", follower)):
        driver.join(rejoins)
        described = describe(driver.state, GROUP)
        assert (described.group_state, described.protocol_data) == (state, "")
        assert [member.member_metadata for member in described.members] == [b"", b""]
        assignments = [member.member_assignment for member in described.members]
        assert assignments == [b"for " + member.encode() for member in (leader, follower)]


def test_states_are_listed() -> None:
    """C25, B10: an Empty group keeps its protocol type; one that never had members has none."""
    driver = Driver()
    driver.join(group_id="fresh")
    driver.leave(*driver.stable_group("a"))
    assert [listed(driver.state, group_id) for group_id in classic_groups(driver.state)] == [
        ListedGroup("fresh", "", "Empty", "classic"),
        ListedGroup(GROUP, "consumer", "Empty", "classic"),
    ]
    assert is_empty(driver.state, GROUP)


def test_subscriptions_are_known_from_completing_on() -> None:
    """O12: a parked joiner's topics do not count yet."""
    driver = Driver()
    [member] = driver.stable_group("a", protocols=offering("t1", "t2"))
    assert subscribed_topics(driver.state, GROUP) == frozenset({"t1", "t2"})
    driver.new_member(protocols=offering("t3"))
    assert subscribed_topics(driver.state, GROUP) == frozenset({"t1", "t2"})
    driver.join(member, protocols=offering("t2"))
    assert subscribed_topics(driver.state, GROUP) == frozenset({"t2", "t3"})


def test_first_joiner_makes_the_topics_unknown() -> None:
    """O12: during the first join phase any topic may be subscribed; an Empty group has none."""
    driver = Driver(GroupSettings())
    driver.join()
    assert subscribed_topics(driver.state, GROUP) == frozenset()
    driver.new_member(protocols=offering("t"))
    assert subscribed_topics(driver.state, GROUP) is None
    driver.advance(4_000)
    assert subscribed_topics(driver.state, GROUP) == frozenset({"t"})


def test_unreadable_subscription_makes_the_topics_unknown() -> None:
    """O12, C29: one member whose bytes say nothing may subscribe to anything."""
    driver = Driver()
    driver.stable_group("a", protocols=(("range", b"unreadable"),))
    assert subscribed_topics(driver.state, GROUP) is None


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_subscriptions_of_all_versions_are_read(version: int) -> None:
    """O12: all versions begin as version 0."""
    rest = b"\0\0\0\0" + b"\0\0\0\7" + b"\xff\xff" if version else b""
    assert read_topics(subscription("t", "ü", version=version, rest=rest)) == frozenset({"t", "ü"})


def test_prefixes_of_a_subscription_are_unknown() -> None:
    """C29: the bytes, cut anywhere, raise nothing."""
    whole = subscription("topic", "other")
    assert [read_topics(whole[:length]) for length in range(len(whole))] == [None] * len(whole)


def test_group_with_members_is_not_deleted() -> None:
    """O13: the error is NON_EMPTY_GROUP in all three states that have members."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    for rejoins in (None, leader, follower):
        if rejoins is not None:
            driver.join(rejoins)
        with pytest.raises(GroupError) as refused:
            delete_records(driver.state, GROUP)
        assert refused.value.error_code == ErrorCode.non_empty_group


def test_deleted_group_leaves_nothing() -> None:
    """O13: there are tombstones for all its records and no timers; its pending member starts over."""
    driver = Driver()
    driver.leave(*driver.stable_group("a"))
    pending = driver.joined(driver.join()).member_id
    deleted = driver.ask(api_keys.DELETE_GROUPS, DeleteGroupsRequest((GROUP,)), 2)
    assert deleted.results == ((GROUP, ErrorCode.none),)
    assert stored_groups(driver.state) == {}
    assert len(driver.state.timers) == RETENTION
    assert driver.joined(driver.join(pending)).error_code == ErrorCode.unknown_member_id


def test_unknown_group_is_not_found() -> None:
    """C25: the APIs for administrators turn this into Dead or GROUP_ID_NOT_FOUND; forgetting the group is no
    error."""
    driver = Driver()
    for view in (describe, is_empty, delete_records, subscribed_topics):
        with pytest.raises(GroupError) as refused:
            view(driver.state, "none")
        assert refused.value.error_code == ErrorCode.group_id_not_found
    forget(driver.state, "none")
