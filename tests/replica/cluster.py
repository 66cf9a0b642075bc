"""Three replicas of one shard around a log that the test commits, loses and hands over as it likes.

The log stands for Raft: `Replica` knows it only through its `Log` protocol. Consensus itself is tested with
the real one, in the storage tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request, Token
from actors.ground.image import MetadataImage
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from actors.replica.replica import NotLeader, Replica
from tests.coordinator.alone import new_replica
from tests.coordinator.batches import one_by_one
from tests.coordinator.driver import START_MS, image_of
from tests.coordinator.shards import new_shard, numbered


class Log:
    """One replica's view of the agreed log."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self.cluster = cluster
        self.node = node
        self.pending_bytes = 0
        self.lease = True

    @property
    def is_leader(self) -> bool:
        return self.cluster.leader_node == self.node

    @property
    def term(self) -> int:
        return self.cluster.term

    def propose(self, command: bytes) -> int:
        if not self.is_leader:
            raise NotLeader
        self.cluster.entries.append((self.term, command))
        return len(self.cluster.entries)

    def has_lease(self) -> bool:
        return self.is_leader and self.lease


class Cluster:
    """Three replicas and their log. Index 1 is the first entry; `answers` holds every answer by token,
    however it came."""

    def __init__(self, image: MetadataImage | None = None, size: int = 3) -> None:
        self.now_ms = START_MS
        self.term = 0
        self.leader_node = -1
        self.entries: list[tuple[int, bytes]] = []
        self.committed = 0
        self.applied = [0] * size
        self.answers: dict[Token, Any] = {}
        self.events: list[Any] = []
        self._tokens = count(1)
        self._new_id = numbered()
        self.replicas = [self._new_replica(node) for node in range(size)]
        self.set_image(image or image_of(1, t=4))

    def _new_replica(self, node: int) -> Replica:
        replica = new_replica(
            lambda: new_shard(new_id=self._new_id),
            self._release,
            clock_ms=lambda: self.now_ms,
            on_events=self._on_events,
        )
        replica.log = Log(self, node)
        return replica

    def _release(self, token: Token, body: Any) -> None:
        assert token not in self.answers, f"{token} answered twice: {body}"
        self.answers[token] = body

    def _on_events(self, events: Sequence[Any]) -> None:
        self.events.extend(events)

    @property
    def leader(self) -> Replica:
        return self.replicas[self.leader_node]

    @property
    def log(self) -> Log:
        log = self.leader.log
        assert isinstance(log, Log)
        return log

    # Raft's part.

    def elect(self, node: int, surviving: int | None = None) -> None:
        """Let `node` lead a new term. The first `surviving` of the uncommitted entries are kept (all if it is
        None)."""
        fallen, self.leader_node = self.leader_node, node
        self.term += 1
        if fallen >= 0:
            self.replicas[fallen].on_fallen()
        if surviving is not None:
            del self.entries[self.committed + surviving :]
        self.commit()
        self.leader.on_leading(self.term)

    def commit(self, up_to: int | None = None) -> None:
        """Commit entries up to this index (all of them if not given) on every replica."""
        self.committed = len(self.entries) if up_to is None else max(up_to, self.committed)
        for node in range(len(self.replicas)):
            self.catch_up(node)

    def catch_up(self, node: int) -> None:
        while self.applied[node] < self.committed:
            term, command = self.entries[self.applied[node]]
            self.applied[node] += 1
            self.replicas[node].apply(self.applied[node], term, command)

    def flush_and_commit(self) -> None:
        """Flush and commit until nothing that was decided waits: a batch may have to wait for entries under
        way."""
        self.leader.flush()
        self.commit()
        while self.leader.can_flush:
            self.leader.flush()
            self.commit()

    def end_long_works(self) -> None:
        """Work slice by slice until no long work is left."""
        while self.leader.next_deadline_ms == 0:
            self.leader.run_timers(self.now_ms)

    def set_image(self, image: MetadataImage) -> None:
        for replica in self.replicas:
            replica.on_metadata(image, self.now_ms)

    def pass_time(self, by_ms: int) -> None:
        """Move the clock, and let the timers fire that are due then."""
        self.now_ms += by_ms
        for replica in self.replicas:
            replica.run_timers(self.now_ms)

    # The clients' part.

    def send(self, api_key: int, body: Any, version: int = 9, node: int | None = None) -> Token:
        token = next(self._tokens)
        request = Request(token, api_key, version, "client", "/127.0.0.1", body)
        replica = self.leader if node is None else self.replicas[node]
        answer = replica.submit(request, self.now_ms)
        if answer is not None:
            self._release(token, answer)
        return token

    def send_commit(self, group_id: str, offset: int, partition: int = 0, metadata: str = "") -> Token:
        topics = (("t", (CommittedPartition(partition, offset, -1, metadata),)),)
        body = OffsetCommitRequest(group_id, -1, "", None, -1, topics)
        return self.send(api_keys.OFFSET_COMMIT, body)

    def send_commits(self, group_id: str, offset: int, partitions: Iterable[int]) -> Token:
        """Send a commit of the same offset for each partition, without metadata."""
        topics = (("t", tuple(CommittedPartition(partition, offset, -1, "") for partition in partitions)),)
        return self.send(api_keys.OFFSET_COMMIT, OffsetCommitRequest(group_id, -1, "", None, -1, topics))

    def send_fetch(self, *group_ids: str, node: int | None = None) -> Token:
        body = OffsetFetchRequest(tuple(OffsetFetchGroup(g, (("t", (0, 1, 2, 3)),)) for g in group_ids))
        return self.send(api_keys.OFFSET_FETCH, body, node=node)

    def send_heartbeat(self, group_id: str, generation: int, member_id: str) -> Token:
        return self.send(api_keys.HEARTBEAT, HeartbeatRequest(group_id, generation, member_id), 4)

    def send_join(self, group_id: str, member_id: str = "") -> Token:
        body = JoinGroupRequest(group_id, 10_000, 60_000, member_id, None, "consumer", (("range", b""),))
        return self.send(api_keys.JOIN_GROUP, body)

    def fetched(self, token: Token) -> list[int]:
        """The offsets of partitions 0 to 3 in the answer to a fetch of one group."""
        [group] = self.answers[token].groups
        return [row[1] for _, rows in group.topics for row in rows]

    def commit_error(self, token: Token) -> int:
        """The error code of a commit, which has to be the same for each partition."""
        [(_, errors)] = self.answers[token].topics
        [error] = {error for _, error in errors}
        return int(error)

    # Checks.

    def check_equal(self) -> None:
        """Check that replicas are equal at equal index; the leader's uncommitted decisions are put aside."""
        assert len(set(self.applied)) == 1
        states = [snapshot_of(replica) for replica in self.replicas]
        live = [frozenset(self.records_in(state)) for state in states]
        assert live[0] == live[1] == live[2]

    def records_in(self, snapshot: bytes) -> list[Any]:
        return list(one_by_one(self.shard_of(snapshot).records()))

    def shard_of(self, snapshot: bytes) -> CoordinatorShard:
        """The shard that a replica makes of a snapshot."""
        reader = self._new_replica(0)
        reader.restore(snapshot)
        assert isinstance(reader.shard, CoordinatorShard)
        return reader.shard


def snapshot_of(replica: Replica) -> bytes:
    """Take a whole snapshot at once."""
    build = replica.begin_snapshot()
    while (data := build.step()) is None:
        pass
    return data
