"""One run of a transcript; the golden files; the first difference between two runs, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.oracle.play import Address, Broken, Play, Step
from tests.oracle.registry import Transcript

GOLDEN = Path(__file__).parent / "golden"
BROKEN = "the transcript cannot go on"


def run(transcript: Transcript, server: Address) -> list[Step]:
    """Play it; what was said, to be compared. A transcript that could not go on ends with a step that says
    so: the difference that led there comes before it."""
    play = Play(server)
    try:
        transcript.script(play)
    except (Broken, AttributeError, IndexError, AssertionError, TypeError) as error:
        play.steps.append({BROKEN: f"{type(error).__name__}: {error}".replace(play.names.token, "")})
    finally:
        play.close()
    steps: list[Step] = json.loads(json.dumps(play.steps))
    return steps


def is_whole(steps: Sequence[Step]) -> bool:
    """Whether the transcript came to its end."""
    return not steps or BROKEN not in steps[-1]


def golden_path(transcript: Transcript) -> Path:
    return GOLDEN / f"{transcript.name}.json"


def read_golden(transcript: Transcript) -> list[Step] | None:
    """Return what the real broker answered; None if it was not asked yet."""
    path = golden_path(transcript)
    if not path.exists():
        return None
    steps: list[Step] = json.loads(path.read_text(encoding="utf-8"))
    return steps


def write_golden(transcript: Transcript, steps: Sequence[Step]) -> None:
    path = golden_path(transcript)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(steps), encoding="utf-8")


def as_text(steps: Sequence[Step]) -> str:
    """JSON with the parts of a step on lines of their own: a person reads it, and so does git diff."""
    shown = [
        ",\n   ".join(
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in step.items()
        )
        for step in steps
    ]
    return "[" + ",\n".join(f"  {{{each}}}" for each in shown).replace("  {", "\n  {", 1) + "\n]\n"


def difference(
    transcript: Transcript,
    expected: Sequence[Step],
    actual: Sequence[Step],
    whose: tuple[str, str],
    *,
    brief: bool = False,
) -> str | None:
    """The transcript up to the first step that differs, and both answers there; None when all is equal.
    `brief`: only that step."""
    found = first_difference(expected, actual)
    if found is None:
        return None
    head = f"{transcript.name} ({', '.join(transcript.rows)})"
    replay = f"replay: python -m tests.oracle replay '{transcript.name}' --bootstrap HOST:PORT"
    lines = told(expected, actual, found, whose)
    return "\n".join([head, *lines[found:]] if brief else [head, *lines, replay])


def first_difference(expected: Sequence[Step], actual: Sequence[Step]) -> int | None:
    """The index of the first step that is not the same on both sides."""
    if expected == actual:
        return None
    pairs = enumerate(zip(expected, actual, strict=False))
    shorter = min(len(expected), len(actual))
    return next((index for index, (theirs, ours) in pairs if theirs != ours), shorter)


def told(expected: Sequence[Step], actual: Sequence[Step], index: int, whose: tuple[str, str]) -> list[str]:
    """A line for each step before the difference, then those of the difference."""
    theirs = expected[index] if index < len(expected) else None
    ours = actual[index] if index < len(actual) else None
    return [
        *map(_line, actual[:index]),
        _line(ours or theirs or {}, with_answer=False),
        f"  {whose[0]}: {_answer(theirs)}",
        f"  {whose[1]}: {_answer(ours)}",
        *_parts(theirs, ours),
    ]


def _line(step: Step, *, with_answer: bool = True) -> str:
    request = _shown(step["request"]) if "request" in step else ""
    done = f"  {step.get('client', '')} {step.get('does', step.get('note', ''))} {request}"
    return f"{done}\n    -> {_answer(step)}" if with_answer and "answer" in step else done


def _answer(step: Step | None) -> str:
    if step is None:
        return "no such step"
    said = step.get("answer", step.get(BROKEN, "sent"))
    return said if isinstance(said, str) else _shown(said)


def _shown(value: Any) -> str:
    """Return a value on one line; a letter repeated more than 60 times is written once, with a count."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"(.)\1{60,}", lambda run: f"{run[1]}... ({len(run[0])} times)", text)


def _parts(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Return the fields in which two values differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        keys = [*theirs, *(key for key in ours if key not in theirs)]
        return [
            line
            for key in keys
            for line in _parts(theirs.get(key, "absent"), ours.get(key, "absent"), f"{path}.{key}")
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [
            line
            for index, pair in enumerate(zip(theirs, ours, strict=True))
            for line in _parts(*pair, f"{path}[{index}]")
        ]
    return [] if theirs == ours else [f"  {path.removeprefix('.')}: {_shown(theirs)} became {_shown(ours)}"]
