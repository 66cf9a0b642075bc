"""The golden records: bytes of a real Kafka, and what its own classes read in them (see `capture`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LINES = [json.loads(line) for line in (Path(__file__).parent / "golden.jsonl").read_text().splitlines()]
NAMES = [f"{line['json']['key']['type']}-{number}" for number, line in enumerate(LINES)]


def parts(line: dict[str, Any]) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record."""
    value = line["value"]
    return bytes.fromhex(line["key"]), None if value is None else bytes.fromhex(value)
