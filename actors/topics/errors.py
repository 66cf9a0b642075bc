"""The error by which a log refuses: raised deep inside, turned into a partition's answer once, in
`actors.api.data`."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


class LogError(Exception):
    """Raised by a log that refuses, with Kafka's error code; `message` reaches clients whose answer has a
    place for it."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(error_code, message)
        self.error_code = error_code
        self.message = message
