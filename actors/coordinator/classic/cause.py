"""Why something happens to a classic group."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """Why something happens to a group; for events only."""

    what: str
    member_id: str | None = None
    reason: str | None = None
    """The client's own words."""
    rule: str | None = None
    """The row that decided."""
