"""Reads the marks of a file: faults that somebody else caused, by the wall clock.

PURE. A line for each, as CSV (`TIME,END,TEXT` or `TIME,TEXT`) or as JSON (`{"at": ..., "until": ..., "text":
...}`); CI.md has the form.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

MARKS_MAX: Final = 10_000
TEXT_CHARACTERS_MAX: Final = 200
SECONDS_MAX: Final = 32_503_680_000
"""The Unix time of the year 3000: larger numbers are milliseconds."""
_KEYS: Final = frozenset({"at", "until", "text"})
_HEADING: Final = "at"


class BadMarks(ValueError):
    """A file of marks cannot be read; the text says line and reason."""


class Mark(NamedTuple):
    """A fault that somebody else caused."""

    text: str
    began_unix_us: int
    ended_unix_us: int | None
    """The end of the fault; None: the file does not say, and the mark counts until the next one."""


def parse(text: str, name: str) -> list[Mark]:
    """Parse marks, in the order of time. `name` is the file's, for errors. Raises BadMarks."""
    found = [
        mark for number, line in enumerate(text.splitlines(), 1) for mark in _line(line, f"{name}:{number}")
    ]
    if len(found) > MARKS_MAX:
        raise BadMarks(f"{name}: {len(found):,} marks; {MARKS_MAX:,} at most are read")
    return sorted(found, key=lambda mark: mark.began_unix_us)


def _line(line: str, where: str) -> Iterator[Mark]:
    line = line.strip().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    if not line or line.startswith("#"):
        return
    at, until, text = _of_json(line, where) if line.startswith("{") else _of_csv(line, where)
    if at == _HEADING:
        return
    began_us = _unix_us(at, where)
    ended_us = _unix_us(until, where) if until not in (None, "") else None
    if ended_us is not None and ended_us < began_us:
        raise BadMarks(f"{where}: it ends ({until}) before it begins ({at})")
    told = " ".join(str(text).split())
    if not told:
        raise BadMarks(f"{where}: a text is needed that says what was done: TIME,TEXT or TIME,END,TEXT")
    yield Mark(told[:TEXT_CHARACTERS_MAX], began_us, ended_us)


def _of_json(line: str, where: str) -> tuple[Any, Any, Any]:
    try:
        said = json.loads(line)
    except ValueError as error:
        raise BadMarks(f"{where}: is no JSON: {error}") from None
    unknown = sorted(said.keys() - _KEYS)
    if unknown or "at" not in said:
        what = f"there is no key {unknown[0]}" if unknown else "at is missing"
        raise BadMarks(f'{where}: {what}; "at", "until" and "text" are allowed')
    return said["at"], said.get("until"), said.get("text", "")


def _of_csv(line: str, where: str) -> tuple[str, str, str]:
    cells = [cell.strip() for cell in next(csv.reader([line]))]
    if len(cells) == 2:
        return cells[0], "", cells[1]
    if len(cells) < 2:
        raise BadMarks(f"{where}: {line!r:.80}: TIME,TEXT or TIME,END,TEXT is needed")
    return (
        (cells[0], cells[1], ", ".join(cells[2:]))
        if _may_be_time(cells[1])
        else (cells[0], "", ", ".join(cells[1:]))
    )


def _may_be_time(cell: str) -> bool:
    """Whether a cell may be an end time: a text with a comma in it is none."""
    return not cell or cell[0].isdigit() or cell == "until"


def _unix_us(said: Any, where: str) -> int:
    try:
        seconds = float(said)
    except (TypeError, ValueError):
        return _of_iso(str(said), where)
    if not 0 <= seconds < SECONDS_MAX:
        raise BadMarks(
            f"{where}: {said}: seconds since 1970 are needed, not milliseconds, or an ISO 8601 time"
        )
    return round(seconds * 1e6)


def _of_iso(said: str, where: str) -> int:
    """Parse a moment of ISO 8601; one without an offset is UTC."""
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        raise BadMarks(
            f"{where}: {said!r:.60} is no time: 2026-11-23T21:30:00Z or seconds since 1970 are needed"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
