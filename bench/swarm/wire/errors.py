"""Kafka's error codes as a swarm tells them.

PURE.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

NEWS: Final = frozenset({int(ErrorCode.rebalance_in_progress), int(ErrorCode.member_id_required)})
"""Error codes by which a healthy coordinator tells its members what to do next. They count as no errors."""


def error_name(code: int) -> str:
    """The name that Kafka has for an error code, as NOT_COORDINATOR."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"ERROR_{code}"
