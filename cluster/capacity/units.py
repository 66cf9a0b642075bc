"""Times and sizes as one types and reads them: 5s, 500ms, 1h, 32GiB. PURE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_NUMBER: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([A-Za-z]*)")
_SECONDS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_BYTES: Final[Mapping[str, int]] = {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
MANY_BYTES: Final = 10_000
_NAMES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class UnitError(ValueError):
    """A text that names no time or size; it says what is expected."""


def seconds(text: str) -> float:
    """Read a time such as 5s or 500ms. Raises UnitError."""
    return _with_unit(text, _SECONDS, "a time such as 500ms, 5s, 1m, 1h or 1d")


def size(text: str) -> float:
    """Read a size such as 32GiB, in bytes. Raises UnitError."""
    return _with_unit(text, _BYTES, "a size such as 512MiB or 32GiB")


def _with_unit(text: str, units: Mapping[str, float], expected: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise UnitError(f"{text}: {expected} is expected")
    return float(found[1]) * units[found[2]]


def shown_bytes(value: float) -> str:
    """A size as one reads it: three digits and a unit."""
    place = 0
    while value >= 1000 and place < len(_NAMES) - 1:
        value /= 1024
        place += 1
    return f"{short(value)} {_NAMES[place]}"


def shown_seconds(value: float) -> str:
    """A time as one types it."""
    if value < 1:
        return f"{value * 1000:g}ms"
    unit = next(unit for unit in ("d", "h", "m", "s") if value % _SECONDS[unit] == 0 or unit == "s")
    return f"{value / _SECONDS[unit]:g}{unit}"


def quantity(value: float, unit: str) -> str:
    """A value with its unit, which many bytes change."""
    if unit == "bytes" and value >= MANY_BYTES:
        return shown_bytes(value)
    return f"{short(value)} {unit}"


def short(value: float) -> str:
    """A number with three digits that count."""
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1g}"
