"""Transactional records over the wire: they are verified before they are appended, and read by isolation
level."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import LIST_OFFSETS
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitionErrors,
    TxnMarker,
    WriteTxnMarkersRequest,
)
from tests.api.brokers import Broker, part
from tests.api.test_data import LATEST, one_topic, produce, run
from tests.api.test_fetch import LONG, fetch, parts
from tests.topics.batches import batch, contents, with_field
from tests.topics.test_transactions import ATTRIBUTES_AT, TRANSACTIONAL, transactional

PRODUCE_VERSION, LIST_VERSION = 9, 7
ADDS_PARTITIONS = 12
"""The first version of Produce whose batches are added to their transaction (O18)."""
COMMITTED, UNCOMMITTED = 1, 0


class Coordinator:
    """A transaction coordinator that answers `error` for every partition that a broker asks it of."""

    def __init__(self, broker: Broker) -> None:
        self.error = NO_ERROR
        self.first: list[ErrorCode] = []
        """What it answers before `error`: a request takes the last of these away."""
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.meanwhile: list[TxnMarker] = []
        """The markers that are written before the coordinator answers."""
        self._broker = broker
        broker.apis.verify_with(self._verify)

    async def _verify(self, asked: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.asked.append(asked)
        await asyncio.sleep(0)
        while self.meanwhile:
            self._broker.apis.write_markers(WriteTxnMarkersRequest((self.meanwhile.pop(),)))
        [transaction] = asked.transactions
        error = self.first.pop() if self.first else self.error
        topics = tuple(
            (topic, tuple((number, error) for number in numbers)) for topic, numbers in transaction.topics
        )
        return AddPartitionsToTxnResponse((TransactionPartitionErrors(transaction.transactional_id, topics),))


def marker(*, committed: bool) -> TxnMarker:
    return TxnMarker(7, 0, committed, (("t", (0,)),), 1)


def end(broker: Broker, *, committed: bool, partition: int = 0) -> ErrorCode:
    asked = marker(committed=committed)._replace(topics=(("t", (partition,)),))
    [result] = broker.apis.write_markers(WriteTxnMarkersRequest((asked,))).markers
    [(_, [(_, error)])] = result.topics
    return error


async def transact(
    broker: Broker, *values: bytes, sequence: int = 0, version: int = PRODUCE_VERSION, **fields: Any
) -> Any:
    records = transactional(*values, sequence=sequence)
    return await produce(broker, version, records, **{"transactional_id": "tx"} | fields)


async def latest(broker: Broker, isolation_level: int) -> int:
    asked = part(LIST_OFFSETS, LIST_VERSION, "ListOffsetsPartition", partition_index=0, timestamp=LATEST)
    topic = part(LIST_OFFSETS, LIST_VERSION, "ListOffsetsTopic", name="t", partitions=(asked,))
    fields = {"replica_id": -1, "isolation_level": isolation_level, "topics": (topic,)}
    answer = await broker.ask(LIST_OFFSETS, LIST_VERSION, **fields)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


async def read(broker: Broker, isolation_level: int) -> Any:
    [only] = parts(await fetch(broker, {0: 0}, isolation_level=isolation_level))
    return only


def test_the_first_batch_of_a_transaction_is_verified_and_the_next_are_not() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        coordinator = Coordinator(one)
        assert (await transact(one, b"a")).base_offset == 0
        assert (await transact(one, b"b", sequence=1)).base_offset == 1
        [asked] = coordinator.asked
        assert asked.transactions[0] == ("tx", 7, 0, (("t", (0,)),), True)
        assert end(one, committed=True) == 0
        assert (await transact(one, b"c", sequence=2)).base_offset == 3
        assert len(coordinator.asked) == 2

    run(story())


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
        (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_producer_id_mapping),
        (ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas),
        (ErrorCode.network_exception, ErrorCode.not_enough_replicas),
    ],
)
def test_what_the_coordinator_refuses_is_not_appended(said: ErrorCode, answered: ErrorCode) -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        coordinator = Coordinator(one)
        coordinator.error = said
        result = await transact(one, b"a")
        assert (result.error_code, result.base_offset) == (answered, -1)
        assert await latest(one, UNCOMMITTED) == 0

    run(story())


def test_a_marker_that_comes_while_a_batch_is_verified_refuses_it() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        coordinator = Coordinator(one)
        coordinator.meanwhile.append(marker(committed=False))
        assert (await transact(one, b"a")).error_code == ErrorCode.invalid_txn_state
        assert await latest(one, COMMITTED) == await latest(one, UNCOMMITTED) == 1

    run(story())


def test_a_batch_of_the_next_transaction_waits_for_the_marker_of_the_one_before() -> None:
    """O18: the marker comes while the coordinator still says CONCURRENT_TRANSACTIONS, and harms no batch that
    is added afterwards."""

    async def story() -> None:
        _, one, _ = one_topic()
        coordinator = Coordinator(one)
        coordinator.first.append(ErrorCode.concurrent_transactions)
        coordinator.meanwhile.append(marker(committed=True))
        result = await transact(one, b"a", version=ADDS_PARTITIONS)
        assert (result.error_code, result.base_offset) == (NO_ERROR, 1)
        assert len(coordinator.asked) == 2

    run(story())


@pytest.mark.parametrize("version", [PRODUCE_VERSION, ADDS_PARTITIONS])
def test_an_older_epoch_is_refused_without_a_word_to_the_coordinator(version: int) -> None:
    """W33: the log knows better than a coordinator that has forgotten the id, and before acknowledgements
    that there are not are refused."""

    async def story() -> None:
        _, one, _ = one_topic()
        coordinator = Coordinator(one)
        await transact(one, b"a", version=version)
        one.apis.write_markers(WriteTxnMarkersRequest((marker(committed=True)._replace(producer_epoch=1),)))
        coordinator.error = ErrorCode.invalid_producer_id_mapping
        for acks in (-1, 7):
            result = await transact(one, b"b", sequence=1, version=version, acks=acks)
            assert (result.error_code, result.log_start_offset) == (ErrorCode.invalid_producer_epoch, -1)
        assert len(coordinator.asked) == 1

    run(story())


@pytest.mark.parametrize(
    ("version", "answered"),
    [(PRODUCE_VERSION, NO_ERROR), (ADDS_PARTITIONS, ErrorCode.out_of_order_sequence_number)],
)
def test_a_first_batch_behind_sequence_zero_is_taken_in_the_first_generation_alone(
    version: int, answered: ErrorCode
) -> None:
    """W33."""

    async def story() -> None:
        _, one, _ = one_topic()
        Coordinator(one)
        assert (await transact(one, b"a", sequence=5, version=version)).error_code == answered

    run(story())


def test_a_transactional_batch_without_a_producer_asks_no_coordinator() -> None:
    """The coordinator was asked about producer -1, and its error was the answer."""

    async def story() -> None:
        _, one, _ = one_topic()
        records = with_field(batch(b"a"), ATTRIBUTES_AT, ">h", TRANSACTIONAL)
        result = await produce(one, PRODUCE_VERSION, records, transactional_id="tx")
        assert (result.error_code, result.base_offset) == (NO_ERROR, 0)

    run(story())


def test_transactional_records_need_a_transactional_id_and_a_way_to_its_coordinator() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        nameless = ErrorCode.transactional_id_authorization_failed
        assert (await transact(one, b"a", transactional_id=None)).error_code == nameless
        assert (await transact(one, b"a")).error_code == ErrorCode.not_enough_replicas
        plain = await produce(one, PRODUCE_VERSION, batch(b"a"), transactional_id="tx")
        assert plain.error_code == ErrorCode.none
        elsewhere = await transact(one, b"a", partition=1)
        assert elsewhere.error_code == ErrorCode.not_leader_or_follower

    run(story())


def test_readers_see_by_their_isolation_level() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        Coordinator(one)
        await produce(one, PRODUCE_VERSION, batch(b"plain"))
        await transact(one, b"aborted")
        assert (await latest(one, COMMITTED), await latest(one, UNCOMMITTED)) == (1, 2)
        committed, uncommitted = await read(one, COMMITTED), await read(one, UNCOMMITTED)
        assert [value for _, _, value in contents(committed.records)] == [b"plain"]
        assert [value for _, _, value in contents(uncommitted.records)] == [b"plain", b"aborted"]
        assert (committed.last_stable_offset, committed.high_watermark) == (1, 2)
        assert (committed.aborted_transactions, uncommitted.aborted_transactions) == ((), None)
        end(one, committed=False)
        committed = await read(one, COMMITTED)
        assert (committed.last_stable_offset, len(contents(committed.records))) == (3, 3)
        [aborted] = committed.aborted_transactions
        assert (aborted.producer_id, aborted.first_offset) == (7, 1)

    run(story())


def test_a_marker_wakes_whoever_waits_for_committed_records() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        Coordinator(one)
        await transact(one, b"a")
        waiting = asyncio.ensure_future(fetch(one, {0: 0}, isolation_level=COMMITTED, max_wait=LONG))
        await asyncio.sleep(0)
        assert not waiting.done()
        end(one, committed=True)
        [only] = parts(await waiting)
        assert len(contents(only.records)) == 2

    run(story())


def test_markers_go_to_the_partitions_leader_alone() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        assert end(one, committed=True, partition=1) == ErrorCode.not_leader_or_follower
        assert end(one, committed=True, partition=5) == ErrorCode.unknown_topic_or_partition
        assert end(one, committed=True) == 0

    run(story())
