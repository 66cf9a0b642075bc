"""What a transaction coordinator's actor does for its shard: it sends markers until all are written, and
verifies commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from actors.catalog.table import coordinated
from actors.coordinator.transactions.coordinator import OFFSETS_TOPIC
from actors.coordinator.transactions.states import COMPLETE_COMMIT, PREPARE_COMMIT
from actors.leader.transaction_markers import Transactions
from actors.protocol.api_keys import WRITE_TXN_MARKERS
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitionErrors,
    TxnMarkerErrors,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.coordinator.driver import image_of
from tests.coordinator.transactions.driver import ID, TransactionDriver
from tests.polling import reached

Errors = Callable[[str, int], ErrorCode]


def always(error: ErrorCode, topic: str, number: int) -> ErrorCode:
    return error


class World:
    """A shard, its actor's work on transactions, and brokers that answer with `errors`."""

    def __init__(self) -> None:
        self.tier = TransactionDriver(t=2, gone=1)
        self.term: int | None = 4
        self.answers = True
        self.errors: Errors = lambda topic, number: NO_ERROR
        self.asked: list[WriteTxnMarkersRequest] = []
        self.work = Transactions(
            0,
            ask_shard=self._ask_shard,
            ask_broker=self._ask_broker,
            image=lambda: self.tier.image,
            epoch=lambda: self.term,
        )

    def deliver(self) -> None:
        events, self.tier.events = self.tier.events, []
        for event in events:
            assert type(event) in self.work.takes
            self.work.on_event(event)

    async def _ask_shard(self, api_key: int, body: Any) -> Any:
        await asyncio.sleep(0)
        return self.tier.ask(api_key, body, 0)

    async def _ask_broker(self, api_key: int, api_version: int, entity: Any) -> Any:
        await asyncio.sleep(0)
        body = coordinated(api_key).decode(entity)
        if not self.answers:
            return None
        answer = self._marked(body) if api_key == WRITE_TXN_MARKERS else self._verified(body)
        encode = coordinated(api_key).encode
        assert encode is not None
        return encode(api_version, answer)

    def _marked(self, body: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.asked.append(body)
        [marker] = body.markers
        topics = tuple(
            (topic, tuple((number, self.errors(topic, number)) for number in numbers))
            for topic, numbers in marker.topics
        )
        return WriteTxnMarkersResponse((TxnMarkerErrors(marker.producer_id, topics),))

    def _verified(self, body: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        [transaction] = body.transactions
        topics = ((OFFSETS_TOPIC, ((0, self.errors(OFFSETS_TOPIC, 0)),)),)
        return AddPartitionsToTxnResponse((TransactionPartitionErrors(transaction.transactional_id, topics),))

    def ending(self) -> tuple[int, int]:
        """A producer has a transaction in two topics that is to be committed."""
        producer = self.tier.producer()
        self.tier.add_partitions(producer, "t", 0, 1)
        self.tier.add_partitions(producer, "gone", 0)
        assert self.tier.end(producer) == 0
        return producer

    @property
    def state(self) -> int:
        return self.tier.transaction().state


def test_markers_are_written_again_until_every_partition_has_its_own() -> None:
    async def story() -> None:
        world = World()
        producer = world.ending()
        world.errors = lambda topic, number: (
            ErrorCode.not_leader_or_follower if len(world.asked) < 3 and number == 1 else NO_ERROR
        )
        world.deliver()
        await reached(lambda: world.state == COMPLETE_COMMIT)
        markers = [request.markers[0] for request in world.asked]
        both = (("gone", (0,)), ("t", (0, 1)))
        assert [marker.topics for marker in markers] == [both, (("t", (1,)),), (("t", (1,)),)]
        assert {marker[:3] for marker in markers} == {(*producer, True)}
        assert {marker.coordinator_epoch for marker in markers} == {4}

    asyncio.run(story())


def test_a_deleted_topic_needs_no_marker() -> None:
    async def story() -> None:
        world = World()
        world.ending()
        world.errors = lambda topic, number: ErrorCode.unknown_topic_or_partition
        world.deliver()
        await reached(lambda: len(world.asked) > 1)
        world.tier.set_image(image_of(2))
        await reached(lambda: world.state == COMPLETE_COMMIT)

    asyncio.run(story())


def test_whoever_leads_no_more_leaves_the_rest_to_the_next_leader() -> None:
    async def story() -> None:
        world = World()
        world.ending()
        world.answers = False
        world.deliver()
        world.term = None
        await reached(lambda: not world.work.tasks)
        assert world.state == PREPARE_COMMIT
        world.tier.commit()
        world.tier.fail_over()
        world.term, world.answers = 5, True
        world.deliver()
        await reached(lambda: world.state == COMPLETE_COMMIT)
        assert world.asked[-1].markers[0].coordinator_epoch == 5

    asyncio.run(story())


def test_a_coordinator_that_is_fenced_does_not_complete_the_transaction() -> None:
    async def story() -> None:
        world = World()
        world.ending()
        world.errors = lambda topic, number: ErrorCode.transaction_coordinator_fenced
        world.deliver()
        await reached(lambda: world.asked and not world.work.tasks)
        assert world.state == PREPARE_COMMIT

    asyncio.run(story())


def test_a_transaction_that_ends_while_the_last_one_is_worked_on_is_not_forgotten() -> None:
    async def story() -> None:
        world = World()
        producer = world.ending()
        world.deliver()
        await reached(lambda: world.state == COMPLETE_COMMIT)
        world.tier.add_partitions(producer, "t", 0)
        assert world.tier.end(producer) == 0
        world.deliver()
        await reached(lambda: world.state == COMPLETE_COMMIT)
        assert world.tier.transaction(ID).partitions == ()

    asyncio.run(story())


def test_a_commit_that_waits_hears_what_the_coordinator_said_or_that_it_said_nothing() -> None:
    """These are rules O7 and W3."""

    async def story() -> None:
        world = World()
        producer = world.tier.producer()
        expected = []
        for answers, error, code in (
            (True, ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
            (False, NO_ERROR, ErrorCode.coordinator_load_in_progress),
            (True, NO_ERROR, NO_ERROR),
        ):
            world.answers = answers
            world.errors = partial(always, error)
            token = world.tier.send_commit(producer)
            world.deliver()
            await reached(lambda token=token: token in world.tier.replies)
            [(_, [(_, answered)])] = world.tier.replies[token].topics
            expected.append(answered == code)
        assert expected == [True] * 3

    asyncio.run(story())
