"""Tells what is wrong with a scenario file: file and line, key, and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bench.swarm.planning import toml_lines
from bench.swarm.planning.shapes import SHAPES
from bench.swarm.planning.toml_lines import Path

Tables = Mapping[tuple[str, ...], type[BaseModel]]
"""The model of each table of the file, by the table's path."""


class BadScenario(Exception):
    """A scenario cannot be run; the text says why."""


def hint(name: str, allowed: Iterable[str]) -> str:
    """A hint at the name that was probably meant, and at those that there are."""
    allowed = list(allowed)
    nearest = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    meant = f"did you mean {nearest[0]}? " if nearest else ""
    return f"{meant}{', '.join(allowed)} are allowed"


def no_toml(file: str, error: str) -> str:
    """The words of tomllib, with the line in the place where other errors have it."""
    found = re.search(r" \(at line (\d+), column \d+\)", error)
    line = f":{found[1]}" if found else ""
    return f"{file}{line}: is no TOML: {error.replace(found[0], '') if found else error}"


def words(file: str, text: str, said: dict[str, Any], error: ValidationError, tables: Tables) -> str:
    """The faults of a file, one line for each."""
    found = toml_lines.lines(text)
    faults = []
    for fault in error.errors(include_url=False):
        if fault["type"] == "too_short" and fault["input"]:
            continue  # the faults of its items are told one by one
        path = _in_file(fault["loc"], said)
        faults.append((toml_lines.line_of(found, path), _name(path), _says(fault, path, said, tables)))
    return "\n".join(f"{file}:{line}: {name}: {says}" for line, name, says in sorted(faults))


def _in_file(loc: Sequence[str | int], said: Any) -> Path:
    """The path of a fault in the file: a shape's name is a step of its own only in pydantic's."""
    path: Path = ()
    for place, step in enumerate(loc):
        is_there = step in said if isinstance(said, dict) else isinstance(said, list)
        if is_there:
            said = said[step]
        if is_there or (place == len(loc) - 1 and step != "[key]"):
            path = (*path, step)
    return path


def _name(path: Path) -> str:
    """A path such as `groups[0].shapes[1].away_s`; people count from the top of the file, TOML's arrays
    from 0."""
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return name.lstrip(".") or "the file"


def _says(fault: ErrorDetails, path: Path, said: dict[str, Any], tables: Tables) -> str:
    match fault["type"]:
        case "missing":
            return "it is missing"
        case "extra_forbidden":
            return "there is no such key; " + hint(str(path[-1]), _keys(path[:-1], said, tables))
        case "union_tag_not_found":
            return f'it needs a key shape = "..."; {", ".join(SHAPES)} are allowed'
        case "union_tag_invalid":
            return "there is no such shape; " + hint(str(fault["input"].get("shape")), SHAPES)
        case "too_short":
            return "at least one is needed"
        case "tuple_type":
            return "an array is needed"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "a table is needed"
        case "value_error":
            return fault["msg"].removeprefix("Value error, ")
    allowed = fault["msg"].replace("Input should be", "it has to be")
    return f"{fault['input']!r:.80} is not allowed: {allowed[0].lower()}{allowed[1:]}"


def _keys(path: Path, said: Any, tables: Tables) -> list[str]:
    """The keys that a table of the file may have."""
    for step in path:
        said = said[step]
    names = tuple(step for step in path if isinstance(step, str))
    model = SHAPES[said["shape"]] if names[-1:] == ("shapes",) else tables[names]
    return list(model.model_fields)
