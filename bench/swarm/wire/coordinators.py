"""The way to the coordinators, for all members of one process: bootstrap connections they share, connections
of their own to coordinators, and topics as the brokers tell of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from gevent.lock import BoundedSemaphore

from actors.network.wire import parse_answer
from actors.protocol.java_hash import partition_for
from bench.member.requests import by_schema
from bench.peers.lines import found_at
from bench.swarm.planning.clients import Client
from bench.swarm.wire.clock import now_us
from bench.swarm.wire.connection import Address, Closed, Connection, TimedOut, connect
from bench.swarm.wire.exchange import UNWRITTEN, Ledger, Question, connecting, exchange
from cluster.groups.properties import ClientProperties
from storage.history.calls import Call

METADATA_VERSION: Final = 12
SPARE_MAX: Final = 256
"""How many connections to one address are kept for the next held requests."""
_Place = tuple[Address, str, int]
"""Where a connection goes, the software that it says it is, and the offsets partition of its groups."""


class Bootstrap:
    """One connection to any broker, opened to the next broker when it is lost. If an attempt fails, it fails
    for everybody who waited for it: none of them would fare better with an attempt of its own."""

    def __init__(self, properties: ClientProperties, name: str, ledger: Ledger = UNWRITTEN) -> None:
        self._ledger = ledger
        self._failed: tuple[int, str] | None = None
        """When the last attempt failed, and why."""
        self._properties = properties
        self._name = name
        self._addresses = list(properties.addresses)
        self._count = 0
        self._connection: Connection | None = None
        self._at: Address | None = None
        """Where the connection goes."""
        self._opening = BoundedSemaphore(1)

    def connection(self) -> Connection:
        """The connection, opened if need be. Raises Closed, TimedOut, TierError."""
        came_us = now_us()
        with self._opening:
            if self._connection is None or not self._connection.is_open:
                if self._failed is not None and self._failed[0] >= came_us:
                    raise Closed(self._failed[1])
                self._connection = self._open()
            return self._connection

    def learn(self, addresses: Iterable[Address]) -> None:
        """Add brokers to which the connection may be opened."""
        self._addresses += [address for address in addresses if address not in self._addresses]

    def leave(self, address: Address | None) -> None:
        """Give up a connection to a broker that has let a request of somebody's time out: a client that
        fetches would have a connection of its own to another one."""
        if address is not None and address == self._at and len(self._addresses) > 1:
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> Connection:
        errors = []
        for _ in self._addresses:
            address = self._addresses[self._count % len(self._addresses)]
            self._count += 1
            name = f"{self._name}/bootstrap-{self._count}"
            try:
                with connecting(self._ledger, Call(self._name, "", "", 0), name):
                    connection = connect(address, name, self._properties)
                self._at = address
                return connection
            except (Closed, TimedOut) as error:
                errors.append(str(error))
        self._failed = now_us(), "; ".join(errors)
        raise Closed(self._failed[1])


class Coordinators:
    """Connections to coordinators, one a member, or one for every `members_max` of them.

    Members share a connection if their groups are of the same offsets partition, so they have the same
    coordinator also where a node has one for each partition. Kafka answers a connection's requests in their
    order, so a request that is held would hold up all members of a shared one: those travel on connections
    that are lent for that long.
    """

    def __init__(
        self, properties: ClientProperties, name: str, members_max: int, ledger: Ledger = UNWRITTEN
    ) -> None:
        self._ledger = ledger
        self._properties = properties
        self._name = name
        self._members_max = members_max
        self.offsets_partitions = 1
        """How many offsets partitions the groups are spread over."""
        self._shared: dict[_Place, list[Connection]] = {}
        self._seats: dict[Connection, int] = {}
        self._spare: dict[_Place, list[Connection]] = {}
        self._opening: dict[_Place, BoundedSemaphore] = {}
        self._count = 0

    @property
    def are_shared(self) -> bool:
        return self._members_max > 1

    def take(self, address: Address, who: Call, client: Client, client_id: str) -> Connection:
        """Take a connection for a member, which gives it back. `who` is the row of the member's request.
        Raises Closed, TimedOut, TierError."""
        if not self.are_shared:
            return self._connect(address, who, client, client_id)
        place = self._place(address, who, client)
        with self._opening.setdefault(place, BoundedSemaphore(1)):
            shared = [each for each in self._shared.get(place, []) if each.is_open]
            free = [each for each in shared if self._seats[each] < self._members_max]
            connection = free[0] if free else self._connect(address, who, client)
            self._shared[place] = shared if free else [*shared, connection]
            self._seats[connection] = self._seats.get(connection, 0) + 1
            return connection

    def give_back(self, connection: Connection) -> None:
        seats = self._seats.get(connection, 1) - 1
        if seats > 0 and connection.is_open:
            self._seats[connection] = seats
            return
        self._seats.pop(connection, None)
        connection.close()

    def lend(self, address: Address, who: Call, client: Client) -> Connection:
        """Lend a connection for one request that may be held. `who` is the request's row. Raises Closed,
        TimedOut, TierError."""
        spare = self._spare.get(self._place(address, who, client), [])
        while spare:
            connection = spare.pop()
            if connection.is_open:
                return connection
        return self._connect(address, who, client)

    def returned(self, address: Address, who: Call, client: Client, connection: Connection) -> None:
        """Take back a lent connection, whether its request was answered or not."""
        spare = self._spare.setdefault(self._place(address, who, client), [])
        if connection.is_open and len(spare) < SPARE_MAX:
            spare.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        for connections in (*self._shared.values(), *self._spare.values()):
            for connection in connections:
                connection.close()

    def _place(self, address: Address, who: Call, client: Client) -> _Place:
        return address, client.name, partition_for(who.group_id, self.offsets_partitions)

    def _connect(
        self, address: Address, who: Call, client: Client, client_id: str | None = None
    ) -> Connection:
        self._count += 1
        name = f"{self._name}/{address[0]}:{address[1]}-{self._count}"
        with connecting(self._ledger, who, name):
            return connect(address, name, self._properties, client_id, client)


class Catalogue:
    """The ids, partitions and leaders of topics, as of the last look."""

    def __init__(
        self, bootstrap: Callable[[], Connection], name: str = "", ledger: Ledger = UNWRITTEN
    ) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._ledger = ledger
        self.ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        self.partitions: dict[str, int] = {}
        self.led: dict[str, int] = {}
        """How many partitions of a topic have a leader, by topic."""
        self.leaders: dict[tuple[str, int], Address] = {}
        self.brokers: list[Address] = []

    def look(self, topics: Iterable[str]) -> None:
        """Ask for some topics; those that do not exist are passed over. Raises as `connection`."""
        wanted = [{"name": topic, "topic_id": None} for topic in topics]
        fields = {
            "topics": wanted,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        request = by_schema("metadata", METADATA_VERSION, fields)
        call = Call(self._name, "", "", 0)
        question = Question(request, lambda raw, told: (told, raw))
        answer = exchange(self._ledger, self._bootstrap(), question, call)
        _, found = parse_answer("metadata", METADATA_VERSION, answer)
        nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in found["brokers"]}
        self.brokers = list(nodes.values())
        for topic in found["topics"]:
            if not topic["error_code"] and topic["name"] is not None:
                self._is(topic["name"], topic["topic_id"], topic["partitions"])
                self._lead(topic["name"], topic["partitions"], nodes)

    def _lead(
        self, topic: str, partitions: Iterable[Mapping[str, Any]], nodes: Mapping[int, Address]
    ) -> None:
        for row in partitions:
            leader = nodes.get(row["leader_id"])
            if leader is None:
                self.leaders.pop((topic, row["partition_index"]), None)
            else:
                self.leaders[topic, row["partition_index"]] = leader

    def of(self, topics: Iterable[str]) -> Mapping[str, int]:
        """How many partitions each of these topics has; a topic that does not exist is left out."""
        return {topic: self.partitions[topic] for topic in topics if topic in self.partitions}

    def name(self, topic_id: bytes) -> str:
        """The name of a topic. One that was made meanwhile by somebody else has its id for a name."""
        if topic_id not in self.names:
            self.names[topic_id] = topic_id.hex()
            self.ids[topic_id.hex()] = topic_id
        return self.names[topic_id]

    def _is(self, topic: str, topic_id: UUID | None, partitions: Sequence[Mapping[str, Any]]) -> None:
        raw = bytes(16) if topic_id is None else topic_id.bytes
        self.ids[topic], self.names[raw], self.partitions[topic] = raw, topic, len(partitions)
        self.led[topic] = sum(row["leader_id"] >= 0 and not row["error_code"] for row in partitions)


def address_of(answer: bytes) -> tuple[int, Address | None]:
    """Read the answer to FindCoordinator: error code, and the coordinator's address."""
    found = found_at(answer)
    return (found, None) if isinstance(found, int) else (0, found)
