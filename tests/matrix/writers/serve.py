"""What the writers in Python share: commands, values, and what is told of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from bench.clients.line import Line, play

REQUEST_BYTES_MAX = 8 * 1024 * 1024
"""The client's own limit: above every record that is written."""


class Refused(Exception):
    """The server refused a record, with this code of an error."""

    def __init__(self, code: int, error: object) -> None:
        super().__init__(repr(error))
        self.code = code


class Record(NamedTuple):
    topic: str
    partition: int
    codec: str
    value: bytes


def serve(writer: Callable[[str], Callable[[Record], int]]) -> None:
    """Be a writer's program. `writer` makes of a bootstrap address what writes a record and returns its
    offset, or raises Refused."""
    play(lambda line: _obey(line, writer(line.settings["bootstrap.servers"])))


def _obey(line: Line, write: Callable[[Record], int]) -> None:
    (topic,) = line.topics
    while True:
        match line.wait_for_command():
            case ["write", codec, size, partition]:
                record = Record(topic, int(partition), codec, _value(codec, int(size)))
                try:
                    offset = write(record)
                except Refused as refused:
                    line.tell("refused", code=refused.code, error=str(refused))
                else:
                    digest = hashlib.sha256(record.value).hexdigest()
                    line.tell("written", partition=f"{topic}-{partition}", offset=offset, sha256=digest)
            case ["close"]:
                line.tell("closed")
                return


def _value(codec: str, size: int) -> bytes:
    """Text that each codec makes much smaller."""
    text = f"{size} bytes that {codec} compresses. ".encode()
    return (text * (size // len(text) + 1))[:size]
