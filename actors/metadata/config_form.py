"""Check what a change of configs must be, whosever the configs are: each resource once, each config once, and
a value wherever one is set."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from actors.metadata.commands import DELETE
from actors.protocol.errors import GroupError


def check_once(times: int) -> None:
    """Check how often a request names a resource. Raises GroupError."""
    if times > 1:
        raise GroupError(ErrorCode.invalid_request, "Each resource must appear at most once.")


def check_form(changes: Iterable[tuple[str, int, str | None]]) -> None:
    """Check the changes (config, operation, value) of one resource. Raises GroupError."""
    changes = tuple(changes)
    names = [name for name, _, _ in changes]
    if len(set(names)) != len(names):
        raise GroupError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    without_value = [name for name, operation, value in changes if value is None and operation != DELETE]
    if without_value:
        message = f"Null value not supported for : {', '.join(without_value)}"
        raise GroupError(ErrorCode.invalid_request, message)
