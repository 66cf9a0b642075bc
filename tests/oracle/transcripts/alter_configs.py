"""AlterConfigs, the older way to change configs: it says all that a resource is to have (W41)."""

from __future__ import annotations

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


def described_until(client: Client, resource: tuple[int, str], values: dict[str, str]) -> None:
    """Wait until these configs have these values, and record how they are described."""
    resource_type, name = resource
    asked = {"resource_type": resource_type, "resource_name": name, "configuration_keys": list(values)}
    client.ask_until(
        lambda told: {each.name: each.value for each in told.results[0].configs} == values,
        "describe_configs",
        4,
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
