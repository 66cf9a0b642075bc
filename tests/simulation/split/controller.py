"""What the controller's leader does for a split, in simulated time: it asks both leaders, again and again.

The calls between actors may be lost, and an attempt that nobody waits for any more goes on by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from actors.coordinator.split.inside import DROP, DropRequest, SplitResponse
from actors.leader import hand_over as copying
from actors.leader.hand_over import Move, MoveInterruptedError, hand_over
from tests.simulation.parts import Process
from tests.simulation.split.halves import CHILD, PARENT, PARTITIONS, Half

ATTEMPT_S = 0.7
"""How long an attempt is waited for."""
LOST = 0.02
STEP_S = 0.1
copying.PIECE_BYTES_MAX = 120  # type: ignore[misc]
copying.RECORDS_A_STEP = 3  # type: ignore[misc]
"""Few, so that a copy takes a while and much happens meanwhile."""
MOVE = Move(PARENT, CHILD, PARTITIONS)


class Call:
    """A call of another actor. `begin(answered)` makes it; it may never be answered."""

    def __init__(self, begin: Callable[[Callable[[Any], None]], None]) -> None:
        self.begin = begin

    def __await__(self) -> Generator[Call, Any, Any]:
        return (yield self)


class Controller:
    """Drives one split from its beginning to its end."""

    def __init__(self, halves: list[Half]) -> None:
        self._parent, self._child = halves
        self._noted = self._parent.noted
        self._waits_until = 0.0
        self.is_done = False
        self.attempts = 0

    def start(self, at: float) -> None:
        self._parent.at(at, lambda: self._parent.every(STEP_S, self.step))

    def step(self) -> None:
        now = self._parent.now
        parent, child = self._parent.leader(), self._child.leader()
        if self.is_done or now < self._waits_until or parent is None or child is None:
            return
        self._waits_until = now + ATTEMPT_S
        self.attempts += 1
        if self._noted.is_cut:
            self._drive(parent, self.drop(parent))
        else:
            self._drive(parent, self.move(parent, child))

    async def move(self, parent: Process, child: Process) -> None:
        """Have everything handed over, then note that."""
        self._parent.note("controller", f"has {parent.name} hand over to {child.name}")
        await self.hand_over(parent, child)
        self._noted.is_cut = True
        for half in (self._parent, self._child):
            half.spread_image()
        self._waits_until = 0.0
        self._parent.note("controller", "notes that the child serves")

    async def hand_over(self, parent: Process, child: Process) -> None:
        ask, tell = self.asks(parent), self.asks(child)
        await hand_over(parent.machine, MOVE, parent.raft.term, ask, tell)

    async def drop(self, parent: Process) -> None:
        answer: SplitResponse = await self.asks(parent)(DROP, DropRequest(CHILD))
        self.is_done = self.is_done or not answer.error_code
        self._waits_until = 0.0

    # Calls.

    def asks(self, process: Process) -> Callable[[int, Any], Any]:
        """Return what asks this process's shard."""

        async def ask(api_key: int, body: Any) -> Any:
            return await Call(lambda answered: self._call(process, api_key, body, answered))

        return ask

    def _call(self, process: Process, api_key: int, body: Any, answered: Callable[[Any], None]) -> None:
        def arrive() -> None:
            process.plug_ins.ask(api_key, body, lambda answer: self._travel(lambda: answered(answer)))

        self._travel(lambda: process.later(0.0, arrive) if process.is_alive else None)

    def _travel(self, arrives: Callable[[], Any]) -> None:
        chance = self._parent.chance
        if self._parent.is_healed or chance.random() >= LOST:
            self._parent.after(chance.uniform(0.0001, 0.012), arrives)

    def _drive(self, owner: Process, work: Coroutine[Any, Any, None]) -> None:
        """Carry work out in a process; it ends with the process."""

        def go_on(answer: Any) -> None:
            try:
                call: Call = work.send(answer)
            except StopIteration:
                return
            except MoveInterruptedError as why:
                self._parent.note("controller", f"has to try again: {why}")
                self._waits_until = 0.0
                return
            call.begin(lambda answer: owner.later(0.0, lambda: go_on(answer)) if owner.is_alive else None)

        owner.later(0.0, lambda: go_on(None))
