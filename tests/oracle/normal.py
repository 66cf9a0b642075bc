"""Values as they are compared: random ids, topic ids and addresses replaced by names of first appearance."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import re
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from tests.oracle import rules

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KAFKA_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
"""Kafka's own way to write one: a member id that the server made for a KIP-848 member."""
_ID_FIELDS = {"member_id", "leader", "consumer_id"}


class Names:
    """The names of one run: its token, its topics, and the ids that the server made."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._topics: dict[uuid.UUID, str] = {}
        self._aliases: dict[str, str] = {}

    def know_topic(self, topic_id: uuid.UUID, name: str) -> None:
        self._topics[topic_id] = self.text(name)

    def text(self, value: str) -> str:
        """The text without the token that makes names of this run unique, and with "#1" for the first
        random id."""
        return _UUID.sub(lambda found: self._alias(found.group()), value.replace(self.token, ""))

    def identity(self, value: str) -> str:
        """Replace a value as `text` does, and a value of 22 letters as a random id."""
        return self._alias(value) if _KAFKA_UUID.fullmatch(value) else self.text(value)

    def topic_id(self, value: uuid.UUID) -> str:
        return f"id of {self._topics[value]}" if value in self._topics else self._alias(str(value))

    def producer_id(self, value: int) -> str | int:
        return value if value < 0 else self._alias(f"producer {value}")

    def session_id(self, value: int) -> str:
        return self._alias(f"session {value}")

    def copied(self) -> Names:
        """A copy for a look at a value that names nothing for good."""
        other = Names(self.token)
        other._topics, other._aliases = self._topics, _Unnamed(self._aliases)
        return other

    def _alias(self, value: str) -> str:
        if value not in self._aliases:
            self._aliases[value] = f"#{len(self._aliases) + 1}"
        return self._aliases[value]


class _Unnamed(dict[str, str]):
    """Shows every id that has no name yet as "#?"."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return "#?"


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """How one answer (or request) is read: what is left out of it and what has no order."""

    names: Names
    ignore: Collection[str] = ()
    unordered: Collection[str] = ()

    def plain(self, value: Any, field: str = "") -> Any:
        """Return a value in a form that JSON can hold, with the replacements that the module describes."""
        if dataclasses.is_dataclass(value):
            return self._entity(value)
        if isinstance(value, tuple | list):
            return self._list(value, field)
        if isinstance(value, Mapping):
            return {name: self.plain(inner, name) for name, inner in value.items()}
        return self._scalar(value, field)

    def _entity(self, value: Any) -> dict[str, Any]:
        found = {}
        for field in dataclasses.fields(value):
            if field.name not in self.ignore:
                inner = getattr(value, field.name)
                name = f"{field.name}_ms" if isinstance(inner, datetime.timedelta) else field.name
                found[name] = self.plain(inner, field.name)
        return found

    def _list(self, value: Collection[Any], field: str) -> list[Any]:
        if field in self.unordered and len(value) > 1:
            if all(isinstance(each, int) for each in value):
                return sorted(value)
            peek = dataclasses.replace(self, names=self.names.copied())
            value = sorted(value, key=lambda each: json.dumps(peek.plain(each, field), sort_keys=True))
        return [self.plain(each, field) for each in value]

    def _scalar(self, value: Any, field: str) -> Any:
        if field in rules.PLACES:
            return value if value in (-1, "", None) else "somewhere"
        if isinstance(value, enum.IntEnum):
            return value.name if value.value == 0 else f"{value.value} {value.name}"
        if isinstance(value, datetime.timedelta):
            return round(value.total_seconds() * 1_000)
        if isinstance(value, datetime.datetime):
            return "a time"
        if isinstance(value, uuid.UUID):
            return self.names.topic_id(value)
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, str):
            return self.names.identity(value) if field in _ID_FIELDS else self.names.text(value)
        if field == "session_id" and value > 0:
            return self.names.session_id(value)
        if field.endswith(("producer_id", "producer_id_filters")) and value is not None:
            return self.names.producer_id(value)
        return value

    def _bytes(self, value: bytes) -> str:
        value = value.replace(self.names.token.encode(), b"")
        return (
            value.decode("ascii")
            if value.isascii() and value.decode().isprintable()
            else f"hex {value.hex()}"
        )


def answer(names: Names, api: str, ignore: Collection[str], unordered: Collection[str]) -> Reading:
    """How an answer of `api` is read: by the rules for all, and those of one step."""
    always = rules.UNORDERED.get(api, {})
    return Reading(names, {*rules.IGNORED, *ignore}, {*always, *unordered})
