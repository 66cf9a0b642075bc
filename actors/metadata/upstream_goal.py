"""Change what shall become of the groups of the Kafka cluster that the tier stands in front of."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.features import GROUPD_VERSION, TAKE_OVER_LEVEL
from actors.ground.upstream_goal import GOAL_NAMES, NEXT_GOALS
from actors.metadata.commands import Outcome
from actors.metadata.records import UPSTREAM_GOAL, SingletonKey, UpstreamGoalValue
from actors.metadata.state import MetadataState
from actors.metadata.upstream_commands import SetUpstreamGoal


def set_upstream_goal(state: MetadataState, command: SetUpstreamGoal) -> tuple[list[Record], Outcome]:
    goal, present = command.goal, state.upstream_goal
    level = state.features.level(GROUPD_VERSION)
    if command.expected not in (None, present):
        problem = f"its groups are {GOAL_NAMES[present]} by now"
    elif goal == present:
        return [], Outcome()
    elif goal not in NEXT_GOALS[present]:
        wanted = GOAL_NAMES.get(goal, f"goal {goal}")
        problem = f"the groups of the cluster upstream are {GOAL_NAMES[present]}: they cannot be {wanted} now"
    elif level < TAKE_OVER_LEVEL:
        problem = (
            f"the tier is at level {level} of {GROUPD_VERSION}, and taking over from Kafka needs level "
            f"{TAKE_OVER_LEVEL}: raise it when every node has this release"
        )
    else:
        return [Record(SingletonKey(UPSTREAM_GOAL), UpstreamGoalValue(goal))], Outcome()
    return [], Outcome(ErrorCode.invalid_request, problem)
