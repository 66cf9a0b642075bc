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
from collections.abc import Sequence
from functools import partial
from socket import socket
from typing import Any

import msgpack

from actors import runtime
from actors.api.in_place import answer_in_place
from actors.assignors import kernels
from actors.contract import Request
from actors.coordinator.records import RECORD_TYPES
from actors.coordinator.restore import RESTORE, RestoreRequest, RestoreResponse
from actors.coordinator.shard import CoordinatorShard
from actors.group_server import ElsewhereError, GroupServer
from actors.metadata.image import NO_NODE, MetadataImage
from actors.metadata.wire import unpack_image
from actors.network.channel import Answer
from actors.network.connection import LATER, Connection
from actors.network.identity import ClientIdentity
from actors.network.link import Link
from actors.network.listener import raise_file_limit
from actors.network.table import ConnectionLimits, ConnectionTable
from actors.protocol.api_keys import GROUP_APIS
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.headers import Header, parse_header
from actors.replica import RecordType
from actors.replica_host import ReplicaHost
from actors.spec import TierSpec, broker_name, controller_name, partition_group, partition_name
from actors.state_source import StateSource

log = logging.getLogger("groupd.partition")

RAY_CALL_TIMEOUT_S = 2.0
RESTORE_TIMEOUT_S = 10.0
MOVE_TIMEOUT_S = 5.0
MOVE_LOOK_INTERVAL_S = 0.001
RELAY_TIMEOUT_S = 1_900.0
"""As the broker's: what is relayed may be a JoinGroup of another partition's group, parked for as long as
group.max.session.timeout.ms, which is 30 minutes by default."""


class OffsetsPartition(StateSource):
    """Replica `replica_id` of offsets partition `partition`. A plain class: `actors.runtime` makes the actor.

    Constructed on the actor's running loop; Ray restarts it by constructing it again, so it starts itself.
    """

    def __init__(self, spec: TierSpec, partition: int, replica_id: int) -> None:
        self._spec = spec
        self._partition = partition
        self._image = MetadataImage(cluster_id=spec.tier_id, offsets_leaders=(-1,) * spec.offsets_partitions)
        self._host = ReplicaHost(
            spec,
            partition_group(partition),
            replica_id,
            new_shard=lambda: CoordinatorShard(spec.groups, _new_id, self._image),
            record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
            release=self._release,
            on_events=self._on_events,
            on_turn=self._on_turn,
        )
        self._server = GroupServer(self._host.replica, partition, spec.offsets_partitions, self._host.now_ms)
        self._link = Link(
            spec.hub_path(self._host.node_id),
            spec.raft_secret("hub"),
            spec.link_slot(partition, replica_id),
            self,
        )
        self._table = ConnectionTable(
            asyncio.get_running_loop(), ConnectionLimits.of(spec.broker), self._link.gone
        )
        self._announced: tuple[int | None, int, bool] = (None, -1, False)
        self._restoring: dict[int, asyncio.Future[RestoreResponse]] = {}
        self._restore_token = 0
        """Negative once used: the group server's tokens are not."""
        self._is_warm = False
        super().__init__(spec.data_dir, partition_name(partition, replica_id))

    async def _open(self) -> None:
        raise_file_limit()
        await self._host.start()
        self._link.start()

    async def stop(self) -> None:
        """Hand leadership on, close every connection, leave the disk clean."""
        await self._host.stop()
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
            "requests": self._server.requests,
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

    async def group(self, group_id: str) -> dict[str, Any]:
        """State and generation or epochs of a group; {} if this replica does not lead or know it."""
        return self._shard.summary(group_id) if self._host.replica.serving else {}

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
        if not await self.transfer(to_replica):
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
        host = self._host
        token = self._restore_token = self._restore_token - 1
        answer = self._restoring[token] = asyncio.get_running_loop().create_future()
        try:
            body = RestoreRequest(msgpack.unpackb(packed, use_list=False))
            response: Any = host.replica.submit(Request(token, RESTORE, 0, "", "", body), host.now_ms())
            host.wake()
            if response is None:
                response = await asyncio.wait_for(answer, RESTORE_TIMEOUT_S)
            return int(response.error_code), response.message
        finally:
            del self._restoring[token]

    # Requests of clients whose connections live here.

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        last = connection.session
        if last is not None and last.is_same(frame):
            answered = self._server.serve_again(last, frame, connection.identity, connection.answer)
        else:
            try:
                header, body_offset = parse_header(frame)
                if header.api_key not in GROUP_APIS:
                    return self._serve_other(connection, header, frame, body_offset)
                answered, connection.session = self._server.serve(
                    header, frame, body_offset, connection.identity, connection.answer
                )
            except ElsewhereError:
                return self._relay(connection, frame)
            except (MalformedRequest, UnsupportedRequest) as error:
                connection.close(str(error))
                return LATER
        if answered is None or self._host.replica.can_flush:
            self._host.wake()  # to commit what was decided, or for a timer that is due sooner now
        return answered

    def _serve_other(
        self, connection: Connection, header: Header, frame: bytes, body_offset: int
    ) -> bytes | None:
        """What any actor can answer from the image is answered here, the rest by the node's broker."""
        if self._image.nodes:
            answered = answer_in_place(
                self._image, self._offsets_leaders(), self._host.node_id, header, frame, body_offset
            )
            if answered is not None:
                return answered
        return self._relay(connection, frame)

    def _relay(self, connection: Connection, frame: bytes) -> bytes | None:
        self._link.ask(connection.identity, frame, partial(_answer, connection), RELAY_TIMEOUT_S)
        return LATER

    def on_more(self, connection: Connection) -> None:
        """Nothing is held back here that more bytes could release."""

    def on_closed(self, connection: Connection) -> None:
        """A member whose connection closes stays in its group until its session ends (W13)."""

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
        self._table.adopt(client, buffered, identity, self)

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
            self._host.replica.on_metadata(image, self._host.now_ms())
            self._host.wake()
            self._warm_kernels()

    def _warm_kernels(self) -> None:
        """Once a leader's topics are big enough for compiled assignors, load those in a thread: in the loop
        they would hold up somebody's heartbeat for half a second (and they cost 75 MB, so not before)."""
        partitions = sum(topic.partition_count for topic in self._image.topics.values())
        needed = self._host.replica.serving and partitions >= kernels.COMPILED_FROM // 2
        if needed and not self._is_warm:
            self._is_warm = True
            self._spawn(asyncio.to_thread(kernels.warm))

    # The replica.

    def _release(self, token: int, response: Any) -> None:
        restoring = self._restoring.get(token)
        if token >= 0:
            self._server.release(token, response)
        elif restoring is not None and not restoring.done():
            restoring.set_result(response)

    def _on_events(self, events: Sequence[Any]) -> None:
        for event in events:
            log.info("%s", event)

    def _on_turn(self) -> None:
        raft = self._host.raft
        assert raft is not None
        now = (self._host.leader_node, raft.term, self._host.replica.serving)
        if now == self._announced:
            return
        self._announced = now
        leader_node, term, serving = now
        self._link.announce(NO_NODE if leader_node is None else leader_node, term, serving)
        if serving:
            log.info("leading partition %d in term %d", self._partition, term)
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


def _new_id() -> str:
    return str(uuid.uuid4())


def _answer(connection: Connection, answer: bytes | None) -> None:
    if answer is None:
        connection.close("no answer could be had")
    else:
        connection.answer(answer)
