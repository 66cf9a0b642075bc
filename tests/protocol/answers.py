"""Answers as kio reads them: by a reader that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kio.serial import entity_reader

from actors.protocol import api_keys, entity_reading


@cache
def answer_reader(cls: Any) -> Callable[[bytes], tuple[Any, int]]:
    """Return what reads the frame of an answer, without its length prefix: its entity, and where that ends.

    kio refuses times before 1970. DescribeTransactions has one, -1, for who has begun nothing: ours reads it.
    """
    read_header = entity_reader(cls.__header_schema__)
    is_kios = cls.__api_key__ != api_keys.DESCRIBE_TRANSACTIONS
    read_body = entity_reader(cls) if is_kios else None

    def read(frame: bytes) -> tuple[Any, int]:
        _, at = read_header(frame, 0)
        if read_body is None:
            return entity_reading.entity_reader(cls)(frame, at)
        entity, size = read_body(frame, at)
        return entity, at + size

    return read
