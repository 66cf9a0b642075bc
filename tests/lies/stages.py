"""What a swarm does while it is lied to: short scenarios with quick heartbeats and commits. PURE."""

from __future__ import annotations

from typing import Final

from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.planning.plan import CONSUMER, LEAVE, START, Action, Plan
from bench.swarm.planning.scenario import parse

_GROUPS: Final = """
about = "One group of each protocol."
duration_s = {seconds}
members_per_connection = {shared}
"""
_GROUP: Final = """
[[groups]]
name = "{protocol}"
count = 1
members = 3
protocols = {{ {protocol} = 1 }}
heartbeat_interval_ms = 300
session_timeout_ms = {session_ms}
rebalance_timeout_ms = 6_000
commit_interval_ms = 500
topics = {{ count = 1, partitions = 6 }}
shapes = [{shapes}]
"""
_PROTOCOLS: Final = ("range", "cooperative-sticky", "consumer")
_STEADY: Final = '{ shape = "steady" }'
_DEPLOY: Final = '{ shape = "rolling-deploy", begin_s = 3, away_s = 0.5, pause_s = 0.5, rest_s = 1 }'


def _scenario(seconds: int, *, shapes: str = _STEADY, shared: int = 1, session_ms: int = 6_000) -> str:
    groups = (
        _GROUP.format(protocol=protocol, shapes=shapes, session_ms=session_ms) for protocol in _PROTOCOLS
    )
    return _GROUPS.format(seconds=seconds, shared=shared) + "".join(groups)


STAGES: Final = {
    "steady": _scenario(16),
    "long": _scenario(44),
    "deploy": _scenario(18, shapes=_DEPLOY),
    "long-deploy": _scenario(44, shapes=_DEPLOY),
    "shared": _scenario(14, shared=3),
    "removed": _scenario(22),
    "newcomer": _scenario(20),
    "leaver": _scenario(20, session_ms=60_000),
}
LATE_S: Final = 6.0
"""When the newcomers of a plan come, and when the members that leave do so."""


def plan(stage: str, prefix: str, seed: int = 1) -> Plan:
    """Return the plan of a stage; it is always the same one for the same arguments."""
    made = parse(STAGES[stage], f"{stage}.toml").plan(seed, prefix)
    if stage == "newcomer":
        return _with_newcomers(made)
    if stage == "leaver":
        last = [m.name for m in made.members if m.name.endswith("/2")]
        leaves = [Action(LATE_S, LEAVE, name) for name in last]
        return made._replace(actions=tuple(sorted((*made.actions, *leaves))))
    return made


def _with_newcomers(made: Plan) -> Plan:
    """Have the last member of every group come late."""
    actions = [
        action._replace(at_s=LATE_S) if action.kind == START and action.subject.endswith("/2") else action
        for action in made.actions
    ]
    return made._replace(actions=tuple(sorted(actions)))


assert {CLASSIC_RANGE, CONSUMER} <= set(_PROTOCOLS)
