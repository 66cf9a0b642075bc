"""Asks how long a coordinator's KIP-848 sessions last: members neither set nor hear it, and the judge has to
know."""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.network.wire import parse_answer
from actors.protocol.api_keys import DESCRIBE_CONFIGS
from bench.member.requests import by_schema
from bench.swarm.planning.due import CONSUMER_INTERVAL_MS
from bench.swarm.planning.plan import CONSUMER, CONSUMER_SESSION_MS, Plan
from bench.swarm.wire.connection import Closed, Connection, TimedOut
from bench.swarm.wire.errors import error_name
from cluster.groups.requests import GROUP_RESOURCE

VERSION: Final = 4
NAME: Final = "consumer.session.timeout.ms"
"""The config of a group for its session time-out; without it the broker's group.consumer.session.timeout.ms
holds."""
INTERVAL: Final = "consumer.heartbeat.interval.ms"
"""The config of a group for its heartbeat interval."""


class Session(NamedTuple):
    """The session of a plan's KIP-848 groups, which are all new: none has configs of its own."""

    timeout_ms: int = CONSUMER_SESSION_MS
    doubt: str = ""
    """Why the time-out is only assumed."""
    interval_ms: int = CONSUMER_INTERVAL_MS
    """The interval of heartbeats."""


def consumer_session(connection: Connection, plan: Plan) -> Session:
    """Ask the broker for the session of one of the plan's groups. If it does not tell, Kafka's default is
    assumed, and `doubt` says why."""
    group_id = next((member.group_id for member in plan.members if member.protocol == CONSUMER), None)
    if group_id is None:
        return Session()
    try:
        found = _asked(connection, group_id)
        return Session(found[NAME], interval_ms=found.get(INTERVAL, CONSUMER_INTERVAL_MS))
    except (Closed, TimedOut, ValueError) as error:
        why = str(error) or "no answer in time"
        return Session(doubt=f"KIP-848 sessions are taken to be {CONSUMER_SESSION_MS / 1e3:g} s: {why}")


def _asked(connection: Connection, group_id: str) -> dict[str, int]:
    """Ask for a group's configs. Raises Closed, TimedOut, ValueError."""
    if connection.offered.get(DESCRIBE_CONFIGS, (0, -1))[1] < VERSION:
        raise ValueError(f"the broker does not offer DescribeConfigs v{VERSION}")
    asked = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": group_id,
        "configuration_keys": [NAME, INTERVAL],
    }
    fields = {"resources": [asked], "include_synonyms": False, "include_documentation": False}
    _, answer = parse_answer(
        "describe_configs", VERSION, connection.call(by_schema("describe_configs", VERSION, fields))
    )
    for result in answer["results"]:
        if result["error_code"]:
            raise ValueError(f"DescribeConfigs is refused: {error_name(result['error_code'])}")
        told = {config["name"]: config["value"] for config in result["configs"]}
        if told.get(NAME):
            return {name: int(told[name]) for name in (NAME, INTERVAL) if told.get(name)}
    raise ValueError(f"the broker does not know a group's {NAME}")
