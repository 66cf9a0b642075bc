"""Dicts that are empty in most groups: those of a hundred thousand small groups would weigh as much as their
members, so all empty ones are one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

_K = TypeVar("_K")
_V = TypeVar("_V")

NONE: Final[Mapping[Any, Any]] = MappingProxyType({})
"""The one empty dict that stands for all of them."""


def put(values: Mapping[_K, _V], key: _K, value: _V | None) -> Mapping[_K, _V]:
    """Give the key the value, or take the key away if that is None. Returns the same dict, or `NONE` once it
    is empty."""
    if value is None:
        if values is not NONE:
            cast(dict[_K, _V], values).pop(key, None)
        return values or NONE
    if values is NONE:
        return {key: value}
    cast(dict[_K, _V], values)[key] = value
    return values


def count(counts: Mapping[_K, int], key: _K, change: int) -> Mapping[_K, int]:
    """Change the key's number; a key whose number is 0 is not there."""
    return put(counts, key, counts.get(key, 0) + change or None)
