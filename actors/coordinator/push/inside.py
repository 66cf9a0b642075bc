"""What stands for an answer to what a consumer answers, or to the news that its connection has gone: nobody
waits for one."""

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request


class Unanswered(NamedTuple):
    error_code: ErrorCode


def refused(request: Request, error: ErrorCode, message: str | None) -> Unanswered:
    return Unanswered(error)
