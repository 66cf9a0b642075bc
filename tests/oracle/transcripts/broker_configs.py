"""Settings of a broker: described, changed for the node and for all nodes, and what is refused (W43)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

BROKER = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE, ALL = "1", ""
MESSAGE = "message.max.bytes"
INTERVAL = "group.consumer.assignment.interval.ms"
Change = tuple[str, int, str | None]


def alter(client: Client, *resources: tuple[Any, ...], version: int = 1, **fields: Any) -> Any:
    """Ask for changes; each of `resources` is (node or "", (setting, operation, value), ...)."""
    asked = [
        {
            "resource_type": BROKER,
            "resource_name": name,
            "configs": [
                {"name": setting, "config_operation": operation, "value": value}
                for setting, operation, value in changes
            ],
        }
        for name, *changes in resources
    ]
    return client.ask("incremental_alter_configs", version, resources=asked, **fields)


def described_until(client: Client, name: str, setting: str, value: str | None, *under: str) -> None:
    """Wait until a setting has a value, None: until it is not listed, and record how it is described. `under`
    are values that this one must have been seen to cover: Kafka's broker hears of each by itself."""

    def is_so(told: Any) -> bool:
        configs = told.results[0].configs
        covered = {each.value for config in configs for each in config.synonyms}
        return [each.value for each in configs] == ([] if value is None else [value]) and covered >= {*under}

    asked = {"resource_type": BROKER, "resource_name": name, "configuration_keys": [setting]}
    client.ask_until(
        is_so,
        "describe_configs",
        4,
        resources=[asked],
        include_synonyms=True,
    )


@contextmanager
def put_back(play: Play, *settings: str) -> Iterator[Client]:
    """Give a connection, and take back in the end what the transcript has changed of these settings."""
    try:
        yield play.connect()
    finally:
        for name in (NODE, ALL):
            configs = [{"name": each, "config_operation": DELETE, "value": None} for each in settings]
            resource = {"resource_type": BROKER, "resource_name": name, "configs": configs}
            play.admin.quietly("incremental_alter_configs", 1, resources=[resource])


@transcript(rows=("W43",), cases={"a default": (MESSAGE, "1048588"), "a static value": (INTERVAL, "0")})
def values_lie_over_each_other(play: Play, case: tuple[str, str]) -> None:
    """The node's value is in force, then that of all nodes, then what the broker was started with."""
    setting, started_with = case
    with put_back(play, setting) as a:
        described_until(a, NODE, setting, started_with)
        alter(a, (ALL, (setting, SET, "2000")))
        described_until(a, NODE, setting, "2000")
        described_until(a, ALL, setting, "2000")
        alter(a, (NODE, (setting, SET, "3000")), version=0)
        described_until(a, NODE, setting, "3000")
        alter(a, (ALL, (setting, DELETE, None)))
        described_until(a, ALL, setting, None)
        described_until(a, NODE, setting, "3000")
        alter(a, (NODE, (setting, DELETE, "77")))
        described_until(a, NODE, setting, started_with)


@transcript(rows=("W43", "A19"))
def groups_and_topics_show_what_was_changed(play: Play) -> None:
    topic, group = play.topic(), play.group()
    with put_back(play, MESSAGE, INTERVAL) as a:
        alter(a, (ALL, (MESSAGE, SET, "5000"), (INTERVAL, SET, "2000")))
        for resource_type, name, config, value in (
            (2, topic, "max.message.bytes", "5000"),
            (32, group, "consumer.assignment.interval.ms", "2000"),
        ):
            asked = {"resource_type": resource_type, "resource_name": name, "configuration_keys": [config]}
            play.until(
                lambda asked=asked, value=value: _value(play, asked) == value,  # type: ignore[misc]
                config,
            )
            a.ask("describe_configs", 4, resources=[asked], include_synonyms=resource_type == 32)


def _value(play: Play, asked: dict[str, Any]) -> str:
    value: str = play.admin.quietly("describe_configs", 4, resources=[asked]).results[0].configs[0].value
    return value


REFUSED: dict[str, tuple[Change, ...]] = {
    "no number": ((MESSAGE, SET, "x"),),
    "empty": ((MESSAGE, SET, ""),),
    "negative": ((MESSAGE, SET, "-1"),),
    "too large for an int": ((MESSAGE, SET, "99999999999"),),
    "null": ((MESSAGE, SET, None),),
    "above another setting": ((INTERVAL, SET, "20000"),),
    "appended": ((MESSAGE, APPEND, "1"),),
    "subtracted": ((MESSAGE, SUBTRACT, "1"),),
    "twice": ((MESSAGE, SET, "1000"), (MESSAGE, SET, "2000")),
    "fixed at start": (("node.id", SET, "1"),),
    "one of two fixed at start": ((MESSAGE, SET, "1000"), ("connections.max.idle.ms", SET, "1")),
    "fixed at start, deleted": (("node.id", DELETE, None),),
    "unknown, deleted": (("no.such", DELETE, None),),
    "unknown, appended": (("no.such", APPEND, "1"),),
    "fixed at start, and appended": (("node.id", SET, "1"), (MESSAGE, APPEND, "1")),
    "appended, and wrong": ((MESSAGE, APPEND, "1"), ("node.id", SET, "x")),
    "wrong, and subtracted": ((MESSAGE, SET, "x"), ("no.such", SUBTRACT, "1")),
    "an unknown operation": ((MESSAGE, 9, "1"),),
    "fixed at start, and an unknown operation": (("node.id", SET, "1"), (MESSAGE, 9, "1")),
    "nothing": (),
}


@transcript(rows=("W43",), cases=REFUSED)
def what_a_running_broker_takes(play: Play, changes: tuple[Change, ...]) -> None:
    with put_back(play, MESSAGE, INTERVAL) as a:
        alter(a, (NODE, *changes))
        alter(a, (ALL, *changes), validate_only=True)
        described_until(a, NODE, MESSAGE, "1048588")


@transcript(rows=("W43", "W41"))
def other_names_and_repetitions(play: Play) -> None:
    good = (MESSAGE, SET, "2000")
    with put_back(play, MESSAGE) as a:
        for name in ("x", "77", "-1", "1.0"):
            alter(a, (name, good))
        alter(a, (NODE, good), (NODE, good))
        alter(a, (ALL, good), ("77", good), (NODE, (MESSAGE, SET, "3000")))
        described_until(a, NODE, MESSAGE, "3000", "2000")
        for configs in ([{"name": MESSAGE, "value": "4000"}], [{"name": INTERVAL, "value": "1"}], []):
            resource = {"resource_type": BROKER, "resource_name": NODE, "configs": configs}
            a.ask("alter_configs", 2, resources=[resource])
            described_until(a, NODE, MESSAGE, "4000" if configs and configs[0]["name"] == MESSAGE else "2000")
