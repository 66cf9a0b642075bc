"""A plan as plain values and as a file, as locust's processes get it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from bench.swarm.planning.plan import Action, MemberPlan, Plan, ProducerPlan, RecordsPlan, TopicPlan


def plain(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values for JSON and locust's messages."""
    return {
        **plan._asdict(),
        "topics": [list(topic) for topic in plan.topics],
        "producers": [list(producer) for producer in plan.producers],
        "members": [list(member) for member in plan.members],
        "actions": [list(action) for action in plan.actions],
    }


def from_plain(values: dict[str, Any]) -> Plan:
    """The plan of plain values."""
    return Plan(
        **{
            **values,
            "topics": tuple(TopicPlan(*topic) for topic in values["topics"]),
            "producers": tuple(_producer(row) for row in values.get("producers", ())),
            "members": tuple(_member(member) for member in values["members"]),
            "actions": tuple(Action(*action) for action in values["actions"]),
            "thresholds": tuple(values["thresholds"]),
        }
    )


def save(plan: Plan, path: Path) -> None:
    path.write_text(json.dumps(plain(plan)))


def load(path: Path) -> Plan:
    """Load a plan. Raises OSError, ValueError."""
    return from_plain(json.loads(path.read_text()))


def counts(plan: Plan) -> dict[str, Any]:
    """The sizes of a plan, for a run's record: members, groups, topics, actions and so on."""
    return {
        "duration_s": plan.duration_s,
        "members": len(plan.members),
        "groups": len({member.group_id for member in plan.members}),
        "topics": len(plan.topics),
        "partitions": sum(topic.partitions for topic in plan.topics),
        "records_s": sum(producer.records_s for producer in plan.producers),
        "protocols": dict(Counter(member.protocol for member in plan.members)),
        "clients": dict(Counter(member.client for member in plan.members)),
        "actions": dict(Counter(action.kind for action in plan.actions)),
        "members_per_connection": plan.members_per_connection,
    }


def _member(values: list[Any]) -> MemberPlan:
    member = MemberPlan(*values)
    records = None
    if member.records is not None:
        (least_ms, most_ms), max_poll_records = member.records
        records = RecordsPlan((least_ms, most_ms), max_poll_records)
    return member._replace(topics=tuple(member.topics), records=records)


def _producer(values: list[Any]) -> ProducerPlan:
    producer = ProducerPlan(*values)
    return producer._replace(topics=tuple(producer.topics))
