"""A node's way to what takes part in transactions: coordinators of transactional ids, logs, groups' offsets.

They are reached through the node's own replicas, in the node's own logs, or at another node's broker. Brokers
ask for themselves (Produce verifies transactions), and for the leaders of their node, who verify commits of
offsets and have markers written. A broker that is asked by another one does not pass it on.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.catalog.table import coordinated
from actors.coordinator.refusals import refusal
from actors.ground.contract import Request
from actors.ground.identity import TIER, ClientIdentity
from actors.ground.image import MetadataImage
from actors.ground.limits import ANSWER_TIMEOUT_S
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.network.peers import Peers
from actors.protocol.api_keys import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.partitioning import Partitioning
from actors.protocol.transaction_codec import (
    ADD_VERSION,
    MARKERS_VERSION,
    add_partitions_entity,
    added_partitions,
    write_markers_entity,
    written_markers,
)
from actors.protocol.transaction_messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TxnMarker,
    TxnMarkerErrors,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PEERS: Final = "peers"
"""The word that the secret is derived from with which requests between nodes are signed."""
_HERE: Final = -1

MarkerWriter = Callable[[WriteTxnMarkersRequest], WriteTxnMarkersResponse]


class Relay(Protocol):
    """The part of `network.hub.Hub` that is used: a replica of this node serves a frame."""

    async def relay(
        self, partition: int, identity: ClientIdentity, frame: bytes, timeout_s: float
    ) -> bytes | None: ...


class Leaders(Protocol):
    """The offsets partitions and their leaders, as this node's broker knows them."""

    @property
    def partitioning(self) -> Partitioning:
        """Return how groups are spread over the partitions."""

    def slot_of(self, partition: int) -> int | None:
        """Return the link of the replica on this node that leads the partition, if there is one."""

    def node_of(self, partition: int) -> int | None:
        """Return the node of the partition's leader, if one is known."""


class Ways(NamedTuple):
    """The ways on which a node's broker reaches the leaders of offsets partitions."""

    node_id: int
    """The broker's own node."""
    hub: Relay
    """The way to the replicas of its node."""
    leaders: Leaders
    peers: Peers
    """The way to the brokers of other nodes."""


class _Where(NamedTuple):
    """Where a partition's marker is to be written."""

    node_id: int = _HERE
    slot: int | None = None
    """The link of the replica of this node; None: the marker is written in this node's logs, or at the other
    node."""


class TransactionRelay:
    """One broker's way to what takes part in transactions. `write_here` writes markers to the logs that this
    broker leads."""

    def __init__(self, ways: Ways, write_here: MarkerWriter) -> None:
        self._ways = ways
        self._write_here = write_here
        self._last_correlation_id = 0

    # A transaction's coordinator.

    async def add_partitions(self, asked: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        """Have the transaction's coordinator verify or add partitions of one transactional id. A coordinator
        that cannot be reached is said to have a failed network, as Kafka's brokers do."""
        [transaction] = asked.transactions
        partition = self._ways.leaders.partitioning.partition_of(transaction.transactional_id)
        where = self._leader_of(partition)
        error = ErrorCode.coordinator_not_available
        if where is not None:
            entity = add_partitions_entity(ADD_VERSION, asked)
            answer = await self._ask(where, ADD_PARTITIONS_TO_TXN, ADD_VERSION, entity)
            if answer is not None:
                return added_partitions(answer)
            error = ErrorCode.network_exception
        refused = refusal(Request(0, ADD_PARTITIONS_TO_TXN, ADD_VERSION, "", "", asked), error)
        assert isinstance(refused, AddPartitionsToTxnResponse)
        return refused

    def _leader_of(self, partition: int) -> _Where | None:
        """Return where an offsets partition is led; None if no node is known to lead it."""
        leaders = self._ways.leaders
        slot = leaders.slot_of(partition)
        return self._at(leaders.node_of(partition)) if slot is None else _Where(slot=slot)

    def _at(self, node_id: int | None) -> _Where | None:
        """Return the place at another node; None if there is no such node, or if it is this one."""
        if node_id is None or node_id < 0 or node_id == self._ways.node_id:
            return None
        return _Where(node_id=node_id)

    # Markers.

    async def write_markers(
        self, image: MetadataImage, asked: WriteTxnMarkersRequest, *, pass_on: bool
    ) -> WriteTxnMarkersResponse:
        """Have each partition's leader write its marker; without `pass_on`, only leaders of this node."""
        errors: dict[tuple[int, str, int], ErrorCode] = {}
        parts: defaultdict[_Where, list[tuple[int, str, int]]] = defaultdict(list)
        for index, marker in enumerate(asked.markers):
            for topic, numbers in marker.topics:
                for number in numbers:
                    where = self._where(image, topic, number)
                    key = (index, topic, number)
                    if isinstance(where, ErrorCode):
                        errors[key] = where
                    elif where.node_id != _HERE and not pass_on:
                        errors[key] = ErrorCode.not_leader_or_follower
                    else:
                        parts[where].append(key)
        answers = await asyncio.gather(*(self._write(where, asked, keys) for where, keys in parts.items()))
        for answer in answers:
            errors |= answer
        return _merged(asked, errors)

    def _where(self, image: MetadataImage, topic: str, number: int) -> _Where | ErrorCode:
        if topic == OFFSETS_TOPIC:
            if not 0 <= number < self._ways.leaders.partitioning.total:
                return ErrorCode.unknown_topic_or_partition
            return self._leader_of(number) or ErrorCode.not_leader_or_follower
        node_id = image.leader_of(topic, number)
        if node_id is None:
            return ErrorCode.unknown_topic_or_partition
        if node_id == self._ways.node_id:
            return _Where()
        return self._at(node_id) or ErrorCode.not_leader_or_follower

    async def _write(
        self, where: _Where, asked: WriteTxnMarkersRequest, keys: list[tuple[int, str, int]]
    ) -> Mapping[tuple[int, str, int], ErrorCode]:
        """Have one part's markers written at `where`, and return the errors of its partitions."""
        indexes = list(dict.fromkeys(index for index, _, _ in keys))
        part = WriteTxnMarkersRequest(
            tuple(_restricted(asked.markers[index], index, keys) for index in indexes)
        )
        if where == _Where():
            answer = self._write_here(part)
        else:
            entity = write_markers_entity(MARKERS_VERSION, part)
            got = await self._ask(where, WRITE_TXN_MARKERS, MARKERS_VERSION, entity)
            if got is None:
                return dict.fromkeys(keys, ErrorCode.request_timed_out)
            answer = written_markers(got)
        errors = {
            (index, topic, number): error
            for index, marker in zip(indexes, answer.markers, strict=False)
            for topic, numbers in marker.topics
            for number, error in numbers
        }
        return {key: errors.get(key, ErrorCode.unknown_server_error) for key in keys}

    # Frames.

    async def answer(self, image: MetadataImage, header: Header, entity: Any, *, pass_on: bool) -> Any:
        """Return kio's answer to a request of another node's broker, or with `pass_on` of a leader of this
        node (`identity.TIER`), which is passed on to wherever it belongs. Raises UnsupportedRequest."""
        body: Any = coordinated(header.api_key).decode(entity)
        answer: AddPartitionsToTxnResponse | WriteTxnMarkersResponse
        if header.api_key == ADD_PARTITIONS_TO_TXN and len(body.transactions) == 1:
            answer = await self.add_partitions(body)
        elif header.api_key == WRITE_TXN_MARKERS:
            answer = await self.write_markers(image, body, pass_on=pass_on)
        else:
            raise UnsupportedRequest(f"API {header.api_key} is not passed on")
        encode = coordinated(header.api_key).encode
        assert encode is not None
        return encode(header.api_version, answer)

    async def _ask(self, where: _Where, api_key: int, api_version: int, entity: Any) -> Any:
        """Return the answer as kio's entity; None if there is none."""
        if where.slot is None:
            return await self._ways.peers.ask(where.node_id, api_key, api_version, entity, ANSWER_TIMEOUT_S)
        self._last_correlation_id = (self._last_correlation_id + 1) % 2**31
        header = Header(api_key, api_version, self._last_correlation_id)
        frame = codec.encode_request(header, entity)[4:]
        answer = await self._ways.hub.relay(where.slot, TIER, frame, ANSWER_TIMEOUT_S)
        return None if answer is None else codec.decode_response(header, answer)


def _restricted(marker: TxnMarker, index: int, keys: list[tuple[int, str, int]]) -> TxnMarker:
    """Return the marker for those of its partitions that are among `keys`."""
    topics: dict[str, list[int]] = {}
    for of_index, topic, number in keys:
        if of_index == index:
            topics.setdefault(topic, []).append(number)
    return marker._replace(topics=tuple((topic, tuple(numbers)) for topic, numbers in topics.items()))


def _merged(
    asked: WriteTxnMarkersRequest, errors: Mapping[tuple[int, str, int], ErrorCode]
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        tuple(
            TxnMarkerErrors(
                marker.producer_id,
                tuple(
                    (
                        topic,
                        tuple((number, errors[index, topic, number]) for number in numbers),
                    )
                    for topic, numbers in marker.topics
                ),
            )
            for index, marker in enumerate(asked.markers)
        )
    )
