"""Two releases in one run: hosts that serve level 1 of `groupd.version` only, and hosts that serve level 2.

Whenever a replica starts, its host may have got another release, forward or back, and now and then one starts
for that. Once every replica that there is runs and serves level 2, the controller may finalize it, while
faults go on; from then on nobody goes back. The checker sees to it that no replica has to read what its
release cannot.
"""

from __future__ import annotations

import random
from typing import Any, Final

import msgpack

from actors.replica.log_level import FORMAT_VERSION
from storage.raft.messages import REST
from tests.simulation.checkers import Violation
from tests.simulation.machines import COORDINATOR
from tests.simulation.parts import Process, World

PLAYED: Final = 0.4
"""How often a run of coordinators begins at level 1."""
NEW: Final = 2
STEP_S: Final = 0.1
AWAY_S: Final = 0.05
"""How long a host is away that gets another release."""


class Releases:
    """The releases of a run's hosts. It draws from a chance of its own: the other faults stay as they are."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"releases of {seed}")
        self.are_mixed = world.kind is COORDINATOR and self._chance.random() < PLAYED
        self.level = 1
        """The level that is finalized."""
        self._wanted_at = self._chance.uniform(0.5, 2.0)
        """When the operator begins to want level 2: releases come and go before."""
        self._serves: dict[int, int] = {}
        """Host -> the highest level that its release serves."""
        self.exchanged = 0
        """How often a host got another release."""
        self.read = [0, 0, 0]
        """How many entries and snapshots of each level were read."""

    def start(self) -> None:
        if self.are_mixed:
            self._world.after(STEP_S, self._step)

    def _step(self) -> None:
        """Give a host another release, or finalize what all serve."""
        world = self._world
        if world.is_healed or self.level == NEW:
            return
        hosts = [host for host in world.hosts.values() if not host.retired]
        is_wanted = world.now >= self._wanted_at
        old = [host for host in hosts if host.process is None or self._serves.get(host.number) != NEW]
        if is_wanted and not old:
            # One that does not run may be of any release.
            self.level = NEW
            world.note("controller", f"finalizes level {NEW}")
            world.change_topics()
        elif self._chance.random() < 0.3:
            self._chance.choice(old if is_wanted else hosts).stop(for_s=AWAY_S)
        world.after(STEP_S, self._step)

    def started(self, number: int) -> None:
        """Let a host start with another release, or with the one that it had."""
        serves = NEW
        if self.are_mixed and self.level < NEW:
            serves = self._chance.choice((NEW, NEW, 1))
        self.exchanged += self._serves.get(number, serves) != serves
        self._serves[number] = serves

    def received(self, process: Process, message: Any) -> None:
        """Check that a replica's release knows a message. Raises Violation."""
        if message[0] != REST:
            return
        self._world.rests.heard += 1
        if self._serves[process.number] < NEW:
            raise Violation(f"releases: {process.name} serves level 1, and hears a leader that rests")

    def reads(self, process: Process, data: bytes) -> None:
        """Check that a replica's release can read an entry or snapshot. Raises Violation."""
        unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
        unpacker.feed(data)
        level = max(unpacker.unpack()[0] - FORMAT_VERSION + 1, 1)
        self.read[level] += 1
        if level > self._serves[process.number]:
            raise Violation(f"releases: {process.name} serves level 1, and has to read what is of {level}")
