"""Read Java's properties files, as which Kafka's server.properties is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

_SEPARATED = re.compile(r"((?:\\.|[^\\\s=:])*)\s*[=:]?\s*(.*)", re.DOTALL)
"""A name, in which a separator has a backslash before it; then "=", ":" or blanks; then the value."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = MappingProxyType({"t": "\t", "n": "\n", "r": "\r", "f": "\f"})


def parse(text: str) -> dict[str, str]:
    """Return the values by name; of a name that stands there twice, the last."""
    found = {}
    for line in _logical_lines(text):
        matched = _SEPARATED.fullmatch(line)
        assert matched is not None, line
        found[_unescaped(matched[1])] = _unescaped(matched[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that say something. A line that ends with a backslash goes on in the next one."""
    begun = ""
    for line in text.splitlines():
        line = begun + line.lstrip()
        begun = ""
        if not line or line.startswith(("#", "!")):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            begun = line[:-1]
        else:
            yield line
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text)


def _escaped_character(matched: re.Match[str]) -> str:
    escaped = matched[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _CONTROL.get(escaped, escaped)
