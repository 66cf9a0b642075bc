"""Metrics as plain values that travel between actors: `[name, labels, value]` rows.

`labels` is a tuple of texts in the order of the family's labels; the value of a summary is a packed
histogram. Rows of several actors are added up, or the largest is taken, as the family says.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from actors.metrics.counts import RequestCounts
from actors.metrics.families import FAMILIES
from actors.metrics.histogram import added
from actors.protocol.api_keys import NAMES

Row = tuple[str, tuple[str, ...], Any]
Numbers = dict[tuple[str, tuple[str, ...]], Any]
"""(name, labels) -> value. The value of a summary is (sum in ns, {bucket: count})."""

_PAGE_BYTES = resource.getpagesize()


def merged(rows: Iterable[Iterable[Any]]) -> Numbers:
    """Return the rows of several actors as one, without families that are not known here (a newer
    actor's)."""
    by_key: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
    for name, labels, value in rows:
        if name in FAMILIES:
            by_key.setdefault((name, tuple(labels)), []).append(value)
    return {key: _together(FAMILIES[key[0]].kind, values) for key, values in by_key.items()}


def _together(kind: str, values: list[Any]) -> Any:
    if kind == "summary":
        return added(values)
    return max(values) if kind == "max" else sum(values)


def request_rows(counts: RequestCounts) -> list[Row]:
    """Return the rows of one actor's requests."""
    rows: list[Row] = []
    for api_key, of_api in sorted(counts.by_api.items()):
        name = api_name(api_key)
        if answered := of_api.fine + of_api.errors.total():
            rows.append(("requests", (name,), answered))
        rows += [("errors", (name, ErrorCode(code).name), count) for code, count in of_api.errors.items()]
    return rows


def process_rows(actor: str) -> list[Row]:
    """Return the rows of this process's memory and processor time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident_bytes = int(statm.read().split()[1]) * _PAGE_BYTES
    return [
        ("resident_memory_bytes", (actor,), resident_bytes),
        ("cpu_seconds", (actor,), usage.ru_utime + usage.ru_stime),
    ]


def gauge_rows(name: str, by_label: Mapping[str, int]) -> list[Row]:
    return [(name, (label,), count) for label, count in by_label.items()]


def api_name(api_key: int) -> str:
    """Return the API's name as metrics show it, "join_group"."""
    return NAMES.get(api_key, str(api_key))
