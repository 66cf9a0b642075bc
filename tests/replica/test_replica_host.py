"""The loop around a replica: the order of its work when it is late with everything."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from actors.ground.spec import TierSpec
from actors.replica.host import ReplicaHost
from storage.raft.members import Member
from storage.raft.messages import APPEND, PRE_VOTE, VOTE, Append
from storage.raft.skeleton import Node
from storage.raft.transport import LinkIdentity, PeerTransport
from tests.coordinator.alone import TYPES
from tests.coordinator.shards import new_shard
from tests.ground.specs import spec_in
from tests.polling import reached

GROUP = "partition-0"
FOLLOWER, LEADER, ABSENT = "0.1", "1.1", "2.1"
ROUNDS = 5
LATE_S = 0.05
"""How late a loop's coarse timers may fire."""


class ScriptedLeader:
    """The greater of two peers: it sends what a test says, and keeps what it receives."""

    def __init__(self, spec: TierSpec) -> None:
        self.heard: list[Any] = []
        self.connected: list[str] = []
        self.transport = PeerTransport(
            asyncio.get_running_loop(),
            LinkIdentity(spec.tier_id, GROUP, LEADER),
            spec.raft_address(GROUP, 1, 2),
            lambda member: spec.raft_address(GROUP, 0, 1),
            spec.raft_secret(GROUP),
            lambda: None,
        )
        base: Any = self.transport  # pysyncobj's setters, as Raft's constructor calls them
        base.setOnMessageReceivedCallback(lambda node, message: self.heard.append(message))
        base.setOnNodeConnectedCallback(lambda node: self.connected.append(node.id))
        base.setOnNodeDisconnectedCallback(lambda node: None)
        self.transport.set_members((Member(FOLLOWER, 1, True), Member(LEADER, 2, True)))

    def heartbeat(self, term: int) -> None:
        now = asyncio.get_running_loop().time()
        self.transport.send(Node(FOLLOWER), Append(APPEND, term, now, 0, 0, 0, ()))

    def asked_for_votes(self) -> int:
        return sum(message[0] in (PRE_VOTE, VOTE) for message in self.heard)


@pytest.mark.parametrize("factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_who_was_held_up_hears_its_leader_before_it_campaigns(tmp_path: Path, factory: Any) -> None:
    """A follower's loop is blocked until its election is long due; a heartbeat came meanwhile."""

    async def story() -> None:
        spec = spec_in(tmp_path, nodes=3)
        host = ReplicaHost(
            spec,
            GROUP,
            0,
            new_shard=new_shard,
            record_types=TYPES,
            release=lambda token, answer: None,
            on_events=lambda events: None,
            on_turn=lambda: None,
        )
        await host.start()
        assert host.raft is not None
        leader = ScriptedLeader(spec)
        await leader.transport.start()
        await reached(lambda: leader.connected)
        raft, term = host.raft, 100
        leader.heartbeat(term)
        await reached(lambda: raft.leader_id == LEADER)
        asked = leader.asked_for_votes()

        def hold_up() -> None:
            loop.remove_reader(near.fileno())
            leader.heartbeat(term)
            while time.monotonic() < raft.next_tick_at + LATE_S:
                pass  # a long piece of work

        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        loop.add_reader(near.fileno(), hold_up)
        far.send(b"a request")
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        assert raft.leader_id == LEADER
        await reached(lambda: len(leader.heard) > asked)
        assert leader.asked_for_votes() == asked

        near.close()
        far.close()
        await leader.transport.close()
        await host.stop()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(story())
