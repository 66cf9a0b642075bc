"""The actor of one replica of one offsets partition: its coordinators, its clients' connections, its Raft.

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
from socket import socket
from typing import Any

import msgpack

from actors import runtime
from actors.api.in_place import answer_in_place
from actors.api.transaction_relay import ANSWER_TIMEOUT_S
from actors.assignors import compiled
from actors.coordinator.consumer.target_arrays import ARRAYS_FROM
from actors.coordinator.restore import RESTORE, RestoreRequest, RestoreResponse
from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.told.consumer_events import UNLOGGED
from actors.coordinator.told.events import line
from actors.ground.clock import monotonic_us
from actors.ground.collector import keep_collections_short
from actors.ground.contract import Request
from actors.ground.identity import TIER, ClientIdentity
from actors.ground.image import NO_NODE, MetadataImage
from actors.ground.records import RECORD_TYPES
from actors.ground.spec import TierSpec, broker_name, controller_name, partition_group, partition_name
from actors.leader.group_server import ElsewhereError, GroupServer
from actors.leader.held_heartbeats import Cause, HeldHeartbeats
from actors.leader.history import History
from actors.leader.history_writer import HistoryWriter
from actors.leader.lag_samples import LagSamples
from actors.leader.large_answers import PackingThread
from actors.leader.metrics import ReplicaMetrics
from actors.leader.plug_in_assignments import PlugInAssignments
from actors.leader.transaction_markers import Transactions
from actors.metadata.wire import unpack_image
from actors.metrics.numbers import Row
from actors.network.authentication import Sasl
from actors.network.channel import Answer
from actors.network.connection import LATER, Connection
from actors.network.link import Link
from actors.network.listener import raise_file_limit
from actors.network.table import ConnectionLimits, ConnectionTable
from actors.protocol import codec
from actors.protocol.api_keys import COORDINATOR_APIS
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.headers import Header, parse_header
from actors.replica.host import ReplicaHost
from actors.replica.replica import RecordType
from actors.replica.state_source import StateSource
from actors.security.broker_checks import screen
from actors.security.gate import Gate

log = logging.getLogger("groupd.partition")

RAY_CALL_TIMEOUT_S = 2.0
RESTORE_TIMEOUT_S = 10.0
BROKER_TIMEOUT_S = ANSWER_TIMEOUT_S + 1.0
"""So that the broker's own time-out comes first, and what was answered is not lost with the rest."""
MOVE_TIMEOUT_S = 5.0
MOVE_LOOK_INTERVAL_S = 0.001
RELAY_TIMEOUT_S = 1_900.0
"""As the broker's: what is relayed may be a JoinGroup of another partition's group, parked for as long as
group.max.session.timeout.ms, which is 30 minutes by default."""


def _new_id() -> str:
    return str(uuid.uuid4())


class OffsetsPartition(StateSource):
    """Replica `replica_id` of offsets partition `partition`. A plain class: `actors.runtime` makes the actor.

    Constructed on the actor's running loop; Ray restarts it by constructing it again, so it starts itself.
    What reaches beyond the process is made by arguments: `new_host` disk and peers, `new_link` the way to the
    node's broker, `new_id` UUIDs.
    """

    def __init__(
        self,
        spec: TierSpec,
        partition: int,
        replica_id: int,
        *,
        new_host: Callable[..., ReplicaHost] = ReplicaHost,
        new_link: Callable[..., Link] = Link,
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        self._unwrap("on_frame", "on_relay", "_relay", "_release", "_on_events", "_on_turn")
        self._spec = spec
        self._partition = partition
        self._gate = Gate(spec.broker)
        self._sasl = Sasl(spec.broker)
        self._image = MetadataImage(cluster_id=spec.tier_id, offsets_leaders=(-1,) * spec.offsets_partitions)
        host = self._host = new_host(
            spec,
            partition_group(partition),
            replica_id,
            new_shard=lambda: CoordinatorShard(spec.groups, new_id, self._image, self._gate, monotonic_us),
            record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
            release=self._release,
            on_events=self._on_events,
            on_turn=self._on_turn,
        )
        self._packing = PackingThread()
        self._server = GroupServer(
            host.replica, partition, spec.offsets_partitions, host.now_ms, self._gate, self._packing.pack
        )
        self._held = HeldHeartbeats(host.replica, self._server.release, host.now_ms, spec.groups.held_clients)
        host.replica.watcher = self._held
        self._kept = kept = HistoryWriter(spec.history, spec.data_dir, spec.tier_id, partition, host.node_id)
        self._metrics = ReplicaMetrics(partition, host, self._server.counts, self._held, kept)
        self._history = History(partition, host, self._server.counts, kept.keep, kept.newly_dropped)
        self._link = new_link(
            spec.hub_path(self._host.node_id),
            spec.raft_secret("hub"),
            spec.link_slot(partition, replica_id),
            self,
        )
        self._table = ConnectionTable(
            asyncio.get_running_loop(), ConnectionLimits.of(spec.broker), self._link.gone
        )
        self._announced: tuple[int | None, int, bool] = (None, -1, False)
        self._own: dict[int, asyncio.Future[Any]] = {}
        """Requests of the tier's own, by token."""
        self._own_token = 0
        """Negative once used: the group server's tokens are not."""
        self._transactions = Transactions(
            partition,
            ask_shard=self._ask_shard,
            ask_broker=self._ask_broker,
            image=lambda: self._image,
            term=self._serving_term,
        )
        self._plug_ins = PlugInAssignments(spec.groups, self._ask_shard)
        self._lag = LagSamples.of(spec.history, host, self._ask_broker, self._history.record)
        self._is_warm = False
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
        self._link.start()
        self._lag.start()

    async def stop(self) -> None:
        """Hand leadership on, close every connection, leave the disk clean."""
        self._transactions.close()
        self._plug_ins.close()
        self._lag.close()
        self._packing.close()
        self._history.hands_over = True
        await self._host.stop()
        if self._announced[2]:  # nobody is known to have taken over
            self._history.hands_over = False
            self._history.lost("stopped")
        self._held.refuse_all()
        self._history.close()
        await asyncio.to_thread(self._kept.close)
        self._metrics.close()
        self._table.close()
        self._link.close()

    async def status(self) -> dict[str, Any]:
        """What `groupd status` shows of this replica."""
        host = self._host
        status: dict[str, Any] = {
            "partition": self._partition,
            "replica": host.replica_id,
            "node_id": host.node_id,
            "pid": os.getpid(),
            "problem": self._problem,
            "problem_kind": self._problem_kind,
            "connections": len(self._table),
            "requests": self._server.counts.answered,
            "serving": host.replica.serving,
            "leader_node": host.leader_node,
            "groups": {},
            "role": "starting",
        }
        if host.raft is None:
            return status
        status |= host.health()
        status["problem"] = self._problem or status["problem"]
        if host.replica.serving:
            status["groups"] = dict(Counter(self._shard.group_states()))
        return status

    async def metrics(self) -> list[Row]:
        """This replica's part of the tier's metrics."""
        return await self._metrics.rows(self._problem)

    async def group(self, group_id: str) -> dict[str, Any]:
        """State and generation or epochs of a group; {} if this replica does not lead or know it."""
        return self._shard.summary(group_id) if self._host.replica.serving else {}

    async def explain(self, group_id: str, after: int = 0) -> dict[str, Any]:
        """What `groupd explain` shows of a group; {} if this replica does not serve."""
        return self._history.explain(group_id, after)

    async def top(self, by: str, limit: int) -> dict[str, Any]:
        """What `groupd top` shows of this leader's groups; {} if this replica does not serve."""
        return self._history.top(by, limit)

    @property
    def _shard(self) -> CoordinatorShard:
        shard = self._host.replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    async def move_leadership(self, to_replica: int | None = None) -> dict[str, Any]:
        """Hand leadership to a follower and wait until one serves. {"to", "ms"}: the replica that serves now,
        and the time from here until it did. {} if nothing can be handed over now. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        self._history.hands_over = True
        if not await self.transfer(to_replica):
            self._history.hands_over = False
            return {}
        while loop.time() < began_at + MOVE_TIMEOUT_S:
            leader = self._host.leader_replica
            if leader is not None and leader != self._host.replica_id and await self._does_serve(leader):
                return {"to": leader, "ms": round((loop.time() - began_at) * 1000, 1)}
            await asyncio.sleep(MOVE_LOOK_INTERVAL_S)
        raise TimeoutError(f"no other replica took over within {MOVE_TIMEOUT_S:.0f} s")

    async def serves(self) -> bool:
        """This replica leads and answers clients."""
        return self._host.replica.serving

    async def _does_serve(self, replica_id: int) -> bool:
        name = partition_name(self._partition, replica_id)
        handle = await asyncio.to_thread(runtime.find, name, self._spec.namespace)
        return handle is not None and await runtime.call(handle, "serves", timeout_s=RAY_CALL_TIMEOUT_S)

    # Records of a backup.

    async def restore(self, packed: bytes) -> tuple[int, str | None]:
        """Write records of groups that are not there, packed by msgpack as [[key, value], ...]: Kafka's error
        code, 0 once they are committed, and what it means. Raises TimeoutError."""
        body = RestoreRequest(msgpack.unpackb(packed, use_list=False))
        response: RestoreResponse = await asyncio.wait_for(self._ask_shard(RESTORE, body), RESTORE_TIMEOUT_S)
        return int(response.error_code), response.message

    # Requests of the tier's own.

    async def _ask_shard(self, api_key: int, body: Any) -> Any:
        """What the shard answers, once all that it decided is committed; a refusal if this is no leader."""
        host = self._host
        token = self._own_token = self._own_token - 1
        answer = self._own[token] = asyncio.get_running_loop().create_future()
        try:
            response: Any = host.replica.submit(Request(token, api_key, 0, "", "", body), host.now_ms())
            host.wake()
            return await answer if response is None else response
        finally:
            del self._own[token]

    async def _ask_broker(self, api_key: int, api_version: int, entity: Any) -> Any:
        """What the node's broker answers to a request that it passes on to other leaders; None: nothing."""
        header = Header(api_key, api_version, 0)
        frame = codec.encode_request(header, entity)[4:]
        answer = await self._link.relay(TIER, frame, BROKER_TIMEOUT_S)
        return None if answer is None else codec.decode_response(header, answer)

    def _serving_term(self) -> int | None:
        raft = self._host.raft
        return raft.term if raft is not None and self._host.replica.serving else None

    # Requests of clients whose connections live here.

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        last = connection.session
        if last is not None and last.is_same(frame):
            answered = self._server.serve_again(last, frame, connection.answer)
            if answered is not None and connection.holding is None:
                return answered  # nothing was decided
        else:
            try:
                header, body_offset = parse_header(frame)
                if self._sasl.is_wanted:
                    kept = self._sasl.on_request(connection, header, frame, body_offset)
                    if kept is not None:
                        return kept
                if header.api_key not in COORDINATOR_APIS:
                    return self._serve_other(connection, header, frame, body_offset)
                answered, connection.session = self._server.serve(
                    header,
                    frame,
                    body_offset,
                    connection.identity,
                    connection.answer,
                    holding=connection.holding,
                )
                if answered is not None:
                    self._host.arm()  # it may have set a timer that is due before any other
            except ElsewhereError:
                return self._relay(connection, frame)
            except (MalformedRequest, UnsupportedRequest) as error:
                connection.close(str(error))
                return LATER
        if answered is None or self._host.replica.can_flush:
            holding = connection.holding
            if holding is not None and connection.has_more:
                self.on_more(connection)
            elif holding is not None and holding.request is not None:
                self._host.arm()  # for the end of the hold
                return answered
            self._host.wake()  # to commit what was decided
        return answered

    def _serve_other(
        self, connection: Connection, header: Header, frame: bytes, body_offset: int
    ) -> bytes | None:
        """What any actor can answer from the image is answered here, the rest by the node's broker."""
        if self._image.nodes:
            answered = answer_in_place(
                self._image,
                self._offsets_leaders(),
                self._host.node_id,
                partial(screen, self._gate, connection.identity),
                header,
                frame,
                body_offset,
            )
            if answered is not None:
                self._server.counts.count(header.api_key, None)
                return answered
        return self._relay(connection, frame)

    def _relay(self, connection: Connection, frame: bytes) -> bytes | None:
        self._link.ask(connection.identity, frame, partial(_answer, connection), RELAY_TIMEOUT_S)
        return LATER

    def on_more(self, connection: Connection) -> None:
        """A client that asks something else must not wait for its heartbeat's answer."""
        if connection.holding is not None:
            self._held.end(connection.holding, Cause.REQUEST)
            self._host.wake()  # to commit what was decided

    def on_closed(self, connection: Connection) -> None:
        """A member whose connection closes stays in its group until its session ends (W13)."""
        token = None if connection.holding is None else self._held.forget(connection.holding)
        if token is not None:
            self._server.forget(token)

    def _offsets_leaders(self) -> dict[int, int]:
        """What this replica knows better than the image: its own partition's leader."""
        return {self._partition: self._host.node_id} if self._host.replica.serving else {}

    # The node's broker (network.link.LinkHandlers).

    def on_connected(self) -> None:
        log.info("linked to the broker of node %d", self._host.node_id)

    def on_disconnected(self) -> None:
        log.info("the broker of node %d is gone; its clients here are served on", self._host.node_id)

    def addresses(self) -> dict[str, int]:
        return self._table.addresses()

    def on_handover(self, client: socket, identity: ClientIdentity, buffered: bytes) -> None:
        connection = self._table.adopt(client, buffered, identity, self)
        connection.holding = self._held.of_client(identity.software_name, identity.software_version)

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        try:
            header, body_offset = parse_header(frame)
            answered = self._server.serve_relayed(header, frame, body_offset, identity, answer)
        except (MalformedRequest, UnsupportedRequest):
            answer(None)
            return
        self._host.wake()
        if answered is not None:
            answer(answered)

    def on_push(self, kind: str, payload: bytes) -> None:
        image = unpack_image(payload)
        if kind == "image" and image.version >= self._image.version:
            self._image = image
            self._sasl.take(image)
            if self._gate.take(image):
                self._held.end_all(Cause.NEWS)
                self._forget_heartbeats()
            self._host.replica.on_metadata(image, self._host.now_ms())
            self._host.wake()
            self._warm_kernels()

    def _forget_heartbeats(self) -> None:
        """What was allowed under other ACLs must be looked at again."""
        for connection in self._table.connections():
            connection.session = None

    def _warm_kernels(self) -> None:
        """Once a leader's topics are big enough for compiled assignors, load those in a thread: in the loop
        they would hold up somebody's heartbeat for half a second (and they cost 75 MB, so not before)."""
        partitions = sum(topic.partition_count for topic in self._image.topics.values())
        needed = self._host.replica.serving and partitions >= ARRAYS_FROM // 2
        if needed and not self._is_warm:
            self._is_warm = True
            self._spawn(asyncio.to_thread(compiled.warm))

    # The replica.

    def _release(self, token: int, response: Any) -> None:
        if self._held.parked and self._held.keeps(token, response):
            return
        own = self._own.get(token)
        if token >= 0:
            self._server.release(token, response)
        elif own is not None and not own.done():
            own.set_result(response)

    def _on_events(self, events: Sequence[Any]) -> None:
        self._metrics.count_events(events)
        self._history.record(events)
        for event in events:
            done = self._transactions.on_event(event) or self._plug_ins.on_event(event)
            if not done and type(event) not in UNLOGGED:
                log.info("%s", line(event))

    def _on_turn(self) -> None:
        raft = self._host.raft
        assert raft is not None
        now = (self._host.leader_node, raft.term, self._host.replica.serving)
        if now == self._announced:
            return
        was_serving = self._announced[2]
        leader_node, term, serving = now
        self._announced = now
        self._link.announce(NO_NODE if leader_node is None else leader_node, term, serving)
        if was_serving and not serving:
            self._history.lost()
        if serving:
            log.info("leading partition %d in term %d", self._partition, term)
            self._history.elected()
            self._spawn(self._tell_the_tier(term))
            self._warm_kernels()
        elif leader_node == self._host.node_id and not raft.is_leader:
            self._hand_connections_back()

    def _hand_connections_back(self) -> None:
        """The new leader is another replica of this node: its clients must not need to reconnect."""
        for connection in self._table.connections():
            connection.release(partial(self._hand_back, connection.identity))

    def _hand_back(self, identity: ClientIdentity, client: socket, buffered: bytes) -> None:
        if not self._link.hand_back(client, identity, buffered):
            client.close()

    async def _tell_the_tier(self, term: int) -> None:
        """All brokers and the controller hear of the new leader by Ray (best effort, all at once)."""
        names = [broker_name(node.node_id) for node in self._spec.nodes]
        controllers = self._image.controllers or [replica for replica, _ in self._spec.controllers]
        names += map(controller_name, controllers)
        await asyncio.gather(*(self._tell(name, term) for name in names))

    async def _tell(self, name: str, term: int) -> None:
        try:
            handle = await asyncio.to_thread(runtime.find, name, self._spec.namespace)
            if handle is not None:
                await runtime.call(
                    handle,
                    "on_leader",
                    self._partition,
                    self._host.node_id,
                    term,
                    timeout_s=RAY_CALL_TIMEOUT_S,
                )
        except Exception as error:
            log.info("%s was not told of term %d: %s", name, term, error)


def _answer(connection: Connection, answer: bytes | None) -> None:
    if answer is None:
        connection.close("no answer could be had")
    else:
        connection.answer(answer)
