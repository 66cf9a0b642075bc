"""Any log means the same to us as to Kafka, however it is fetched, compacted, and interrupted."""

from __future__ import annotations

import random

import pytest

from actors.coordinator.take_over.inside import DROP_TAKEN, TAKE, DropTakenRequest, TakeRequest
from actors.upstream.offsets_log.reading import pieces
from tests.coordinator.take_over.model import Model, comparable
from tests.coordinator.take_over.taker import TOPIC_ID as TAKEN_TOPIC
from tests.coordinator.take_over.taker import Taker
from tests.upstream.offsets_log.logs import (
    TIME_MS,
    KafkaLog,
    Pair,
    classic_group,
    commit,
    foreign,
    no_classic_group,
    no_offset,
    packed,
    record,
)

BATCHES = 60
TOPIC_ID = b"some topic's id."
FETCH_BYTES = (1_500, 4_000)


class Writer:
    """Writes a log as chance has it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = KafkaLog()
        self._epochs = {7: 0, 8: 3, 9: 100}
        self._time_ms = TIME_MS

    def write(self) -> KafkaLog:
        for _ in range(BATCHES):
            chance = self.chance
            producer_id = chance.choice(list(self._epochs))
            producer = producer_id, self._epochs[producer_id]
            match chance.randrange(8):
                case 0 | 1:
                    self.log.pend(producer, *self._commits())
                case 2:
                    self._epochs[producer_id] += chance.randrange(2)
                    producer = producer_id, self._epochs[producer_id]
                    self.log.mark(
                        producer, committed=chance.random() < 0.7, coordinator_epoch=len(self.log.batches)
                    )
                case 3 | 4:
                    self.log.append(self._commits())
                case _:
                    pairs = [self._group_record() for _ in range(chance.randrange(1, 6))]
                    self.log.append(pairs)
        return self.log

    def _commits(self) -> list[Pair]:
        group_id = self.chance.choice("gh")
        metadata = self.chance.choice(("", "", "why"))
        version = self.chance.choice((3, 3, 4, 1))
        pairs = []
        for _ in range(self.chance.randrange(1, 5)):
            self._time_ms += self.chance.choice((0, 0, 1))
            partition, offset = self.chance.randrange(4), len(self.log.batches) * 10 + len(pairs)
            pairs.append(
                commit(group_id, partition, offset, time_ms=self._time_ms, metadata=metadata, version=version)
            )
        return pairs

    def _group_record(self) -> Pair:
        chance = self.chance
        group_id, member_id = chance.choice("gh"), chance.choice(("m1", "m2"))
        group, member = {"groupId": f"new-{group_id}"}, {"groupId": f"new-{group_id}", "memberId": member_id}
        partitions = [{"topicId": TOPIC_ID, "partitions": chance.sample(range(4), 2)}]
        number = chance.randrange(10)
        made: list[Pair] = [
            no_offset(group_id, chance.randrange(4)),
            classic_group(group_id, number, chance.sample(["a", "b", "c"], chance.randrange(4))),
            no_classic_group(group_id),
            foreign(chance.randrange(9, 16), group_id, chance.choice((None, b"\0\0x", b"\0\0y"))),
            record(3, group, {"epoch": number}),
            record(6, group, {"assignmentEpoch": number}),
            record(5, member, {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t"]}),
            record(7, member, {"topicPartitions": partitions}),
            record(
                8,
                member,
                {
                    "memberEpoch": number,
                    "previousMemberEpoch": 0,
                    "state": 0,
                    "assignedPartitions": partitions,
                    "partitionsPendingRevocation": [],
                },
            ),
            record(4, group, {"topics": []}),
            record(
                16,
                group | {"regularExpression": "t.*"},
                {"topics": ["t"], "version": number, "timestamp": TIME_MS},
            ),
            *(record(kind, group, None) for kind in (3, 4, 6)),
            *(record(kind, member, None) for kind in (5, 7, 8)),
            record(16, group | {"regularExpression": "t.*"}, None),
        ]
        return chance.choice(made)


@pytest.mark.parametrize("seed", range(150))
def test_a_log_is_read_as_kafka_reads_it(seed: int) -> None:
    log = Writer(seed).write()
    whole, compacted = Taker(), Taker()
    whole.take(log.raw())
    compacted.take(log.compacted().raw())
    assert comparable(whole.records()) == Model().read(log).records()
    assert comparable(compacted.records()) == Model().read(log.compacted()).records()
    whole.check_snapshot()
    assert whole.serve(log.end).error_code == 0


@pytest.mark.parametrize("seed", range(60))
def test_failovers_lost_answers_and_small_fetches_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    log = Writer(seed).write()
    taker = Taker()
    while (at := taker.next_offset) < log.end:
        raw = b"".join(packed(batch, chance.choice((0, 1))) for batch in log.batches if batch.end > at)
        for piece in pieces(raw[: chance.randrange(*FETCH_BYTES)], at):
            if chance.random() < 0.1:
                taker.send(TAKE, TakeRequest(TAKEN_TOPIC, piece), 0)
                taker.fail_over()  # before it is committed: it is fetched again
                break
            taker.take_piece(piece)
            if chance.random() < 0.1:
                taker.take_piece(piece)
            if chance.random() < 0.1:
                taker.fail_over()
    assert comparable(taker.records()) == Model().read(log).records()


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_is_dropped_and_taken_again_is_the_same(seed: int) -> None:
    """It happens if its leader has lost the end of the log, or an operator has given up and tries again."""
    chance = random.Random(seed)
    log = Writer(seed).write()
    taker = Taker()
    taker.take(log.raw())
    taker.send(DROP_TAKEN, DropTakenRequest(), 0)
    for _ in range(chance.randrange(3)):
        taker.replica.run_timers(taker.now_ms)
    taker.commit()
    taker.fail_over()
    assert taker.drop_taken().error_code == 0
    assert taker.records() == {}
    taker.take(log.raw())
    assert comparable(taker.records()) == Model().read(log).records()
