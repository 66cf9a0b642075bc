"""The errors of requests: a group error is raised deep inside the pure core, and turned into an answer once,
in the shard."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


class GroupError(Exception):
    """Raised to refuse a request with Kafka's error code. `message` reaches clients whose answer has a place
    for it."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(error_code, message)
        self.error_code = error_code
        self.message = message


class MalformedRequest(Exception):
    """Raised if the bytes are no request of the API and version that they name: the connection is closed
    (W13)."""


class UnsupportedRequest(Exception):
    """Raised for an unknown API or version: the connection is closed, save for ApiVersions (W13)."""


class HangUp(Exception):
    """Raised if a request without an answer failed: the connection is closed, because nothing else tells the
    client."""
