"""Who leads an offsets partition, as one of its replicas sees it: announced, handed on, moved."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import NamedTuple

from actors import runtime
from actors.ground.image import NO_NODE
from actors.ground.nodes import told_of_leaders
from actors.ground.spec import partition_name
from actors.ground.tasks import Tasks
from actors.leader.client_service import ClientService
from actors.leader.history import History
from actors.leader.known_tier import KnownTier
from actors.replica.host import ReplicaHost

log = logging.getLogger("groupd.partition")

RAY_CALL_TIMEOUT_S = 2.0
TELL_AFTER_S = 20.0
"""How long, in seconds, a new leader leaves it to its node's broker to tell the tier. It does so itself if
the tier does not know by then."""
MOVE_TIMEOUT_S = 5.0
MOVE_LOOK_INTERVAL_S = 0.001


class Announced(NamedTuple):
    """What a replica says about its partition's leader."""

    leader_node: int | None
    """The node that leads; None: nobody is known to lead."""
    term: int
    serving: bool
    """Whether this replica leads and answers clients."""


class Leadership:
    """The leadership of offsets partition `partition`, watched by one of its replicas.

    Whenever the leadership changes, the node's broker hears of it at once, which tells the other brokers and
    the controllers; so does history. A replica that led before gives its clients back.
    """

    def __init__(
        self,
        partition: int,
        host: ReplicaHost,
        known: KnownTier,
        clients: ClientService,
        history: History,
    ) -> None:
        self._partition = partition
        self._host = host
        self._known = known
        self._clients = clients
        self._history = history
        self._announced = Announced(None, -1, False)
        self._seen: object = None
        """How Raft stood when it was looked at last (`Raft.stand`)."""
        self._tasks = Tasks(f"news of the leader of partition {partition}")

    @property
    def serving_term(self) -> int | None:
        """Return the term in which this replica leads and answers clients; None if it does not."""
        raft = self._host.raft
        return raft.term if raft is not None and self._host.replica.serving else None

    def on_turn(self) -> None:
        """Announce what has changed since the last turn of the replica's loop."""
        raft = self._host.raft
        assert raft is not None
        if raft.stand is self._seen and self._host.replica.serving == self._announced.serving:
            return  # nearly every turn finds it so
        self._seen = raft.stand
        now = Announced(self._host.leader_node, raft.term, self._host.replica.serving)
        if now == self._announced:
            return
        before, self._announced = self._announced, now
        self._clients.link.announce(
            NO_NODE if now.leader_node is None else now.leader_node, now.term, now.serving
        )
        if before.serving and not now.serving:
            self._history.lost()
            self._clients.lost_leadership()
        if now.serving:
            log.info("leading partition %d in term %d", self._partition, now.term)
            self._history.elected()
            self._tasks.spawn(self._tell_the_tier(now.term))
            self._clients.began_to_lead()
        elif now.leader_node == self._host.node_id and not raft.is_leader:
            self._clients.hand_all_back()

    # Handing leadership over.

    async def move(self, begun: Awaitable[bool]) -> dict[str, float]:
        """Wait for a transfer of leadership that `begun` begins, until another replica serves.

        Returns {"to", "ms"}: the replica that serves now, and the time from here until it did; {} if nothing
        can be handed over now. Raises TimeoutError.
        """
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        self._history.hands_over = True
        if not await begun:
            self._history.hands_over = False
            return {}
        while loop.time() < began_at + MOVE_TIMEOUT_S:
            leader = self._host.leader_replica
            if leader is not None and leader != self._host.replica_id and await self._does_serve(leader):
                return {"to": leader, "ms": round((loop.time() - began_at) * 1000, 1)}
            await asyncio.sleep(MOVE_LOOK_INTERVAL_S)
        raise TimeoutError(f"no other replica took over within {MOVE_TIMEOUT_S:.0f} s")

    async def _does_serve(self, replica_id: int) -> bool:
        name = partition_name(self._partition, replica_id)
        try:
            handle = await runtime.look_up(name, self._known.spec.namespace)
        except TimeoutError:
            return True  # nobody can say where it is: Raft's word has to do
        return handle is not None and await runtime.call(handle, "serves", timeout_s=RAY_CALL_TIMEOUT_S)

    async def resign(self) -> None:
        """Stop the replica; a follower takes over if there is one."""
        self._history.hands_over = True
        await self._host.stop()
        if self._announced.serving:  # nobody is known to have taken over
            self._history.hands_over = False
            self._history.lost("stopped")

    # Telling the tier.

    async def _tell_the_tier(self, term: int) -> None:
        """Tell all brokers and controllers of the new leader, if the node's broker could not: to call them,
        Ray loads what they are made of, a hundred modules that a replica has no use for, and it would do so
        in the moment in which the clients of the dead leader come."""
        await asyncio.sleep(TELL_AFTER_S)
        spec, image = self._known.spec, self._known.image
        leaders = image.offsets_leaders
        is_known = self._partition < len(leaders) and leaders[self._partition] == self._host.node_id
        if self.serving_term == term and not is_known:
            news = self._partition, self._host.node_id, term
            names = told_of_leaders(spec, image)
            await runtime.tell_all(names, spec.namespace, "on_leader", news, RAY_CALL_TIMEOUT_S)
