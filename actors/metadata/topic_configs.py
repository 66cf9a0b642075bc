"""The topic configs that exist, with the names, defaults and bounds of Kafka's TopicConfig and LogConfig.

All of Kafka's names that tools commonly set are known, so that Connect, Streams and admin scripts can
create their topics; those without effect on a bounded in-memory log say so in their documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from actors.ground.spec import BrokerSettings

BOOLEAN = 1
STRING = 2
INT = 3
LONG = 5
DOUBLE = 6
LIST = 7
"""A config type as DescribeConfigs numbers them (KIP-569), as the types above are."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_KEPT = "Kept and shown; without effect on the broker's bounded in-memory log."
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{0,9}(\.[0-9]{1,9})?", re.ASCII)


class ConfigDefinition(NamedTuple):
    name: str
    config_type: int
    default: str
    minimum: int = 0
    maximum: int = LONG_MAX
    """The upper bound of an INT or LONG, as `minimum` is the lower one."""
    values: tuple[str, ...] = ()
    """What a STRING, or each entry of a LIST, may be; () for anything."""
    setting: str | None = None
    """The field of BrokerSettings that is this config's default."""
    documentation: str = _KEPT


def _number(name: str, config_type: int, default: int, minimum: int = 0) -> ConfigDefinition:
    return ConfigDefinition(
        name, config_type, str(default), minimum, INT_MAX if config_type == INT else LONG_MAX
    )


BROKER_NAMES: Mapping[str, str | None] = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": None,
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "preallocate": "log.preallocate",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": None,
    "segment.ms": None,
}
"""What Kafka's brokers call the default of a topic config, where it is not the config's own name; None: it
has no default of its own to show among the synonyms."""
_DEFINITIONS = (
    ConfigDefinition(
        "cleanup.policy",
        LIST,
        "delete",
        values=("compact", "delete"),
        documentation='Without "delete", records do not expire by time. With "compact", each needs a key. '
        "Nothing is compacted.",
    ),
    ConfigDefinition(
        "compression.type",
        STRING,
        "producer",
        values=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        documentation="Kept and shown; batches stay as their producer compressed them.",
    ),
    _number("delete.retention.ms", LONG, 86_400_000),
    _number("file.delete.delay.ms", LONG, 60_000),
    _number("flush.messages", LONG, LONG_MAX, 1),
    _number("flush.ms", LONG, LONG_MAX),
    _number("index.interval.bytes", INT, 4_096),
    _number("max.compaction.lag.ms", LONG, LONG_MAX, 1),
    ConfigDefinition(
        "max.message.bytes",
        INT,
        "1048588",
        maximum=INT_MAX,
        setting="message_max_bytes",
        documentation="The largest record batch that is accepted, in bytes.",
    ),
    ConfigDefinition(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        documentation="How much newer than the broker's time a record may be, in milliseconds.",
    ),
    ConfigDefinition(
        "message.timestamp.before.max.ms",
        LONG,
        str(LONG_MAX),
        documentation="How much older than the broker's time a record may be, in milliseconds.",
    ),
    ConfigDefinition(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        values=("CreateTime", "LogAppendTime"),
        documentation="Whether a record carries its producer's time or the time of its append.",
    ),
    ConfigDefinition("min.cleanable.dirty.ratio", DOUBLE, "0.5"),
    _number("min.compaction.lag.ms", LONG, 0),
    _number("min.insync.replicas", INT, 1, 1),
    ConfigDefinition("preallocate", BOOLEAN, "false"),
    ConfigDefinition(
        "retention.bytes",
        LONG,
        "-1",
        minimum=-(2**63),
        setting="log_retention_bytes",
        documentation="The size of each partition's log in bytes, at most the broker's log.retention.bytes.",
    ),
    ConfigDefinition(
        "retention.ms",
        LONG,
        "604800000",
        minimum=-1,
        setting="log_retention_ms",
        documentation="How long records are kept after their append, in milliseconds; -1: no limit.",
    ),
    _number("segment.bytes", INT, 1_073_741_824, 1_048_576),
    _number("segment.index.bytes", INT, 10_485_760, 4),
    _number("segment.jitter.ms", LONG, 0),
    _number("segment.ms", LONG, 604_800_000, 1),
    ConfigDefinition("unclean.leader.election.enable", BOOLEAN, "false"),
)
TOPIC_CONFIGS: Mapping[str, ConfigDefinition] = {definition.name: definition for definition in _DEFINITIONS}


def default_value(definition: ConfigDefinition, settings: BrokerSettings) -> str:
    if definition.setting is None:
        return definition.default
    return str(getattr(settings, definition.setting))


def problem(name: str, value: str) -> str | None:
    """Return what is wrong with `value`, in Kafka's words, or None."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        return f"Unknown topic config name: {name}"
    reason = _reason(definition, value)
    return None if reason is None else f"Invalid value {value} for configuration {name}: {reason}"


def entries(value: str) -> list[str]:
    """Return the entries of a LIST, without blanks, each once."""
    return list(dict.fromkeys(entry for entry in (part.strip() for part in value.split(",")) if entry))


def shown(name: str, value: str) -> str:
    """Return a value that has no problem as Kafka reads it, and so shows it."""
    value = value.strip()
    match TOPIC_CONFIGS[name].config_type:
        case config_type if config_type in (INT, LONG):
            return str(int(value))
        case config_type if config_type == LIST:
            return ",".join(entries(value))
        case config_type if config_type == BOOLEAN:
            return value.lower()
        case config_type if config_type == DOUBLE:
            return str(float(value))
    return value


def _reason(definition: ConfigDefinition, value: str) -> str | None:
    value = value.strip()
    match definition.config_type:
        case config_type if config_type in (INT, LONG):
            if _INTEGER.fullmatch(value) is None:
                return "Not a number of type " + ("INT" if config_type == INT else "LONG")
            if int(value) < definition.minimum:
                return f"Value must be at least {definition.minimum}"
            return None if int(value) <= definition.maximum else f"Value must be at most {definition.maximum}"
        case config_type if config_type == BOOLEAN:
            good = value.lower() in ("true", "false")
            return None if good else "Expected value to be either true or false"
        case config_type if config_type == DOUBLE:
            good = bool(value) and _DECIMAL.fullmatch(value) is not None and float(value) <= 1
            return None if good else "Expected a number between 0 and 1"
    given = [value]
    if definition.config_type == LIST:
        given = [entry.strip() for entry in value.split(",")] if value else []
        if "" in given:
            return "Values must not be empty"
    good = all(entry in definition.values for entry in given)
    return None if good else f"String must be one of: {', '.join(definition.values)}"
