"""Show configs as clients see them: name, value, and where the value comes from (KIP-133, KIP-226)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings
from actors.metadata import group_config_names
from actors.metadata.group_config_names import GROUP_CONFIGS, GroupConfigDefinition
from actors.metadata.topic_configs import BOOLEAN, LONG, STRING, TOPIC_CONFIGS, default_value

DYNAMIC_TOPIC = 1
STATIC_BROKER = 4
DEFAULT = 5
DYNAMIC_GROUP = 8
"""The source of a config that was set for a group, as the numbers above are other sources."""


class ConfigSynonym(NamedTuple):
    name: str
    value: str
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str
    source: int
    config_type: int
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]
    """What the value is and would be without overrides, the one in force first."""


def topic_configs(overrides: Iterable[tuple[str, str]], settings: BrokerSettings) -> list[ConfigEntry]:
    """Return every topic config with the value that is in force."""
    own = dict(overrides)
    listed = []
    for definition in TOPIC_CONFIGS.values():
        synonyms = []
        if definition.name in own:
            synonyms.append(ConfigSynonym(definition.name, own[definition.name], DYNAMIC_TOPIC))
        default = default_value(definition, settings)
        if definition.setting is None:
            synonyms.append(ConfigSynonym(definition.name, default, DEFAULT))
        else:
            synonyms.append(ConfigSynonym(_dotted(definition.setting), default, STATIC_BROKER))
        in_force = synonyms[0]
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


def group_configs(own: Mapping[str, str], settings: GroupSettings) -> list[ConfigEntry]:
    """Return every group config as Kafka shows it: what was set, even if it is out of bounds by now
    (KIP-1240)."""
    listed = []
    for definition in GROUP_CONFIGS.values():
        synonyms = list(_beneath_group(definition, settings))
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


def _beneath_group(definition: GroupConfigDefinition, settings: GroupSettings) -> Iterable[ConfigSynonym]:
    name = definition.synonym or definition.name
    in_force = group_config_names.default_value(definition, settings)
    if in_force != definition.default:
        yield ConfigSynonym(name, in_force, STATIC_BROKER)
    yield ConfigSynonym(name, definition.default, DEFAULT)


def broker_configs(node_id: int, settings: BrokerSettings) -> list[ConfigEntry]:
    """Return the broker's settings, all read-only: they are given when the tier starts."""
    values: list[tuple[str, object, object]] = [("broker.id", node_id, None)]
    values += [
        (_dotted(field.name), getattr(settings, field.name), field.default)
        for field in dataclasses.fields(settings)
    ]
    return [_broker_entry(name, value, default) for name, value, default in values]


def _broker_entry(name: str, value: object, default: object) -> ConfigEntry:
    config_type = BOOLEAN if isinstance(value, bool) else LONG if isinstance(value, int) else STRING
    text = ",".join(value) if isinstance(value, tuple) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    source = DEFAULT if value == default else STATIC_BROKER
    return ConfigEntry(
        name, text, source, config_type, "Set when the tier starts.", (ConfigSynonym(name, text, source),)
    )


def _dotted(setting: str) -> str:
    """Return the setting that a field of BrokerSettings is."""
    return setting.replace("_", ".")
