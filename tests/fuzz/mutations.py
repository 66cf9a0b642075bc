"""What happens to a frame on its way: nothing, a few bits, a length, its end."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tests.protocol.test_garbage import BOMBS

Others = Sequence[tuple[Any, bytes]]
"""Other frames that a mutation may take bytes from: each with the request that it was made of."""
_LENGTH = struct.Struct(">i")
_SHORT_LENGTH = struct.Struct(">h")
_CLIENT_ID_AT = 8


def framed(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def _intact(rng: random.Random, content: bytes, others: Others) -> bytes:
    return framed(content)


def _flipped(rng: random.Random, content: bytes, others: Others) -> bytes:
    spoilt = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    return framed(bytes(spoilt))


def _cut(rng: random.Random, content: bytes, others: Others) -> bytes:
    return framed(content[: rng.randrange(len(content))])


def _torn(rng: random.Random, content: bytes, others: Others) -> bytes:
    """The rest never comes: the length is that of the whole."""
    return framed(content)[: rng.randrange(1, len(content) + 4)]


def _doubled(rng: random.Random, content: bytes, others: Others) -> bytes:
    return framed(content) * 2


def _lengthened(rng: random.Random, content: bytes, others: Others) -> bytes:
    return framed(content + rng.randbytes(rng.randint(1, 40)))


def _lying(rng: random.Random, content: bytes, others: Others) -> bytes:
    """A length inside the frame says what is not so."""
    at = rng.randrange(8, len(content) + 1)
    bomb = rng.choice(BOMBS)
    return framed(content[:at] + bomb + content[at + rng.choice((0, 1, len(bomb))) :])


def _spliced(rng: random.Random, content: bytes, others: Others) -> bytes:
    """The beginning of one frame and the end of another."""
    _, other = rng.choice(others)
    return framed(content[: rng.randrange(8, len(content) + 1)] + other[rng.randrange(len(other)) :])


def _overwritten(rng: random.Random, content: bytes, others: Others) -> bytes:
    at = rng.randrange(len(content))
    return framed(content[:at] + rng.randbytes(rng.randint(1, 16)) + content[at + 8 :])


def _named_at_length(rng: random.Random, content: bytes, others: Others) -> bytes:
    """The frame of a client whose id is as long as there can be."""
    (size,) = _SHORT_LENGTH.unpack_from(content, _CLIENT_ID_AT)
    rest = content[_CLIENT_ID_AT + _SHORT_LENGTH.size + max(size, 0) :]
    return framed(content[:_CLIENT_ID_AT] + _SHORT_LENGTH.pack(32_767) + b"c" * 32_767 + rest)


def _retold(rng: random.Random, content: bytes, others: Others) -> bytes:
    """Another version of the same API, or of its neighbour."""
    key, version = struct.unpack_from(">hh", content)
    retold = struct.pack(">hh", key + rng.choice((0, 0, 0, 1)), version + rng.choice((-1, 1, 2, 100)))
    return framed(retold + content[4:])


def _lying_prefix(rng: random.Random, content: bytes, others: Others) -> bytes:
    length = rng.choice((0, -1, 7, 2**31 - 1, -(2**31), len(content) - 1, len(content) + 1))
    return _LENGTH.pack(length) + content


_Mutation = Callable[[random.Random, bytes, Others], bytes]
_WEIGHTS: dict[_Mutation, int] = {
    _intact: 22,
    _flipped: 30,
    _cut: 8,
    _torn: 3,
    _doubled: 4,
    _lengthened: 4,
    _lying: 14,
    _spliced: 4,
    _overwritten: 5,
    _retold: 4,
    _lying_prefix: 2,
    _named_at_length: 2,
}
_MUTATIONS = list(_WEIGHTS)
_CUMULATED = [sum(list(_WEIGHTS.values())[: n + 1]) for n in range(len(_WEIGHTS))]


def mutate(rng: random.Random, content: bytes, others: Others) -> tuple[str, bytes]:
    """What was done, and the bytes to send for a frame `content` (without its length prefix, which the
    result has). `others`: frames to splice with."""
    (mutation,) = rng.choices(_MUTATIONS, cum_weights=_CUMULATED)
    return mutation.__name__.strip("_"), mutation(rng, content, others)
