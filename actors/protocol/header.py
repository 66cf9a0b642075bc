"""What stands before every request's body, once it is read."""

from __future__ import annotations

from typing import NamedTuple


class Header(NamedTuple):
    """A request's header, of version 1 or 2."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str = ""
    """The client's name for itself; "" for null."""
