"""The settings that a broker of Kafka knows, as a real one described them: `kafka_settings.json`, made by
`java -cp "KAFKA/libs/*" tests/kafka/BrokerSettings.java HOST:PORT`.

Whether the tier heeds a setting is said elsewhere (`cluster.kafka_names`). This is what Kafka says: the
type, the default, what is allowed, and whether a running broker lets the value be changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

BITS = MappingProxyType({"SHORT": 16, "INT": 32, "LONG": 64})
"""Type -> how many bits a whole number of it has."""
_DATA = Path(__file__).with_name("kafka_settings.json")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class KafkaSetting(NamedTuple):
    """What a broker of Kafka says of one of its settings."""

    name: str
    type: str
    """The type in Kafka's words: BOOLEAN, SHORT, INT, LONG, DOUBLE, STRING, LIST, CLASS or PASSWORD."""
    default: str | None = None
    """The default as DescribeConfigs shows it; None: null."""
    low: float | None = None
    """The smallest number allowed; None: the type's."""
    high: float | None = None
    choices: tuple[str, ...] = ()
    """What a STRING, or each entry of a LIST, may be; (): anything."""
    any_case: bool = False
    """Whether a choice may be written in capitals or not."""
    allowed: str = ""
    """What else Kafka says is allowed, for the few whose rule is neither bounds nor choices."""
    read_only: bool = True
    """Whether a running broker refuses to change it."""
    sensitive: bool = False
    described: bool = True
    """Whether DescribeConfigs of a broker shows it; Kafka keeps some settings to itself."""


@cache
def kafka_settings() -> Mapping[str, KafkaSetting]:
    """Return every setting of a broker of Kafka by its name."""
    listed = json.loads(_DATA.read_text(encoding="utf-8"))["settings"]
    made = (KafkaSetting(**{**each, "choices": tuple(each.get("choices", ()))}) for each in listed)
    return MappingProxyType({setting.name: setting for setting in made})


def allowed_values(setting: KafkaSetting) -> str:
    """Return in words what Kafka allows as the setting's value."""
    if setting.choices:
        one = " or ".join(setting.choices)
        return f"a list of {one}" if setting.type == "LIST" else one
    if setting.type == "BOOLEAN":
        return "true or false"
    if setting.type in BITS or setting.type == "DOUBLE":
        low, high = _bounds(setting)
        kind = "a number" if setting.type == "DOUBLE" else "a whole number"
        if high is None:
            return kind if low is None else f"{kind} of {low} or more"
        return f"{kind} from {low} to {high}"
    return setting.allowed or "text"


def is_allowed(setting: KafkaSetting, text: str) -> bool:
    """Return whether Kafka would start with this value, as far as the setting alone decides it."""
    text = text.strip()
    check = _CHECKS.get(setting.type, _is_text)
    return check(setting, text)


def _bounds(setting: KafkaSetting) -> tuple[float | None, float | None]:
    bits = BITS.get(setting.type)
    if bits is None:
        return setting.low, setting.high
    largest = 2 ** (bits - 1) - 1
    low = -largest - 1 if setting.low is None else setting.low
    return low, largest if setting.high is None else setting.high


def _is_boolean(setting: KafkaSetting, text: str) -> bool:
    return text.lower() in ("true", "false")


def _is_number(setting: KafkaSetting, text: str) -> bool:
    form, number = (_DECIMAL, float) if setting.type == "DOUBLE" else (_WHOLE_NUMBER, int)
    if not form.fullmatch(text):
        return False
    low, high = _bounds(setting)
    value = number(text)
    return (low is None or value >= low) and (high is None or value <= high)


def _is_list(setting: KafkaSetting, text: str) -> bool:
    entries = [entry.strip() for entry in text.split(",")] if text else []
    return all(_is_choice(setting, entry) for entry in entries)


def _is_text(setting: KafkaSetting, text: str) -> bool:
    return _is_choice(setting, text)


def _is_choice(setting: KafkaSetting, text: str) -> bool:
    if not setting.choices:
        return True
    if setting.any_case:
        return text.lower() in map(str.lower, setting.choices)
    return text in setting.choices


_CHECKS: Mapping[str, Callable[[KafkaSetting, str], bool]] = MappingProxyType(
    {
        "BOOLEAN": _is_boolean,
        "SHORT": _is_number,
        "INT": _is_number,
        "LONG": _is_number,
        "DOUBLE": _is_number,
        "LIST": _is_list,
    }
)
