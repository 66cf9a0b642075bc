"""Which segments are too old or too many. Pure: told what is there and the time."""

from __future__ import annotations

from collections.abc import Iterable

from storage.history.segments.names import Found, Segment

NO_LIMIT = -1


def expired(found: Iterable[Found], now_ms: int, *, retention_ms: int, retention_bytes: int) -> list[Segment]:
    """The segments of one offsets partition that are to be removed. A segment goes when its whole day is
    past `retention_ms`; then the oldest go, until the rest has at most `retention_bytes`."""
    oldest_first = sorted(found, key=lambda each: (each.segment.first_at_ms, each.segment))
    held_bytes = sum(each.size_bytes for each in oldest_first)
    gone = []
    for each in oldest_first:
        is_old = retention_ms != NO_LIMIT and each.segment.day_ends_ms <= now_ms - retention_ms
        if is_old or (retention_bytes != NO_LIMIT and held_bytes > retention_bytes):
            gone.append(each.segment)
            held_bytes -= each.size_bytes
    return gone
