"""The golden records: bytes of a real Kafka, and what its own classes read in them (see `capture` and
`capture_transactions`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from actors.coordinator.kafka_records.schemas import SCHEMAS, TRANSACTION_SCHEMAS

Line = dict[str, Any]


def _lines(file: str) -> list[Line]:
    return [json.loads(line) for line in (Path(__file__).parent / file).read_text().splitlines()]


LINES = _lines("golden.jsonl")
NAMES = [f"{line['json']['key']['type']}-{number}" for number, line in enumerate(LINES)]
TRANSACTION_LINES = _lines("golden_transactions.jsonl")
TOPICS = [(SCHEMAS, LINES), (TRANSACTION_SCHEMAS, TRANSACTION_LINES)]
"""The table of each internal topic, with its golden records."""
ALL = [(schemas, line) for schemas, lines in TOPICS for line in lines]
ALL_NAMES = [
    *NAMES,
    *(
        f"{line['json']['key']['data']['transactionalId']}-{number}"
        for number, line in enumerate(TRANSACTION_LINES)
    ),
]


def parts(line: Line) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record."""
    value = line["value"]
    return bytes.fromhex(line["key"]), None if value is None else bytes.fromhex(value)
