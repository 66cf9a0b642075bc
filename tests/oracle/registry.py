"""All transcripts: small functions that say what they prove."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.oracle import transcripts
from tests.oracle.play import Play
from tests.oracle.profiles import PROFILES

Script = Callable[[Play], None]
_found: dict[str, Transcript] = {}


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript; its `name` is "area/function"."""

    name: str
    rows: tuple[str, ...]
    profile: str
    script: Script

    def __str__(self) -> str:
        return self.name


def transcript(
    *, rows: tuple[str, ...], profile: str = "base", cases: dict[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a transcript that proves `rows` under the settings of `profile`.

    With `cases`, one transcript of each: the function's second argument is the case's value, and its name
    gets the case's key, such as "join[v4]".
    """
    assert profile in PROFILES, profile
    assert rows, "name the rows that this proves"

    def registered(script: Callable[..., None]) -> Callable[..., None]:
        area = script.__module__.rpartition(".")[2]
        name = f"{area}/{script.__name__}"
        if cases is None:
            _add(Transcript(name, rows, profile, script))
        for key, value in (cases or {}).items():
            _add(Transcript(f"{name}[{key}]", rows, profile, _with(script, value)))
        return script

    return registered


def _with(script: Callable[..., None], value: Any) -> Script:
    return lambda play: script(play, value)


def _add(found: Transcript) -> None:
    assert found.name not in _found, f"two transcripts are called {found.name}"
    _found[found.name] = found


def all_transcripts() -> list[Transcript]:
    """The transcripts, ordered by name."""
    for module in pkgutil.iter_modules(transcripts.__path__):
        importlib.import_module(f"{transcripts.__name__}.{module.name}")
    return [_found[name] for name in sorted(_found)]


def chosen(patterns: list[str]) -> list[Transcript]:
    """Return the transcripts whose name has one of the patterns in it, or all if there are no patterns."""
    return [each for each in all_transcripts() if not patterns or any(part in each.name for part in patterns)]


def by_profile() -> list[Transcript]:
    """Return all transcripts, those of one profile together."""
    return sorted(all_transcripts(), key=lambda each: (each.profile, each.name))
