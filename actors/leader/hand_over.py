"""How the leader of an offsets partition hands the groups that move over to the leader of its child.

Nothing here is remembered: whoever leads may begin anew at any point, as the requests of `coordinator.split`
may be repeated. So a crash of either leader costs the time of another copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

import msgpack

from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.split.inside import (
    ARRIVE,
    ARRIVED,
    SEAL,
    ArrivedRequest,
    ArriveRequest,
    SealRequest,
    SplitResponse,
)
from actors.coordinator.split.place import moves
from actors.replica.replica import Replica

RECORDS_A_STEP: Final = 500
"""How many records are looked at in one piece, which is about a millisecond."""
PIECE_BYTES_MAX: Final = 64 * 1024
"""How large a piece may be, unless one record is larger: below the size from which Ray would put it into its
object store."""

Ask = Callable[[int, Any], Awaitable[SplitResponse]]
"""A function that asks a shard: (api key, body) -> its answer, once what it decided is committed."""


class Move(NamedTuple):
    """The groups that move from one offsets partition to another."""

    parent: int
    child: int
    partitions: int
    """How many offsets partitions the tier has once all have been split."""


class MoveInterruptedError(Exception):
    """Raised if one of the two leaders is none any more, or cannot go on now: to be tried again."""


async def hand_over(replica: Replica, move: Move, coordinator_epoch: int, ask: Ask, tell: Ask) -> int:
    """Seal what moves, have the child take all of it, and return how many records those were. `ask` asks this
    leader's shard, `tell` the child's. Raises MoveInterruptedError, and what `ask` and `tell` raise."""
    _check(await ask(SEAL, SealRequest(move.child, move.partitions, coordinator_epoch)), "the seal")
    shard = replica.shard
    if not isinstance(shard, CoordinatorShard) or not replica.serving:
        raise MoveInterruptedError("this replica does not lead any more")
    replica.refuse(shard.is_elsewhere)
    sealed = shard.state.seals.get(move.child)
    if sealed is None:
        raise MoveInterruptedError("the seal was taken back")
    if sealed.is_dropped:
        raise MoveInterruptedError("everything has been handed over, and is removed here")
    total = 0
    for piece in pieces(replica, move):
        total += len(piece)
        _check(await tell(ARRIVE, ArriveRequest(tuple(piece))), "a part of the copy")
    _check(
        await tell(ARRIVED, ArrivedRequest(move.parent, total, move.partitions, sealed.coordinator_epoch)),
        "the end",
    )
    return total


def pieces(replica: Replica, move: Move) -> Iterator[list[tuple[Any, Any]]]:
    """Yield the records that move, as plain tuples; [] is given now and then when there are few of them."""
    build = replica.begin_fed(may_have_rows=False)
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    is_first = True
    piece: list[tuple[Any, Any]] = []
    begun_at = 0
    try:
        while (data := build.take(RECORDS_A_STEP)) is not None:
            unpacker.feed(data)
            for found in unpacker:
                if is_first:
                    is_first = False  # the header
                elif moves(found[0], move.child, move.partitions):
                    piece.append(found)
                    if unpacker.tell() - begun_at > PIECE_BYTES_MAX:
                        yield piece
                        piece = []
                        begun_at = unpacker.tell()
            yield piece
            piece = []
            begun_at = unpacker.tell()
    finally:
        build.close()


def _check(answer: SplitResponse, what: str) -> None:
    if answer.error_code:
        raise MoveInterruptedError(f"{what} was refused: {answer.message or answer.error_code.name}")
