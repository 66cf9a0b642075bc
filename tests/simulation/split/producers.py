"""Clients that commit offsets in transactions, while their group or coordinator moves, and who reads them.

Each producer has partitions of a group for itself, so that what it was told says what may be read there: what
was committed before a reader asks is there, or the reader is told to wait; what was not is never seen.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.transactions.states import AT_REST
from actors.ground.records import OFFSET_COMMIT, PENDING_TXN_OFFSET, TRANSACTION, TransactionValue
from actors.protocol import api_keys
from actors.protocol.messages import CommittedPartition, OffsetFetchGroup, OffsetFetchRequest
from actors.protocol.transaction_messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from tests.simulation.asked import Ask, Asked
from tests.simulation.checkers import Violation
from tests.simulation.clients import BACKOFF_S, Client, Script, Step
from tests.simulation.machines import PARTITIONS, TOPIC
from tests.simulation.split.clients import Route, group_of
from tests.simulation.split.halves import CHILD, PARENT, Half

TIMEOUT_MS = 900
"""After this time a coordinator aborts a transaction."""
RESTS_S = 0.03
COMMITTING = 0.6
"""How often a transaction is committed, and not aborted."""
FORGETTING = 0.08
"""How often a producer dies in the middle of a transaction, and comes back."""
NEXT_EPOCH = 5
"""The version of EndTxn and TxnOffsetCommit with an epoch for each transaction (KIP-890)."""
OF_GROUPS = (api_keys.TXN_OFFSET_COMMIT, api_keys.OFFSET_FETCH)
AGAIN = (ErrorCode.concurrent_transactions, ErrorCode.network_exception, ErrorCode.request_timed_out)


class Transaction:
    """One transaction as its producer knows it."""

    def __init__(self, number: int, partitions: tuple[int, ...]) -> None:
        self.number = number
        self.partitions = partitions
        """The partitions for which an offset was taken."""
        self.may_commit = False
        """Whether the producer has asked for that."""
        self.committed_at: float | None = None
        """When the producer heard that it is committed."""


class Producer(Client):
    """A producer with one transactional id, and the reader of its offsets."""

    def __init__(
        self, to_coordinator: Route, to_group: Route, name: str, group_id: str, numbers: tuple[int, ...]
    ) -> None:
        super().__init__(to_coordinator, name)
        self.group_id = group_id
        self.numbers = numbers
        self._routes = (to_coordinator, to_group)
        self._numbers: list[int | None] = [None, None]
        self._is_second_generation = self.world.chance.random() < 0.6
        self._is_unsure = False
        """Whether a request of this transaction may still be on its way."""
        self.transactions: list[Transaction] = []
        self.ended = [0, 0]
        """How many transactions were aborted and committed."""

    # -- two coordinators ----------------------------------------------------------------------------

    def _ask(self, ask: Ask) -> None:
        which = int(ask.api_key in OF_GROUPS)
        self.world = self._routes[which]
        self._number = self._numbers[which]
        super()._ask(ask)
        self._numbers[which] = self._number

    def look_elsewhere(self, code: Any) -> None:
        super().look_elsewhere(code)
        self._numbers[self._routes.index(self.world)] = self._number

    def answered(self, asked: Asked, body: Any | None) -> None:
        self._is_unsure |= asked is self._asked and body is None
        super().answered(asked, body)

    # -- transactions --------------------------------------------------------------------------------

    def script(self) -> Script:
        while True:
            producer = yield from self._begin()
            while producer is not None:
                yield RESTS_S
                producer = yield from self._transact(*producer)

    def _begin(self) -> Step:
        """Return the producer's id and epoch. What was open is aborted first."""
        while True:
            answer = yield from self.call(
                Ask(api_keys.INIT_PRODUCER_ID, 4, InitProducerIdRequest(self.name, TIMEOUT_MS))
            )
            if answer.error_code == ErrorCode.none:
                self._is_unsure = False
                return answer.producer_id, answer.producer_epoch
            if answer.error_code not in AGAIN:
                raise Violation(f"transactions: {self.name} is refused: {answer}")
            yield BACKOFF_S

    def _transact(self, producer_id: int, epoch: int) -> Step:
        """Carry one transaction out. Return the producer's id and epoch for the next; None: it is to begin
        anew."""
        chance, began_at = self.world.chance, self.world.now
        transaction = Transaction(len(self.transactions) + 1, ())
        self.transactions.append(transaction)
        is_taken = yield from self._commit_offsets(transaction, producer_id, epoch)
        if not self.world.is_healed and chance.random() < FORGETTING:
            yield chance.uniform(0.1, 1.0)
            return None
        if not self._is_second_generation and self._is_unsure:
            return None  # what comes late would be taken for part of the next one, as in Kafka
        if is_taken and chance.random() < COMMITTING:
            transaction.may_commit = True
        ended = yield from self._end(transaction, producer_id, epoch)
        if ended is None:
            return None
        self.ended[transaction.may_commit] += 1
        if transaction.may_commit:
            transaction.committed_at = self.world.now
        self.well_at = max(self.well_at, began_at)
        yield from self.read()
        if not self._is_second_generation:
            return None if self._is_unsure else (producer_id, epoch)
        return ended.producer_id, ended.producer_epoch

    def _commit_offsets(self, transaction: Transaction, producer_id: int, epoch: int) -> Step:
        """Return whether all offsets were taken."""
        version = NEXT_EPOCH if self._is_second_generation else NEXT_EPOCH - 1
        if not self._is_second_generation:
            added = AddOffsetsToTxnRequest(self.name, producer_id, epoch, self.group_id)
            answer = yield from self._call_again(Ask(api_keys.ADD_OFFSETS_TO_TXN, 3, added))
            if answer.error_code != ErrorCode.none:
                return False
        for _ in range(self.world.chance.randint(1, 3)):
            partition = self.world.chance.choice(self.numbers)
            offset = CommittedPartition(
                partition, transaction.number, -1, f"{self.name}/{transaction.number}"
            )
            body = TxnOffsetCommitRequest(self.name, self.group_id, producer_id, epoch, ((TOPIC, (offset,)),))
            answer = yield from self._call_again(Ask(api_keys.TXN_OFFSET_COMMIT, version, body))
            if self.error_of(answer) != ErrorCode.none:
                return False
            transaction.partitions += (partition,)
        return True

    def _end(self, transaction: Transaction, producer_id: int, epoch: int) -> Step:
        """Return the answer to EndTxn; None if the coordinator has ended the transaction by itself."""
        version = NEXT_EPOCH if self._is_second_generation else NEXT_EPOCH - 1
        body = EndTxnRequest(self.name, producer_id, epoch, transaction.may_commit)
        answer = yield from self._call_again(Ask(api_keys.END_TXN, version, body))
        return None if answer.error_code != ErrorCode.none else answer

    def _call_again(self, ask: Ask) -> Step:
        while True:
            answer = yield from self.call(ask)
            if self.error_of(answer) not in AGAIN:
                return answer
            yield BACKOFF_S

    # -- reading -------------------------------------------------------------------------------------

    def read(self) -> Step:
        """Read what is committed, as a consumer does that begins: it waits for what is being ended."""
        asked_at = self.world.now
        group = OffsetFetchGroup(self.group_id, ((TOPIC, self.numbers),))
        ask = Ask(api_keys.OFFSET_FETCH, 9, OffsetFetchRequest((group,), require_stable=True))
        answer = yield from self.once(ask)
        if answer is not None and answer.groups[0].error_code == ErrorCode.none:
            for _, rows in answer.groups[0].topics:
                for partition, offset, _, text, error in rows:
                    if error == ErrorCode.none:
                        self.judge(partition, offset, text, asked_at)

    def judge(self, partition: int, offset: int, text: str, asked_at: float) -> None:
        """Judge what is read of one partition by who asked at this time. Raises Violation."""
        self.judge_least(partition, offset, text, asked_at)
        if offset > 0:
            self.check_shown(partition, offset, text)

    def judge_least(self, partition: int, offset: int, text: str, asked_at: float) -> None:
        least = max(
            (
                each.number
                for each in self.transactions
                if each.committed_at is not None
                and each.committed_at <= asked_at
                and partition in each.partitions
            ),
            default=-1,
        )
        if offset < least:
            raise Violation(
                f"transactions: partition {partition} of {self.group_id} shows {offset} ({text}) to who "
                f"asked at {asked_at:.3f}; {self.name} had committed {least}"
            )

    def check_shown(self, partition: int, offset: int, text: str) -> None:
        """Check that an offset is of a transaction that may be committed. Raises Violation."""
        if text != f"{self.name}/{offset}" or not self.transactions[offset - 1].may_commit:
            raise Violation(
                f"transactions: partition {partition} of {self.group_id} has {offset} ({text}), which "
                f"{self.name} has not committed"
            )


class StableReader:
    """Reads what a producer has committed, from whoever leads or believes so."""

    is_near = True

    def __init__(self, route: Route, producer: Producer) -> None:
        self.world = route
        self.name = f"reader of {producer.name}"
        self._producer = producer
        self.seen = [0, 0]
        """How often it was told of an offset, and to wait."""

    def start(self) -> None:
        world = self.world
        if world.is_over:
            return
        group = OffsetFetchGroup(self._producer.group_id, ((TOPIC, self._producer.numbers),))
        ask = Ask(api_keys.OFFSET_FETCH, 9, OffsetFetchRequest((group,), require_stable=True))
        for process in world.processes():
            if process.raft.is_leader:
                world.send(self, process, ask)
        world.after(world.chance.uniform(0.02, 0.05), self.start)

    def answered(self, asked: Asked, body: Any | None) -> None:
        if body is None or body.groups[0].error_code:
            return
        for _, rows in body.groups[0].topics:
            for partition, offset, _, text, error in rows:
                self.seen[error != ErrorCode.none] += 1
                if error == ErrorCode.none:
                    self._producer.judge(partition, offset, text, asked.sent_at)

    def is_well(self, since: float) -> bool:
        return True


def producers_of(halves: list[Half]) -> list[Producer]:
    """Make the producers of a run: groups and coordinators that stay, and such that move."""
    producers = []
    for of_group in (PARENT, CHILD):
        group_id = group_of("transactional", of_group)
        for of_coordinator in (PARENT, CHILD):
            name = group_of(f"producer-{of_group}{of_coordinator}", of_coordinator)
            numbers = tuple(range(of_coordinator, PARTITIONS, 2))
            routes = Route(halves, name), Route(halves, group_id)
            producers.append(Producer(*routes, name, group_id, numbers))
    return producers


def check(producers: list[Producer], halves: list[Half]) -> None:
    """Judge what the logs say in the end: of what was not committed nothing ever became an offset, and of the
    rest the newest is there. Raises Violation."""
    for producer in producers:
        for partition in producer.numbers:
            key = (OFFSET_COMMIT, producer.group_id, TOPIC, partition)
            for half in halves:
                for _, value in half.state.writes(key):
                    if value is not None:
                        producer.check_shown(partition, value[0], value[2])
            last = max(half.state.live[key][0] if key in half.state.live else -1 for half in halves)
            producer.judge_least(partition, last, "in the end", float("inf"))


def open_in(half: Half) -> str | None:
    """Return what a half still holds of a transaction; None if it holds nothing."""
    for key, value in half.state.live.items():
        if key[0] == PENDING_TXN_OFFSET:
            return f"{half.home}: {key} is pending: {value}"
        if key[0] == TRANSACTION and TransactionValue(*value).state not in AT_REST:
            return f"{half.home}: {key} has not ended: {value}"
    return None
