"""Waits before a plan begins until every coordinator answers: a fresh Kafka makes `__consumer_offsets` at the
first look-up and loads its partitions, which takes seconds and is no outage."""

from __future__ import annotations

import time
from typing import Final

import gevent

from bench.member.answers import fetched
from bench.member.requests import Identity, find_coordinator, offset_fetch
from bench.swarm.planning.plan import Plan
from bench.swarm.wire.connection import Address, Closed, Connection, TimedOut, connect
from bench.swarm.wire.coordinators import Bootstrap, address_of
from bench.swarm.wire.errors import error_name
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError

WARM_UP_S: Final = 60.0
GROUPS_MAX: Final = 500
"""How many groups are asked for at most: they are spread over all partitions of `__consumer_offsets`."""
ANSWER_S: Final = 5.0
POLL_S: Final = 0.1
NOT_YET: Final = frozenset({14, 15, 16})
"""The error codes of a coordinator that will serve soon: COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
NOBODY: Final = -1


def warm_up(
    bootstrap: Bootstrap, properties: ClientProperties, plan: Plan, limit_s: float = WARM_UP_S
) -> str:
    """Wait until the coordinators of the plan's groups answer. Returns a sentence for the run's record if
    some do not."""
    groups = list(dict.fromkeys(member.group_id for member in plan.members))
    asked = groups[:: max(1, -(-len(groups) // GROUPS_MAX))]
    warming = _WarmingUp(bootstrap, properties)
    deadline = time.monotonic() + limit_s
    try:
        cold = [group_id for group_id in asked if not _is_served(warming, group_id, deadline)]
    finally:
        warming.close()
    if not cold:
        return ""
    return (
        f"{len(cold):,} of {len(asked):,} groups had no coordinator within {limit_s:g} s before the run "
        f"began, as {cold[0]}: {warming.why}."
    )


def _is_served(warming: _WarmingUp, group_id: str, deadline: float) -> bool:
    """Wait until a group's coordinator answers. Each group is asked for at least once, however late it is."""
    while not warming.is_served(group_id):
        if time.monotonic() > deadline:
            return False
        gevent.sleep(POLL_S)
    return True


class _WarmingUp:
    """Connections to the coordinators that were found so far."""

    def __init__(self, bootstrap: Bootstrap, properties: ClientProperties) -> None:
        self.why = "no answer in time"
        self._bootstrap = bootstrap
        self._properties = properties
        self._lines: dict[Address, Connection] = {}

    def is_served(self, group_id: str) -> bool:
        """Whether the group's coordinator is known, and tells what the group committed. An error that no
        waiting mends is an answer as well: the members will hear it, too."""
        try:
            found = self._bootstrap.connection().call(find_coordinator(group_id), ANSWER_S)
            error_code, address = address_of(found)
            if address is not None:
                identity = Identity(group_id, NOBODY, "", None)
                answer = self._line(address).call(offset_fetch(identity, 8, ()), ANSWER_S)
                error_code, _ = fetched(answer)
        except (Closed, TimedOut, TierError) as error:
            self.why = str(error) or "no answer in time"
            return False
        self.why = error_name(error_code)
        return error_code not in NOT_YET

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    def _line(self, address: Address) -> Connection:
        line = self._lines.get(address)
        if line is None or not line.is_open:
            line = self._lines[address] = connect(address, "warm-up", self._properties)
        return line
