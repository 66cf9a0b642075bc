"""Requests on their way and their answers: each is answered once, or its connection is closed.

What an answer says is judged in `histories` at the moment in which it leaves the replica.
"""

from __future__ import annotations

from typing import Any

from actors.ground.contract import Request
from tests.simulation import testimony
from tests.simulation.asked import Ask, Asked, Asker
from tests.simulation.checkers import Violation
from tests.simulation.histories import Histories
from tests.simulation.parts import Process, World

OVERDUE_S = 3.0
"""Longer than any answer may take while its replica runs: a join is parked for the rebalance timeout, what
waits for a commit for as long as a leader that is cut off believes to lead."""


class Answers:
    def __init__(self, world: World) -> None:
        self._world = world
        self.histories = Histories(world)
        self.count = 0
        self.missed: set[str] = set()
        """Clients that were given something in answer to a request which they had given up."""
        self._asked: dict[int, Asked] = {}
        self._open: dict[Process, dict[int, Asked]] = {}

    def send(self, client: Asker, process: Process, ask: Ask) -> Asked:
        """A request leaves for `process`; `client.answered` is called unless answer or request are lost."""
        world = self._world
        token = len(self._asked) + 1
        request = Request(token, ask.api_key, ask.version, client.name, f"/{client.name}", ask.body)
        asked = Asked(client, process, request, self.histories.floors(ask))
        self._asked[token] = asked
        if client.is_near or world.reaches(process):
            world.after(world.chance.uniform(0.0001, 0.002), lambda: process.submit(asked))
        return asked

    def arrived(self, asked: Asked) -> None:
        asked.arrived_at = self._world.now
        self._open.setdefault(asked.process, {})[asked.request.token] = asked

    def open_at(self, process: Process) -> int:
        return len(self._open.get(process, ()))

    def given(self, process: Process, token: int, body: Any) -> None:
        """Take an answer that the replica gives."""
        asked = self._asked.get(token)
        if asked is None or asked.process is not process:
            raise Violation(f"answers: {process.name} answers request {token}, which nobody sent to it")
        if asked.is_answered:
            raise Violation(f"answers: {process.name} answers request {token} twice: {body}")
        asked.is_answered = True
        if not getattr(body, "error_code", 0):
            asked.given_at = self._world.now
        del self._open[process][token]
        self.count += 1
        world = self._world
        if world.trace is not None:
            world.trace(world.now, process.name, f"answers {asked.client.name}: {body!r:.160}")
        self.histories.judge(asked, body)
        if asked.is_abandoned and getattr(body, "assignment", None) is not None:
            self.missed.add(asked.client.name)
        if world.reaches(process):
            world.after(world.chance.uniform(0.0001, 0.002), lambda: self._hear(asked, body))

    def _hear(self, asked: Asked, body: Any) -> None:
        if not asked.is_abandoned:
            asked.heard, asked.heard_at = body, self._world.now
        asked.client.answered(asked, body)

    def forgotten(self, process: Process, token: int) -> None:
        """The replica will not answer: nobody is there to take it."""
        asked = self._open[process].pop(token)
        if not asked.is_abandoned:
            raise Violation(f"answers: {process.name} forgets request {token}, whose client waits")
        asked.is_answered = True

    def fallen(self, process: Process) -> None:
        """No longer leading, it has to refuse all who wait."""
        waiting = self._open.get(process)
        if waiting:
            request = next(iter(waiting.values())).request
            raise Violation(
                f"answers: {process.name} no longer leads and lets {len(waiting)} requests wait, as {request}"
            )

    def lost(self, asked: Asked) -> None:
        """Note that a request reached a port on which nobody listens any more."""
        self._world.after(0.001, lambda: asked.client.answered(asked, None))

    def closed(self, process: Process, *, power_lost: bool) -> None:
        """The process is gone, its host closes its connections, unless that is gone too."""
        for asked in self._open.pop(process, {}).values():
            asked.is_answered = True
            if not power_lost:
                self.lost(asked)

    def all_asked(self) -> list[Asked]:
        """Return every request, in the order in which they were sent."""
        return list(self._asked.values())

    def judge(self) -> None:
        """Judge together everything that the clients saw. Raises Violation."""
        testimony.check(self._asked.values(), self._world.now)

    def overdue(self) -> None:
        """Check that no request waits for ever at a process that is not paused. Raises Violation."""
        now = self._world.now
        for process in self._world.processes():
            for asked in self._open.get(process, {}).values():
                if now - max(asked.arrived_at, process.host.paused_until) > OVERDUE_S:
                    raise Violation(
                        f"answers: {process.name} has not answered {asked.request} of {asked.arrived_at:.3f}"
                    )
