"""A node's place in the Kafka cluster that its tier stands in front of: it follows the cluster's metadata, is
registered as a broker, and answers what a broker is asked, or has another broker answer it.

Nobody but this object looks at the cluster for the node. The tier's image goes through it: what replicas get
has the cluster's topics, configs, users and rights in it (`actors.upstream.tier_image`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.api import in_front
from actors.api.in_front import FrontView
from actors.api.in_place import Screen
from actors.catalog import codec
from actors.catalog.api_versions import Offer
from actors.catalog.headers import parse_header
from actors.catalog.in_front import api_key_of, is_passed_on, offer
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage
from actors.ground.spec import NodeSpec, TierSpec, UpstreamSpec
from actors.ground.tasks import Tasks
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.ground.upstream_goal import DETACHED
from actors.network.connection import Service
from actors.network.early import Again, Decision, EarlyConnection, Keep
from actors.network.frames import LENGTH_BYTES
from actors.node.passing_on import PassingOn, Rights
from actors.protocol.api_keys import DESCRIBE_CONFIGS, LIST_TRANSACTIONS, METADATA
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.header import Header
from actors.upstream import identity
from actors.upstream.connecting import connector
from actors.upstream.controller_link import ControllerLink
from actors.upstream.controller_way import ControllerWay
from actors.upstream.controllers import Address, Connect
from actors.upstream.following import Follower
from actors.upstream.forwarding import Forwarding, Offered, Unreachable
from actors.upstream.identity import IdentityRefused
from actors.upstream.image import ClusterImage, Endpoint
from actors.upstream.node import PROTOCOL_NUMBERS, NodeInvalid, TierNode
from actors.upstream.readdressing import readdressed
from actors.upstream.registered import RegisteredNode, RegistrationRefused
from actors.upstream.registration import Facts, RegisteredBroker
from actors.upstream.states import State
from actors.upstream.tier_image import is_news, outer_id, overlaid

log = logging.getLogger("groupd.upstream")

FIRST_LOOK_TIMEOUT_S: Final = 30.0
"""How long, in seconds, a node that starts waits for the cluster; then it says why it cannot start."""
FIRST_LOOK_INTERVAL_S: Final = 0.1
OVERLAY_INTERVAL_S: Final = 0.05
"""How often, in seconds, what the cluster says is laid over the tier's image at most."""
OVERLAY_SHARE: Final = 0.05
"""The share of the node's time that this may take, where the cluster has very many partitions."""
REFUSED_PAUSE_S: Final = 15.0
"""How long, in seconds, a node waits before it tries again to be a broker after that was refused."""
LEAVE_TIMEOUT_S: Final = 2.0
"""How long, in seconds, a node that stops waits for the controller to relieve it of what it leads."""
LEAVE_INTERVAL_S: Final = 0.02
NOT_HERE: Final = object()
"""What `serve` returns for a request that the node's broker answers as that of any tier."""

Show = Callable[[MetadataImage], None]


class _Answered(NamedTuple):
    """The answer to a request of a connection that has yet to show what it is; None: there is none."""

    frame: bytes | None


class UpstreamNode:
    """The node's place in the cluster of `spec`. `show` is given each new image; `rights` say what clients
    may do."""

    def __init__(
        self,
        tier: TierSpec,
        node: NodeSpec,
        show: Show,
        rights: Rights,
        connect: Connect | None = None,
    ) -> None:
        assert tier.upstream is not None, "the tier stands in front of a cluster"
        self._spec: UpstreamSpec = tier.upstream
        self._node_id = node.node_id
        self._broker = TierNode(
            self._spec.cluster_id,
            self._spec.broker_id(node.node_id),
            tuple(
                Endpoint(
                    name,
                    node.host,
                    self._spec.port_of(name, node.clients_port),
                    PROTOCOL_NUMBERS[self._spec.protocol_of(name)],
                )
                for name in self._spec.listeners
            ),
            node.rack,
        )
        self._directory = Path(tier.data_dir) / f"node-{node.node_id}"
        self._show = show
        client_id = f"groupd-{self._broker.broker_id}"
        self._connect = connect or connector(client_id, self._spec.brokers_login)
        self._connect_controller = connect or connector(client_id, self._spec.controllers_login)
        self._follower = Follower(self._connect_controller, self._spec.controllers, self._spec.cluster_id)
        self._forwarding = Forwarding(self._connect, self._brokers)
        self._controllers = ControllerWay(
            self._connect_controller, self._spec.controllers, client_id, self._spec.cluster_id
        )
        self._passing_on = PassingOn(
            self._forwarding, self._controllers, rights if self._spec.knows_users else None
        )
        self._leaders: dict[int, Forwarding] = {}
        """The way to each broker that was asked as a leader."""
        self._registered: RegisteredNode | None = None
        self._own: MetadataImage | None = None
        self._shown: MetadataImage | None = None
        self._made_of: tuple[MetadataImage, ClusterImage, int] | None = None
        """What was laid over what the last time, and how many changes the cluster's metadata had then."""
        self._offer: tuple[tuple[Offered, dict[str, int]], Offer] | None = None
        """What the table of APIs was made of last, and the table."""
        self._placed: tuple[ClusterImage | None, int, int] = (None, 0, 0)
        """The metadata by which this node's partitions were counted last, how many changes they had then, and
        how many partitions there were."""
        self._changed = asyncio.Event()
        self._goal_changed = asyncio.Event()
        self._is_ready = self._is_closing = False
        self._refusal: str | None = None
        self._tasks = Tasks(f"what makes node {node.node_id} a broker upstream")

    @property
    def cluster(self) -> ClusterImage | None:
        """Return the cluster's metadata; None until they have been read once."""
        return self._follower.image

    @property
    def broker_id(self) -> int:
        return self._broker.broker_id

    @property
    def own_version(self) -> int:
        """Return the version of the tier's own image that is known here; -1: none is."""
        return -1 if self._own is None else self._own.version

    # The node's life.

    async def open(self) -> None:
        """Begin to follow the cluster, and wait until it can be read and a broker of it can be asked. Raises
        TimeoutError that says why not."""
        self._tasks.spawn(self._follower.run())
        self._tasks.spawn(self._look_out())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FIRST_LOOK_TIMEOUT_S
        while True:
            problem = self._follower.problem or "the metadata log is being read"
            if self._follower.image is not None:
                try:
                    await self._forwarding.greet()
                    break
                except Unreachable as error:
                    problem = str(error)
            if loop.time() > deadline:
                raise TimeoutError(f"cluster {self._spec.cluster_id} cannot be reached: {problem}")
            await asyncio.sleep(FIRST_LOOK_INTERVAL_S)
        self._tasks.spawn(self._keep_overlaid())

    def listens(self) -> None:
        """Note that the node's port is open: from now on the node may be a broker."""
        self._is_ready = True
        self._tasks.spawn(self._stay_registered())

    async def close(self) -> None:
        """Leave the cluster for a while: what the node leads goes to another one, and it stays registered."""
        self._is_closing = True
        if self._registered is not None and self._is_registered:
            self._registered.leave(unregister=False)
            loop = asyncio.get_running_loop()
            deadline = loop.time() + LEAVE_TIMEOUT_S
            while self._is_registered and loop.time() < deadline:
                await asyncio.sleep(LEAVE_INTERVAL_S)
        self._tasks.close()
        await self._passing_on.close()
        for way in self._leaders.values():
            await way.close()

    def take(self, own: MetadataImage) -> None:
        """Take a newer image of the tier's own; `show` is given what is made of it soon."""
        before = None if self._own is None else self._own.upstream_goal
        self._own = own
        if own.upstream_goal != before:
            self._goal_changed.set()
        self._changed.set()

    def status(self) -> dict[str, Any]:
        """Return what `groupd status` shows of the node as a broker of the cluster."""
        registered = self._registered
        return {
            "cluster_id": self._spec.cluster_id,
            "broker_id": self.broker_id,
            "state": "not registered" if registered is None else registered.state.value,
            "broker_epoch": -1 if registered is None else registered.broker_epoch,
            "metadata_offset": -1 if self.cluster is None else self.cluster.offset,
            "goal": DETACHED if self._own is None else self._own.upstream_goal,
            "problem": self._refusal or self._follower.problem or self._forwarding.problem,
        }

    # The image.

    async def _look_out(self) -> None:
        """Note whenever the cluster's metadata have changed."""
        while True:
            await self._follower.changed()
            self._changed.set()
            if self._registered is not None:
                self._registered.look()

    async def _keep_overlaid(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            began_at = loop.time()
            try:
                self._overlay()
            except Exception:
                log.exception("the cluster's metadata could not be laid over the tier's")
            await asyncio.sleep(max(OVERLAY_INTERVAL_S, (loop.time() - began_at) / OVERLAY_SHARE))

    def _overlay(self) -> None:
        if self._own is None or not self._own.nodes or self.cluster is None:
            return
        made_of = self._own, self.cluster, self.cluster.changes
        if made_of == self._made_of:
            return
        self._made_of = made_of
        image = overlaid(self._own, self.cluster, self._spec)
        if is_news(self._shown, image):
            self._shown = image
            self._show(image)

    # The registration.

    async def _stay_registered(self) -> None:
        """Be a broker as long as that is wanted, again after it was refused. A node that was away when its
        tier left the cluster leaves it as well: else that would have it for a broker for ever."""
        while True:
            try:
                await self._until_wanted()
                link = ControllerLink(self._connect_controller, self._spec.controllers)
                self._registered = RegisteredNode(self._broker, self._directory, link, self._facts)
                if self._is_wanted or self._is_left_behind:
                    self._refusal = None
                    await self._run(self._registered)
            except (RegistrationRefused, IdentityRefused, NodeInvalid, OSError) as error:
                self._refusal = str(error)
                log.error("node %d is no broker upstream: %s", self._node_id, error)
                await asyncio.sleep(REFUSED_PAUSE_S)
            except Exception as error:
                # A node that gave up would be fenced for good, and nobody would know why.
                self._refusal = f"a mistake of this release: {error!r}"
                log.exception("node %d is no broker upstream", self._node_id)
                await asyncio.sleep(REFUSED_PAUSE_S)

    async def _run(self, registered: RegisteredNode) -> None:
        """Run a registration until it has ended; begin to end it once it is not wanted."""
        running = asyncio.ensure_future(registered.run())
        try:
            while not running.done():
                if not (self._is_wanted or self._is_closing):
                    registered.leave(unregister=True)
                changed = asyncio.ensure_future(self._goal_changed.wait())
                await asyncio.wait((running, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._goal_changed.clear()
            running.result()
        finally:
            running.cancel()

    @property
    def _is_registered(self) -> bool:
        """Return whether the node is a broker, or about to be one."""
        return self._registered is not None and self._registered.state is not State.NOT_RUNNING

    @property
    def _is_wanted(self) -> bool:
        if self._own is None or self._is_closing:
            return False
        return self._own.upstream_goal != DETACHED

    @property
    def _is_left_behind(self) -> bool:
        """Return whether the cluster has this very node for a broker, though the tier has left."""
        if self._own is None or self._is_wanted or self._is_closing or self.cluster is None:
            return False
        broker, kept = self.cluster.brokers.get(self.broker_id), identity.read(self._directory)
        return broker is not None and kept is not None and broker.incarnation_id == kept.incarnation_id

    async def _until_wanted(self) -> None:
        while not (self._is_wanted or (self._registered is None and self._is_left_behind)):
            self._goal_changed.clear()
            await self._goal_changed.wait()

    def _facts(self) -> Facts:
        cluster = self.cluster
        if cluster is None:
            return Facts(is_ready=self._is_ready)
        broker = cluster.brokers.get(self.broker_id)
        return Facts(
            cluster.offset,
            self._is_ready,
            self._listeners(cluster),
            None
            if broker is None
            else RegisteredBroker(broker.incarnation_id, broker.log_dirs, broker.in_controlled_shutdown),
            self._placed_here(cluster),
        )

    def _listeners(self, cluster: ClusterImage) -> Mapping[str, int] | None:
        """Return the listeners of the brokers that are no nodes of this tier; None if there is no such
        broker."""
        found = {
            endpoint.name: endpoint.security_protocol
            for broker in cluster.brokers.values()
            if not self._is_of_the_tier(broker.broker_id)
            for endpoint in broker.endpoints
        }
        return found or None

    def _placed_here(self, cluster: ClusterImage) -> int:
        """Return how many partitions have this node as a replica."""
        counted, changes, count = self._placed
        if counted is not cluster or changes != cluster.changes:
            count = sum(
                self.broker_id in partition.replicas
                for topic in cluster.topics.values()
                for partition in topic.partitions.values()
            )
            self._placed = cluster, cluster.changes, count
        return count

    def _is_of_the_tier(self, broker_id: int) -> bool:
        nodes = {} if self._own is None else self._own.nodes
        return broker_id - self._spec.first_broker_id in nodes

    # Requests.

    def _brokers(self) -> list[Address]:
        """Return where the cluster's own brokers are that may be asked now."""
        brokers = () if self.cluster is None else self.cluster.brokers.values()
        found = [
            address
            for broker in brokers
            if not (broker.fenced or broker.in_controlled_shutdown or self._is_of_the_tier(broker.broker_id))
            for address in self._addresses_of(broker.broker_id)
        ]
        return found or list(self._spec.brokers)

    def _addresses_of(self, broker_id: int) -> list[Address]:
        broker = None if self.cluster is None else self.cluster.brokers.get(broker_id)
        address = None if broker is None else broker.address(self._spec.listener)
        return [] if address is None else [address]

    def decide(self, early: EarlyConnection, frame: bytes, service: Service) -> Decision | None:
        """Decide about a connection that has yet to show what it is; None: as in any tier. Clients ask for
        metadata before they show what they want, so that such a connection is not kept for that."""
        api_key = api_key_of(frame)
        if not is_passed_on(api_key):
            return None
        if api_key != METADATA or early.identity.session_expires_ms:
            return Keep(service)  # who keeps it sees to it that a session ends
        answered, early.session = early.session, None
        if not isinstance(answered, _Answered):
            return Again(partial(self._answer_early, early, frame))
        return Keep(service) if answered.frame is None else answered.frame

    def _answer_early(self, early: EarlyConnection, frame: bytes, wake: Callable[[], object]) -> None:
        async def answer() -> None:
            early.session = _Answered(None)  # what is wrong whoever serves the connection finds, too
            try:
                early.session = _Answered(await self._passed_on(early.identity, frame))
            except (MalformedRequest, UnsupportedRequest):
                pass
            finally:
                wake()

        self._tasks.spawn(answer())

    async def serve(self, identity: ClientIdentity, frame: bytes) -> Any:
        """Return the answer to a request, None to close its connection, or NOT_HERE. Raises MalformedRequest,
        UnsupportedRequest."""
        api_key = api_key_of(frame)
        if is_passed_on(api_key):
            return await self._passed_on(identity, frame)
        if api_key == LIST_TRANSACTIONS:
            return in_front.no_transactions(parse_header(frame)[0])
        if api_key != DESCRIBE_CONFIGS:
            return NOT_HERE
        header, body_offset = parse_header(frame)
        entity = codec.decode_entity(header, frame, body_offset)
        is_own = in_front.is_about(entity, self.broker_id)
        return NOT_HERE if is_own else await self._passing_on.answer(identity, frame)

    async def _passed_on(self, identity: ClientIdentity, frame: bytes) -> bytes | None:
        """Return what the cluster answers, with the addresses that brokers have at the client's listener.
        Raises MalformedRequest, UnsupportedRequest."""
        answer = await self._passing_on.answer(identity, frame)
        if answer is None or self.cluster is None or not self._spec.is_apart(identity.listener):
            return answer
        return readdressed(frame, answer, self.cluster.brokers, identity.listener)

    def leader_epoch(self, partition: int) -> int:
        """Return the epoch in which the cluster has an offsets partition led, by whomever; -1 if there is no
        such partition."""
        topic = None if self.cluster is None else self.cluster.topic(OFFSETS_TOPIC)
        state = None if topic is None else topic.partitions.get(partition)
        return -1 if state is None else state.leader_epoch

    async def ask_leader(self, leader: int, header: Header, entity: Any) -> Any:
        """Ask the broker that leads partitions; `leader` is its id in the tier's image. Return kio's answer;
        None if there is none."""
        broker_id = outer_id(self._spec, leader)
        if broker_id not in self._leaders:
            self._leaders[broker_id] = Forwarding(self._connect, partial(self._addresses_of, broker_id))
        request = codec.encode_request(header, entity)[LENGTH_BYTES:]
        answer = await self._leaders[broker_id].forward(request, may_repeat=True)
        return None if answer is None else codec.decode_response(header, answer)

    def answer_in_place(
        self,
        listener: str,
        leaders: Mapping[int, int],
        own_to_all: bool,
        screen: Screen,
        request: tuple[Header, bytes, int],
    ) -> bytes | None:
        """Return the answer to what can be answered at once, as `in_front.answer_in_front` has it; `listener`
        is the one by which the client came."""
        if self._shown is None or self.cluster is None:
            return None
        view = FrontView(
            self._shown,
            leaders,
            self._node_id,
            self.cluster,
            self._spec,
            self.offered(),
            own_to_all,
            listener,
        )
        return in_front.answer_in_front(view, screen, *request)

    async def find_coordinator(self, identity: ClientIdentity, frame: bytes) -> bytes | None:
        """Have a broker say who coordinates what the tier knows nothing of. Raises MalformedRequest."""
        return await self._passed_on(identity, frame)

    def offered(self) -> Offer:
        """Return the table of APIs as of the broker that was connected to last, and the features in force."""
        offered, cluster = self._forwarding.offered, self.cluster
        assert offered is not None, "the node waited for it when it started"
        assert cluster is not None, "as for this"
        made_of = offered, dict(cluster.features)
        if self._offer is None or self._offer[0] != made_of:
            knows_users = self._spec.knows_users
            made = offer(
                offered.versions, offered.supported, made_of[1], cluster.offset, knows_users=knows_users
            )
            self._offer = made_of, made
        return self._offer[1]
