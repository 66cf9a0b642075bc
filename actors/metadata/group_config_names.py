"""The configs that a group may have, with the names, defaults and bounds of Kafka's GroupConfig (A19).

The configs that share and streams groups would read are known, kept and shown as Kafka does; nothing here
acts on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from actors.ground.settings import GroupSettings
from actors.metadata.topic_configs import BOOLEAN, INT, INT_MAX, LIST, STRING, entries

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
RACK_AWARE_TAGS = "streams.rack.aware.assignment.tags"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_INTERNAL_TOPIC = "__"

_KEPT = "Kept and shown; there are no groups of this type here."
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_RESET_BY_DURATION = re.compile(
    r"by_duration:P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.ASCII | re.IGNORECASE
)
_FIXED_BOUNDS = {
    "group.share.min.session.timeout.ms": 45_000,
    "group.share.max.session.timeout.ms": 60_000,
    "group.share.min.heartbeat.interval.ms": 5_000,
    "group.share.max.heartbeat.interval.ms": 15_000,
    "group.share.min.record.lock.duration.ms": 15_000,
    "group.share.max.record.lock.duration.ms": 60_000,
    "group.share.min.delivery.count.limit": 2,
    "group.share.max.delivery.count.limit": 10,
    "group.share.min.partition.max.record.locks": 100,
    "group.share.max.partition.max.record.locks": 4_000,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.max.assignment.interval.ms": 15_000,
    "group.streams.min.session.timeout.ms": 45_000,
    "group.streams.max.session.timeout.ms": 60_000,
    "group.streams.min.heartbeat.interval.ms": 5_000,
    "group.streams.max.heartbeat.interval.ms": 15_000,
    "group.streams.max.standby.replicas": 2,
    "group.streams.min.assignment.interval.ms": 0,
    "group.streams.max.assignment.interval.ms": 15_000,
}
"""Kafka's defaults of broker settings that the tier does not have."""


class GroupConfigDefinition(NamedTuple):
    name: str
    config_type: int
    default: str
    synonym: str | None = None
    """The broker's setting that is in force if the group has no value of its own."""
    minimum: int = 0
    """The least value of an INT, whatever the broker's settings say."""
    low: str | None = None
    high: str | None = None
    """The broker's setting that is the upper bound, as `low` is the lower one."""
    values: tuple[str, ...] = ()
    """What a STRING may be; () for anything."""
    documentation: str = _KEPT


def _number(
    kind: str, name: str, default: int, minimum: int, documentation: str = _KEPT
) -> GroupConfigDefinition:
    """Define a number of the `kind` "consumer", "share" or "streams", bounded by the broker's settings of the
    usual names."""
    low, high = f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
    return GroupConfigDefinition(
        f"{kind}.{name}",
        INT,
        str(default),
        f"group.{kind}.{name}",
        minimum,
        low,
        high,
        documentation=documentation,
    )


_DEFINITIONS = (
    _number(
        "consumer", "heartbeat.interval.ms", 5_000, 1, "The interval of heartbeats that members are told."
    ),
    _number("consumer", "session.timeout.ms", 45_000, 1, "The silence after which a member is removed."),
    _number("consumer", "assignment.interval.ms", 1_000, 0, "The least time between two target assignments."),
    _number("share", "heartbeat.interval.ms", 5_000, 1),
    _number("share", "session.timeout.ms", 45_000, 1),
    _number("share", "record.lock.duration.ms", 30_000, 1_000),
    _number("share", "delivery.count.limit", 5, 2),
    _number("share", "partition.max.record.locks", 2_000, 100),
    GroupConfigDefinition("share.auto.offset.reset", STRING, "latest"),
    GroupConfigDefinition(
        "share.isolation.level", STRING, "read_uncommitted", values=("read_committed", "read_uncommitted")
    ),
    GroupConfigDefinition("share.renew.acknowledge.enable", BOOLEAN, "true"),
    _number("share", "assignment.interval.ms", 1_000, 0),
    _number("streams", "heartbeat.interval.ms", 5_000, 1),
    _number("streams", "session.timeout.ms", 45_000, 1),
    GroupConfigDefinition(
        "streams.num.standby.replicas",
        INT,
        "0",
        "group.streams.num.standby.replicas",
        high="group.streams.max.standby.replicas",
    ),
    GroupConfigDefinition(
        "streams.initial.rebalance.delay.ms", INT, "3000", "group.streams.initial.rebalance.delay.ms"
    ),
    _number("streams", "assignment.interval.ms", 1_000, 0),
    GroupConfigDefinition(RACK_AWARE_TAGS, LIST, "", "group.streams.rack.aware.assignment.tags"),
    GroupConfigDefinition(
        "streams.assignor.name", STRING, "sticky", "group.streams.assignors", values=("sticky",)
    ),
    GroupConfigDefinition(DEAD_LETTER_TOPIC, STRING, ""),
    GroupConfigDefinition("errors.deadletterqueue.copy.record.enable", BOOLEAN, "false"),
)
GROUP_CONFIGS: Mapping[str, GroupConfigDefinition] = {each.name: each for each in _DEFINITIONS}
"""Name -> definition, in the order in which Kafka looks at the configs' bounds."""


def broker_value(name: str, settings: GroupSettings) -> int | None:
    """Return the value of a broker's setting; Kafka's default if the tier does not have the setting."""
    fixed = _FIXED_BOUNDS.get(name)
    return getattr(settings, name.replace(".", "_"), None) if fixed is None else fixed


def default_value(definition: GroupConfigDefinition, settings: GroupSettings) -> str:
    """Return what is in force for a group that has no value of its own."""
    given = None if definition.synonym is None else broker_value(definition.synonym, settings)
    return definition.default if given is None else str(given)


def parsed(definition: GroupConfigDefinition, value: str) -> str:
    """Return a value that has no problem as Kafka shows it."""
    value = value.strip()
    if definition.config_type == INT:
        return str(int(value))
    if definition.config_type == LIST:
        return ",".join(entries(value))
    return value.lower() if definition.config_type == BOOLEAN else value


def problem(configs: Mapping[str, str], settings: GroupSettings) -> str | None:
    """Return what is wrong with a group's own configs, in Kafka's words, or None."""
    for name in configs:
        if name not in GROUP_CONFIGS:
            return f"Unknown group config name: {name}"
    for name, value in configs.items():
        reason = _reason(GROUP_CONFIGS[name], value)
        if reason is not None:
            return f"Invalid value {value} for configuration {name}: {reason}"
    return _out_of_bounds(configs, settings) or _heartbeat_too_long(configs, settings)


def _reason(definition: GroupConfigDefinition, value: str) -> str | None:
    value = value.strip()
    match definition.config_type:
        case config_type if config_type == INT:
            if _INTEGER.fullmatch(value) is None or not -INT_MAX - 1 <= int(value) <= INT_MAX:
                return "Not a number of type INT"
            low = definition.minimum
            return None if int(value) >= low else f"Value must be at least {low}"
        case config_type if config_type == BOOLEAN:
            good = value.lower() in ("true", "false")
            return None if good else "Expected value to be either true or false"
        case config_type if config_type == LIST:
            listed = [entry.strip() for entry in value.split(",")] if value else []
            good = all(listed) and len(set(listed)) == len(listed)
            return None if good else "A list has no empty entry and none twice"
    if definition.name == DEAD_LETTER_TOPIC:
        return "DLQ topic name must not start with '__'" if value.startswith(_INTERNAL_TOPIC) else None
    if definition.name == "share.auto.offset.reset":
        good = value in ("earliest", "latest") or _RESET_BY_DURATION.fullmatch(value) is not None
        return None if good else "It is earliest, latest, or by_duration:PnDTnHnMn.nS"
    return None if value in definition.values else f"String must be one of: {', '.join(definition.values)}"


def _out_of_bounds(configs: Mapping[str, str], settings: GroupSettings) -> str | None:
    for definition in _DEFINITIONS:
        if definition.name not in configs:
            continue
        low, high = bounds(definition, settings)
        value = int(configs[definition.name]) if low is not None or high is not None else 0
        if low is not None and value < low:
            return f"{definition.name} must be greater than or equal to {definition.low}"
        if high is not None and value > high:
            return f"{definition.name} must be less than or equal to {definition.high}"
    return None


def bounds(definition: GroupConfigDefinition, settings: GroupSettings) -> tuple[int | None, int | None]:
    low = None if definition.low is None else broker_value(definition.low, settings)
    high = None if definition.high is None else broker_value(definition.high, settings)
    return low, high


def _heartbeat_too_long(configs: Mapping[str, str], settings: GroupSettings) -> str | None:
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = (
            int(configs.get(name, default_value(GROUP_CONFIGS[name], settings)))
            for name in (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
        )
        if session <= heartbeat:
            return f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
    return None
