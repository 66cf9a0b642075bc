"""The next move of one partition, state by state."""

from __future__ import annotations

import pytest

from actors.upstream.image import NO_LEADER
from actors.upstream.moves import Cancel, Elect, Move, ToIsr, ToReplicas, next_move, stray_move
from actors.upstream.partitions import RaftLeader
from actors.upstream.requests import PREFERRED, UNCLEAN
from tests.simulation.upstream.kraft import State

TIER = frozenset((11, 12, 13))
WANTED = RaftLeader(12, 5, (11, 12, 13))
WHOLE = State((12, 11, 13), (12, 11, 13), leader=12)


def state(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, **more: tuple[int, ...]) -> State:
    return State(replicas, isr, leader=leader, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "live", "move"),
    [
        pytest.param(WHOLE, TIER, None, id="all is well"),
        pytest.param(state((11, 12, 13), (11, 12, 13), 11), TIER, ToReplicas((12, 13)), id="another leads"),
        pytest.param(
            state((12, 11, 13), (12, 11, 13), 11), TIER, Elect(PREFERRED), id="the first one does not lead"
        ),
        pytest.param(state((12, 13), (12, 13), 12), TIER, ToReplicas((12, 11, 13)), id="one is missing"),
        pytest.param(
            state((12, 11, 13), (12, 13), 12, adding_replicas=(11,)),
            TIER,
            ToIsr((12, 11, 13)),
            id="one was added",
        ),
        pytest.param(state((12, 11, 13), (12, 13), 12), TIER, ToIsr((12, 11, 13)), id="one is back"),
        pytest.param(state((12, 11, 13), (12, 13), 12), TIER - {11}, None, id="one is away"),
        pytest.param(state((12, 13), (12, 13), 12), TIER - {11}, None, id="one is away and no replica"),
        pytest.param(
            state((12, 11, 13), (12, 13), 12, adding_replicas=(11,)),
            TIER - {11},
            Cancel(),
            id="one went before it was added",
        ),
        pytest.param(state((11, 12, 13), (11, 12, 13), 11), TIER - {12}, None, id="who is to lead is away"),
        pytest.param(
            state((11, 12, 13), (11, 13), 11),
            TIER,
            ToIsr((11, 12, 13)),
            id="who is to lead is outside the ISR",
        ),
        pytest.param(
            state((11, 13), (11, 13), 11), TIER, ToReplicas((12, 13)), id="who is to lead is no replica"
        ),
        pytest.param(
            state((12, 13, 11), (11, 13), 11, adding_replicas=(12,), removing_replicas=(11,)),
            TIER,
            ToIsr((11, 12, 13)),
            id="who is to lead was added",
        ),
        pytest.param(
            state((13, 12, 11), (11,), NO_LEADER), TIER - {11}, ToReplicas((12, 13)), id="nobody leads"
        ),
        pytest.param(state((12, 13), (11,), NO_LEADER), TIER - {11}, Elect(UNCLEAN), id="nobody can lead"),
        pytest.param(
            state(
                (1, 2, 12, 11, 13), (12, 11, 13), 12, adding_replicas=(1, 2), removing_replicas=(12, 11, 13)
            ),
            TIER,
            Cancel(),
            id="it is being moved to brokers",
        ),
        pytest.param(
            state((11, 12, 13), (11, 12, 13), 12),
            TIER,
            ToReplicas((12, 11, 13)),
            id="Kafka would give it back",
        ),
    ],
)
def test_our_partition(before: State, live: frozenset[int], move: Move | None) -> None:
    assert next_move(before, WANTED, live) == move


@pytest.mark.parametrize(
    ("before", "outside", "move"),
    [
        pytest.param(state((1, 2), (1, 2), 1), (1, 2, 3), None, id="it is where it should be"),
        pytest.param(state((11, 1), (11, 1), 11), (1, 2, 3), ToReplicas((1,)), id="a broker has it, too"),
        pytest.param(state((1, 11), (1,), 1), (1, 2, 3), ToReplicas((1,)), id="a broker leads it"),
        pytest.param(state((11,), (11,), 11), (1, 2, 3), ToReplicas((2,)), id="only we have it"),
        pytest.param(
            state((2, 11), (11,), 11, adding_replicas=(2,), removing_replicas=(11,)),
            (1, 2, 3),
            ToIsr((11, 2)),
            id="its new broker is waited for",
        ),
        pytest.param(state((11, 1), (11,), 11), (2, 3), None, id="the broker that has it is down"),
        pytest.param(
            state((1, 11), (11,), 11), (1, 2), ToReplicas((1,)), id="the broker that had it is back"
        ),
        pytest.param(
            state((1, 11), (11,), NO_LEADER, removing_replicas=(11,)),
            (1, 2),
            Elect(UNCLEAN),
            id="nobody leads it",
        ),
        pytest.param(
            state((11, 12, 1, 2), (1, 2), 1, adding_replicas=(11, 12), removing_replicas=(1, 2)),
            (1, 2, 3),
            Cancel(),
            id="somebody moves it to us",
        ),
        pytest.param(state((11,), (11,), 11), (), None, id="there is no broker"),
    ],
)
def test_a_stray(before: State, outside: tuple[int, ...], move: Move | None) -> None:
    assert stray_move(before, 1, TIER, outside) == move
