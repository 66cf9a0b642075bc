"""One shard that coordinates both transactions and groups, and the host that carries requests between the
two.

What the shard asks of other leaders (`events`) is done when a test says so: `deliver_markers`, `verify_all`.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.transactions.coordinator import OFFSETS_TOPIC
from actors.coordinator.transactions.events import TransactionEnding, TransactionUnverified
from actors.coordinator.transactions.inside import (
    TXN_ENDED,
    TXN_ENDING,
    TXN_VERIFIED,
    TxnEndedRequest,
    TxnEndingRequest,
    TxnVerifiedRequest,
)
from actors.ground.contract import Token
from actors.ground.records import TransactionValue
from actors.protocol import api_keys
from actors.protocol.messages import CommittedPartition, OffsetFetchGroup, OffsetFetchRequest
from actors.protocol.transaction_messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TransactionPartitions,
    TxnMarker,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from tests.coordinator.driver import Driver

ID = "t"
TERM = 5
VERIFY_VERSION = 5


class TransactionDriver(Driver):
    """A driver that also sends the requests of transactional producers."""

    def init(
        self, transactional_id: str = ID, *, timeout_ms: int = 60_000, recovers: tuple[int, int] = (-1, -1)
    ) -> InitProducerIdResponse:
        body = InitProducerIdRequest(transactional_id, timeout_ms, *recovers)
        answer = self.ask(api_keys.INIT_PRODUCER_ID, body, 4)
        assert isinstance(answer, InitProducerIdResponse)
        return answer

    def producer(self, transactional_id: str = ID) -> tuple[int, int]:
        """Make a producer whose id and epoch are valid."""
        answer = self.init(transactional_id)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def add_partitions(
        self, producer: tuple[int, int], topic: str = "t", *numbers: int, version: int = 3
    ) -> dict[int, int]:
        """Add partitions to a transaction. Returns the error of each."""
        transaction = TransactionPartitions(ID, *producer, ((topic, numbers or (0,)),))
        body = AddPartitionsToTxnRequest((transaction,))
        [result] = self.ask(api_keys.ADD_PARTITIONS_TO_TXN, body, version).results
        [(_, errors)] = result.topics
        return {number: int(error) for number, error in errors}

    def add_offsets(
        self, producer: tuple[int, int], group_id: str = "g", *, transactional_id: str = ID, version: int = 3
    ) -> int:
        body = AddOffsetsToTxnRequest(transactional_id, *producer, group_id)
        return int(self.ask(api_keys.ADD_OFFSETS_TO_TXN, body, version).error_code)

    def end(
        self,
        producer: tuple[int, int],
        *,
        committed: bool = True,
        transactional_id: str = ID,
        version: int = 3,
    ) -> int:
        body = EndTxnRequest(transactional_id, *producer, committed)
        return int(self.ask(api_keys.END_TXN, body, version).error_code)

    def send_commit(
        self, producer: tuple[int, int], offset: int = 10, group_id: str = "g", **fields: Any
    ) -> Token:
        """Send TxnOffsetCommit of partition 0 of topic t; its answer may have to wait."""
        version = fields.pop("version", 3)
        topics = fields.pop("topics", (("t", (CommittedPartition(0, offset),)),))
        transactional_id = fields.pop("transactional_id", ID)
        body = TxnOffsetCommitRequest(transactional_id, group_id, *producer, topics, **fields)
        return self.send(api_keys.TXN_OFFSET_COMMIT, body, version)

    def commit_in_transaction(
        self, producer: tuple[int, int], offset: int = 10, group_id: str = "g", **fields: Any
    ) -> int:
        """Send TxnOffsetCommit and verify it. Returns the one partition's error."""
        token = self.send_commit(producer, offset, group_id, **fields)
        self.verify_all()
        [(_, [(_, error)])] = self.replies[token].topics
        return int(error)

    def verify_all(self) -> None:
        """Ask the transaction coordinator for all waiting commits, and tell the shard its answers."""
        for event in self._take_events(TransactionUnverified):
            self.verify(event)

    def verify(self, event: TransactionUnverified, error: ErrorCode | None = None) -> None:
        if error is None:
            transaction = TransactionPartitions(
                event.transactional_id,
                event.producer_id,
                event.producer_epoch,
                ((OFFSETS_TOPIC, (0,)),),
                event.verify_only,
            )
            body = AddPartitionsToTxnRequest((transaction,))
            [result] = self.ask(api_keys.ADD_PARTITIONS_TO_TXN, body, VERIFY_VERSION).results
            [(_, [(_, error)])] = result.topics
        self.ask(TXN_VERIFIED, TxnVerifiedRequest(event.token, error), 0)

    def unverified(self) -> TransactionUnverified:
        """The only commit that waits to be verified."""
        [event] = self._take_events(TransactionUnverified)
        assert isinstance(event, TransactionUnverified)
        return event

    def deliver_markers(self) -> list[str]:
        """Write the markers of every transaction that is ending. Returns the transactional ids."""
        ids = [event.transactional_id for event in self._take_events(TransactionEnding)]
        for transactional_id in ids:
            self.end_markers(transactional_id)
        return ids

    def end_markers(self, transactional_id: str = ID, *, term: int = TERM) -> None:
        ending = self.ask(TXN_ENDING, TxnEndingRequest(transactional_id), 0)
        if ending.error_code:
            return
        producer = (ending.producer_id, ending.producer_epoch)
        if any(topic == OFFSETS_TOPIC for topic, _ in ending.topics):
            assert self.mark(producer, committed=ending.committed, term=term) == 0
        self.ask(TXN_ENDED, TxnEndedRequest(transactional_id, *producer), 0)

    def mark(
        self,
        producer: tuple[int, int],
        *,
        committed: bool = True,
        term: int = TERM,
        transaction_version: int = 0,
    ) -> int:
        """Send WriteTxnMarkers to the partition of the groups' offsets. Returns its error."""
        marker = TxnMarker(*producer, committed, ((OFFSETS_TOPIC, (0,)),), term, transaction_version)
        answer = self.ask(api_keys.WRITE_TXN_MARKERS, WriteTxnMarkersRequest((marker,)), 2)
        [(_, [(_, [(_, error)])])] = answer.markers
        return int(error)

    def offset(self, group_id: str = "g", *, stable: bool = False) -> tuple[int, int]:
        """Fetch the offset of partition 0 of topic t. Returns offset and error."""
        group = OffsetFetchGroup(group_id, (("t", (0,)),))
        [fetched] = self.ask(api_keys.OFFSET_FETCH, OffsetFetchRequest((group,), stable), 9).groups
        [(_, [(_, offset, _, _, error)])] = fetched.topics
        return offset, int(error)

    def transaction(self, transactional_id: str = ID) -> TransactionValue:
        return self.shard.state.transactions[transactional_id]

    def _take_events(self, kind: type) -> list[Any]:
        taken = [event for event in self.events if isinstance(event, kind)]
        self.events = [event for event in self.events if not isinstance(event, kind)]
        return taken
