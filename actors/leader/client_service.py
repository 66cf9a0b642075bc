"""The clients of one replica. Their frames come on their own connections, or are relayed by the node's
broker.

A connection arrives from the broker by file descriptor and is served here, with no hop on any later request.
What only a broker can answer is relayed to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from socket import socket
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from actors.api.in_place import View, answer_in_place
from actors.catalog.headers import parse_header
from actors.catalog.in_front import LEADER_APIS, api_key_of
from actors.catalog.screening import screen_entity
from actors.catalog.table import COORDINATOR_APIS
from actors.coordinator.offsets.together import is_one_block
from actors.ground.contract import Token
from actors.ground.identity import TIER, ClientIdentity
from actors.ground.tasks import Tasks
from actors.ground.topic_names import INTERNAL_TOPICS
from actors.leader.group_server import ElsewhereError, GroupServer, LastHeartbeat, LastHeartbeats
from actors.leader.held_heartbeats import HeldHeartbeats, HoldEnd
from actors.leader.known_requests import KnownCommit
from actors.leader.known_tier import KnownTier
from actors.leader.offsets_feed import OffsetsFeed
from actors.leader.warm_kernels import WarmKernels
from actors.network.channel import Answer
from actors.network.connection import LATER, Connection
from actors.network.link import Link, LinkHandlers
from actors.network.quota import ConnectionLimits
from actors.network.table import ConnectionTable
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.offsets_feed import unpack_question
from actors.protocol.push_codec import is_of_coordinator
from actors.replica.host import ReplicaHost

if TYPE_CHECKING:
    from actors.leader.lane.sockets import Lane

log = logging.getLogger("groupd.partition")

RELAY_TIMEOUT_S = 1_900.0
"""How long an answer of the broker is waited for, in seconds. The limit is the broker's own: a relayed
request may be a JoinGroup of another partition's group, parked for as long as group.max.session.timeout.ms,
which is 30 minutes by default."""

WINDOW_MS: Final = 300_000
"""Within which time as many requests have to repeat as make the lane pay: 17 a second by default."""

RARE_LINGERS: Final = 10
"""The commits of a member are rare if so many lingers lie between them: they may gather with others'."""

NewLink = Callable[[LinkHandlers], Link]


class Payback:
    """The count of heartbeats that the lane would have answered, and of commits that it would have taken or
    gathered: it pays after `pays_after` of them."""

    __slots__ = ("_count", "_pays_after", "_since_ms")

    def __init__(self, pays_after: int) -> None:
        self._pays_after = pays_after
        self._count = 0
        self._since_ms = 0

    def is_reached(self, now_ms: int) -> bool:
        """Count one, and return whether the lane pays."""
        if now_ms - self._since_ms > WINDOW_MS:
            self._count, self._since_ms = 0, now_ms
        self._count += 1
        return self._count >= self._pays_after


class ClientService:
    """The service of the clients of one replica of offsets partition `partition`, through `server`.

    It implements `network.connection.Service` for their connections and `network.link.LinkHandlers` for what
    the node's broker sends: connections handed over, relayed frames, metadata images.
    """

    def __init__(
        self, partition: int, host: ReplicaHost, known: KnownTier, server: GroupServer, new_link: NewLink
    ) -> None:
        self._partition = partition
        self._host = host
        self._known = known
        self._server = server
        spec = known.spec
        self.held = HeldHeartbeats(host.replica, server.release, host.now_ms, spec.groups.held_clients)
        """The heartbeats whose answers wait until there is news for the member."""
        host.replica.watcher = self.held
        self._feeds = {topic: OffsetsFeed(host.replica) for topic in INTERNAL_TOPICS}
        self._kernels = WarmKernels(host.replica, known)
        self._is_in_front = spec.upstream is not None
        """Whether the node is one of a Kafka cluster's brokers."""
        self.lane: Lane | None = None
        """What repeats answers of heartbeats, once that has paid."""
        self._linger_ms = spec.groups.group_heartbeat_lane_linger_ms
        pays_after = spec.groups.group_heartbeat_lane_after
        self._payback = Payback(pays_after) if pays_after else None
        """The count of heartbeats that the lane would have answered; None: it is loaded, or not to be."""
        self._unmoved: tuple[int, ...] = known.image.unmoved
        self._tasks = Tasks("the loading of the lane")
        self._stopped = Event()
        """Set when the lane is wanted no more."""
        self.link = new_link(self)
        """The link to the node's broker."""
        self.table = ConnectionTable(
            asyncio.get_running_loop(), ConnectionLimits.of(spec.broker), self.link.gone
        )
        """The connections of the clients that this replica serves."""

    def start(self) -> None:
        """Connect to the node's broker, which hands clients over."""
        self.link.start()

    def repeated(self) -> int:
        """Return how many heartbeats the lane has answered."""
        return 0 if self.lane is None else self.lane.answered

    def refuse_held(self) -> None:
        """Answer every held heartbeat with NOT_COORDINATOR."""
        self._host.replica.repeats.everything()
        self.held.refuse_all()

    def close(self) -> None:
        """Close every connection, then the link."""
        self.table.close()
        self._payback = None
        self._stopped.set()
        self._tasks.close()
        if self.lane is not None:
            self.lane.close()
        self.link.close()

    def cut_off(self) -> None:
        """Let every client go, from another thread than the loop's, which hangs."""
        self.link.cut_off()
        self.table.cut_off()

    def began_to_lead(self) -> None:
        """Prepare what a leader needs to serve clients: its compiled assignors."""
        self._kernels.look()

    async def _load_lane(self) -> None:
        """Load the lane in a thread; until it is there, all goes the ordinary way."""
        from actors.leader.lane.loading import load  # here, because few replicas ever need it

        new_lane = await asyncio.to_thread(load, self._stopped)
        if new_lane is not None and not self._stopped.is_set():
            self.lane = new_lane(self._host, self._server, self.held, self._linger_ms)

    def hand_all_back(self) -> None:
        """Give every connection back to the broker, which finds the new leader on this node: clients must not
        need to reconnect."""
        for connection in self.table.connections():
            connection.release(partial(self._hand_back, connection.identity))

    def _hand_back(self, identity: ClientIdentity, client: socket, buffered: bytes) -> None:
        if not self.link.hand_back(client, identity, buffered):
            client.close()

    def release(self, token: Token, response: Any) -> None:
        """Take the replica's answer to a client's request that had to wait."""
        if self.held.parked and self.held.keeps(token, response):
            return
        self._server.release(token, response)

    # Requests of clients whose connections live here (network.connection.Service).

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        heartbeats, holding = connection.session, connection.holding
        last = None if heartbeats is None else heartbeats.find(frame)
        if last is not None:
            answered = self._server.serve_again(last, frame, connection.answer)
            if answered is not None and (holding is None or not holding.holds(last.request)):
                self._steady(connection, last, answered)
                if holding is None:
                    return answered  # nothing was decided, so there is nothing to commit
        elif (
            connection.known is not None
            and (known := connection.known.find(frame, self._known.image)) is not None
        ):
            answered = self._server.again(known, frame, connection.answer)
            if type(known) is KnownCommit:  # a fetch sets no timer
                if answered is not None:
                    self._host.arm()  # as below
                self._committed(connection, known, frame)
        else:
            try:
                if is_of_coordinator(frame):
                    self._server.channels.answered(connection, frame)
                    self._host.wake()  # to commit what was decided, and to send what follows
                    return b""
                if self._is_in_front and api_key_of(frame) not in LEADER_APIS:
                    return self._relay(connection, frame)  # only the broker knows the cluster upstream
                header, body_offset = parse_header(frame)
                if self._known.sasl.is_wanted:
                    kept = self._known.sasl.on_request(connection, header, frame, body_offset)
                    if kept is not None:
                        return kept
                if header.api_key not in COORDINATOR_APIS:
                    return self._serve_other(connection, header, frame, body_offset)
                answered, last = self._server.serve(header, frame, body_offset, connection)
                if last is not None:
                    if connection.session is None:
                        connection.session = LastHeartbeats()
                    connection.session.note(last)
                if answered is not None:
                    self._host.arm()  # the request may have set a timer that is due before any other
            except ElsewhereError:
                return self._relay(connection, frame)
            except (MalformedRequest, UnsupportedRequest) as error:
                connection.close(str(error))
                return LATER
        if answered is None or self._host.replica.can_flush:
            if last is not None and holding is not None and holding.request is last.request:
                self._holds(connection, last)
            if holding is not None and connection.has_more:
                self.on_more(connection)
            elif holding is not None and holding.request is not None:
                self._host.arm()  # so that the loop wakes for the end of the hold
                return answered
            self._host.wake()  # to commit what was decided
        return answered

    def _steady(self, connection: Connection, last: LastHeartbeat, answered: bytes) -> None:
        """Have the lane repeat an answer that was given at once, if there is one."""
        if self.lane is not None:
            self.lane.repeated(connection, last, answered)
        elif self._payback is not None:
            self._look_whether_it_pays(self._payback)

    def _committed(self, connection: Connection, known: KnownCommit, frame: bytes) -> None:
        """Have the lane take the commits of a connection together with others', or read it together with
        others if it commits now and then."""
        lingers_ms = RARE_LINGERS * self._linger_ms
        is_rare = lingers_ms and known.spacing_ms(self._host.now_ms()) >= lingers_ms
        if not is_rare and not is_one_block(known.decided):
            return
        if self.lane is not None:
            self.lane.commits(connection, known, frame)
        elif self._payback is not None:
            self._look_whether_it_pays(self._payback)

    def _holds(self, connection: Connection, last: LastHeartbeat) -> None:
        """Note whose answer is held, for when that may be repeated."""
        connection.holding.kept = connection, last
        if self._payback is not None:
            self._look_whether_it_pays(self._payback)

    def _look_whether_it_pays(self, payback: Payback) -> None:
        if payback.is_reached(self._host.now_ms()):
            self._payback = None  # at once: a second lane would read the sockets of the first
            self._tasks.spawn(self._load_lane())

    def on_more(self, connection: Connection) -> None:
        """End the hold of a connection that sends more: a client that asks something else must not wait for
        its heartbeat's answer."""
        if connection.holding is not None:
            self.held.end(connection.holding, HoldEnd.REQUEST)
            self._host.wake()  # to commit what was decided

    def on_closed(self, connection: Connection) -> None:
        """Forget the held heartbeat of a connection that closed. Its member stays in the group until its
        session ends (W13)."""
        if connection.channel is not None:
            self._server.channels.closed(connection)
            self._host.wake()
        holding = connection.holding
        token = None if holding is None else self.held.forget(holding)
        if holding is not None:
            holding.kept = None  # the two know each other
        if token is not None:
            self._server.forget(token)

    def _serve_other(
        self, connection: Connection, header: Header, frame: bytes, body_offset: int
    ) -> bytes | None:
        """Answer here what any actor can answer from the image; the node's broker answers the rest."""
        known = self._known
        if known.image.nodes:
            answered = answer_in_place(
                View(
                    known.image,
                    self._offsets_leaders(),
                    self._host.node_id,
                    known.spec.broker.group_own_apis_advertised,
                ),
                partial(screen_entity, known.gate, connection.identity),
                header,
                frame,
                body_offset,
            )
            if answered is not None:
                self._server.counts.count(header.api_key, None)
                return answered
        return self._relay(connection, frame)

    def _offsets_leaders(self) -> dict[int, int]:
        """Return the leaders that this replica knows better than the image does: itself, for its own
        partition, while it serves."""
        return {self._partition: self._host.node_id} if self._host.replica.serving else {}

    def _relay(self, connection: Connection, frame: bytes) -> bytes | None:
        self.link.ask(connection.identity, frame, partial(_answer, connection), RELAY_TIMEOUT_S)
        return LATER

    # What the node's broker sends (network.link.LinkHandlers).

    def on_connected(self) -> None:
        log.info("linked to the broker of node %d", self._host.node_id)

    def on_disconnected(self) -> None:
        log.info("the broker of node %d is gone; its clients here are served on", self._host.node_id)

    def addresses(self) -> dict[str, int]:
        return self.table.addresses()

    def on_handover(self, client: socket, identity: ClientIdentity, buffered: bytes) -> None:
        connection = self.table.adopt(client, buffered, identity, self)
        connection.holding = self.held.of_client(identity.software_name, identity.software_version)

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        if identity == TIER:
            question = unpack_question(frame)
            if question is not None:
                self._feeds[question.topic].ask(question, answer)
                return
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
        if kind != "image" or not self._known.take(payload):
            return
        if self._known.access_changed:
            self._host.replica.repeats.everything()
            self.held.end_all(HoldEnd.NEWS)
            self._forget_heartbeats()
        self._review_channels()
        if self.lane is not None:
            self.lane.forget_commits()
        for connection in self.table.connections():
            connection.known = None  # else idle ones would keep old images alive
        self._host.learn_nodes(self._known.nodes)
        self._host.replica.on_metadata(self._known.image, self._host.now_ms())
        self._host.wake()
        self._kernels.look()

    def lost_leadership(self) -> None:
        """Let the consumers of push groups look for their new coordinator at once."""
        self._server.channels.close_all()

    def _review_channels(self) -> None:
        unmoved = self._known.image.unmoved
        if self._known.access_changed or unmoved != self._unmoved:
            self._unmoved = unmoved
            self._server.channels.review(self._known.gate, self._server.has)

    def _forget_heartbeats(self) -> None:
        """Have every connection's next heartbeat decoded and checked again, because the last one was allowed
        by ACLs that have changed."""
        for connection in self.table.connections():
            connection.session = None


def _answer(connection: Connection, answer: bytes | None) -> None:
    if answer is None:
        connection.close("no answer could be had")
    else:
        connection.answer(answer)
