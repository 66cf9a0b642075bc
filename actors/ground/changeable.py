"""Which settings can change while the tier runs, what they may be, and what is in force on a node (KIP-226).

The tier is started with values; over them lie those that were set for all nodes, and over these a node's
own. Whoever uses a setting of this table reads it anew each time, so a change holds from the next request or
check on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from actors.ground.image import NO_NODE
from actors.ground.settings import POLICIES, GroupSettings
from actors.ground.spec import BrokerSettings

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
ALL_NODES: Final = ""
"""The name under which the values of all nodes stand, where a node's stand under its id."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

BrokerConfigs = Mapping[str, Mapping[str, str]]
"""Node id as text, or ALL_NODES -> setting -> value."""
S = TypeVar("S", GroupSettings, BrokerSettings)


class Changeable(NamedTuple):
    """One setting that can change at run time."""

    name: str
    low: int = 0
    high: int = INT_MAX
    """The largest value of a number, as `low` is the smallest one."""
    choices: tuple[str, ...] = ()
    """What a text or a boolean may be; () for a number."""

    @property
    def field(self) -> str:
        """Return the field of GroupSettings or BrokerSettings that has the value."""
        return self.name.replace(".", "_")


_CHANGEABLE: Final = (
    Changeable("group.min.session.timeout.ms", 1),
    Changeable("group.max.session.timeout.ms", 1),
    Changeable("group.initial.rebalance.delay.ms"),
    Changeable("group.max.size", 1),
    Changeable("group.consumer.session.timeout.ms", 1),
    Changeable("group.consumer.min.session.timeout.ms", 1),
    Changeable("group.consumer.max.session.timeout.ms", 1),
    Changeable("group.consumer.heartbeat.interval.ms", 1),
    Changeable("group.consumer.min.heartbeat.interval.ms", 1),
    Changeable("group.consumer.max.heartbeat.interval.ms", 1),
    Changeable("group.consumer.max.size", 1),
    Changeable("group.consumer.assignment.interval.ms"),
    Changeable("group.consumer.min.assignment.interval.ms"),
    Changeable("group.consumer.max.assignment.interval.ms"),
    Changeable("group.consumer.migration.policy", choices=POLICIES),
    Changeable("offset.metadata.max.bytes"),
    Changeable("offsets.retention.minutes", 1),
    Changeable("transaction.max.timeout.ms", 1),
    Changeable("transactional.id.expiration.ms", 1),
    Changeable("producer.id.expiration.ms", 1),
    Changeable("auto.create.topics.enable", choices=("true", "false")),
    Changeable("max.connections", 1),
    Changeable("max.connections.per.ip", 1),
    Changeable("message.max.bytes", 1),
    Changeable("log.retention.bytes", 0, LONG_MAX),
    Changeable("log.retention.ms", 1, LONG_MAX),
)
CHANGEABLE: Final[Mapping[str, Changeable]] = MappingProxyType({each.name: each for each in _CHANGEABLE})
BETWEEN: Final = tuple(
    (f"group.consumer.min.{name}", f"group.consumer.{name}", f"group.consumer.max.{name}")
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
)
"""Settings of which the second lies between the other two."""
LESS: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
)
"""Settings of which the first is less than the second."""


def parsed(setting: Changeable, text: str) -> str:
    """Return a value as it is kept and shown. Raises ValueError with what is wrong, in words."""
    text = text.strip()
    if setting.choices:
        if text.lower() not in setting.choices:
            raise ValueError(f"String must be one of: {', '.join(setting.choices)}")
        return text.lower()
    largest, kind = (INT_MAX, "INT") if setting.high <= INT_MAX else (LONG_MAX, "LONG")
    if _INTEGER.fullmatch(text) is None or not -largest - 1 <= int(text) <= largest:
        raise ValueError(f"Not a number of type {kind}")
    if int(text) < setting.low:
        raise ValueError(f"Value must be at least {setting.low}")
    if int(text) > setting.high:
        raise ValueError(f"Value must be no more than {setting.high}")
    return str(int(text))


def in_force(settings: S, configs: BrokerConfigs, node_id: int = NO_NODE) -> S:
    """Return the settings that hold on a node; without a node, those that hold where nodes have none of their
    own."""
    given = {**configs.get(ALL_NODES, {}), **configs.get(str(node_id), {})}
    values: dict[str, Any] = {
        CHANGEABLE[name].field: _typed(text, getattr(settings, CHANGEABLE[name].field))
        for name, text in given.items()
        if name in CHANGEABLE and CHANGEABLE[name].field in settings._fields
    }
    return settings._replace(**values) if values else settings


def _typed(text: str, before: object) -> object:
    if isinstance(before, bool):
        return text == "true"
    return int(text) if isinstance(before, int) else text


def conflict(settings: GroupSettings) -> str | None:
    """Return which settings do not go together, in words, or None. Kafka refuses the same."""

    def value(name: str) -> int:
        number: int = getattr(settings, name.replace(".", "_"))
        return number

    for low, name, high in BETWEEN:
        if value(name) < value(low):
            return f"{name} must be greater than or equal to {low}"
        if value(name) > value(high):
            return f"{name} must be less than or equal to {high}"
    for smaller, larger in LESS:
        if value(smaller) >= value(larger):
            return f"{smaller} must be less than {larger}"
    return None
