"""100 members restart one after the other: there are a handful of rebalances, where Kafka's rules make
hundreds.

The counts without batching come from the same simulation, and are Kafka's: our rules are Kafka's when the
bound is 0.
"""

from __future__ import annotations

import pytest

from actors.ground.settings import GroupSettings
from tests.coordinator.rolling import LEAVING, Kind, Restart, classic, consumer, roll

MEMBERS = 100
AS_KAFKA = GroupSettings(group_rebalance_batch_max_ms=0)
BATCHED = GroupSettings()
CRASHING = Restart(leaves=False)
STATIC = Restart(static=True)


def test_classic_members_that_leave_and_come_back() -> None:
    """The group has at most a fifth of Kafka's generations, which are one or two for each member."""
    as_kafka = roll(classic, MEMBERS, AS_KAFKA, LEAVING).rebalances
    batched = roll(classic, MEMBERS, BATCHED, LEAVING).rebalances
    assert MEMBERS <= as_kafka <= 2 * MEMBERS
    assert batched * 5 <= as_kafka


def test_classic_members_that_crash_and_come_back() -> None:
    """A join phase waits for crashed members until their sessions end, so Kafka takes many together, too."""
    as_kafka = roll(classic, MEMBERS, AS_KAFKA, CRASHING).rebalances
    assert roll(classic, MEMBERS, BATCHED, CRASHING).rebalances <= as_kafka <= MEMBERS // 5


def test_consumer_members_that_leave_and_come_back() -> None:
    """KIP-848: the group epoch rises with each change as in Kafka; at most a fifth of the targets is
    computed."""
    as_kafka = roll(consumer, MEMBERS, AS_KAFKA, LEAVING)
    batched = roll(consumer, MEMBERS, BATCHED, LEAVING)
    assert as_kafka.group_epochs == batched.group_epochs == 2 * MEMBERS
    assert as_kafka.rebalances == 2 * MEMBERS
    assert batched.rebalances * 5 <= as_kafka.rebalances


@pytest.mark.parametrize("kind", [classic, consumer])
def test_a_small_group_is_as_kafkas(kind: Kind) -> None:
    """A small group has few rebalances to save, and its members idle while they wait."""
    assert roll(kind, 6, BATCHED, LEAVING) == roll(kind, 6, AS_KAFKA, LEAVING)


@pytest.mark.parametrize("kind", [classic, consumer])
@pytest.mark.parametrize("settings", [AS_KAFKA, BATCHED])
def test_static_members_need_no_rebalance(kind: Kind, settings: GroupSettings) -> None:
    assert roll(kind, MEMBERS // 4, settings, STATIC).rebalances == 0
