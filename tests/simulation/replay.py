"""A red run as a file: enough to have it again, and what was seen when it was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.simulation.verdict import Case, Verdict

FORMAT_VERSION: Final = 1


def write(directory: Path, red: Verdict) -> Path:
    """Write the case of a red verdict into a file. Raises OSError."""
    case = red.case
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{case.mutant or 'seed'}-{case.seed}"
    path = directory / f"{name if case.replicas is None else f'{name}-of-{case.replicas}'}.json"
    content: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        **case._asdict(),
        "checker": red.checker,
        "violation": red.violation,
        "tail": red.tail,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> Case:
    """Read a case from a file. Raises ValueError and OSError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content["format_version"]
        if version != FORMAT_VERSION:
            raise ValueError(f"format version {version}, this program reads {FORMAT_VERSION}")
        return Case(**{field: content[field] for field in Case._fields})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no replay file of this program: {error}") from error
