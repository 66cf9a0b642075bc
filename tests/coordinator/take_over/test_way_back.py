"""The log that brokers are given has everything: who takes it over has what was there (W52)."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest

from actors.coordinator.kafka_records.codec import encode
from actors.coordinator.kafka_records.committed import CommittedRecords
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.coordinator.transactions.inside import TXN_VERIFIED, TxnVerifiedRequest
from actors.ground.features import FEATURES, GROUPD_VERSION
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    FOREIGN_RECORD,
    GROUP_METADATA,
    PENDING_TXN_OFFSET,
    PRODUCER_MARKER,
    TAKEN_LOG,
)
from actors.node.made_log import Bounds
from actors.protocol import api_keys
from actors.protocol.consumer_protocol import Subscription, write_subscription
from actors.protocol.messages import (
    NO_ERROR,
    CommittedPartition,
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
)
from tests.coordinator.take_over.given import BEGIN, Given
from tests.coordinator.take_over.model import comparable
from tests.coordinator.take_over.taker import Taker
from tests.coordinator.take_over.test_random_logs import Writer
from tests.upstream.offsets_log.logs import KafkaLog

OF_THE_LOG = (FOREIGN_RECORD, PENDING_TXN_OFFSET, PRODUCER_MARKER, TAKEN_LOG)
"""Record types that a log for readers does not have."""
CHANGES = 60


def groups_of(taker: Taker) -> dict[Any, Any]:
    return {key: value for key, value in taker.records().items() if key[0] not in OF_THE_LOG}


@pytest.mark.parametrize("seed", range(30))
def test_what_readers_are_shown_is_the_state_of_the_groups(seed: int) -> None:
    there = Taker()
    there.take_over(Writer(seed).write())
    committed = CommittedRecords()
    written = [*committed.to_kafka(there.shard.records()), *committed.held_back()]
    log = KafkaLog()
    log.append([encode(record) for record in written])
    back = Taker()
    back.take_over(log)
    assert groups_of(back) == groups_of(there)


class Changes:
    """Changes a coordinator as chance has it: commits, also in transactions, and deletions."""

    def __init__(self, taker: Taker, seed: int) -> None:
        self._taker = taker
        self._chance = random.Random(seed)
        self._epochs = {7: 60, 8: 60, 9: 200}
        self._offset = 1_000

    def make(self) -> None:
        chance, taker = self._chance, self._taker
        self._offset += 1
        taker.advance(chance.choice((0, 1)))
        group_id, partition = chance.choice("ghx"), chance.randrange(4)
        producer_id = chance.choice(list(self._epochs))
        producer = producer_id, self._epochs[producer_id]
        match chance.randrange(10):
            case 0 | 1 | 2:
                taker.commit_offsets(group_id, offsets={partition: self._offset})
            case 3 | 4 | 5:
                self.pend(producer, group_id, partition)
            case 6 | 7:
                self._epochs[producer_id] += 1
                end = producer_id, self._epochs[producer_id]
                committed = chance.random() < 0.7
                assert taker.mark(end, committed=committed, term=1_000, transaction_version=2) == 0
            case 8:
                taker.delete_offsets(group_id, "t", partition)
            case 9:
                taker.delete_groups(chance.choice(("g", "h", "x", "new-g")))
        if chance.random() < 0.5:
            taker.commit()

    def pend(self, producer: tuple[int, int], group_id: str, partition: int) -> None:
        """Commit in a transaction whose coordinator says that it may."""
        topics = (("t", (CommittedPartition(partition, self._offset),)),)
        token = self._taker.send_commit(producer, group_id=group_id, topics=topics)
        if token not in self._taker.replies:
            self._taker.ask(TXN_VERIFIED, TxnVerifiedRequest(token, NO_ERROR), 0)

    def end_all(self, *, committed: bool) -> None:
        """End every transaction."""
        for producer_id, epoch in self._epochs.items():
            self._taker.mark((producer_id, epoch), committed=committed, term=1_000)


def with_groups(seed: int) -> Taker:
    """Return who has taken a log of groups over. Every other one keeps offsets in rows, as its log then has
    them."""
    there = Taker()
    there.take_over(Writer(seed).write())
    if seed % 2:
        there.replica.learn_level(FEATURES[GROUPD_VERSION].high)
    return there


def given_to_another(given: Given) -> Taker:
    """Return who has taken over what brokers were given."""
    back = Taker()
    back.take(given.raw())
    assert back.serve(back.next_offset).error_code == 0
    return back


@pytest.mark.parametrize("seed", range(100))
def test_what_brokers_are_given_is_everything(seed: int) -> None:
    there = with_groups(seed)
    given = Given(there)
    changes = Changes(there, seed)
    for _ in range(seed % CHANGES):
        changes.make()
    back = given_to_another(given)
    assert comparable(back.records()) == comparable(there.records())
    for committed, taker in ((seed % 3 > 0, there), (seed % 3 > 0, back)):
        Changes(taker, seed).end_all(committed=committed)
    assert groups_of(back) == groups_of(there), "transactions end there as they would have here"


@pytest.mark.parametrize("seed", range(40))
def test_a_log_that_begins_anew_now_and_then_is_the_same(seed: int) -> None:
    there = with_groups(seed)
    given = Given(there, Bounds(tail_batches_max=8))
    changes = Changes(there, seed)
    for _ in range(CHANGES):
        changes.make()
        if given.made.is_long:
            there.commit()
            given.state()
    assert given.made.log.log_start_offset > BEGIN
    back = given_to_another(given)
    assert comparable(back.records()) == comparable(there.records())


class Members:
    """Members of either protocol come to groups and leave them, as chance has it."""

    def __init__(self, taker: Taker, seed: int) -> None:
        self._taker = taker
        self._chance = random.Random(seed)
        self._epochs: dict[tuple[str, str], int] = {}
        self._classic: dict[str, list[str]] = {}
        self._numbers = count(1)

    def make(self) -> None:
        """Make one change."""
        chance, group_id = self._chance, self._chance.choice("ab")
        match chance.randrange(7):
            case 0 | 1:
                self._beat(group_id, f"m{next(self._numbers)}", 0)
            case 2 | 3 if self._epochs:
                member = chance.choice(list(self._epochs))
                self._beat(*member, self._epochs[member])
            case 4 if self._epochs:
                self._beat(*chance.choice(list(self._epochs)), -1)
            case 5:
                self._join(group_id)
            case 6 if self._classic.get(group_id):
                self._taker.leave(group_id, self._classic[group_id].pop())
        self._taker.advance(chance.choice((1, 1_000, 20_000)))
        if chance.random() < 0.5:
            self._taker.commit()

    def _beat(self, group_id: str, member_id: str, epoch: int) -> None:
        fields: dict[str, Any] = {}
        if epoch == 0:
            regex = self._chance.choice((None, "t.*"))
            names = () if regex else ("t",)
            fields = {
                "subscribed_topic_names": names,
                "subscribed_topic_regex": regex,
                "topic_partitions": (),
            }
            fields |= {"topic_partitions": (), "rebalance_timeout_ms": 5_000}
        body = ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **fields)
        answer = self._taker.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
        self._epochs.pop((group_id, member_id), None)
        if not answer.error_code and answer.member_epoch >= 0:
            self._epochs[group_id, member_id] = answer.member_epoch

    def _join(self, group_id: str) -> None:
        metadata = write_subscription(Subscription(("t",), None, (), -1, None))
        who = (group_id, 10_000, 60_000, "", f"i{next(self._numbers)}", "consumer", (("range", metadata),))
        token = self._taker.send(api_keys.JOIN_GROUP, JoinGroupRequest(*who), 9)
        self._taker.advance(self._taker.settings.group_initial_rebalance_delay_ms * 2)
        answer = self._taker.replies.get(token)
        if answer is not None and not answer.error_code:
            self._classic.setdefault(group_id, []).append(answer.member_id)
            shares = tuple((each[0], b"") for each in answer.members)
            self._taker.send_sync(group_id, answer, shares)


def consumer_groups_of(taker: Taker) -> dict[Any, Any]:
    """Return what is stored of consumer groups, without hashes of topics, and the ids of classic groups."""
    found = {}
    for key, value in taker.records().items():
        if key[0] == CONSUMER_GROUP_METADATA:
            found[key] = value[0]
        elif key[0] in SCHEMAS:
            found[key] = value[1] if key[0] == GROUP_METADATA else value
    return found


@pytest.mark.parametrize("seed", range(60))
def test_kafka_can_load_what_becomes_of_members(seed: int) -> None:
    """It refuses a log in which a group, or a member, ends before its parts."""
    there = with_groups(seed)
    given = Given(there)
    members = Members(there, seed)
    for _ in range(CHANGES):
        members.make()
    back = given_to_another(given)
    assert consumer_groups_of(back) == consumer_groups_of(there)
