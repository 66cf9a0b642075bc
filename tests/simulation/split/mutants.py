"""Splits with one mistake each, for the checkers to find: in a shard, or in whoever drives the split.

As in tests/simulation/mutants.py, the docstring of a mutant states the rule that it undoes.
"""

from __future__ import annotations

from typing import Any, Final

from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.split.inside import (
    ARRIVE,
    ARRIVED,
    DROP,
    FORWARDED,
    SEAL,
    ArrivedRequest,
    ArriveRequest,
    DropRequest,
    SealRequest,
)
from actors.coordinator.transactions import offset_commit
from actors.ground.contract import Request, Result
from actors.ground.records import PENDING_TXN_OFFSET, PRODUCER_MARKER, TRANSACTION
from actors.leader.hand_over import MoveInterruptedError, pieces
from actors.protocol.api_keys import WRITE_TXN_MARKERS
from actors.protocol.messages import NO_ERROR
from tests.simulation.mutants_commits import decided_of
from tests.simulation.parts import Process
from tests.simulation.split.controller import MOVE, Controller
from tests.simulation.split.halves import CHILD, PARENT, PARTITIONS


class ServesBeforeTheEnd(CoordinatorShard):
    """The child serves nobody before it has all that moves."""

    def handle(self, request: Request, now_ms: int) -> Result:
        self.state.is_closed = False
        return super().handle(request, now_ms)


class ServesAfterTheSeal(CoordinatorShard):
    """The parent serves what moves no more from its seal on."""

    def handle(self, request: Request, now_ms: int) -> Result:
        return super().handle(request, now_ms) if self.state.is_closed else self._decided(request, now_ms)


class KnowsGroupsThatHaveMoved(CoordinatorShard):
    """A commit that is known is served no more either, once its group has moved."""

    def handle(self, request: Request, now_ms: int) -> Result:
        if decided_of(request) is None or self.state.is_closed:
            return super().handle(request, now_ms)
        return self._decided(request, now_ms)


class LetsTimersGoOn(CoordinatorShard):
    """The parent decides nothing for what moves from its seal on, not by its timers either."""

    def expire(self, now_ms: int) -> Result:
        is_split, self.state.is_split = self.state.is_split, False
        seals, self.state.seals = self.state.seals, {}
        try:
            return super().expire(now_ms)
        finally:
            self.state.is_split, self.state.seals = is_split, seals


class MarksTheParentAlone(CoordinatorShard):
    """A marker that comes to the parent is written in the child too: it may have what the transaction has
    pending."""

    def _decided(self, request: Request, now_ms: int) -> Result:
        if request.api_key == WRITE_TXN_MARKERS:
            return offset_commit.write_markers(self.state, request, now_ms)
        return super()._decided(request, now_ms)


class TakesMarkersThatTheChildHasNot(CoordinatorShard):
    """The parent has a marker written when the child has it: before that the coordinator tries again."""

    def _decided(self, request: Request, now_ms: int) -> Result:
        if request.api_key == FORWARDED:
            errors = (NO_ERROR,) * len(request.body.errors)
            request = request._replace(body=request.body._replace(errors=errors))
        return super()._decided(request, now_ms)


class CopiesBeforeTheSealIsCommitted(Controller):
    """The copy has what was acknowledged before the seal: it is made when the seal is committed."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask, tell = self.asks(parent), self.asks(child)
        copied = [piece for piece in pieces(parent.machine, MOVE) if piece]
        await _give(copied, tell, await _seal(parent, ask))


class DropsAtTheSeal(Controller):
    """The parent removes what has moved when the child has all of it."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask = self.asks(parent)
        epoch = await _seal(parent, ask)
        copied = [piece for piece in pieces(parent.machine, MOVE) if piece]
        await ask(DROP, DropRequest(CHILD))
        await _give(copied, self.asks(child), epoch)


class NotesTheEndTooEarly(Controller):
    """The controller notes that the child serves when it does."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask, tell = self.asks(parent), self.asks(child)
        await _seal(parent, ask)
        for piece in pieces(parent.machine, MOVE):
            await tell(ARRIVE, ArriveRequest(tuple(piece)))


class GivesUpPiecesThatWereRefused(Controller):
    """The end of the copy says how many records there are, and counts only if they are all there."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask, tell = self.asks(parent), self.asks(child)
        epoch = await _seal(parent, ask)
        total = 0
        for number, piece in enumerate(pieces(parent.machine, MOVE)):
            if number % 3 == 0:
                total += len(piece)
                await tell(ARRIVE, ArriveRequest(tuple(piece)))
        await tell(ARRIVED, ArrivedRequest(PARENT, total, PARTITIONS, epoch))


class _Without(Controller):
    """A controller that has a copy made without records of one kind."""

    kind: int

    async def hand_over(self, parent: Process, child: Process) -> None:
        epoch = await _seal(parent, self.asks(parent))
        found = [piece for piece in pieces(parent.machine, MOVE) if piece]
        kept = [[pair for pair in piece if pair[0][0] != self.kind] for piece in found]
        await _give(kept, self.asks(child), epoch)


class LeavesPendingOffsetsBehind(_Without):
    """What a transaction has pending moves with its group."""

    kind = PENDING_TXN_OFFSET


class ForgetsTheLastMarkers(_Without):
    """The last markers of producers are copied: their epochs fence what comes late."""

    kind = PRODUCER_MARKER


class ForgetsWhoseTransactionsAreOpen(_Without):
    """A transactional id moves with what its transaction has come to."""

    kind = TRANSACTION


async def _seal(parent: Process, ask: Any) -> int:
    """Have the parent seal what moves. Return the epoch that stands in the seal."""
    await ask(SEAL, SealRequest(CHILD, PARTITIONS, parent.raft.term))
    sealed = parent.machine.shard.state.seals.get(CHILD)
    if sealed is None:
        raise MoveInterruptedError("there is no seal")
    epoch: int = sealed.coordinator_epoch
    return epoch


async def _give(copied: list[list[tuple[Any, Any]]], tell: Any, epoch: int) -> None:
    for piece in copied:
        answer = await tell(ARRIVE, ArriveRequest(tuple(piece)))
        if answer.error_code:
            raise MoveInterruptedError(str(answer))
    answer = await tell(ARRIVED, ArrivedRequest(PARENT, sum(map(len, copied)), PARTITIONS, epoch))
    if answer.error_code:
        raise MoveInterruptedError(str(answer))


SHARDS: Final = (
    ServesBeforeTheEnd,
    ServesAfterTheSeal,
    KnowsGroupsThatHaveMoved,
    LetsTimersGoOn,
    MarksTheParentAlone,
    TakesMarkersThatTheChildHasNot,
)
CONTROLLERS: Final = (
    CopiesBeforeTheSealIsCommitted,
    DropsAtTheSeal,
    NotesTheEndTooEarly,
    GivesUpPiecesThatWereRefused,
    LeavesPendingOffsetsBehind,
    ForgetsTheLastMarkers,
    ForgetsWhoseTransactionsAreOpen,
)
TRANSACTIONS: Final = (
    MarksTheParentAlone,
    TakesMarkersThatTheChildHasNot,
    LeavesPendingOffsetsBehind,
    ForgetsTheLastMarkers,
    ForgetsWhoseTransactionsAreOpen,
)
"""The mutants that are about transactions."""
