"""Small actors that keep the tier's contract (start, stop, status) and do nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

from actors.ground.spec import Copies, TierSpec
from storage.raft.members import member_id

KINDS = {
    "broker": "tests.cluster.toys:ToyBroker",
    "controller": "tests.cluster.toys:ToyController",
    "partition": "tests.cluster.toys:ToyPartition",
}


def membership(copies: Copies, replica: int) -> dict[str, Any]:
    """Return the part of a replica's status about its members, none of which was ever replaced."""
    return {
        "replica": replica,
        "member_id": member_id(replica, 1),
        "members": [{"id": member_id(r, 1), "node_id": n, "votes": True, "lag": 0} for r, n in copies],
        "members_committed": True,
    }


class _Toy:
    def __init__(self, spec: TierSpec) -> None:
        self.spec = spec
        self.problem: str | None = None

    async def start(self) -> None:
        if self.problem is not None:
            raise RuntimeError(self.problem)

    async def stop(self) -> None:
        """Stopping a toy needs nothing: it has nothing to close."""


class ToyBroker(_Toy):
    """Opens its port; a file named `refuse-broker` in the data directory makes its start fail."""

    def __init__(self, spec: TierSpec, node_id: int) -> None:
        super().__init__(spec)
        self.node = spec.node(node_id)
        self.server: asyncio.Server | None = None
        if (Path(spec.data_dir) / "refuse-broker").exists():
            self.problem = "the toy was told to refuse"

    async def start(self) -> None:
        await super().start()
        if self.server is None:
            self.server = await asyncio.start_server(lambda _, writer: writer.close(), sock=self._listener())

    def _listener(self) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.node.host, self.node.port))
        return listener

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()

    async def status(self) -> dict[str, Any]:
        return {
            "node_id": self.node.node_id,
            "port": self.node.port,
            "connections": 0,
            "topics": 0,
            "image_version": 1,
            "pid": os.getpid(),
            "problem": self.problem,
        }


class ToyController(_Toy):
    """A controller without Raft: replica 0 says that it leads."""

    def __init__(self, spec: TierSpec, replica: int) -> None:
        super().__init__(spec)
        self.replica = replica

    async def status(self) -> dict[str, Any]:
        return {
            "node_id": self.spec.controllers[self.replica].node_id,
            "role": "follower" if self.replica else "leader",
            "serving": not self.replica,
            "term": 1,
            "leader_node": self.spec.controllers[0].node_id,
            "pid": os.getpid(),
            "topics": 0,
            "problem": None,
            **membership(self.spec.controllers, self.replica),
        }


class ToyPartition(_Toy):
    """An offsets partition without Raft: replica 0 says that it leads."""

    def __init__(self, spec: TierSpec, partition: int, replica: int) -> None:
        super().__init__(spec)
        self.partition = partition
        self.replica = replica

    async def status(self) -> dict[str, Any]:
        row = self.spec.placement[self.partition]
        leads = self.replica == 0
        return {
            "partition": self.partition,
            "node_id": row[self.replica].node_id,
            "role": "leader" if leads else "follower",
            "serving": leads,
            "leader_node": row[0].node_id,
            "term": 1,
            "last_index": 7,
            "commit_index": 7,
            "applied_index": 7,
            "lag": dict.fromkeys((copy.replica_id for copy in row[1:]), 0) if leads else {},
            "connections": 0,
            "groups": {"Stable": 2} if leads else {},
            "pid": os.getpid(),
            "problem": None,
            **membership(row, self.replica),
        }
