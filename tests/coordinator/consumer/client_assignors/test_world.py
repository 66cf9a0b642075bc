"""A11: whatever members do that compute, partitions have one owner and the group comes to rest; and every
known mistake in that is noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from actors.coordinator.consumer import asking_members, installing, leave, members
from actors.coordinator.consumer.client_assignors.job import Computation, Handed
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.ground.contract import Record
from actors.ground.records import CLIENT_ASSIGNORS
from tests.coordinator.consumer.client_assignors.world import World, Wrong

SEEDS = range(40)
MUTANT_SEEDS = range(150)


@pytest.mark.parametrize("seed", SEEDS)
def test_partitions_have_one_owner_and_the_group_comes_to_rest(seed: int) -> None:
    World(seed).run()


def test_members_compute_in_nearly_every_seed() -> None:
    """Where all that were asked have failed the server computes, and then nothing is seen of members."""
    by_members = 0
    for seed in SEEDS:
        world = World(seed)
        world.run()
        computed = [each for each in world.tier.events if isinstance(each, AssignmentComputed)]
        by_members += any(each.member_id for each in computed)
    assert by_members > 0.9 * len(SEEDS)


def _no_problem(*_: Any) -> None:
    """Find nothing wrong."""


def _without_successors(handed: Handed, group: ConsumerGroup) -> dict[str, str]:
    return {each: each for each in handed.members if group.member(each) is not None}


def _with_those_who_are_gone(handed: Handed, group: ConsumerGroup) -> dict[str, str]:
    return {each: each for each in handed.members}


def _never(computation: Computation, group: ConsumerGroup) -> bool:
    return False


def _as_of_the_next_epoch(group_id: str, changes: Any, epoch: int, now_ms: int) -> list[Record]:
    return _TARGET_RECORDS(group_id, changes, epoch + 1, now_ms)


def _without_tombstones_of_assignors(group: ConsumerGroup, member_id: str) -> list[Record]:
    return [each for each in _TOMBSTONES(group, member_id) if each.key[0] != CLIENT_ASSIGNORS]


def _goes_on(state: Any, group_id: str) -> None:
    """Leave the computation as it is."""


_TARGET_RECORDS = installing.target_records
_TOMBSTONES = members.member_tombstones
Mutant = tuple[tuple[Any, ...], str, Callable[..., Any]]
MUTANTS: Mapping[str, Mutant] = {
    "results are not checked": ((installing,), "problem", _no_problem),
    "what a static member's old self is given is lost": ((installing,), "heirs", _without_successors),
    "members that are gone get a target": ((installing,), "heirs", _with_those_who_are_gone),
    "a result counts for the next epoch": ((installing,), "target_records", _as_of_the_next_epoch),
    "nobody gives up": ((asking_members,), "have_all_failed", _never),
    "a computation does not end": ((installing,), "end", _goes_on),
    "assignors stay when their member goes": (
        (members, leave),
        "member_tombstones",
        _without_tombstones_of_assignors,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_known_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modules, function, mutant = MUTANTS[name]
    for module in modules:
        monkeypatch.setattr(module, function, mutant)
    for seed in MUTANT_SEEDS:
        try:
            World(seed).run()
        except (Wrong, AssertionError, KeyError):
            return
    pytest.fail(f"nobody notices that {name}")
