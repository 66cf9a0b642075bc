"""What a coordinator's shard needs of other leaders in transactions, done for it by its actor.

The shard asks by events (`coordinator.transactions.events`) and hears of the outcome by requests
(`coordinator.transactions.inside`). Markers are written until every partition has its own: tried again with
growing pauses, and after an election anew by the next leader, because they may be written twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.coordinator.transactions.events import TransactionEnding, TransactionUnverified
from actors.coordinator.transactions.inside import (
    TXN_ENDED,
    TXN_ENDING,
    TXN_VERIFIED,
    TxnEndedRequest,
    TxnEndingRequest,
    TxnEndingResponse,
    TxnVerifiedRequest,
)
from actors.ground.image import MetadataImage
from actors.ground.tasks import Tasks
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.protocol.api_keys import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from actors.protocol.messages import NO_ERROR
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
    TopicNumbers,
    TransactionPartitions,
    TxnMarker,
    WriteTxnMarkersRequest,
    error_of_each,
)

BACKOFF_S_MIN: Final = 0.02
BACKOFF_S_MAX: Final = 1.0
AT_ONCE_MAX: Final = 256
"""How many transactions have their markers written at the same time; the others wait until one is done."""
AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.not_enough_replicas,
        ErrorCode.network_exception,
        ErrorCode.unknown_server_error,
    }
)
"""Errors of a marker that pass with time. Any other error says that the partition does not need the marker
any more."""

AskShard = Callable[[int, Any], Awaitable[Any]]
"""A function that asks the shard: (api key, body) -> the shard's answer, once what it decided is
committed."""
AskBroker = Callable[[int, int, Any], Awaitable[Any]]
"""A function that asks the node's broker: (api key, api version, kio's request) -> kio's response, None if
there was none."""
Verify = Callable[[TransactionPartitions], Awaitable[ErrorCode]]
"""A function that has a transaction's coordinator verify or add one partition."""


class Transactions:
    """The transactions that the leader of offsets partition `partition` has under way. `image` and `epoch`
    are looked up when needed."""

    takes = (TransactionEnding, TransactionUnverified)
    """The classes of the events that are given to `on_event`."""

    def __init__(
        self,
        partition: int,
        *,
        ask_shard: AskShard,
        ask_broker: AskBroker,
        image: Callable[[], MetadataImage],
        epoch: Callable[[], int | None],
    ) -> None:
        self._partition = partition
        self._ask_to_verify: Verify = self._by_broker
        self._ask_shard = ask_shard
        self._ask_broker = ask_broker
        self._image = image
        self._epoch = epoch
        """A function that returns the epoch in which this replica has markers written; None: it does not
        lead."""
        self._ending: dict[str, bool] = {}
        """Transactional id that is worked on -> whether its ending was asked for once more meanwhile."""
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self.tasks = Tasks("work on a transaction")

    def verify_with(self, verify: Verify) -> None:
        """Have commits verified by other transaction coordinators than those of the tier."""
        self._ask_to_verify = verify

    def on_event(self, event: TransactionEnding | TransactionUnverified) -> None:
        """Take an event of a transaction."""
        if isinstance(event, TransactionUnverified):
            self.tasks.spawn(self._verify(event))
        elif event.transactional_id in self._ending:
            self._ending[event.transactional_id] = True
        else:
            self.tasks.spawn(self._end(event.transactional_id))

    def close(self) -> None:
        self.tasks.close()

    # Markers.

    async def _end(self, transactional_id: str) -> None:
        self._ending[transactional_id] = True
        try:
            while self._ending[transactional_id]:
                self._ending[transactional_id] = False
                async with self._turns:
                    await self._end_once(transactional_id)
        finally:
            del self._ending[transactional_id]

    async def _end_once(self, transactional_id: str) -> None:
        ending: TxnEndingResponse = await self._ask_shard(TXN_ENDING, TxnEndingRequest(transactional_id))
        if ending.error_code or not await self._mark(ending):
            return
        ended = TxnEndedRequest(transactional_id, ending.producer_id, ending.producer_epoch)
        await self._ask_shard(TXN_ENDED, ended)

    async def _mark(self, ending: TxnEndingResponse) -> bool:
        """Write the markers until all are there. Return False if this replica leads no longer: the next
        leader writes them."""
        topics, pause_s = self._existing(ending.topics), BACKOFF_S_MIN
        while topics:
            epoch = self._epoch()
            if epoch is None:
                return False
            marker = TxnMarker(
                ending.producer_id,
                ending.producer_epoch,
                ending.committed,
                topics,
                epoch,
                ending.transaction_version,
            )
            entity = write_markers_entity(MARKERS_VERSION, WriteTxnMarkersRequest((marker,)))
            answer = await self._ask_broker(WRITE_TXN_MARKERS, MARKERS_VERSION, entity)
            if answer is not None:
                errors = error_of_each(each.topics for each in written_markers(answer).markers)
                if ErrorCode.transaction_coordinator_fenced in errors.values():
                    return False
                topics = tuple(
                    (topic, left)
                    for topic, numbers in topics
                    if (left := tuple(n for n in numbers if errors.get((topic, n), NO_ERROR) in AGAIN))
                )
            topics = self._existing(topics)
            if topics:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, BACKOFF_S_MAX)
        return True

    def _existing(self, topics: TopicNumbers) -> TopicNumbers:
        """Return the partitions without those of deleted topics, which need no marker."""
        known = self._image().topics
        return tuple(each for each in topics if each[0] == OFFSETS_TOPIC or each[0] in known)

    # Commits of offsets.

    async def _verify(self, event: TransactionUnverified) -> None:
        transaction = TransactionPartitions(
            event.transactional_id,
            event.producer_id,
            event.producer_epoch,
            ((OFFSETS_TOPIC, (self._partition,)),),
            event.verify_only,
        )
        error = await self._ask_to_verify(transaction)
        await self._ask_shard(TXN_VERIFIED, TxnVerifiedRequest(event.token, error))

    async def _by_broker(self, transaction: TransactionPartitions) -> ErrorCode:
        """Have the node's broker ask the coordinator, which is a leader of the tier."""
        entity = add_partitions_entity(ADD_VERSION, AddPartitionsToTxnRequest((transaction,)))
        answer = await self._ask_broker(ADD_PARTITIONS_TO_TXN, ADD_VERSION, entity)
        results = () if answer is None else added_partitions(answer).results
        errors = error_of_each(result.topics for result in results)
        return errors.get((OFFSETS_TOPIC, self._partition), ErrorCode.network_exception)
