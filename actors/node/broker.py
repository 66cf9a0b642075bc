"""The actor of one node's port, where every client arrives.

Requests about the tier and its topics are answered here. A connection whose first group request is for a
partition led on this node is handed over to the leader's actor by file descriptor; on any other
connection group requests are relayed to it. A group led elsewhere is refused with NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from socket import socket
from typing import Any

from actors import runtime
from actors.api.broker_apis import BrokerApis
from actors.api.context import BrokerContext
from actors.api.in_place import View, answer_in_place
from actors.api.transaction_relay import PEERS, TransactionRelay, Ways
from actors.catalog import codec
from actors.catalog.headers import first_group, parse_header
from actors.catalog.screening import screen_entity
from actors.catalog.table import COORDINATOR_APIS, MEMBER_APIS
from actors.ground.actor import Actor
from actors.ground.clock import steady_clock_ms
from actors.ground.features import GROUPD_VERSION
from actors.ground.identity import TIER, ClientIdentity
from actors.ground.image import NO_NODE, MetadataImage
from actors.ground.nodes import node_address
from actors.ground.release import check_level, told
from actors.ground.spec import TierSpec, broker_name, replica_of_slot
from actors.metadata.wire import pack_image, unpack_image
from actors.metrics.numbers import Row
from actors.network.certificates import Certificates
from actors.network.connection import LATER, Connection
from actors.network.early import Again, Decision, EarlyConnection, HandOver, Keep
from actors.network.early_authentication import EarlySasl
from actors.network.file_limit import raise_file_limit
from actors.network.hub import Hub, Leading
from actors.network.peers import Peers, is_signed
from actors.network.quota import ConnectionLimits, ConnectionQuota
from actors.network.table import ConnectionTable
from actors.node.controller_client import RayControllerClient
from actors.node.elections import Elections
from actors.node.fallen_leaders import FallenLeaders
from actors.node.group_relay import GroupRelay
from actors.node.internal_topics import InternalTopics
from actors.node.leaderless import Leaderless
from actors.node.log_ends import LogEnds
from actors.node.made_log import Place
from actors.node.metrics import NodeMetrics
from actors.node.passing_on import Rights
from actors.node.ports import Ports
from actors.node.questions import Questions
from actors.node.upstream import NOT_HERE, UpstreamNode
from actors.protocol.api_keys import (
    API_VERSIONS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    WRITE_TXN_MARKERS,
)
from actors.protocol.errors import HangUp, MalformedRequest, UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.partitioning import Partitioning, partitioning_now, partitioning_of
from actors.protocol.questions import TIER_QUESTIONS
from actors.security.gate import Gate
from actors.security.screening import Finish
from actors.topics.logs import TopicLogs
from actors.upstream.given import pack_given

log = logging.getLogger("groupd.broker")

FIRST_IMAGE_TIMEOUT_S = 30.0


class Broker(Actor):
    """The broker of node `node_id`. A plain class: `actors.runtime` makes the actor.

    The parts that reach beyond the process are made by arguments: `new_hub` makes the way to this node's
    replicas, `new_controller` the way to the controllers.
    """

    def __init__(
        self,
        spec: TierSpec,
        node_id: int,
        *,
        clock_ms: Callable[[], int] | None = None,
        new_hub: Callable[..., Hub] = Hub,
        new_controller: Callable[..., RayControllerClient] = RayControllerClient,
    ) -> None:
        runtime.use_agent(spec.agent)
        self._spec = spec
        self._node = spec.node(node_id)
        self._serving: dict[int, int] = {}
        """Offsets partition -> the link of this node's replica that leads it."""
        self._leaders: dict[int, tuple[int, int]] = {}
        """Offsets partition -> (term, node id of its leader), as the freshest news say."""
        self._partitioning = partitioning_now(spec)
        self._gate = Gate(spec.broker)
        self._upstream = None if spec.upstream is None else self._new_upstream()
        """The node's place in the Kafka cluster that the tier stands in front of; None: there is none."""
        self._controller = new_controller(spec)
        self._logs = TopicLogs(spec.broker, f"{spec.data_dir}/node-{node_id}/topics")
        clock = clock_ms or steady_clock_ms()
        self._apis = BrokerApis(self._new_context(clock))
        limits = ConnectionLimits.of(spec.broker)
        self._quota = ConnectionQuota(limits)
        self._table = ConnectionTable(asyncio.get_running_loop(), limits, self._quota.gone)
        certificates = Certificates.of(spec.broker, self._node.host)
        self._metrics = NodeMetrics(spec, node_id, self._quota, certificates)
        own = {"status": self.status, "metrics": self.metrics}
        self._questions = Questions(spec, node_id, self._controller, self._gate, own)
        self._hub = new_hub(spec.hub_path(node_id), spec.raft_secret("hub"), self, self._quota)
        kept = self._table, self._quota
        self._ports = Ports(spec, self._node, self._decide, kept, certificates)
        self._peer_secret = spec.raft_secret(PEERS)
        self._sasl = EarlySasl(spec.sasl_settings, partial(is_signed, self._peer_secret))
        self._peers = Peers(self._peer_secret, self._address_of, certificates)
        ways = Ways(node_id, self._hub, self, self._peers)
        self._transactions = TransactionRelay(ways, self._apis.write_markers)
        self._fallen = FallenLeaders(ways)
        self._groups = GroupRelay(ways, self._fallen, self._gate)
        self._leaderless = Leaderless(asyncio.get_running_loop(), lambda: self._partitioning)
        ask_upstream = None if self._upstream is None else self._upstream.ask_leader
        self._log_ends = LogEnds(node_id, self._peers, self._apis.handle, ask_upstream)
        self._apis.verify_with(self._transactions.add_partitions)
        self._apis.elect_with(Elections(spec, self._controller).elect)
        self._internal_topics = InternalTopics(self, self._hub, self._internal_appended, clock)
        self._apis.read_internal_from(self._internal_topics)
        super().__init__(spec.data_dir, broker_name(node_id))

    def _new_upstream(self) -> UpstreamNode:
        rights = Rights(self._gate, lambda *request: self._groups.refused(*request))
        return UpstreamNode(self._spec, self._node, self._show, rights)

    def _new_context(self, clock_ms: Callable[[], int]) -> BrokerContext:
        node_id = self._node.node_id
        return BrokerContext(
            node_id=node_id,
            broker_id=node_id if self._upstream is None else self._upstream.broker_id,
            settings=self._spec.broker,
            group_settings=self._spec.groups,
            controller=self._controller,
            logs=self._logs,
            clock_ms=clock_ms,
        )

    async def _open(self) -> None:
        raise_file_limit()
        self._hub.start()
        if self._upstream is not None:
            self._internal_topics.give_to_brokers(self._upstream.leader_epoch)
            await self._upstream.open()
        await self._first_image()
        await self._metrics.start()
        await self._ports.start()
        if self._upstream is not None:
            self._upstream.listens()
        if runtime.machines() is None:
            self._spawn(self._questions.keep_known())

    async def _first_image(self) -> None:
        """Ask the controllers for the image, rather than wait for the next change of it."""
        deadline = asyncio.get_running_loop().time() + FIRST_IMAGE_TIMEOUT_S
        while not self._apis.image.nodes:
            payload = await self._controller.image()
            if payload is not None:
                await self.on_image(payload)
            elif asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"no controller gave a metadata image in {FIRST_IMAGE_TIMEOUT_S:.0f} s")
            if not self._apis.image.nodes:
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Close the port, then every connection."""
        if self._upstream is not None:
            await self._upstream.close()
        self._ports.close()
        self._metrics.close()
        self._table.close()
        self._peers.close()
        self._internal_topics.close()
        self._hub.close()
        self._apis.close()
        try:
            self._logs.close()
        except OSError as error:
            log.warning("the topics' offsets will skip ahead at the next start: %s", error)

    async def status(self) -> dict[str, Any]:
        """Return what `groupd status` shows of this broker."""
        return {
            "node_id": self._node.node_id,
            "host": self._node.host,
            "port": self._node.port,
            "pid": os.getpid(),
            "connections": self._quota.total,
            "topics": len(self._apis.image.created_topics),
            "image_version": self._apis.image.version,
            "level": self._apis.image.features.level(GROUPD_VERSION),
            "leaders": {p: node for p, (_, node) in self._leaders.items()},
            "metrics_port": self._metrics.port,
            "problem": self._problem,
            "upstream": None if self._upstream is None else self._upstream.status(),
            **told(),
        }

    async def upstream_fetchers(self) -> bytes:
        """Return what brokers of the cluster upstream have of the logs here, as `pack_given` packs it."""
        return pack_given(self._internal_topics.given())

    async def metrics(self) -> list[Row]:
        """Return the broker's own part of the tier's metrics."""
        return self._metrics.rows()

    # News from the tier.

    async def image_version(self) -> int:
        return self._apis.image.version if self._upstream is None else self._upstream.own_version

    async def on_image(self, payload: bytes) -> int:
        """Take a metadata image from the controller, and pass it on to this node's replicas at once, or soon
        with what the cluster upstream says. Return the version that is known. Raises ReleaseTooOld: a node
        that cannot serve the tier's level does not open its port."""
        image = unpack_image(payload)
        check_level(image.features, "the tier")
        if image.version >= await self.image_version():
            if self._upstream is None:
                self._take(image, payload)
            else:
                self._upstream.take(image)
        return await self.image_version()

    def _show(self, image: MetadataImage) -> None:
        """Take an image with what the cluster upstream says."""
        self._take(image, pack_image(image))

    def _take(self, image: MetadataImage, payload: bytes) -> None:
        self._apis.set_image(image)
        self._partitioning = partitioning_of(image)
        self._quota.take(ConnectionLimits.of(self._apis.settings))
        self._sasl.take(image, None if self._upstream is None else self._upstream.offered())
        self._gate.take(image)
        self._hub.learn_level(image.features.level(GROUPD_VERSION))
        self._hub.push("image", payload)
        for partition_, node_id in enumerate(image.offsets_leaders):
            if partition_ not in self._leaders and node_id >= 0:
                self._leaders[partition_] = (-1, node_id)
        self._apis.offsets_leaders = {p: node for p, (_, node) in self._leaders.items()}

    async def begin_logs_at(self, offsets: list[tuple[bytes, int, int]]) -> None:
        """Begin the logs of restored topics at these offsets: (topic id, partition, offset). The topics are
        empty, but their offsets must not start over below what is committed: groups would take new records
        for old ones."""
        for topic_id, partition_, offset in offsets:
            self._logs.begin_at(topic_id, partition_, offset)

    async def on_leader(self, partition_: int, node_id: int, term: int) -> None:
        """Learn from the broker of a node that the leader of an offsets partition is there, and serves."""
        self._learn_leader(partition_, node_id, term)

    def on_leading(self, slot: int, leading: Leading | None) -> None:
        """Learn from a replica of this node who leads its partition (network.hub.HubHandlers)."""
        partition_ = replica_of_slot(slot)[0]
        if leading is not None and leading.serving_here:
            self._serving[partition_] = slot
            news = partition_, self._node.node_id, leading.term
            self._spawn(self._controller.tell_of_leader(self._apis.image, news))
        elif self._serving.get(partition_) == slot:
            del self._serving[partition_]
            if leading is None:
                self._fallen.fell(partition_)
        if leading is not None and leading.leader_node_id != NO_NODE:
            self._leaderless.named(slot, (leading.term, leading.leader_node_id))
            self._learn_leader(partition_, leading.leader_node_id, leading.term)
        else:
            self._leaderless.unnamed(slot, partition_, self._leaders.get(partition_))

    def on_link(self, slot: int, connected: bool) -> None:
        self._metrics.on_link(slot, connected)
        self._leaderless.unlinked(slot)
        partition_, replica_id = replica_of_slot(slot)
        state = "is linked" if connected else "is gone"
        log.info("replica %d of partition %d %s", replica_id, partition_, state)

    @property
    def partitioning(self) -> Partitioning:
        """Return how groups are spread over offsets partitions, as the newest image says."""
        return self._partitioning

    def slot_of(self, partition_: int) -> int | None:
        """Return the link of this node's replica if it leads the partition, for transaction_relay.Leaders."""
        slot = self._serving.get(partition_)
        return slot if slot is not None and self._hub.connected(slot) else None

    def node_of(self, partition_: int) -> int | None:
        """Return the node that leads an offsets partition, if it is known, for transaction_relay.Leaders."""
        leader = self._leaders.get(partition_)
        return None if leader is None else leader[1]

    def _internal_appended(self, place: Place, size_bytes: int) -> None:
        """Wake whoever waits for records of an internal topic."""
        topic = self._apis.image.topics.get(place.topic)
        if topic is not None:
            key = (topic.topic_id, place.partition)
            if size_bytes:
                self._logs.waiters.appended(key, size_bytes)
            else:
                self._logs.waiters.interrupt(key)

    def _learn_leader(self, partition_: int, node_id: int, term: int) -> None:
        if term >= self._leaders.get(partition_, (-1, -1))[0]:
            self._leaders[partition_] = (term, node_id)
            self._apis.offsets_leaders = {p: node for p, (_, node) in self._leaders.items()}
            self._leaderless.found(partition_)

    # Connections that have not shown yet what they are (network.early).

    def _decide(self, early: EarlyConnection, frame: bytes) -> Decision:
        """Decide about a connection by its first frames: answer, hand it over to the leader it asks for, or
        keep it."""
        try:
            if not early.identity.principal:
                return self._sasl.on_stranger(early, frame, self)
            if self._upstream is not None:
                decided = self._upstream.decide(early, frame, self)
                if decided is not None:
                    return decided
            header, body_offset = parse_header(frame)
            if header.api_key == API_VERSIONS:
                software = codec.client_software(header, frame, body_offset)
                early.identity = early.identity.with_software(*software)
            if header.api_key == TIER_QUESTIONS:
                return Keep(self)
            if (leaderless := self._leaderless.holds(header, frame, body_offset)) is not None:
                return Again(partial(self._leaderless.wake_with, leaderless))
            if header.api_key not in MEMBER_APIS:
                if early.identity.session_expires_ms:
                    return Keep(self)
                answer = self._answer_in_place(early.identity, header, frame, body_offset)
                return Keep(self) if answer is None else answer
            group_id = first_group(header, frame, body_offset)
            slot = None if group_id is None else self.slot_of(self._partitioning.partition_of(group_id))
            if slot is not None:
                return HandOver(partial(self._hub.hand_over, slot), self)  # its leader reads the rest
            body = codec.decode(header, frame, body_offset)
        except (MalformedRequest, UnsupportedRequest) as error:
            early.close(str(error))
            return b""
        partitions = set(self._groups.split(header, body))
        if len(partitions) != 1:
            return Keep(self)
        slot = self.slot_of(*partitions)
        if slot is None:
            if self._fallen.waits_for(header, partitions):
                return Keep(self)
            return self._groups.refused(early.identity, header, body)
        return HandOver(partial(self._hub.hand_over, slot), self)

    def on_hand_back(self, client: socket, identity: ClientIdentity, buffered: bytes) -> None:
        """Take back a connection whose leader fell while another replica of this node took over: the
        connection's next frame finds the new leader."""
        self._ports.take_back(client, identity, buffered)

    # Connections that stay with the broker: all their frames come through here.

    def on_frame(self, connection: Connection, frame: bytes) -> Any:
        if self._sasl.is_wanted:
            try:
                header, body_offset = parse_header(frame)
                answer = self._sasl.on_request(connection, header, frame, body_offset)
            except (MalformedRequest, UnsupportedRequest) as error:
                connection.close(str(error))
                return LATER
            if answer is not None:
                return answer
        self._spawn(self._answer(connection, frame))
        return LATER

    def on_more(self, connection: Connection) -> None:
        """Do nothing: this broker holds back no answer that more bytes could release."""

    def on_closed(self, connection: Connection) -> None:
        """Do nothing: requests that are under way finish, and nobody takes their answers."""

    async def _answer(self, connection: Connection, frame: bytes) -> None:
        try:
            answer = await self.serve(connection.identity, frame)
        except (MalformedRequest, UnsupportedRequest) as error:
            connection.close(str(error))
            return
        except Exception:
            log.exception("a request of %s failed", connection.identity.peer)
            connection.close("internal error")
            return
        if answer is None:
            connection.close("no answer could be had")
        else:
            connection.answer(answer)

    async def serve(self, identity: ClientIdentity, frame: bytes) -> bytes | None:
        """Return the answer frame of any request; b"" if it has none; None to close the connection."""
        if (
            self._upstream is not None
            and (told := await self._upstream.serve(identity, frame)) is not NOT_HERE
        ):
            answer: bytes | None = told
            return answer
        header, body_offset = parse_header(frame)
        if is_signed(self._peer_secret, header, frame, body_offset):
            identity = TIER
        if header.api_key == TIER_QUESTIONS:
            return await self._questions.answer(identity, header, frame, body_offset)
        await self._leaderless.passed(header, frame, body_offset)
        in_place = self._answer_in_place(identity, header, frame, body_offset)
        if in_place is not None:
            return in_place
        if self._upstream is not None and header.api_key == FIND_COORDINATOR:
            return await self._upstream.find_coordinator(identity, frame)
        if header.api_key in COORDINATOR_APIS:
            return await self._groups.serve(header, frame, body_offset, identity)
        entity = codec.decode_entity(header, frame, body_offset)
        if header.api_key == INIT_PRODUCER_ID and entity.transactional_id is not None:
            return await self._groups.serve(header, frame, body_offset, identity)
        try:
            answer = await self._served(header, *screen_entity(self._gate, identity, header, entity))
        except HangUp:
            self._metrics.requests.count(header.api_key, None)
            return None
        self._metrics.requests.count(header.api_key, answer)
        if answer is None:
            return b""
        return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)

    async def _served(self, header: Header, allowed: Any | None, finish: Finish | None) -> Any | None:
        """Return the answer to what is left of a request. Raises HangUp."""
        if allowed is None:
            answer = None
        elif header.api_key == WRITE_TXN_MARKERS:
            answer = await self._transactions.answer(self._apis.image, header, allowed, pass_on=False)
        else:
            answer = await self._apis.handle(header, allowed)
        return answer if finish is None else finish(answer)

    def _answer_in_place(
        self, identity: ClientIdentity, header: Header, frame: bytes, body_offset: int
    ) -> bytes | None:
        apis, screen = self._apis, partial(screen_entity, self._gate, identity)
        own_to_all = apis.settings.group_own_apis_advertised
        if self._upstream is not None:
            told = identity.listener, apis.offsets_leaders, own_to_all
            answered = self._upstream.answer_in_place(*told, screen, (header, frame, body_offset))
        else:
            view = View(apis.image, apis.offsets_leaders, self._node.node_id, own_to_all)
            answered = answer_in_place(view, screen, header, frame, body_offset)
        if answered is not None:
            self._metrics.requests.count(header.api_key, None)
        return answered

    def _address_of(self, node_id: int) -> tuple[str, int]:
        return node_address(self._spec, self._apis.image, node_id)

    # What this node's replicas send here.

    def on_relay(self, slot: int, identity: ClientIdentity, frame: bytes, answer: Any) -> None:
        self._spawn(self._serve_relayed(identity, frame, answer))

    async def _serve_relayed(self, identity: ClientIdentity, frame: bytes, answer: Any) -> None:
        try:
            serve = self._serve_tier if identity == TIER else partial(self.serve, identity)
            answer(await serve(frame))
        except (MalformedRequest, UnsupportedRequest):
            answer(None)
        except Exception:
            log.exception("a relayed request of %s failed", identity.peer)
            answer(None)

    async def _serve_tier(self, frame: bytes) -> bytes | None:
        """Answer what a leader of this node needs of other nodes: where logs end, a step of a transaction, or
        who coordinates one upstream."""
        header, body_offset = parse_header(frame)
        if self._upstream is not None and header.api_key == FIND_COORDINATOR:
            return await self._upstream.find_coordinator(TIER, frame)
        entity = codec.decode_entity(header, frame, body_offset)
        if header.api_key == LIST_OFFSETS:
            answer = await self._log_ends.answer(self._apis.image, header, entity)
        else:
            answer = await self._transactions.answer(self._apis.image, header, entity, pass_on=True)
        return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)
