"""AlterConfigs, the older way to change configs: it says all that a resource is to have (W41)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from actors.ground.acl import Operation
from tests.oracle.access import GROUP, TOPIC, acl, alice
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

TOPIC_RESOURCE = 2
GROUP_RESOURCE = 32
FLUSH, SEGMENT = "flush.messages", "segment.ms"
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def alter(client: Client, *resources: tuple[Any, ...], version: int = 2, **fields: Any) -> Any:
    """Ask for configs; each of `resources` is (type, name, (config, value), ...)."""
    asked = [
        {
            "resource_type": resource_type,
            "resource_name": name,
            "configs": [{"name": config, "value": value} for config, value in configs],
        }
        for resource_type, name, *configs in resources
    ]
    return client.ask("alter_configs", version, resources=asked, **fields, unordered=("responses",))


def described_until(
    client: Client, resource: tuple[int, str], values: dict[str, str], ignore: Collection[str] = ()
) -> None:
    """Wait until these configs have these values, and record how they are described."""
    resource_type, name = resource
    asked = {"resource_type": resource_type, "resource_name": name, "configuration_keys": list(values)}
    client.ask_until(
        lambda told: {each.name: each.value for each in told.results[0].configs} == values,
        "describe_configs",
        4,
        ignore=ignore,
        resources=[asked],
    )


@transcript(rows=("W41",), cases={f"v{version}": version for version in range(3)})
def a_topic_has_what_the_last_request_says(play: Play, version: int) -> None:
    """A config that is not named goes back to its default, and so does all when nothing is named."""
    a, topic = play.connect(), play.topic()
    resource = (TOPIC_RESOURCE, topic)
    alter(a, (*resource, (FLUSH, "7"), (SEGMENT, "60000")), version=version)
    described_until(a, resource, {FLUSH: "7", SEGMENT: "60000"})
    alter(a, (*resource, (FLUSH, "8")), version=version)
    described_until(a, resource, {FLUSH: "8", SEGMENT: "604800000"})
    alter(a, (*resource, (FLUSH, "9"), (SEGMENT, "70000")), version=version, validate_only=True)
    described_until(a, resource, {FLUSH: "8", SEGMENT: "604800000"})
    alter(a, resource, version=version)
    described_until(a, resource, {FLUSH: str(2**63 - 1), SEGMENT: "604800000"})


@transcript(rows=("W41", "A19"))
def a_group_has_what_the_last_request_says(play: Play) -> None:
    a = play.connect()
    resource = (GROUP_RESOURCE, play.group())
    alter(a, (*resource, (SESSION, "50000"), (HEARTBEAT, "6000")))
    described_until(a, resource, {SESSION: "50000", HEARTBEAT: "6000"})
    alter(a, (*resource, (SESSION, "51000")))
    described_until(a, resource, {SESSION: "51000", HEARTBEAT: "1000"})
    alter(a, resource)
    described_until(a, resource, {SESSION: "30000", HEARTBEAT: "1000"})


@transcript(rows=("W41",))
def what_is_refused_of_a_topic(play: Play) -> None:
    """Nothing of a resource changes if one of its configs is wrong."""
    a, topic = play.connect(), play.topic()
    for name, *configs in (
        (topic, (FLUSH, None)),
        (topic, (FLUSH, "x")),
        (topic, (FLUSH, "0")),
        (topic, (FLUSH, "1"), ("no.such", "x")),
        (topic, (FLUSH, "1"), (FLUSH, "2")),
        (play.unique("nobody"), (FLUSH, "1")),
        ("bad name", (FLUSH, "1")),
        ("", (FLUSH, "1")),
    ):
        alter(a, (TOPIC_RESOURCE, name, *configs))
    described_until(a, (TOPIC_RESOURCE, topic), {FLUSH: str(2**63 - 1)})


@transcript(rows=("W41", "A19"))
def what_is_refused_of_a_group_and_of_other_resources(play: Play) -> None:
    a, group = play.connect(), play.group()
    for name, *configs in (
        (group, (SESSION, None)),
        (group, (SESSION, "1")),
        (group, ("no.such", "x")),
        (group, (SESSION, "50000"), (SESSION, "50001")),
        ("", (SESSION, "50000")),
    ):
        alter(a, (GROUP_RESOURCE, name, *configs))
    for resource_type in (0, 1, 8, 64):
        alter(a, (resource_type, "x", ("a", "b")))
    alter(a)
    good, bad = (TOPIC_RESOURCE, play.topic(), (FLUSH, "7")), (TOPIC_RESOURCE, play.unique("nobody"))
    alter(a, good, bad, (GROUP_RESOURCE, group, (SESSION, "50000")))


@transcript(rows=("W41", "W10"), profile="security")
def each_resource_needs_its_right(play: Play) -> None:
    topic, other, group = play.topic(), play.topic("u"), play.group()
    entries = (acl(TOPIC, topic, Operation.ALTER_CONFIGS), acl(GROUP, group, Operation.ALTER_CONFIGS))
    client = alice(play, *entries)
    wanted = ((TOPIC_RESOURCE, topic), (TOPIC_RESOURCE, other), (GROUP_RESOURCE, group), (4, "1"))
    alter(client, *wanted, validate_only=True)
    alter(client, (GROUP_RESOURCE, play.unique("h")), version=0)


LISTS: dict[str, tuple[int, str, str]] = {
    "appended nothing": (2, "", "delete"),
    "appended a blank": (2, " ", "delete"),
    "appended a comma": (2, ",", "delete"),
    "appended": (2, "compact", "delete,compact"),
    "appended with blanks": (2, " compact ", "delete,compact"),
    "appended twice": (2, "compact,delete,compact", "delete,compact"),
    "appended with a comma behind": (2, "compact,", "delete,compact"),
    "appended something else": (2, "x", "delete"),
    "subtracted": (3, "delete", ""),
    "subtracted with a blank": (3, " delete", "delete"),
    "subtracted what is not there": (3, "compact", "delete"),
    "subtracted nothing": (3, "", "delete"),
    "set to nothing": (0, "", ""),
    "set to a blank": (0, " ", ""),
    "set to a comma": (0, ",", "delete"),
    "set with a comma behind": (0, "compact,", "delete"),
    "set with blanks and twice": (0, "compact , delete,compact", "compact,delete"),
}
"""The operation, its value, and what the list is afterwards."""


@transcript(rows=("W41",), cases=LISTS)
def list_of_a_topic(play: Play, change: tuple[int, str, str]) -> None:
    a, topic = play.connect(), play.topic()
    _changed(a, topic, "cleanup.policy", *change)


VALUES: dict[str, tuple[tuple[str, str], ...]] = {
    "retention.ms": ((" 100 ", "100"), ("+200", "200"), ("0300", "300"), ("1e3", "300"), ("", "300")),
    "preallocate": (("TRUE", "true"), (" false ", "false"), ("yes", "false")),
    "min.cleanable.dirty.ratio": ((" 0.75 ", "0.75"), (".25", "0.25"), ("0.50", "0.5"), ("1.5", "0.5")),
    "message.timestamp.type": (("LogAppendTime ", "LogAppendTime"), ("createtime", "LogAppendTime")),
}
"""Ways to write a config's value, and what it is afterwards."""


@transcript(rows=("W41",), cases=VALUES)
def ways_to_write_a_value(play: Play, ways: tuple[tuple[str, str], ...]) -> None:
    """What is shown is what was read."""
    a, topic = play.connect(), play.topic()
    name = next(name for name, given in VALUES.items() if given == ways)
    for value, expected in ways:
        _changed(a, topic, name, 0, value, expected)


def _changed(client: Client, topic: str, *change: Any) -> None:
    """Change a config, and record what it is once that holds; whose it is may not be known yet."""
    name, operation, value, expected = change
    asked = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [asked]}
    client.ask("incremental_alter_configs", 1, resources=[resource])
    described_until(client, (TOPIC_RESOURCE, topic), {name: expected}, ignore=("config_source",))
