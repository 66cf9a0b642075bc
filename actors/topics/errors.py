"""The error by which a log refuses: raised deep inside, turned into a partition's answer once, in
`actors.api.data`."""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode


class RecordError(NamedTuple):
    """Why one record of a batch is refused."""

    batch_index: int
    """The record's place in its batch, counted from 0."""
    message: str


class LogError(Exception):
    """Raised by a log that refuses, with Kafka's error code; `message` and `record_errors` reach clients
    whose answer has a place for them."""

    def __init__(
        self,
        error_code: ErrorCode,
        message: str | None = None,
        record_errors: tuple[RecordError, ...] = (),
    ) -> None:
        super().__init__(error_code, message)
        self.error_code = error_code
        self.message = message
        self.record_errors = record_errors


class UnknownCodec(LogError):
    """A batch of an old version of Produce is compressed in a way that there is not."""
