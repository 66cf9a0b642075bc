"""Configs of groups: described, changed, listed (A19)."""

from __future__ import annotations

from typing import Any

from tests.oracle.kits import beat, beat_in
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.consumer import configure

GROUP = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def alter(client: Client, *resources: tuple[Any, ...], version: int = 1, **fields: Any) -> Any:
    """Each resource: (group id, (config, operation, value), ...)."""
    asked = [
        {
            "resource_type": GROUP,
            "resource_name": group_id,
            "configs": [
                {"name": name, "config_operation": operation, "value": value}
                for name, operation, value in changes
            ],
        }
        for group_id, *changes in resources
    ]
    return client.ask("incremental_alter_configs", version, resources=asked, **fields)


def described(client: Client, group_id: str, *names: str, version: int = 4, **fields: Any) -> Any:
    resource = {
        "resource_type": GROUP,
        "resource_name": group_id,
        "configuration_keys": list(names) or None,
    }
    return client.ask("describe_configs", version, resources=[resource], **fields)


@transcript(rows=("A19",), cases={f"v{version}": version for version in range(1, 5)})
def a_group_that_has_no_configs(play: Play, version: int) -> None:
    """Every config is shown, and the broker's setting beneath; the group need not be there."""
    described(play.connect(), play.group(), version=version, include_synonyms=True)


@transcript(rows=("A19",))
def some_configs_alone(play: Play) -> None:
    a = play.connect()
    described(a, play.group(), SESSION, "no.such")
    described(a, "", SESSION)


@transcript(rows=("A19",))
def a_config_that_was_set(play: Play) -> None:
    """The source of a set config is the group; the broker's value stands behind it. Deleting brings that
    back."""
    a = play.connect()
    configure(a, play.group(), session_timeout_ms=50_000)
    described(a, play.group(), SESSION, HEARTBEAT, include_synonyms=True)
    alter(a, (play.group(), (SESSION, DELETE, None)))
    fields = {"resource_type": GROUP, "resource_name": play.group(), "configuration_keys": [SESSION]}
    a.ask_until(
        lambda told: told.results[0].configs[0].value == "30000", "describe_configs", 4, resources=[fields]
    )


CHANGES: dict[str, tuple[tuple[str, int, str | None], ...]] = {
    "no number": ((SESSION, SET, "abc"),),
    "empty": ((SESSION, SET, ""),),
    "spaces": ((SESSION, SET, " 40000 "),),
    "plus": ((SESSION, SET, "+40000"),),
    "too large for an int": ((SESSION, SET, "99999999999"),),
    "too short a session": ((SESSION, SET, "999"),),
    "too long a session": ((SESSION, SET, "60001"),),
    "zero": ((SESSION, SET, "0"),),
    "too short an interval": ((HEARTBEAT, SET, "99"),),
    "too long an interval": ((HEARTBEAT, SET, "15001"),),
    "heartbeat as long as session": ((SESSION, SET, "5000"), (HEARTBEAT, SET, "5000")),
    "session not longer than the broker's heartbeat": ((SESSION, SET, "1000"),),
    "assignment interval": (("consumer.assignment.interval.ms", SET, "15000"),),
    "too long an assignment interval": (("consumer.assignment.interval.ms", SET, "15001"),),
    "negative assignment interval": (("consumer.assignment.interval.ms", SET, "-1"),),
    "unknown name": (("no.such", SET, "1"),),
    "unknown name deleted": (("no.such", DELETE, None),),
    "deleted with a value": ((SESSION, DELETE, "1"),),
    "appended": ((SESSION, APPEND, "1"),),
    "subtracted": ((SESSION, SUBTRACT, "1"),),
    "unknown name appended": (("no.such", APPEND, "1"),),
    "null": ((SESSION, SET, None),),
    "twice": ((SESSION, SET, "40000"), (SESSION, SET, "40001")),
    "one of two wrong": ((SESSION, SET, "40000"), (HEARTBEAT, SET, "1")),
    "broker's name": (("group.consumer.session.timeout.ms", SET, "40000"),),
    "reset by duration": (("share.auto.offset.reset", SET, "by_duration:PT1H"),),
    "reset by nonsense": (("share.auto.offset.reset", SET, "by_duration:1h"),),
    "reset, negative": (("share.auto.offset.reset", SET, "by_duration:PT-1H"),),
    "reset, other letters": (("share.auto.offset.reset", SET, "LATEST"),),
    "isolation": (("share.isolation.level", SET, "read_committed"),),
    "isolation, other letters": (("share.isolation.level", SET, "READ_COMMITTED"),),
    "boolean": (("share.renew.acknowledge.enable", SET, "False"),),
    "no boolean": (("share.renew.acknowledge.enable", SET, "no"),),
    "lock": (("share.record.lock.duration.ms", SET, "15000"),),
    "too short a lock": (("share.record.lock.duration.ms", SET, "14999"),),
    "too many deliveries": (("share.delivery.count.limit", SET, "11"),),
    "too many locks": (("share.partition.max.record.locks", SET, "4001"),),
    "too many standbys": (("streams.num.standby.replicas", SET, "3"),),
    "delay": (("streams.initial.rebalance.delay.ms", SET, "0"),),
    "dead letters": (("errors.deadletterqueue.topic.name", SET, "dead"),),
    "dead letters nowhere": (("errors.deadletterqueue.topic.name", SET, ""),),
    "dead letters to an internal topic": (("errors.deadletterqueue.topic.name", SET, "__dead"),),
    "dead letters, appended": (("errors.deadletterqueue.topic.name", APPEND, "a"),),
    "whole dead letters": (("errors.deadletterqueue.copy.record.enable", SET, "TRUE"),),
    "a task assignor": (("streams.assignor.name", SET, "sticky"),),
    "an unknown task assignor": (("streams.assignor.name", SET, "clever"),),
    "no task assignor": (("streams.assignor.name", SET, ""),),
    "tags": (("streams.rack.aware.assignment.tags", SET, "zone, room"),),
    "no tags": (("streams.rack.aware.assignment.tags", SET, ""),),
    "tags that are empty": (("streams.rack.aware.assignment.tags", SET, "zone,,room"),),
    "tags twice": (("streams.rack.aware.assignment.tags", SET, "zone, zone"),),
    "tags appended": (("streams.rack.aware.assignment.tags", APPEND, "zone,room"),),
    "tags subtracted": (("streams.rack.aware.assignment.tags", SUBTRACT, "zone"),),
    "nothing": (),
}


@transcript(rows=("A19",), cases=CHANGES)
def changes_and_what_is_said_of_them(play: Play, changes: tuple[tuple[str, int, str | None], ...]) -> None:
    """An unknown operation is left out: Kafka fails with -1 where 42 is meant."""
    alter(play.connect(), (play.group(), *changes), validate_only=True)


@transcript(rows=("A19",))
def several_groups_in_one_request(play: Play) -> None:
    """Each has its own answer; one that is named twice is changed by neither."""
    a = play.connect()
    good, bad = (SESSION, SET, "40000"), (SESSION, SET, "1")
    alter(a, ("", good), (play.group(), good), (play.group("h"), bad), version=0)
    alter(a, (play.group("i"), good), (play.group("j"), good), (play.group("i"), bad))
    asked = [(play.group(name), name) for name in ("g", "h", "i", "j")]
    fields = {"include_synonyms": False}
    play.until(lambda: _session_of(play, play.group("j")) == "40000")
    for group_id, _ in asked:
        described(a, group_id, SESSION, **fields)


def _session_of(play: Play, group_id: str) -> str:
    fields = {"resource_type": GROUP, "resource_name": group_id, "configuration_keys": [SESSION]}
    told = play.admin.quietly("describe_configs", 4, resources=[fields])
    value: str = told.results[0].configs[0].value
    return value


@transcript(rows=("A19",))
def configs_outlive_the_group(play: Play) -> None:
    """They are there before it, are told to its members, and stay when it is deleted."""
    a = play.connect()
    configure(a, play.group(), heartbeat_interval_ms=2_000)
    beat_in(a, play.group(), "m", [])
    beat(a, play.group(), "m", -1)
    a.ask("delete_groups", 2, groups_names=[play.group()])
    described(a, play.group(), HEARTBEAT)
    beat_in(a, play.group(), "m", [])


@transcript(rows=("A19", "A15"))
def a_change_is_told_with_a_later_heartbeat(play: Play) -> None:
    a = play.connect()
    beat_in(a, play.group(), "m", [])
    configure(a, play.group(), heartbeat_interval_ms=2_000)
    fields = {"member_id": "m", "member_epoch": 1, "rebalance_timeout": -1, "topic_partitions": None}
    a.ask_until(
        lambda told: told.heartbeat_interval.total_seconds() == 2,
        "consumer_group_heartbeat",
        1,
        group_id=play.group(),
        **fields,
    )


@transcript(rows=("A19",))
def groups_with_configs_are_listed(play: Play) -> None:
    """Version 0 knows client metrics alone; an unknown type refuses the request."""
    a = play.connect()
    configure(a, play.group(), heartbeat_interval_ms=2_000)
    for version, types in ((1, [GROUP]), (1, [])):
        told = a.quietly("list_config_resources", version, resource_types=types)
        listed = {(each.resource_name, each.resource_type) for each in told.config_resources}
        play.note(f"listed among {types}", (play.group(), GROUP) in listed)
    a.ask("list_config_resources", 1, resource_types=[GROUP, 64])
    a.ask("list_config_resources", 1, resource_types=[16])
    a.ask("list_config_resources", 0)
