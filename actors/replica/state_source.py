"""The base of actors that hold replicated state: who belongs to their group and leads it, and copies for a
backup.

A copy is the state as of one committed entry, built in slices between requests (see snapshot_build) and kept
until its reader has taken all of it, or has not been heard of for a while.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from actors.ground.actor import Actor
from actors.replica.host import ReplicaHost
from storage.raft.members import replica_of
from storage.raft.raft import Raft

LEASE_TIMEOUT_S = 0.5
"""How long, in seconds, a leader that rested may take to hear from its peers."""
LEASE_LOOK_S = 0.005
"""How often, in seconds, it looks whether they have answered."""
COPY_IDLE_S = 30.0
"""How long, in seconds, a copy is kept whose reader asks for nothing."""
RECORDS_PER_STEP = 500
"""How many records a step of a copy takes, which is about a millisecond: nobody waits for a backup, so it may
take more steps than a snapshot."""
PIECE_BYTES_MAX = 64 * 1024
"""How large a piece of a copy may be: below the size from which Ray would put an answer into its object
store."""


class _Copy(NamedTuple):
    number: int
    data: bytes
    idle: asyncio.TimerHandle


class StateSource(Actor):
    """The base of the actors that have a replica."""

    _host: ReplicaHost
    _copy: _Copy | None = None
    _is_copying = False
    _copies_begun = 0

    async def set_members(self, target: dict[str, int]) -> None:
        """Work towards these members (id -> node id) if this replica leads, as `Raft.set_target` does."""
        self._host.set_members(target)

    async def transfer(self, to_replica: int | None = None) -> bool:
        """Hand leadership to a follower, gracefully. Return whether that has begun."""
        raft = self._host.raft
        if raft is None:
            return False
        to = None
        if to_replica is not None:
            ids = (member.member_id for member in raft.members if member.votes)
            to = next((each for each in ids if replica_of(each) == to_replica), None)
            if to is None:
                return False
        begun = raft.transfer(to)
        self._host.wake()
        return begun

    async def _gets_lease(self, raft: Raft) -> bool:
        """Return whether this leader's state is the newest. If it rests its peers are asked first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEASE_TIMEOUT_S
        while not raft.has_lease():
            if loop.time() >= deadline or not self._host.replica.serving:
                return False
            self._host.wake()
            await asyncio.sleep(LEASE_LOOK_S)
        return True

    async def begin_copy(self) -> dict[str, Any]:
        """Copy the committed state of now. Return {"copy", "commit_index", "term", "bytes"}: the copy's
        number, the entry of the log (with its term) after which the state was as in the copy, and the copy's
        size. {} if this replica does not lead, or cannot be sure: then another may know more.

        Raises RuntimeError if a copy is being read already.
        """
        host = self._host
        raft = host.raft
        if raft is None or not host.replica.serving or not await self._gets_lease(raft):
            return {}
        if self._is_copying or self._copy is not None:
            raise RuntimeError(
                f"a copy of {self._name} is being read: one at a time; it ends by itself when its reader has "
                f"been silent for {COPY_IDLE_S:.0f} s"
            )
        # A leader that serves has applied an entry of its own term.
        begun = {"commit_index": raft.applied_index, "term": raft.term}
        self._is_copying = True
        try:
            build = host.replica.begin_copy()
            while (data := build.step(RECORDS_PER_STEP)) is None:
                # The loop goes round once: whoever sent a request meanwhile is answered first.
                await asyncio.sleep(0)
        finally:
            self._is_copying = False
        self._copies_begun += 1
        self._copy = _Copy(self._copies_begun, data, self._drop_later())
        return {"copy": self._copies_begun, "bytes": len(data), **begun}

    async def copy_piece(self, number: int, offset: int) -> bytes:
        """Return at most PIECE_BYTES_MAX bytes of copy `number` from `offset` on.

        Raises RuntimeError if the copy is gone.
        """
        copy = self._copy
        if copy is None or copy.number != number:
            raise RuntimeError(f"copy {number} of {self._name} is gone: its reader was silent for too long")
        copy.idle.cancel()
        self._copy = copy._replace(idle=self._drop_later())
        return copy.data[offset : offset + PIECE_BYTES_MAX]

    async def end_copy(self, number: int) -> None:
        """Drop copy `number`, which its reader needs no more."""
        if self._copy is not None and self._copy.number == number:
            self._copy.idle.cancel()
            self._copy = None

    def _drop_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(COPY_IDLE_S, self._drop)

    def _drop(self) -> None:
        self._copy = None
