"""The controller's leader at work: production's reconciler, on the processes of the controller's group."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from actors import runtime
from actors.controller.controller import COMMAND_TIMEOUT_S, Controller, NotController
from actors.ground.spec import TierSpec, partition_group
from actors.metadata.commands import ReportLeader
from cluster.reconcile import Reconciler
from tests.simulation.checkers import Violation
from tests.simulation.coroutines import Coroutines
from tests.simulation.drain.far import SimMachines
from tests.simulation.drain.tier import Tier
from tests.simulation.parts import Process

STEP_S = 0.06


class Care(Controller):
    """One process of the controller. What is about its actor (links, brokers, files) is left out."""

    def __init__(self, tier: Tier, process: Process, reconciler: type[Reconciler]) -> None:
        self._spec = tier.spec
        self._host: Any = SimpleNamespace(
            node_id=tier.controllers.node_of[process.number], replica=process.machine
        )
        self._reconciler = None
        self._new_reconciler = reconciler
        self._tier = tier
        self._process = process
        self.loop = Coroutines(process)
        self.task: asyncio.Task[None] | None = None
        self.spec: TierSpec | None = None
        """What the last step was to make of the tier."""

    def step(self) -> None:
        """Look after the tier, unless that is still being done."""
        if self.task is None or self.task.done():
            self.task = self.loop.create_task(self._step())

    async def _step(self) -> None:
        if not self._process.machine.serving:
            self._reconciler = None
            return
        try:
            await self._register_nodes()
            await self._reconcile()
        except (NotController, TimeoutError) as error:
            self._tier.note(f"the tier's care is interrupted: {error!r}")
        except Exception as error:
            self._tier.failure = error

    async def _reconcile(self) -> None:
        if self._reconciler is None:
            self._reconciler = self._new_reconciler(self._spec, self._decide, clock=self.loop.time)
        self.spec = self._present_spec()
        for done in await self._reconciler.step(self.spec):
            self._tier.note(f"{self._process.name}: {done}")

    async def _decide(self, command: Any) -> Any:
        process, answer = self._process, self.loop.create_future()
        if not process.machine.serving:
            raise NotController(None)

        def answered(body: Any) -> None:
            if not answer.done():
                answer.set_result(body)

        process.plug_ins.ask(-1, command, answered)
        body = await asyncio.wait_for(answer, COMMAND_TIMEOUT_S)
        if getattr(body, "error_code", None) == ErrorCode.not_coordinator:
            raise NotController(None)
        return body


class Cares:
    """The care of whichever process leads the controller."""

    def __init__(self, tier: Tier, reconciler: type[Reconciler]) -> None:
        self._tier = tier
        self._new_reconciler = reconciler
        self._cares: dict[Process, Care] = {}
        self._told: dict[str, int] = {}
        """Group -> the last term of which its leader has told the controller."""
        self._machines = SimMachines(tier)
        self._machines.on_transfer = self._check_transfer

    def start(self) -> None:
        runtime.use(self._machines)
        self._tier.controllers.every(STEP_S, self._step)

    def end(self) -> None:
        runtime.use(None)
        for care in self._cares.values():
            care.loop.close()

    def _step(self) -> None:
        tier = self._tier
        tier.check_failure()
        self._tell_of_leaders()
        for process in [process for process in self._cares if not process.is_alive]:
            self._cares.pop(process).loop.close()
        for process in tier.controllers.processes():
            if process.machine.serving or process in self._cares:
                if process not in self._cares:
                    self._cares[process] = Care(tier, process, self._new_reconciler)
                self._cares[process].step()

    def _tell_of_leaders(self) -> None:
        """Have new leaders of partitions tell whoever leads the controller just then, once."""
        for number in range(len(self._tier.spec.placement)):
            group = self._tier.groups[partition_group(number)]
            leader = group.leader()
            if leader is not None and self._told.get(group.name) != leader.raft.term:
                self._told[group.name] = leader.raft.term
                news = ReportLeader(number, group.node_of[leader.number], leader.raft.term)
                for process in self._tier.controllers.processes():
                    if process.machine.serving:
                        process.later(0.0, partial(process.plug_ins.ask, -1, news, lambda answer: None))

    def _check_transfer(self, loop: Any, group: str, replica_id: int) -> None:
        spec = self._cares[loop.process].spec
        assert spec is not None
        if spec.node_of(group, replica_id) in spec.draining:
            raise Violation(
                f"leadership: {loop.process.name} has leadership of {group} go to replica {replica_id} on "
                f"node {spec.node_of(group, replica_id)}, which it drains"
            )
