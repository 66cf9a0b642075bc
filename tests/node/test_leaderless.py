"""FindCoordinator while a partition has no leader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.catalog.headers import parse_header
from actors.network.wire import request_frame
from actors.node.leaderless import HELD_FOR_S, Leader, Leaderless, Wake
from actors.protocol.header import Header
from actors.protocol.partitioning import Partitioning

FOUR = Partitioning(4)
HERE, THERE = "a", "b"
"""Groups of different partitions."""
LOST = FOUR.partition_of(HERE)
SLOT, OTHER_SLOT = 17, 18
OLD, NEW = (5, 1), (6, 2)

Asked = tuple[Header, bytes, int]


class Loop:
    """A loop whose time is told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.soon: list[Wake] = []
        self.later: list[tuple[float, Wake]] = []

    def call_soon(self, callback: Wake) -> None:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Wake) -> None:
        self.later.append((self.now_s + delay, callback))

    def go_on(self, seconds: float = 0.0) -> None:
        self.now_s += seconds
        due = [callback for at, callback in self.later if at <= self.now_s]
        self.later = [each for each in self.later if each[0] > self.now_s]
        for callback in due:
            callback()
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def leaderless(loop: Loop) -> Leaderless:
    """A broker's, whose replica has named the leader that is known."""
    leaderless = Leaderless(loop, lambda: FOUR)
    leaderless.named(SLOT, OLD)
    return leaderless


def asked(*keys: str) -> Asked:
    fields: dict[str, Any] = {"key": keys[0], "key_type": 0}
    if len(keys) > 1:
        fields = {"coordinator_keys": keys, "key_type": 0}
    return request("find_coordinator", 4 if len(keys) > 1 else 2, fields)


def request(api: str, version: int, fields: dict[str, Any]) -> Asked:
    frame = request_frame(api, version, 1, "test", fields)[4:]
    header, body_offset = parse_header(frame)
    return header, frame, body_offset


def test_who_asks_while_there_is_no_leader_is_woken_by_the_news_of_the_new_one(
    loop: Loop, leaderless: Leaderless
) -> None:
    assert leaderless.holds(*asked(HERE)) is None
    leaderless.unnamed(SLOT, LOST, OLD)
    assert leaderless.holds(*asked(HERE)) == LOST
    woken: list[str] = []
    leaderless.wake_with(LOST, lambda: woken.append("now"))
    loop.go_on(HELD_FOR_S / 2)
    assert not woken, "nobody looks again and again"
    leaderless.found(LOST)
    assert leaderless.holds(*asked(HERE)) is None
    loop.go_on()
    assert woken == ["now"]
    loop.go_on(HELD_FOR_S)
    assert woken == ["now"]


def test_groups_of_other_partitions_and_other_requests_are_not_held(leaderless: Leaderless) -> None:
    leaderless.unnamed(SLOT, LOST, OLD)
    assert FOUR.partition_of(THERE) != LOST
    assert leaderless.holds(*asked(THERE)) is None
    assert leaderless.holds(*asked(THERE, HERE)) == LOST
    assert leaderless.holds(*request("list_groups", 2, {})) is None


def test_a_partition_that_finds_no_leader_holds_nobody_for_long(loop: Loop, leaderless: Leaderless) -> None:
    leaderless.unnamed(SLOT, LOST, OLD)
    woken: list[str] = []
    leaderless.wake_with(LOST, lambda: woken.append("over"))
    for _ in range(10):
        leaderless.named(SLOT, OLD)
        leaderless.unnamed(SLOT, LOST, OLD)  # an election after the other fails
        loop.go_on(HELD_FOR_S / 5)
    assert woken == ["over"]
    assert leaderless.holds(*asked(HERE)) is None
    leaderless.found(LOST)
    leaderless.named(SLOT, NEW)
    leaderless.unnamed(SLOT, LOST, NEW)
    assert leaderless.holds(*asked(HERE)) == LOST


def test_a_replica_that_has_just_been_started_has_lost_no_leader(leaderless: Leaderless) -> None:
    """It knows of none yet, and the leader that others know serves."""
    leaderless.unlinked(SLOT)
    leaderless.unnamed(SLOT, LOST, OLD)
    assert leaderless.holds(*asked(HERE)) is None


@pytest.mark.parametrize("known", [None, (-1, 1)])
def test_a_leader_that_only_the_image_names_is_not_told_while_a_replica_knows_of_none(
    leaderless: Leaderless, known: Leader | None
) -> None:
    """The tier was just started anew, and whoever led before may not do so again."""
    leaderless.unnamed(OTHER_SLOT, LOST, known)
    assert leaderless.holds(*asked(HERE)) == LOST


def test_who_hears_of_the_new_leader_before_the_end_of_the_old_one_holds_nobody(
    leaderless: Leaderless,
) -> None:
    leaderless.unnamed(SLOT, LOST, NEW)
    assert leaderless.holds(*asked(HERE)) is None


def test_a_connection_that_stays_with_the_broker_waits_alike() -> None:
    async def story() -> None:
        leaderless = Leaderless(asyncio.get_running_loop(), lambda: FOUR)
        leaderless.named(SLOT, OLD)
        leaderless.unnamed(SLOT, LOST, OLD)
        waits = asyncio.ensure_future(leaderless.passed(*asked(HERE)))
        await asyncio.wait_for(leaderless.passed(*asked(THERE)), 10)
        assert not waits.done()
        leaderless.found(LOST)
        await asyncio.wait_for(waits, 10)

    asyncio.run(story())
