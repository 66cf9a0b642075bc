"""A host for the metadata shard: applies what it decides at once, can take it back, restores snapshots."""

from __future__ import annotations

from typing import Any

from actors.ground.contract import Key, Request, Value
from actors.ground.spec import BrokerSettings
from actors.metadata.commands import Command, RegisterNode
from actors.metadata.shard import MetadataShard

NODES = (1, 2, 3)


def new_shard(settings: BrokerSettings | None = None, offsets_partitions: int = 4) -> MetadataShard:
    ids = iter(range(1, 1_000_000))
    return MetadataShard(
        cluster_id="tier",
        offsets_partitions=offsets_partitions,
        settings=settings or BrokerSettings(),
        new_id=lambda: next(ids).to_bytes(16, "big"),
    )


class Host:
    """A leader's shard; `submit` answers as if every batch were committed at once."""

    def __init__(self, shard: MetadataShard | None = None) -> None:
        self.shard = shard or new_shard()
        self.undo: list[tuple[Key, Value | None]] = []
        self._token = 0

    def submit(self, command: Command) -> Any:
        self._token += 1
        result = self.shard.handle(Request(self._token, -1, 0, "", "", command), 0)
        for key, value in result.records:
            self.undo.append((key, self.shard.apply(key, value)))
        (reply,) = result.replies
        assert reply.token == self._token
        return reply.body

    def take_back(self) -> None:
        while self.undo:
            self.shard.apply(*self.undo.pop())


def tier(settings: BrokerSettings | None = None, nodes: tuple[int, ...] = NODES) -> Host:
    """A host whose nodes are registered: node n at host<n>:9090+n."""
    host = Host(new_shard(settings))
    for node_id in nodes:
        host.submit(RegisterNode(node_id, f"host{node_id}", 9_090 + node_id))
    return host


def state_of(shard: MetadataShard) -> list[tuple[Any, ...]]:
    return [tuple(record) for record in shard.records()]
