"""The controller keeps what shall become of the upstream cluster's groups, and every image says it."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.features import FEATURES, GROUPD_VERSION
from actors.ground.upstream_goal import (
    ABORTED,
    ATTACHED,
    DETACHED,
    GOAL_NAMES,
    LEAVING,
    NEXT_GOALS,
    PAUSED,
)
from actors.metadata.commands import FoundTier, Outcome
from actors.metadata.upstream_commands import SetUpstreamGoal
from actors.metadata.wire import pack_image, unpack_image
from tests.metadata.driver import Host, new_shard, state_of

WAYS = {
    DETACHED: (),
    ATTACHED: (ATTACHED,),
    PAUSED: (ATTACHED, PAUSED),
    ABORTED: (ATTACHED, ABORTED),
    LEAVING: (ATTACHED, LEAVING),
}
"""Goal -> how a new tier comes to it."""


def host_of(goal: int = DETACHED, *, level: int = FEATURES[GROUPD_VERSION].high) -> Host:
    host = Host()
    host.submit(FoundTier(level))
    for each in WAYS[goal]:
        assert host.submit(SetUpstreamGoal(each)) == Outcome()
    return host


@pytest.mark.parametrize("goal", GOAL_NAMES, ids=GOAL_NAMES.get)
@pytest.mark.parametrize("wanted", GOAL_NAMES, ids=GOAL_NAMES.get)
def test_a_goal_can_be_changed_to_those_that_follow_it(goal: int, wanted: int) -> None:
    host = host_of(goal)
    is_allowed = wanted == goal or wanted in NEXT_GOALS[goal]
    error_code = host.submit(SetUpstreamGoal(wanted)).error_code
    assert error_code == (ErrorCode.none if is_allowed else ErrorCode.invalid_request)
    assert host.shard.image().upstream_goal == (wanted if is_allowed else goal)


@pytest.mark.parametrize("goal", GOAL_NAMES, ids=GOAL_NAMES.get)
def test_every_actor_and_every_replica_learns_the_goal(goal: int) -> None:
    host = host_of(goal)
    assert unpack_image(pack_image(host.shard.image())).upstream_goal == goal
    restored = new_shard()
    for record in host.shard.records():
        restored.apply(record.key, record.value)
    assert state_of(restored) == state_of(host.shard)
    assert restored.image().upstream_goal == goal


def test_who_has_not_seen_the_last_change_changes_nothing() -> None:
    host = host_of(PAUSED)
    outcome = host.submit(SetUpstreamGoal(ABORTED, expected=ATTACHED))
    assert (outcome.error_code, outcome.error_message) == (
        ErrorCode.invalid_request,
        "its groups are paused by now",
    )
    assert host.shard.image().upstream_goal == PAUSED


def test_a_tier_whose_releases_do_not_know_it_is_not_attached() -> None:
    host = host_of(level=1)
    outcome = host.submit(SetUpstreamGoal(ATTACHED))
    assert "needs level 2" in (outcome.error_message or "")
    assert host.shard.image().upstream_goal == DETACHED
