"""The actor of one replica of one offsets partition: it wires the replica to clients, leadership and history.

On the leader, members' connections arrive from the node's broker by file descriptor and are served here,
with no hop on any later request. On a follower the same state is kept hot; nothing else happens.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack
from kio.schema.errors import ErrorCode

from actors import runtime
from actors.coordinator.ground.state import Home
from actors.coordinator.restore import RESTORE, RestoreRequest, RestoreResponse
from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.told.consumer_events import UNLOGGED
from actors.coordinator.told.events import line
from actors.ground.clock import monotonic_us
from actors.ground.collector import keep_collections_short
from actors.ground.records import RECORD_TYPES
from actors.ground.release import told
from actors.ground.spec import TierSpec, partition_group, partition_name
from actors.leader.client_service import ClientService
from actors.leader.group_server import GroupServer, Share
from actors.leader.history import History
from actors.leader.history_writer import HistoryWriter
from actors.leader.known_tier import KnownTier
from actors.leader.lag_samples import LagSamples
from actors.leader.large_answers import PackingThread
from actors.leader.leadership import Leadership
from actors.leader.metrics import ReplicaMetrics
from actors.leader.own_requests import OwnRequests
from actors.leader.plug_in_assignments import PlugInAssignments
from actors.leader.splits import Splits
from actors.leader.transaction_markers import Transactions
from actors.metrics.numbers import Row
from actors.network.file_limit import raise_file_limit
from actors.network.link import Link
from actors.protocol.partitioning import awaits_groups
from actors.replica.entry import RecordType
from actors.replica.host import ReplicaHost
from actors.replica.state_source import StateSource

if TYPE_CHECKING:
    from actors.leader.upstream_orders import UpstreamOrders
    from actors.leader.upstream_transactions import UpstreamTransactions
    from actors.protocol.transaction_messages import TransactionPartitions
    from actors.upstream.controllers import Connect

log = logging.getLogger("groupd.partition")

RESTORE_TIMEOUT_S = 10.0


def _new_id() -> str:
    return str(uuid.uuid4())


def _awaits_groups(spec: TierSpec, partition: int) -> bool:
    """Return whether the groups of an offsets partition come from another one, or from Kafka."""
    return spec.upstream is not None or awaits_groups(partition, spec.offsets_partitions, spec.unmoved)


class Outside(NamedTuple):
    """What makes the parts of a replica that reach beyond its process."""

    new_host: Callable[..., ReplicaHost] = ReplicaHost
    """The class of the host, which has disk and peers."""
    new_link: Callable[..., Link] = Link
    """The class of the link to the node's broker."""
    new_id: Callable[[], str] = _new_id
    """The function that makes UUIDs."""


OUTSIDE = Outside()


class OffsetsPartition(StateSource):
    """The actor of replica `replica_id` of offsets partition `partition`. It is a plain class:
    `actors.runtime` makes the actor.

    It is constructed on the actor's running loop. Ray restarts it by constructing it again, so it starts
    itself.
    """

    def __init__(self, spec: TierSpec, partition: int, replica_id: int, outside: Outside = OUTSIDE) -> None:
        runtime.use_agent(spec.agent)
        self._unwrap("_release", "_on_events")
        self._partition = partition
        self._known = known = KnownTier(spec)
        node_id = spec.node_of(partition_group(partition), replica_id)
        host = self._host = outside.new_host(
            spec,
            partition_group(partition),
            replica_id,
            new_shard=lambda: CoordinatorShard(
                spec.groups,
                outside.new_id,
                known.image,
                known.gate,
                monotonic_us,
                node_id=node_id,
                home=Home(partition, _awaits_groups(spec, partition)),
            ),
            record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
            release=self._release,
            on_events=self._on_events,
        )
        self._packing = PackingThread()
        share = Share(partition, lambda: known.partitioning)
        self._server = server = GroupServer(host.replica, share, host.now_ms, known.gate, self._packing.pack)
        link = spec.hub_path(host.node_id), spec.raft_secret("hub"), spec.link_slot(partition, replica_id)
        self._clients = ClientService(partition, host, known, server, partial(outside.new_link, *link))
        host.let_clients_go = self._clients.cut_off
        self._own = own = OwnRequests(host, self._clients.link)
        self._kept = kept = HistoryWriter(spec.history, spec.data_dir, spec.tier_id, partition, host.node_id)
        self._history = History(partition, host, server.counts, kept.keep, kept.newly_dropped)
        self._leadership = Leadership(partition, host, known, self._clients, self._history)
        host.on_turn = self._leadership.on_turn
        self._metrics = ReplicaMetrics(partition, host, server.counts, self._clients, kept)
        self._transactions = Transactions(
            partition,
            ask_shard=own.ask_shard,
            ask_broker=own.ask_broker,
            image=lambda: known.image,
            epoch=self._marker_epoch,
        )
        self._upstream = spec.upstream
        if spec.upstream is not None:
            self._transactions.verify_with(self._verify_upstream)
        self._splits = Splits(partition, host, known, own, self._marker_epoch)
        self._plug_ins = PlugInAssignments(spec.groups, own.ask_shard)
        self._orders: UpstreamOrders | None = None
        self._verifier: UpstreamTransactions | None = None
        self._lag = LagSamples.of(spec.history, host, own.ask_broker, self._history.record)
        takers = (self._transactions, self._plug_ins, self._splits)
        self._takers = {kind: taker.on_event for taker in takers for kind in taker.takes}
        super().__init__(spec.data_dir, partition_name(partition, replica_id))

    async def _open(self) -> None:
        raise_file_limit()
        keep_collections_short()
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        await self._host.start()
        self._metrics.loaded(loop.time() - began_at)
        self._history.start()
        self._kept.start()
        self._clients.start()
        self._lag.start()

    async def stop(self) -> None:
        """Hand leadership on, close every connection, leave the disk clean."""
        self._transactions.close()
        self._splits.close()
        self._plug_ins.close()
        if self._orders is not None:
            self._orders.close()
        if self._verifier is not None:
            await self._verifier.close()
        self._lag.close()
        self._packing.close()
        await self._leadership.resign()
        self._clients.refuse_held()
        self._history.close()
        await asyncio.to_thread(self._kept.close)
        self._metrics.close()
        self._clients.close()

    async def status(self) -> dict[str, Any]:
        """Return what `groupd status` shows of this replica."""
        host = self._host
        status: dict[str, Any] = {
            "partition": self._partition,
            "replica": host.replica_id,
            "node_id": host.node_id,
            "pid": os.getpid(),
            "problem": self._problem,
            "problem_kind": self._problem_kind,
            "connections": len(self._clients.table),
            "requests": self._server.counts.answered,
            "serving": host.replica.serving,
            "leader_node": host.leader_node,
            "groups": {},
            "role": "starting",
            **told(),
        }
        if host.raft is None:
            return status
        status |= host.health() | host.activity()
        status["problem"] = self._problem or status["problem"]
        if host.replica.serving:
            status["groups"] = dict(Counter(self._shard.group_states()))
        return status

    async def metrics(self) -> list[Row]:
        """Return this replica's part of the tier's metrics."""
        return await self._metrics.rows(self._problem)

    async def group(self, group_id: str) -> dict[str, Any]:
        """Return state and generation or epochs of a group; {} if this replica does not lead or know it."""
        return self._shard.summary(group_id) if self._host.replica.serving else {}

    async def explain(self, group_id: str, after: int = 0) -> dict[str, Any]:
        """Return what `groupd explain` shows of a group; {} if this replica does not serve."""
        return self._history.explain(group_id, after)

    async def top(self, by: str, limit: int) -> dict[str, Any]:
        """Return what `groupd top` shows of this leader's groups; {} if this replica does not serve."""
        return self._history.top(by, limit)

    @property
    def _shard(self) -> CoordinatorShard:
        shard = self._host.replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    async def serves(self) -> bool:
        """Return whether this replica leads and answers clients."""
        return self._host.replica.serving

    async def move_leadership(self, to_replica: int | None = None) -> dict[str, Any]:
        """Hand leadership to a follower and wait until one serves, as `Leadership.move` does."""
        return await self._leadership.move(self.transfer(to_replica))

    async def restore(self, packed: bytes) -> tuple[int, str | None]:
        """Write records of groups that do not exist yet, packed by msgpack as [[key, value], ...]. Return
        Kafka's error code, which is 0 once they are committed, and what it means. Raises TimeoutError."""
        body = RestoreRequest(msgpack.unpackb(packed, use_list=False))
        response: RestoreResponse = await asyncio.wait_for(
            self._own.ask_shard(RESTORE, body), RESTORE_TIMEOUT_S
        )
        return int(response.error_code), response.message

    async def hand_over(self, child: int, partitions: int, child_actor: str) -> int:
        """Hand the groups that move over to the leader of a child, as `Splits.hand_over` does."""
        return await self._splits.hand_over(child, partitions, child_actor)

    async def take_in(self, api_key: int, packed: bytes) -> tuple[int, str | None]:
        """Take in some of what moves here, as `Splits.take_in` does."""
        return await self._splits.take_in(api_key, packed)

    async def drop_moved(self, child: int) -> tuple[int, str | None]:
        """Remove what has moved to a child, as `Splits.drop` does."""
        return await self._splits.drop(child)

    async def upstream(self, packed: bytes) -> bytes:
        """Take an order about this partition's twin at Kafka, as `UpstreamOrders.take` does."""
        if self._orders is None:
            from actors.leader.upstream_orders import UpstreamOrders  # here: few tiers stand before a Kafka

            self._orders = UpstreamOrders(
                self._partition,
                self._host,
                self._own,
                lambda: self._leadership.serving_term,
                self._upstream_connector(),
            )
        return self._orders.take(packed)

    async def _verify_upstream(self, transaction: TransactionPartitions) -> ErrorCode:
        """Have a transaction's coordinator upstream verify or add this partition."""
        if self._verifier is None:
            from actors.leader.upstream_transactions import UpstreamTransactions

            self._verifier = UpstreamTransactions(self._own.ask_broker, self._upstream_connector())
        return await self._verifier.verify(transaction)

    def _upstream_connector(self) -> Connect:
        """Return a function that connects to brokers of the cluster upstream."""
        from actors.upstream.connecting import connector

        assert self._upstream is not None, "the tier stands in front of a cluster"
        return connector(f"groupd-{self._host.group}-node-{self._host.node_id}", self._upstream.brokers_login)

    def _marker_epoch(self) -> int | None:
        """Return the epoch in which this replica has markers written while it leads: its term, above the
        epochs of the partition that its groups came from; None: it does not lead."""
        term, arrival = self._leadership.serving_term, self._shard.state.arrival
        if term is None or arrival is None:
            return term
        return arrival.coordinator_epoch + term

    # What the replica tells.

    def _release(self, token: int, response: Any) -> None:
        (self._own if token < 0 else self._clients).release(token, response)

    def _on_events(self, events: Sequence[Any]) -> None:
        self._metrics.count_events(events)
        self._history.record(events)
        for event in events:
            kind = type(event)
            if kind in self._takers:
                self._takers[kind](event)
            elif kind not in UNLOGGED:
                log.info("%s", line(event))
