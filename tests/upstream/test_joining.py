"""What is done next about one partition, state by state."""

from __future__ import annotations

import pytest

from actors.upstream.joining import (
    GIVING_BACK,
    JOINING,
    TAKING,
    WAITING,
    Step,
    Wanted,
    step,
    target_of,
)
from actors.upstream.moves import Cancel, ToIsr, ToReplicas
from actors.upstream.orders import (
    DROP,
    DROPPING,
    FOLLOW,
    FOLLOWED,
    LOOK,
    NOTHING,
    RETAKEN,
    SERVE,
    Standing,
)
from actors.upstream.partitions import RaftLeader
from tests.simulation.upstream.kraft import State

TIER = frozenset({11, 12, 13})
TARGET = (12, 11, 13)
OUTSIDE = State((1, 2, 3), (1, 2, 3), leader=1)
JOINS = State((*TARGET, 1, 2, 3), (1, 2, 3), removing_replicas=(1, 2, 3), adding_replicas=TARGET, leader=1)
MIXED = State((1, 2, 12), (1, 2, 12), leader=1)
PARTLY = JOINS._replace(isr=(12, 1, 2), leader=12)
"""A balancer has made the first of the new ones the leader."""
OURS = State(TARGET, TARGET, leader=12)
MOVED = State((4, 1, 2, 3), (1, 2, 3), removing_replicas=(3,), adding_replicas=(4,), leader=1)


def decided(state: State, phase: str, *, wanted: str = "takes", live: frozenset[int] = TIER) -> Step:
    target = target_of(RaftLeader(12, 3, (11, 12, 13)), live)
    return step(state, Standing(phase), Wanted(target, wanted == "takes", wanted == "gives back"), TIER, live)


@pytest.mark.parametrize(
    ("state", "phase", "expected"),
    [
        (OUTSIDE, NOTHING, Step(JOINING, FOLLOW, ToReplicas(TARGET))),
        (OUTSIDE, FOLLOWED, Step(JOINING, FOLLOW, ToReplicas(TARGET))),
        (OUTSIDE, DROPPING, Step(GIVING_BACK, DROP)),
        (OUTSIDE._replace(leader=-1), NOTHING, Step(WAITING, LOOK)),
        (MOVED, NOTHING, Step(WAITING, LOOK)),
        (JOINS, FOLLOWED, Step(JOINING, FOLLOW)),
        (MIXED, FOLLOWED, Step(JOINING, FOLLOW, ToReplicas(TARGET))),
        (PARTLY, FOLLOWED, Step(TAKING, LOOK, ToIsr((12,)))),
        (PARTLY._replace(isr=(12,)), FOLLOWED, Step(TAKING, SERVE)),
        (OURS, FOLLOWED, Step(TAKING, SERVE)),
        (OURS, NOTHING, Step(TAKING, SERVE)),
        (OURS._replace(leader=-1), FOLLOWED, Step(TAKING, SERVE)),
    ],
)
def test_what_is_taken_over(state: State, phase: str, expected: Step) -> None:
    assert decided(state, phase) == expected


@pytest.mark.parametrize(
    ("state", "phase", "expected"),
    [
        (JOINS, FOLLOWED, Step(GIVING_BACK, FOLLOW, Cancel())),
        (MIXED, FOLLOWED, Step(GIVING_BACK, FOLLOW, ToReplicas((1, 2)))),
        (OUTSIDE, FOLLOWED, Step(GIVING_BACK, DROP)),
        (OUTSIDE, DROPPING, Step(GIVING_BACK, DROP)),
        (OUTSIDE, NOTHING, Step(WAITING, LOOK)),
        (OUTSIDE, RETAKEN, Step(WAITING, LOOK)),
        (OURS, FOLLOWED, Step(TAKING, SERVE)),
        (OURS, RETAKEN, Step(TAKING, SERVE)),
    ],
)
def test_what_is_given_back(state: State, phase: str, expected: Step) -> None:
    """It is fetched as long as a node of ours may be in the ISR, and removed after that; what a node of ours
    leads is served."""
    assert decided(state, phase, wanted="gives back") == expected


@pytest.mark.parametrize(
    ("state", "phase", "expected"),
    [
        (OUTSIDE, NOTHING, Step(WAITING, LOOK)),
        (OUTSIDE, FOLLOWED, Step(WAITING, LOOK)),
        (JOINS, FOLLOWED, Step(JOINING, FOLLOW)),
    ],
)
def test_what_is_left_as_it_is(state: State, phase: str, expected: Step) -> None:
    assert decided(state, phase, wanted="neither") == expected


def test_a_reassignment_that_waits_for_a_dead_node_is_taken_back() -> None:
    assert decided(JOINS, FOLLOWED, live=frozenset({11, 12})).move == Cancel()
    assert decided(OUTSIDE, FOLLOWED, live=frozenset({11, 12})).move == ToReplicas((12, 11))


def test_nothing_is_begun_while_rafts_leader_is_no_broker_that_lives() -> None:
    assert decided(OUTSIDE, NOTHING, live=frozenset({11, 13})) == Step(WAITING, LOOK)
