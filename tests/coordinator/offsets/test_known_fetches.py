"""Fetches that are known: the answer before is given again, and never when it is not right any more."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.offsets import pending
from actors.coordinator.offsets.known_fetches import KnownAnswer
from actors.ground.records import NO_EXPIRY, PENDING_TXN_OFFSET, OffsetCommitValue, PendingTxnOffsetKey
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.coordinator.driver import Driver, image_of, topic_id

ASKED = OffsetFetchGroup("g", (("t", (0, 1)), ("u", (3,))))


class Asker:
    """A connection that makes the same fetch again and again."""

    def __init__(self, tier: Any, group: OffsetFetchGroup, version: int = 9, *, stable: bool = False) -> None:
        self._tier = tier
        self._version = version
        self._body = OffsetFetchRequest((group,), stable, KnownAnswer())

    def fetch(self) -> OffsetFetchResponse:
        """Fetch. The answer is checked against that of a request of which nothing is known."""
        answer: OffsetFetchResponse = self._tier.ask(api_keys.OFFSET_FETCH, self._body, self._version)
        fresh = self._tier.ask(api_keys.OFFSET_FETCH, self._body._replace(known=None), self._version)
        assert answer == fresh
        return answer


@pytest.fixture
def tier() -> Driver:
    tier = Driver(t=4, u=4)
    tier.commit_offsets("g", "t", {0: 1, 1: 2})
    tier.commit_offsets("g", "u", {3: 4})
    return tier


def test_as_long_as_no_offset_moves_the_very_same_answer_is_given(tier: Driver) -> None:
    asker = Asker(tier, ASKED)
    first = asker.fetch()
    assert asker.fetch() is first
    tier.commit_offsets("other", "t", {0: 9, 1: 9})
    assert asker.fetch() is first


@pytest.mark.parametrize(
    ("topic", "offsets"), [("t", {0: 7, 1: 8}), ("t", {1: 8}), ("u", {3: 5}), ("t", {2: 1}), ("u", {0: 1})]
)
def test_any_commit_of_the_topics_has_the_answer_made_anew(
    tier: Driver, topic: str, offsets: dict[int, int]
) -> None:
    asker = Asker(tier, ASKED)
    first = asker.fetch()
    tier.commit_offsets("g", topic, offsets)
    second = asker.fetch()
    assert second is not first
    assert asker.fetch() is second


def test_offsets_that_are_written_in_place_and_those_with_metadata_are_looked_up_each_time() -> None:
    tier = Driver(t=100)
    for partition in range(60):
        tier.commit_offsets("g", "t", {partition: 1})
    asker = Asker(tier, OffsetFetchGroup("g", (("t", tuple(range(60))),)))
    asker.fetch()
    tier.commit_offsets("g", "t", {50: 2})
    [(_, rows)] = asker.fetch().groups[0].topics
    assert [row[1] for row in rows][50] == 2


def test_deleted_offsets_and_groups_are_not_given_again(tier: Driver) -> None:
    asker = Asker(tier, ASKED)
    first = asker.fetch()
    tier.delete_offsets("g", "u", 3)
    second = asker.fetch()
    assert second != first
    tier.delete_groups("g")
    assert asker.fetch() not in (first, second)


def test_another_image_has_the_answer_made_anew() -> None:
    """Version 10 names topics by id: one that goes is not known any more."""
    tier = Driver(image_of(1, t=4))
    tier.commit_offsets("g", "t", {0: 1, 1: 2})
    asker = Asker(tier, OffsetFetchGroup("g", (("", (0, 1)),), topic_ids=(topic_id(1),)), 10)
    first = asker.fetch()
    assert asker.fetch() is first
    tier.shard.on_metadata(image_of(2), tier.now_ms)
    assert asker.fetch() != first


def test_a_stable_fetch_is_told_of_a_transaction_that_has_opened_since(tier: Driver) -> None:
    asker, careless = Asker(tier, ASKED, stable=True), Asker(tier, ASKED)
    first, other = asker.fetch(), careless.fetch()
    key = PendingTxnOffsetKey(PENDING_TXN_OFFSET, "g", "t", 1, 7)
    value = OffsetCommitValue(50, -1, "", tier.now_ms, NO_EXPIRY, topic_id(1))
    tier.shard.apply(*pending.pend(tier.shard.state, key, 0, value))
    assert asker.fetch() != first
    assert careless.fetch() is other


def test_a_member_that_has_left_is_refused_although_the_offsets_are_the_same() -> None:
    """O11: who may fetch is asked each time."""
    tier = Driver(t=4)
    tier.commit_offsets("g", "t", {0: 1, 1: 2})
    join = ConsumerGroupHeartbeatRequest(
        "g", "a", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t",), topic_partitions=()
    )
    epoch = tier.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, join, 1).member_epoch
    asker = Asker(tier, OffsetFetchGroup("g", (("t", (0, 1)),), "a", epoch))
    first = asker.fetch()
    assert asker.fetch() is first
    tier.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest("g", "a", -1), 1)
    assert asker.fetch().groups[0].error_code == ErrorCode.unknown_member_id
