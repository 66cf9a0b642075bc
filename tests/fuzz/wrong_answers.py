"""Answers of a consumer to its coordinator that are right but for one thing."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from actors.protocol import api_keys
from actors.protocol.push_codec import read_push, written_answer
from actors.protocol.push_messages import ConsumedOffsets, Said
from tests.fuzz.distortions import LONGEST

Wrong = Callable[[bytes], bytes]
"""Makes an answer, length included, to a coordinator's request, which comes without its length."""
OFFSETS: Final = (("t0", ((0, 7), (1, -1))),)
_NO_TAGS, _NULL = b"\0", b"\0"


def right(
    push: bytes, *, offsets: ConsumedOffsets = OFFSETS, error_code: int = 0, who: str | None = None
) -> bytes:
    """Make the answer that is to be changed."""
    correlation_id, api_key, request = read_push(push)
    told = () if api_key == api_keys.START_FETCHER else offsets
    return written_answer(
        correlation_id, api_key, request.consumer_id if who is None else who, Said(error_code, told)
    )


def _to(push: bytes, body: bytes) -> bytes:
    """An answer to the request with any body behind its tags."""
    content = push[:4] + _NO_TAGS + body
    return struct.pack(">i", len(content)) + content


def _who(push: bytes) -> bytes:
    name = read_push(push)[2].consumer_id.encode()
    return bytes((len(name) + 1,)) + name


def _with_offsets(packed: bytes) -> Wrong:
    return lambda push: _to(push, b"\0\0" + _who(push) + packed + b"\0" + _NO_TAGS)


CLOSING: Final[Mapping[str, Wrong]] = {
    "never asked": lambda push: (made := right(push))[:7] + bytes((made[7] ^ 0x55,)) + made[8:],
    "given twice": lambda push: right(push) * 2,
    "cut short": lambda push: (made := right(push))[:3] + bytes((made[3] - 1,)) + made[4:-1],
    "of another consumer": lambda push: right(push, who="somebody else"),
    "of nobody": lambda push: right(push, who=""),
    "of a consumer with the longest name": lambda push: right(push, who=LONGEST),
    "consumer null": lambda push: _to(push, b"\0\0" + _NULL + b"\1\0" + _NO_TAGS),
    "no body": lambda push: _to(push, b""),
    "tags that lie": lambda push: struct.pack(">i", 8) + push[:4] + b"\1\5\x7fx",
}
"""What closes the connection, whatever was asked."""
OF_OFFSETS_CLOSING: Final[Mapping[str, Wrong]] = {
    "offsets null": _with_offsets(_NULL),
    "more offsets than bytes": _with_offsets(b"\xff\xff\xff\xff\x07"),
    "topic null": _with_offsets(b"\2" + _NULL + b"\1" + _NO_TAGS),
    "partitions null": _with_offsets(b"\2\2t" + _NULL + _NO_TAGS),
}
"""What closes the connection where offsets are told: in answers to pings and stops."""
PASSING: Final[Mapping[str, Wrong]] = {
    "unknown error": lambda push: right(push, error_code=-1),
    "largest error": lambda push: right(push, error_code=0x7FFF),
    "bytes behind it": lambda push: _to(push, right(push)[9:] + b"more"),
    "no offsets": lambda push: right(push, offsets=()),
    "topic of no name": lambda push: right(push, offsets=(("", ((0, 1),)),)),
    "topic with the longest name": lambda push: right(push, offsets=((LONGEST, ((0, 1),)),)),
    "no such topic": lambda push: right(push, offsets=(("no such topic", ((0, 1),)),)),
    "no such partition": lambda push: right(push, offsets=(("t0", ((-1, 1), (99, 1), (2**31 - 1, 1))),)),
    "largest offset": lambda push: right(push, offsets=(("t0", ((0, 2**63 - 1),)),)),
    "smallest offset": lambda push: right(push, offsets=(("t0", ((0, -(2**63)),)),)),
    "partition twice": lambda push: right(push, offsets=(("t0", ((0, 1), (0, 2))),)),
    "topic twice": lambda push: right(push, offsets=OFFSETS * 2),
    "topic without partitions": lambda push: right(push, offsets=(("t0", ()),)),
}
"""What is taken for what it can mean: the connection stays."""
ALL: Final = (*CLOSING.values(), *OF_OFFSETS_CLOSING.values(), *PASSING.values())
