"""The marks of a run in its directory: a copy of the user's file, so that any later report has them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.swarm.counted.marks import BadMarks, Mark, parse

FILE: Final = "marks.txt"
BYTES_MAX: Final = 8 * 1024 * 1024


def check(path: Path) -> None:
    """Check a file of marks before a run. The file may be begun later, but its directory has to be there.
    Raises BadMarks, OSError."""
    if path.exists():
        parse(_text(path), str(path))
    elif not path.parent.is_dir():
        raise BadMarks(f"--mark {path}: there is no directory {path.parent}")


def keep(path: Path, directory: Path) -> None:
    """Copy a file of marks into the run's directory. Raises BadMarks, OSError."""
    text = _text(path)
    parse(text, str(path))
    (directory / FILE).write_text(text, encoding="utf-8")


def read(directory: Path) -> list[Mark]:
    """Read the marks of a run; None if it has no file. Raises BadMarks, OSError."""
    path = directory / FILE
    return parse(_text(path), str(path)) if path.exists() else []


def _text(path: Path) -> str:
    if path.stat().st_size > BYTES_MAX:
        raise BadMarks(f"{path}: {path.stat().st_size:,} bytes; {BYTES_MAX:,} at most are read")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadMarks(f"{path}: is no UTF-8 text: {error}") from None
