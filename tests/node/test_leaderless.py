"""FindCoordinator while a partition has no leader."""

from __future__ import annotations

from actors.node.leaderless import HELD_FOR_S, Leaderless
from actors.protocol.api_keys import FIND_COORDINATOR, METADATA
from actors.protocol.header import Header

ASKED = Header(FIND_COORDINATOR, 4, 1)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_who_asks_while_there_is_no_leader_hears_of_the_new_one() -> None:
    leaderless = Leaderless(Clock())
    assert not leaderless.holds(ASKED)
    leaderless.lost(2)
    assert leaderless.holds(ASKED)
    assert not leaderless.holds(Header(METADATA, 12, 1))
    leaderless.found(2)
    assert not leaderless.holds(ASKED)


def test_a_partition_that_finds_no_leader_holds_nobody_for_long() -> None:
    clock = Clock()
    leaderless = Leaderless(clock)
    for _ in range(10):
        leaderless.lost(2)  # an election after the other fails
        clock.now_s += HELD_FOR_S / 5
    assert not leaderless.holds(ASKED)
    leaderless.found(2)
    leaderless.lost(2)
    assert leaderless.holds(ASKED)
