"""Finds the line of a TOML text on which a key stands, which tomllib does not say. The text is one that
tomllib reads. PURE."""

from __future__ import annotations

import re
from typing import Final

Path = tuple[str | int, ...]
"""The path of a key: keys, and places in arrays."""

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?")
_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|\#[^\n]*'
    r"|[A-Za-z0-9_.-]+|[\[\]{},=\n]",
    re.DOTALL,
)


def lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every table, key and item of an array."""
    found: dict[Path, int] = {(): 1}
    table: Path = ()
    tables: dict[Path, int] = {}
    place = 0
    while place < len(text):
        end = text.find("\n", place) % (len(text) + 1)
        header = _HEADER.match(text, place, end)
        line = text.count("\n", 0, place) + 1
        if header:
            table = _table(header[2], is_array=header[1] == "[[", tables=tables)
            for depth in range(len(table)):
                found.setdefault(table[: depth + 1], line)
            place = end + 1
        else:
            place = _statement(text, place, line, table, found)
    return found


def line_of(found: dict[Path, int], path: Path) -> int:
    """The line of a key, or of the nearest thing around it that is in the text."""
    while path not in found:
        path = path[:-1]
    return found[path]


def _keys(dotted: str) -> Path:
    return tuple(key.strip().strip("\"'") for key in dotted.split("."))


def _table(name: str, *, is_array: bool, tables: dict[Path, int]) -> Path:
    """The path of a table's header: `[[groups.shapes]]` belongs to the last of the `groups` before it."""
    path: Path = ()
    keys = _keys(name)
    for depth, key in enumerate(keys, start=1):
        path = (*path, key)
        if depth == len(keys) and is_array:
            tables[path] = tables.get(path, -1) + 1
        if path in tables:
            path = (*path, tables[path])
    return path


def _statement(text: str, place: int, line: int, table: Path, found: dict[Path, int]) -> int:
    """Note the lines of a `key = value`, which may go over several. Returns where the next line begins."""
    stack: list[Path] = [table]  # of what is open
    items: list[int] = []  # in the open arrays; -1 in an inline table
    key: Path = ()
    for token in _TOKEN.finditer(text, place):
        word = token[0]
        at = line + text.count("\n", place, token.start())
        if word == "\n" and not items:
            return token.end()
        if word in "\n," or word.startswith("#"):
            if word == "," and items[-1] >= 0:
                items[-1] += 1
            continue
        if word in "]}":
            stack.pop()
            items.pop()
            continue
        here = (*stack[-1], items[-1]) if items and items[-1] >= 0 else (*stack[-1], *key)
        if word == "=":
            found.setdefault(here, at)
        elif word in "[{":
            found.setdefault(here, at)
            stack.append(here)
            items.append(0 if word == "[" else -1)
        elif items and items[-1] >= 0:
            found.setdefault(here, at)
        elif not _is_value(text, token.end()):
            key = _keys(word)
    return len(text)


def _is_value(text: str, end: int) -> bool:
    """Whether a text is a value and no key: no `=` follows it."""
    return not text[end:].lstrip(" \t").startswith("=")
