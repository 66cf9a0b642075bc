"""What is done next about a partition that goes back to brokers: one step for each thing that may be seen."""

from __future__ import annotations

from typing import Any

import pytest

from actors.upstream.asks import Ask
from actors.upstream.fresh import Fresh
from actors.upstream.given import GivenLog, pack_given, unpack_given
from actors.upstream.image import NO_LEADER, Partition
from actors.upstream.joining import ATTACHED, ELSEWHERE, Step
from actors.upstream.leaving import (
    GIVEN_BACK,
    LAG_MAX,
    LEAVING,
    SEALING,
    STAYING,
    Watched,
    step,
    targets_of,
)
from actors.upstream.moves import ToIsr, ToReplicas
from actors.upstream.orders import (
    DROP,
    LOOK,
    RELEASE,
    RETAKE,
    SEAL,
    SEALED,
    SERVED,
    UNSEAL,
    Order,
    Standing,
)
from actors.upstream.partitions import RaftLeader

TIER = frozenset({1001, 1002, 1003})
OURS = (1001, 1002, 1003)
LEADER = RaftLeader(1001, 4, OURS)
BEGIN, END = 1 << 40, (1 << 40) + 5_000
EPOCHS = {1: 11, 2: 12, 3: 13}


def partition(
    replicas: tuple[int, ...] = OURS, isr: tuple[int, ...] = OURS, leader: int = 1001, **more: Any
) -> Partition:
    return Partition(replicas, isr, leader, 9, 30, **more)


LED_BY_A_BROKER = partition((1, 2), (1, 2), 1)._replace(leader_epoch=10)
LEAVES = partition((*OURS, 1, 2), adding_replicas=(1, 2), removing_replicas=OURS)


def given(*, is_sealed: bool = True, **offsets: int) -> GivenLog:
    """A log that brokers 1 and 2 have, each up to an offset: `first`, `second`."""
    fetchers = {1: (11, offsets.get("first", END)), 2: (12, offsets.get("second", END))}
    return GivenLog(BEGIN, END, is_sealed, fetchers)


def watched(log: GivenLog | None = None, **more: Any) -> Watched:
    return Watched(LEADER, (1, 2), EPOCHS, log, is_fresh=True)._replace(**more)


def decided(
    state: Partition,
    phase: str,
    about: Watched | None = None,
    *,
    leaves: bool = True,
    released_epoch: int = -1,
) -> Step:
    standing = Standing(phase, released_epoch=released_epoch)
    return step(state, standing, about or watched(), TIER, leaves=leaves)


def test_it_goes_to_brokers_alone() -> None:
    assert decided(partition(), SERVED) == (LEAVING, LOOK, ToReplicas((1, 2)))


@pytest.mark.parametrize(
    ("log", "order"),
    [
        (None, LOOK),
        (given(is_sealed=False, first=BEGIN), LOOK),
        (given(is_sealed=False, first=END - LAG_MAX - 1), LOOK),
        (given(is_sealed=False, second=4_711), LOOK),
        (given(is_sealed=False, first=END - LAG_MAX), SEAL),
    ],
)
def test_it_is_sealed_when_all_brokers_have_nearly_all(log: GivenLog | None, order: str) -> None:
    """An offset below the log's beginning is of Kafka's own log, or of an older leader's."""
    assert decided(LEAVES, SERVED, watched(log)) == (LEAVING, order, None)


def test_they_lead_when_they_have_the_sealed_log_and_that_is_noted() -> None:
    done = Step(SEALING, SEAL, ToIsr((1001, 1002, 1003, 1, 2)))
    assert decided(LEAVES, SEALED, watched(given())) == (SEALING, RELEASE, None)
    assert decided(LEAVES, SEALED, watched(given()), released_epoch=8) == (SEALING, RELEASE, None)
    assert decided(LEAVES, SEALED, watched(given()), released_epoch=9) == done


@pytest.mark.parametrize(
    "about",
    [
        watched(None),
        watched(given(first=END - 1)),
        watched(given(is_sealed=False)),
        watched(given(), is_fresh=False),
        watched(given(), epochs={1: 11, 2: 99}),
    ],
    ids=["nothing is known", "one lacks a record", "it has not ended", "old answers", "one has started anew"],
)
def test_they_do_not_lead_before(about: Watched) -> None:
    assert decided(LEAVES, SEALED, about, released_epoch=9) == (SEALING, SEAL, None)


def test_what_brokers_lead_is_removed() -> None:
    for leaves in (True, False):
        step_of_it = decided(LED_BY_A_BROKER, SEALED, leaves=leaves, released_epoch=9)
        assert step_of_it == (GIVEN_BACK, DROP, None)


@pytest.mark.parametrize(("phase", "released_epoch"), [(SERVED, -1), (SEALED, -1), (SEALED, 8), (SEALED, 10)])
def test_what_a_broker_leads_that_may_not_have_the_end_is_taken_over_again(
    phase: str, released_epoch: int
) -> None:
    """It has everything only if it leads right after the node of ours that gave it everything."""
    assert decided(LED_BY_A_BROKER, phase, released_epoch=released_epoch) == (ELSEWHERE, RETAKE, None)


@pytest.mark.parametrize("state", [LEAVES, partition((*OURS, 1), (*OURS, 1))], ids=["is moved", "is in sync"])
def test_the_seal_holds_as_long_as_a_broker_is_a_replica(state: Partition) -> None:
    assert decided(state, SEALED, leaves=False) == (STAYING, LOOK, None)
    assert decided(partition(), SEALED, leaves=False) == (STAYING, UNSEAL, None)
    assert decided(partition(), SERVED, leaves=False) == (ATTACHED, LOOK, None)


@pytest.mark.parametrize(
    ("state", "about"),
    [
        (LEAVES._replace(leader=1002), watched(given())),
        (LEAVES._replace(leader=NO_LEADER), watched(given())),
        (LEAVES, watched(given(), leader=None)),
        (LEAVES, watched(given(), epochs={1: 11, 3: 13})),
        (LEAVES._replace(adding_replicas=(1,), removing_replicas=(2, *OURS)), watched(given())),
    ],
    ids=["raft elected another", "nobody leads", "raft has no leader", "a broker is away", "others move it"],
)
def test_what_cannot_end_well_is_taken_back(state: Partition, about: Watched) -> None:
    assert decided(state, SEALED, about) == (STAYING, LOOK, None)


def test_nothing_begins_without_a_broker() -> None:
    assert decided(partition(), SERVED, watched(targets=())) == (ATTACHED, LOOK, None)


def test_partitions_are_spread_over_the_brokers() -> None:
    assert [targets_of(index, (1, 2, 3, 4)) for index in range(3)] == [(1, 2, 3), (2, 3, 4), (3, 4, 1)]
    assert targets_of(5, (7,)) == (7,)
    assert targets_of(5, ()) == ()


def test_what_a_node_tells_survives_its_way() -> None:
    logs = {0: given(), 7: given(is_sealed=False)}
    assert unpack_given(pack_given(logs)) == logs


def test_answers_are_fresh_if_they_were_asked_for_in_the_present_state() -> None:
    fresh, leaders = Fresh(), {0: LEADER}
    ask = Ask(0, 4, Order(SEAL))

    def hear(offset: int) -> None:
        fresh.asked(ask, offset)
        fresh.told(ask, is_answer=True)
        fresh.given(1001, {0: given()}, offset)

    fresh.look({0: partition()}, 100)
    hear(99)
    assert not fresh.is_fresh(leaders, 0)
    hear(100)
    assert fresh.is_fresh(leaders, 0)
    fresh.look({0: partition()}, 120)
    assert fresh.is_fresh(leaders, 0), "the partition is as it was"
    fresh.look({0: LEAVES._replace(partition_epoch=31)}, 130)
    assert not fresh.is_fresh(leaders, 0)
    fresh.given(1001, {0: given()}, 140)
    assert not fresh.is_fresh(leaders, 0), "its leader has not been asked"
    hear(140)
    assert fresh.is_fresh(leaders, 0)
    assert not fresh.is_fresh({0: RaftLeader(1002, 5, OURS)}, 0), "another node has the log"
