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
    SEAL,
    ArrivedRequest,
    ArriveRequest,
    DropRequest,
    SealRequest,
)
from actors.ground.contract import Request, Result
from actors.leader.hand_over import MoveInterruptedError, pieces
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


class LetsTimersGoOn(CoordinatorShard):
    """The parent decides nothing for what moves from its seal on, not by its timers either."""

    def expire(self, now_ms: int) -> Result:
        is_split, self.state.is_split = self.state.is_split, False
        seals, self.state.seals = self.state.seals, {}
        try:
            return super().expire(now_ms)
        finally:
            self.state.is_split, self.state.seals = is_split, seals


class CopiesBeforeTheSealIsCommitted(Controller):
    """The copy has what was acknowledged before the seal: it is made when the seal is committed."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask, tell = self.asks(parent), self.asks(child)
        copied = [piece for piece in pieces(parent.machine, MOVE) if piece]
        await ask(SEAL, SealRequest(CHILD, PARTITIONS, 1))
        await _give(copied, tell)


class DropsAtTheSeal(Controller):
    """The parent removes what has moved when the child has all of it."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask = self.asks(parent)
        await ask(SEAL, SealRequest(CHILD, PARTITIONS, 1))
        copied = [piece for piece in pieces(parent.machine, MOVE) if piece]
        await ask(DROP, DropRequest(CHILD))
        await _give(copied, self.asks(child))


class NotesTheEndTooEarly(Controller):
    """The controller notes that the child serves when it does."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask, tell = self.asks(parent), self.asks(child)
        await ask(SEAL, SealRequest(CHILD, PARTITIONS, 1))
        for piece in pieces(parent.machine, MOVE):
            await tell(ARRIVE, ArriveRequest(tuple(piece)))


class GivesUpPiecesThatWereRefused(Controller):
    """The end of the copy says how many records there are, and counts only if they are all there."""

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask, tell = self.asks(parent), self.asks(child)
        await ask(SEAL, SealRequest(CHILD, PARTITIONS, 1))
        total = 0
        for number, piece in enumerate(pieces(parent.machine, MOVE)):
            if number % 3 == 0:
                total += len(piece)
                await tell(ARRIVE, ArriveRequest(tuple(piece)))
        await tell(ARRIVED, ArrivedRequest(PARENT, total, PARTITIONS, 1))


async def _give(copied: list[list[tuple[Any, Any]]], tell: Any) -> None:
    for piece in copied:
        answer = await tell(ARRIVE, ArriveRequest(tuple(piece)))
        if answer.error_code:
            raise MoveInterruptedError(str(answer))
    answer = await tell(ARRIVED, ArrivedRequest(PARENT, sum(map(len, copied)), PARTITIONS, 1))
    if answer.error_code:
        raise MoveInterruptedError(str(answer))


SHARDS: Final = (ServesBeforeTheEnd, ServesAfterTheSeal, LetsTimersGoOn)
CONTROLLERS: Final = (
    CopiesBeforeTheSealIsCommitted,
    DropsAtTheSeal,
    NotesTheEndTooEarly,
    GivesUpPiecesThatWereRefused,
)
