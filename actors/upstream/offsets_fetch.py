"""Fetch Kafka's log of an offsets partition from the broker that leads it, as the partition's replicas."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from actors.ground.topic_names import OFFSETS_TOPIC
from actors.network.wire import Closed, Wire
from actors.upstream.controllers import (
    REQUEST_TIMEOUT_S,
    UNREADABLE,
    Connect,
    Elsewhere,
    Versions,
    call,
    version_of,
    words,
)
from actors.upstream.offsets_round import Fetched
from actors.upstream.orders import Source

FETCH_VERSIONS: Final = (18, 17, 16, 15)
"""Which versions are spoken: in older ones than these a replica has no epoch (KIP-903, Kafka 3.5)."""
LIST_OFFSETS_VERSIONS: Final = (7, 6, 5, 4)
EPOCH_VERSIONS: Final = (4, 3)
"""Which versions of OffsetForLeaderEpoch are spoken: in older ones than these nobody says who asks."""
EARLIEST: Final = -2
_LOST: Final = (OSError, TimeoutError, Closed, Elsewhere, *UNREADABLE)

NO_REPLICA: Final = -1
"""Who asks as no replica."""

Replica = tuple[int, int]
"""The id and the epoch of a broker of the upstream cluster that is a replica of the partition."""


class Place(NamedTuple):
    """A place in a topic's log: where it is read on, and the epoch of the leader that wrote what stands
    before; -1: nobody knows."""

    topic_id: bytes
    next_offset: int
    last_epoch: int


class LeaderLinks:
    """Connections to the leader of one partition, one for each replica: a broker answers the requests of a
    connection one after the other, and holds a fetch while nothing is new."""

    def __init__(self, connect: Connect, partition: int) -> None:
        self._connect = connect
        self._partition = partition
        self._open: dict[int, tuple[Wire, Versions]] = {}
        self._to: tuple[str, int] | None = None

    async def turn_to(self, source: Source) -> None:
        """Ask this broker from now on."""
        if (source.host, source.port) != self._to:
            await self.close()
            self._to = source.host, source.port

    async def close(self) -> None:
        """Close all connections."""
        wires, self._open = [wire for wire, _ in self._open.values()], {}
        await asyncio.gather(*(wire.close() for wire in wires))

    async def fetch(
        self, source: Source, replica: Replica, place: Place, bytes_max: int, wait_ms: int
    ) -> Fetched:
        """Fetch as a replica from a place on. It tells the leader that the replica has all before it. The
        leader gives one whole batch at least, however small `bytes_max` is."""
        broker_id, broker_epoch = replica
        asked = {
            "partition": self._partition,
            "current_leader_epoch": source.leader_epoch,
            "fetch_offset": place.next_offset,
            "last_fetched_epoch": place.last_epoch,
            "log_start_offset": 0,
            "partition_max_bytes": bytes_max,
        }
        fields = {
            "replica_state": {"replica_id": broker_id, "replica_epoch": broker_epoch},
            "max_wait": wait_ms,
            "min_bytes": 1,
            "max_bytes": bytes_max,
            "topics": [{"topic_id": UUID(bytes=place.topic_id), "partitions": [asked]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        try:
            answer = await self._ask(broker_id, "fetch", FETCH_VERSIONS, fields)
        except _LOST as error:
            return Fetched(lost=_why(error, source))
        rows = [row for topic in answer["responses"] for row in topic["partitions"]]
        error_code = answer["error_code"] or (rows[0]["error_code"] if rows else ErrorCode.none)
        if error_code or not rows:
            return Fetched(ErrorCode(error_code or ErrorCode.unknown_server_error))
        (row,) = rows
        end = row["diverging_epoch"]["end_offset"]
        diverges_at = None if end < 0 else end
        return Fetched(ErrorCode.none, bytes(row["records"] or b""), row["high_watermark"], diverges_at)

    async def start_of_log(self, source: Source, broker_id: int) -> int | str:
        """Return the offset at which the leader's log begins, or in words why it does not tell."""
        asked = {
            "partition_index": self._partition,
            "current_leader_epoch": source.leader_epoch,
            "timestamp": EARLIEST,
        }
        topics = [{"name": OFFSETS_TOPIC, "partitions": [asked]}]
        fields = {"replica_id": broker_id, "isolation_level": 0, "topics": topics}
        row = await self._row(source, broker_id, "list_offsets", LIST_OFFSETS_VERSIONS, fields)
        return row if isinstance(row, str) else int(row["offset"])

    async def end_of_epoch(self, source: Source, epoch: int) -> int | str:
        """Return up to which offset the leader's log may be the same as one that ends in this epoch, or in
        words why it does not tell."""
        asked = {
            "partition": self._partition,
            "current_leader_epoch": source.leader_epoch,
            "leader_epoch": epoch,
        }
        topics = [{"topic": OFFSETS_TOPIC, "partitions": [asked]}]
        fields = {"replica_id": NO_REPLICA, "topics": topics}
        row = await self._row(source, NO_REPLICA, "offset_for_leader_epoch", EPOCH_VERSIONS, fields)
        return row if isinstance(row, str) else max(int(row["end_offset"]), 0)

    async def _row(
        self, source: Source, broker_id: int, api: str, spoken: tuple[int, ...], fields: dict[str, Any]
    ) -> dict[str, Any] | str:
        """Return what an answer says of the partition, or in words why there is none."""
        try:
            answer = await self._ask(broker_id, api, spoken, fields)
        except _LOST as error:
            return _why(error, source)
        row: dict[str, Any]
        (row,) = (row for topic in answer["topics"] for row in topic["partitions"])
        name = "".join(map(str.title, api.split("_")))
        return f"{name}: {ErrorCode(row['error_code']).name.upper()}" if row["error_code"] else row

    async def _ask(
        self, broker_id: int, api: str, spoken: tuple[int, ...], fields: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask on a replica's connection, which is closed if there is no answer. Raises what _LOST has."""
        if broker_id not in self._open:
            assert self._to is not None, "it is known whom to ask"
            self._open[broker_id] = await self._connect(self._to)
        wire, versions = self._open[broker_id]
        version = version_of(api, versions, spoken)
        if version is None:
            raise Elsewhere(f"it offers no {api} in a version that is spoken here")
        try:
            return await call(wire, api, version, **fields)
        except BaseException:
            if self._open.pop(broker_id, None) is not None:
                await wire.close()  # its answer would be taken for the next one's
            raise


def _why(error: Exception, source: Source) -> str:
    silent = f"it does not answer within {REQUEST_TIMEOUT_S:.0f} s"
    reason = str(error) or (silent if isinstance(error, TimeoutError) else "it hung up")
    return f"{words((source.host, source.port))}: {reason}"
