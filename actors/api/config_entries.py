"""Show configs as clients see them: name, value, and where the value comes from (KIP-133, KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.ground.changeable import ALL_NODES, CHANGEABLE, BrokerConfigs
from actors.ground.image import NO_NODE
from actors.ground.kafka_settings import kafka_settings
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings
from actors.metadata import group_config_names
from actors.metadata.group_config_names import GROUP_CONFIGS, GroupConfigDefinition
from actors.metadata.topic_configs import (
    BOOLEAN,
    BROKER_NAMES,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    TOPIC_CONFIGS,
    default_value,
)

DYNAMIC_TOPIC = 1
DYNAMIC_BROKER = 2
DYNAMIC_DEFAULT_BROKER = 3
STATIC_BROKER = 4
DEFAULT = 5
DYNAMIC_GROUP = 8
"""The source of a config that was set for a group, as the numbers above are other sources."""


_TYPES = {
    "BOOLEAN": BOOLEAN,
    "STRING": STRING,
    "INT": INT,
    "SHORT": 4,
    "LONG": LONG,
    "DOUBLE": DOUBLE,
    "LIST": LIST,
    "CLASS": 8,
    "PASSWORD": 9,
}
"""Kafka's word for a type -> its number in DescribeConfigs."""
_CONSTANTS = frozenset({"classic_new_member_join_timeout_ms"})
"""Fields of settings that nobody can set."""


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    """The value as text; None: nobody is shown it."""
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    """The value as text; None: nobody is shown it."""
    source: int
    config_type: int
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]
    """What the value is and would be without overrides, the one in force first."""
    read_only: bool = False
    is_sensitive: bool = False


class Node(NamedTuple):
    """A node with what was changed of its settings at run time (W43)."""

    node_id: int
    broker: BrokerSettings
    """The settings of brokers that the tier was started with."""
    groups: GroupSettings
    configs: BrokerConfigs
    broker_id: int = NO_NODE
    """The id by which clients know the node."""

    def changed(self, name: str) -> list[ConfigSynonym]:
        """Return what was set of a setting at run time, the value in force first."""
        layers = ((str(self.node_id), DYNAMIC_BROKER), (ALL_NODES, DYNAMIC_DEFAULT_BROKER))
        return [
            ConfigSynonym(name, self.configs[broker][name], source)
            for broker, source in layers
            if name in self.configs.get(broker, ())
        ]


def topic_configs(overrides: Iterable[tuple[str, str]], node: Node) -> list[ConfigEntry]:
    """Return every topic config with the value that is in force."""
    own = dict(overrides)
    listed = []
    for definition in TOPIC_CONFIGS.values():
        synonyms = []
        if definition.name in own:
            synonyms.append(ConfigSynonym(definition.name, own[definition.name], DYNAMIC_TOPIC))
        default = default_value(definition, node.broker)
        if definition.setting is None:
            name = BROKER_NAMES.get(definition.name, definition.name)
            synonyms += [] if name is None else [ConfigSynonym(name, default, DEFAULT)]
        else:
            setting = _dotted(definition.setting)
            synonyms += (*node.changed(setting), ConfigSynonym(setting, default, STATIC_BROKER))
        in_force = synonyms[0] if synonyms else ConfigSynonym(definition.name, default, DEFAULT)
        listed.append(
            ConfigEntry(
                definition.name,
                in_force.value,
                in_force.source,
                definition.config_type,
                definition.documentation,
                tuple(synonyms),
            )
        )
    return listed


def group_configs(own: Mapping[str, str], node: Node) -> list[ConfigEntry]:
    """Return every group config as Kafka shows it: what was set, even if it is out of bounds by now
    (KIP-1240)."""
    listed = []
    for definition in GROUP_CONFIGS.values():
        synonyms = list(_beneath_group(definition, node))
        value = own.get(definition.name)
        if value is not None:
            shown = group_config_names.parsed(definition, value)
            synonyms.insert(0, ConfigSynonym(definition.name, shown, DYNAMIC_GROUP))
        listed.append(
            ConfigEntry(
                definition.name,
                synonyms[0].value,
                synonyms[0].source,
                definition.config_type,
                definition.documentation,
                tuple(synonyms),
            )
        )
    return listed


def _beneath_group(definition: GroupConfigDefinition, node: Node) -> Iterable[ConfigSynonym]:
    name = definition.synonym or definition.name
    yield from node.changed(name)
    started_with = group_config_names.default_value(definition, node.groups)
    if started_with != definition.default:
        yield ConfigSynonym(name, started_with, STATIC_BROKER)
    yield ConfigSynonym(name, definition.default, DEFAULT)


def broker_configs(node: Node) -> list[ConfigEntry]:
    """Return the settings of a node under Kafka's names, those that can change at run time and the others."""
    ids = (("node.id", None), ("broker.id", -1))
    listed = [_entry(node, name, (node.broker_id, default)) for name, default in ids]
    for settings in (node.broker, node.groups):
        listed += [
            _entry(node, _dotted(name), (value, settings._field_defaults[name]))
            for name, value in settings._asdict().items()
            if name not in _CONSTANTS
        ]
    return listed


def changed_broker_configs(configs: BrokerConfigs) -> list[ConfigEntry]:
    """Return what was set for all nodes at run time."""
    node = Node(NO_NODE, BrokerSettings(), GroupSettings(), {ALL_NODES: configs.get(ALL_NODES, {})})
    return [
        entry._replace(synonyms=entry.synonyms[:1])
        for entry in broker_configs(node)
        if entry.source == DYNAMIC_DEFAULT_BROKER
    ]


def _entry(node: Node, name: str, values: tuple[object, object]) -> ConfigEntry:
    """Describe a setting of a node; `values` are what the tier was started with, and the default."""
    started_with, default = values
    synonyms = node.changed(name)
    if started_with != default:
        synonyms.append(ConfigSynonym(name, _text(started_with), STATIC_BROKER))
    if default is not None:
        synonyms.append(ConfigSynonym(name, _text(default), DEFAULT))
    is_sensitive = _is_sensitive(name)
    if is_sensitive:
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    changeable = name in CHANGEABLE
    return ConfigEntry(
        name,
        synonyms[0].value,
        synonyms[0].source,
        _type_of(name, started_with),
        "Can be changed while the tier runs." if changeable else "Set when the tier starts.",
        tuple(synonyms),
        read_only=not changeable,
        is_sensitive=is_sensitive,
    )


def _is_sensitive(name: str) -> bool:
    known = kafka_settings().get(name)
    return known is not None and known.sensitive


def _type_of(name: str, value: object) -> int:
    known = kafka_settings().get(name)
    if known is not None:
        return _TYPES[known.type]
    if isinstance(value, bool):
        return BOOLEAN
    return LONG if isinstance(value, int) else LIST if isinstance(value, tuple) else STRING


def _text(value: object) -> str:
    text = ",".join(value) if isinstance(value, tuple) else str(value)
    return text.lower() if isinstance(value, bool) else text


def _dotted(setting: str) -> str:
    """Return the setting that a field of BrokerSettings is."""
    return setting.replace("_", ".")
