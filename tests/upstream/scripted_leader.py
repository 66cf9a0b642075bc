"""A broker that leads an offsets partition as a story wants: it answers fetches of replicas as Kafka does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.upstream.orders import FOLLOW, Order, Source
from tests.coordinator.take_over.taker import TOPIC_ID
from tests.polling import reached
from tests.upstream.offsets_log.logs import KafkaLog, Pair, packed
from tests.upstream.speaking import Speaker

APIS = {
    1: ("fetch", 15, 18),
    2: ("list_offsets", 4, 7),
    23: ("offset_for_leader_epoch", 3, 4),
    18: ("api_versions", 0, 0),
}
BROKER = 1
TIER = (1001, 1002, 1003)


class ScriptedLeader(Speaker):
    """The leader; its attributes may be changed at any time."""

    apis = APIS

    def __init__(self) -> None:
        super().__init__()
        self.log = KafkaLog()
        self.epoch = 1
        self.topic_id = TOPIC_ID
        self.start = 0
        """Where the log begins; what stands before was deleted."""
        self.replicas = {broker_id: 10 + broker_id for broker_id in TIER}
        """The replicas that it knows, with their epochs."""
        self.in_sync: dict[int, int] = {}
        """The replicas that are in sync -> how far they have fetched."""
        self.high_watermark = 0
        self.lags_at: int | None = None
        """How far a broker is that is in sync, too; None: there is none but those that fetch."""
        self.fetches: list[tuple[int, int]] = []
        """Who fetched from where."""
        self.most_bytes = 1 << 30
        self.on_fetch: Callable[[int, int], None] = lambda broker_id, offset: None

    def order(self, order: str = FOLLOW, *brokers: int) -> Order:
        """An order that names this leader, and these of the tier's brokers or all of them."""
        host, port = self.address
        replicas = tuple((each, 10 + each) for each in brokers or TIER)
        return Order(order, self.topic_id, Source(BROKER, host, port, self.epoch), replicas)

    def append(self, *pairs: Pair) -> int:
        """Append a batch of this leader's epoch, and return where the log ends."""
        self.log.append(pairs)
        self.log.batches[-1] = self.log.batches[-1]._replace(leader_epoch=self.epoch)
        self._advance()
        return self.log.end

    def lead_anew(self, end: int) -> None:
        """Be another leader, whose log ended there when it was elected."""
        self.log.batches = [batch for batch in self.log.batches if batch.end <= end]
        self.epoch += 1
        self.in_sync = {}
        self.lags_at = None
        self.high_watermark = min(self.high_watermark, self.log.end)

    async def acknowledged(self, offset: int) -> None:
        """Wait until all replicas that are in sync have everything before an offset."""
        await reached(lambda: self.high_watermark >= offset, f"the high watermark is {offset}")

    def _advance(self) -> None:
        lags_at = self.log.end if self.lags_at is None else self.lags_at
        committed = min(self.in_sync.values(), default=self.log.end)
        self.high_watermark = max(self.high_watermark, min(committed, lags_at))

    async def _fetch(self, asked: Any) -> dict[str, Any]:
        [topic] = asked["topics"]
        [partition] = topic["partitions"]
        offset, broker_id = partition["fetch_offset"], asked["replica_state"]["replica_id"]
        error = self._refusal(topic["topic_id"].bytes, partition, asked["replica_state"])
        answer: dict[str, Any] = {"partition_index": 0, "error_code": error, "high_watermark": -1}
        answer |= {"aborted_transactions": None, "records": None}
        knows_it = error in (ErrorCode.none, ErrorCode.offset_out_of_range)
        if knows_it and (diverging := self._diverging(partition)) is not None:
            answer |= {"diverging_epoch": diverging, "error_code": ErrorCode.none}
        elif not error:
            self.fetches.append((broker_id, offset))
            self.on_fetch(broker_id, offset)
            if offset >= self.high_watermark:
                self.in_sync[broker_id] = offset
                self._advance()
            answer["records"] = await self._found(offset, partition["partition_max_bytes"])
            answer["high_watermark"] = self.high_watermark
            answer["error_code"] = self._refusal(topic["topic_id"].bytes, partition, asked["replica_state"])
        row = {"topic_id": topic["topic_id"], "partitions": [answer]}
        return {"throttle_time": 0, "error_code": ErrorCode.none, "responses": [row]}

    def _refusal(self, topic_id: bytes, partition: Any, replica: Any) -> ErrorCode:
        epoch, offset = partition["current_leader_epoch"], partition["fetch_offset"]
        if topic_id != self.topic_id:
            return ErrorCode.unknown_topic_id
        if epoch != self.epoch:
            return ErrorCode.fenced_leader_epoch if epoch < self.epoch else ErrorCode.unknown_leader_epoch
        if self.replicas.get(replica["replica_id"]) != replica["replica_epoch"]:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none if self.start <= offset <= self.log.end else ErrorCode.offset_out_of_range

    def _diverging(self, partition: Any) -> dict[str, int] | None:
        last, offset = partition["last_fetched_epoch"], partition["fetch_offset"]
        if last < 0:
            return None
        epoch, end = self._end_of(last)
        return None if epoch == last and end >= offset else {"epoch": epoch, "end_offset": end}

    def _end_of(self, last: int) -> tuple[int, int]:
        """Return the latest epoch up to this one, and where it ends."""
        epochs = [batch.leader_epoch for batch in self.log.batches if batch.leader_epoch <= last]
        ends = [batch.base_offset for batch in self.log.batches if batch.leader_epoch > last]
        return max(epochs, default=-1), min(ends, default=self.log.end)

    async def _found(self, offset: int, bytes_max: int) -> bytes:
        """Return batches from an offset on: one at least, if there is one or comes within a moment."""
        for _ in range(5):
            found: list[bytes] = []
            for batch in self.log.batches:
                if batch.end > offset:
                    found.append(packed(batch))
                    if sum(map(len, found)) >= min(bytes_max, self.most_bytes):
                        break
            if found:
                return b"".join(found)
            await asyncio.sleep(0.001)  # a broker holds such a fetch for a while
        return b""

    async def _list_offsets(self, asked: Any) -> dict[str, Any]:
        [topic] = asked["topics"]
        row = {"partition_index": 0, "error_code": ErrorCode.none, "offset": self.start}
        return {"throttle_time": 0, "topics": [{"name": topic["name"], "partitions": [row]}]}

    async def _offset_for_leader_epoch(self, asked: Any) -> dict[str, Any]:
        [topic] = asked["topics"]
        [partition] = topic["partitions"]
        epoch, end = self._end_of(partition["leader_epoch"])
        row = {"error_code": ErrorCode.none, "partition": 0, "leader_epoch": epoch, "end_offset": end}
        return {"throttle_time": 0, "topics": [{"topic": topic["topic"], "partitions": [row]}]}


def offsets_of(fetches: Sequence[tuple[int, int]], broker_id: int) -> list[int]:
    """Where one replica has fetched from."""
    return [offset for each, offset in fetches if each == broker_id]
