"""`__transaction_state` as a broker makes it of what a leader holds and commits, also beside
`__consumer_offsets` (W53)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka.record.memory_records import MemoryRecords

from actors.coordinator.kafka_records.codec import KafkaRecord, decode
from actors.coordinator.kafka_records.schemas import TRANSACTION_SCHEMAS
from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.transactions.inside import TXN_ENDED, TxnEndedRequest
from actors.coordinator.transactions.states import NAMES, ONGOING
from actors.ground.records import TransactionValue
from actors.ground.settings import GroupSettings
from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.leader.offsets_feed import STATE_RECORDS_PER_ANSWER
from actors.node.internal_topics import UNUSED_MS
from actors.node.made_log import Bounds, MadeLog, Place
from actors.protocol import api_keys
from actors.protocol.offsets_feed import NO_FEED, NOT_KNOWN, Question, unpack_fed
from actors.protocol.transaction_messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from actors.topics.partition_log import PartitionLog
from tests.leader.test_offsets_feed import PARTITION, Broker, Leader, Reader, run
from tests.polling import reached

ID = "tx"


def stored_at(leader: Leader) -> dict[str, TransactionValue]:
    """Return the transactional ids that the leader has."""
    shard = leader.replica.shard
    assert isinstance(shard, CoordinatorShard)
    return shard.state.transactions


class Producer:
    """A transactional producer of a leader."""

    def __init__(self, leader: Leader, transactional_id: str = ID) -> None:
        self._leader = leader
        self._id = transactional_id

    def _decide(self, api_key: int, body: Any) -> None:
        self._leader.decide(api_key, body)
        self._leader.settle()

    @property
    def _now(self) -> tuple[int, int]:
        stored = stored_at(self._leader)[self._id]
        return stored.producer_id, stored.producer_epoch

    def init(self) -> None:
        self._decide(api_keys.INIT_PRODUCER_ID, InitProducerIdRequest(self._id, 60_000, -1, -1))

    def add_group(self) -> None:
        self._decide(api_keys.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest(self._id, *self._now, "g"))

    def commit(self) -> None:
        self._decide(api_keys.END_TXN, EndTxnRequest(self._id, *self._now, True))
        self._decide(TXN_ENDED, TxnEndedRequest(self._id, *self._now))

    def transact(self) -> None:
        self.add_group()
        self.commit()


async def shown(broker: Broker, holds: Callable[[list[KafkaRecord]], bool]) -> list[KafkaRecord]:
    """Read the log of `__transaction_state` again and again until its records are as they should be."""
    log = await broker.log(TRANSACTIONS_TOPIC)
    while not holds(records := read(log)):
        end_offset = log.end_offset
        await reached(partial(_has_grown, log, end_offset), f"more than {states(records)}")
    return records


def _has_grown(log: PartitionLog, end_offset: int) -> bool:
    return log.end_offset != end_offset


def read(log: PartitionLog) -> list[KafkaRecord]:
    stored = MemoryRecords(log.read(log.log_start_offset, 2**30))
    found = []
    while stored.has_next():
        batch: Any = stored.next_batch()
        assert batch.validate_crc()
        found += [decode(record.key, record.value, TRANSACTION_SCHEMAS) for record in batch]
    return found


def states(records: list[KafkaRecord], transactional_id: str = ID) -> list[str]:
    mine = [each for each in records if each.key["transactionalId"] == transactional_id]
    return ["gone" if each.value is None else NAMES[each.value["transactionStatus"]] for each in mine]


async def shows(broker: Broker, *expected: str) -> list[KafkaRecord]:
    """Wait until the log shows these states of the id, and return its records."""
    return await shown(broker, lambda records: states(records) == list(expected))


def test_a_log_begins_with_where_each_id_is_and_goes_on_with_each_step() -> None:
    """The group's partition stands in the records under Kafka's name for it; an id that expires leaves a
    tombstone, and groups leave nothing here."""

    async def story() -> None:
        leader = Leader()
        producer = Producer(leader)
        producer.init()
        producer.transact()
        leader.commit("g", {0: 5})
        broker = Broker(leader)
        await shows(broker, "CompleteCommit")
        producer.init()
        producer.transact()
        leader.commit("g", {0: 6})
        steps = ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit")
        records = await shows(broker, "CompleteCommit", *steps)
        ongoing = records[2].value
        assert ongoing is not None
        assert ongoing["transactionPartitions"] == [{"topic": OFFSETS_TOPIC, "partitionIds": [0]}]
        leader.replica.run_timers(1_000 + GroupSettings().transactional_id_expiration_ms)
        leader.settle()
        await shows(broker, "CompleteCommit", *steps, "gone")

    run(story)


def test_both_topics_of_a_partition_are_read_side_by_side() -> None:
    """Each has its own records, and one goes on as it was when the other one begins or is dropped."""

    async def story() -> None:
        leader = Leader()
        producer = Producer(leader)
        producer.init()
        leader.commit("g", {0: 5})
        broker = Broker(leader)
        groups = Reader(broker)
        assert await groups.read() == {("g", "t", 0): 5}
        leader.commit("g", {0: 6})
        await shows(broker, "Empty")
        producer.transact()
        leader.commit("g", {1: 7})
        await groups.sees(leader.committed)
        await shows(broker, "Empty", "Ongoing", "PrepareCommit", "CompleteCommit")
        assert len(leader.replica.feeds) == 2
        broker.now_ms += UNUSED_MS
        await groups.read()
        broker.now_ms += 1
        await reached(lambda: len(broker.topics) == 1, "what nobody reads is dropped")
        leader.commit("g", {1: 8})
        await groups.sees(leader.committed)
        assert groups.resets == 1, "only the first time"
        assert broker.topics.partition_bytes(TRANSACTIONS_TOPIC, PARTITION) == 0
        await shows(broker, "CompleteCommit")

    run(story)


def test_what_is_only_decided_is_in_no_state_though_two_are_built() -> None:
    """The state of a feed is that of its beginning, also if the other topic's is begun behind it."""

    async def story() -> None:
        leader = Leader()
        ids = [f"tx-{number}" for number in range(STATE_RECORDS_PER_ANSWER + 100)]
        for transactional_id in ids:
            Producer(leader, transactional_id).init()
        answers: list[bytes | None] = []
        for topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
            leader.feeds[topic].ask(Question(topic, NO_FEED, NOT_KNOWN, False, 0), answers.append)
        producer = stored_at(leader)[ids[-1]]
        added = AddOffsetsToTxnRequest(ids[-1], producer.producer_id, producer.producer_epoch, "g")
        leader.decide(api_keys.ADD_OFFSETS_TO_TXN, added)
        assert stored_at(leader)[ids[-1]].state == ONGOING
        made = MadeLog(Place(TRANSACTIONS_TOPIC, PARTITION), lambda place, size: None, lambda: 1, Bounds())
        fed = unpack_fed(answers[0] or b"")
        made.begin_at(fed.start_offset)
        while not made.is_whole:
            for kind, content in fed.pieces:
                await made.take(kind, content)
            question = Question(TRANSACTIONS_TOPIC, fed.feed, NOT_KNOWN, False, 0)
            leader.feeds[TRANSACTIONS_TOPIC].ask(question, answers.append)
            fed = unpack_fed(answers[-1] or b"")
        records = read(made.log)
        assert [each.key["transactionalId"] for each in records] == ids
        assert states(records, ids[-1]) == ["Empty"]

    run(story)
