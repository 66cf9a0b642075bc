"""Copy one Raft group's committed state, read out of its leader's actor piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

import msgpack

from actors import runtime
from actors.replica.log_level import READABLE_VERSIONS
from actors.runtime import ActorCallError
from cluster.backup_file import PackedRecord
from cluster.group_leaders import NotNow

BUILD_TIMEOUT_S = 120.0
"""How long, in seconds, a copy may take: it may be of millions of records under load."""
PIECE_TIMEOUT_S = 10.0
KEY_DIGEST_BYTES = 16


class StateCopy(NamedTuple):
    """A copy of the state after the entry at `commit_index`, which was of `term`. `records` may be read
    once."""

    commit_index: int
    term: int
    records: Iterator[PackedRecord]


def open_copy(leader: runtime.Handle) -> StateCopy:
    """Begin a copy of what `leader`, the actor of a replica, has committed.

    Raises NotNow, ActorCallError, TimeoutError, here and while the records are read.
    """
    begun = runtime.await_call(leader, "begin_copy", timeout_s=BUILD_TIMEOUT_S)
    if not begun:
        raise NotNow("its leader has just changed")
    records = _records(_pieces(leader, begun["copy"], begun["bytes"]))
    return StateCopy(begun["commit_index"], begun["term"], records)


def _pieces(leader: runtime.Handle, copy: int, size_bytes: int) -> Iterator[bytes]:
    try:
        offset = 0
        while offset < size_bytes:
            piece = runtime.await_call(leader, "copy_piece", copy, offset, timeout_s=PIECE_TIMEOUT_S)
            if not piece:
                raise NotNow(f"its copy ends after {offset} of {size_bytes} bytes")
            yield piece
            offset += len(piece)
    finally:
        # The end is waited for: a command that ends right after it would take the message with it.
        with suppress(ActorCallError, TimeoutError):
            runtime.await_call(leader, "end_copy", copy, timeout_s=PIECE_TIMEOUT_S)


def _records(pieces: Iterator[bytes]) -> Iterator[PackedRecord]:
    """Yield the records of packed state, each key once: what is written while the copy is made may stand in
    it twice, with one value."""
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    is_headed = False
    seen: set[bytes] = set()
    for piece in pieces:
        unpacker.feed(piece)
        for item in unpacker:
            if is_headed:
                key, value = item
                digest = blake2b(msgpack.packb(key), digest_size=KEY_DIGEST_BYTES).digest()
                if digest not in seen:
                    seen.add(digest)
                    yield key, value
            elif item[0] in READABLE_VERSIONS:
                is_headed = True
            else:
                raise NotNow(f"its records have format version {item[0]}, this groupd reads another")
