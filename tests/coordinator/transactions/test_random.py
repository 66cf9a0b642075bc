"""Random transactions, plain commits, fencing, late markers and failovers, compared with a model of Kafka's
log.

In the model every write has a place in one log. A marker makes a producer's pending writes count unless the
committed offset stands later in that log (OffsetMetadataManager.replayEndTransactionMarker).
"""

from __future__ import annotations

import random

import pytest

from actors.coordinator.transactions.coordinator import OFFSETS_TOPIC
from actors.coordinator.transactions.states import ENDING, ONGOING, PREPARE_COMMIT
from tests.coordinator.transactions.driver import TERM, TransactionDriver

SEEDS = 30
STEPS = 200
IDS = ("a", "b", "c")
GROUPS = ("g", "h")


class Walk:
    """A random walk of one shard: the shard, the producers as clients know them, and a model of the log."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tier = TransactionDriver(t=1)
        self.term = TERM
        self.producers: dict[str, list[tuple[int, int]]] = {each: [] for each in IDS}
        """All producers that each transactional id ever had: old ones go on."""
        self.written = 0
        self.committed: dict[str, tuple[int, int]] = {}
        """The commit's place in the model's log and its offset, by group."""
        self.pending: dict[int, dict[str, tuple[int, int]]] = {}
        """Place in the log and offset by group, for the open transaction of each producer id."""

    def step(self) -> None:
        self.tier.advance(1)
        chosen = self.chance.choices(
            (
                self.init,
                self.add,
                self.write,
                self.write_plainly,
                self.end,
                self.mark,
                self.mark_late,
                self.fail,
            ),
            (2, 6, 8, 2, 4, 5, 1, 1),
        )
        chosen[0]()
        self.tier.commit()
        self.check()

    def some_producer(self) -> tuple[str, tuple[int, int]] | None:
        transactional_id = self.chance.choice(IDS)
        known = self.producers[transactional_id]
        if not known:
            return None
        return transactional_id, known[-1] if self.chance.random() < 0.8 else self.chance.choice(known)

    def init(self) -> None:
        transactional_id = self.chance.choice(IDS)
        answer = self.tier.init(transactional_id)
        if not answer.error_code:
            self.producers[transactional_id].append((answer.producer_id, answer.producer_epoch))

    def add(self) -> None:
        who = self.some_producer()
        if who is not None:
            self.tier.add_offsets(who[1], self.chance.choice(GROUPS), transactional_id=who[0])

    def write(self) -> None:
        who = self.some_producer()
        if who is None:
            return
        transactional_id, producer = who
        group_id = self.chance.choice(GROUPS)
        self.written += 1
        error = self.tier.commit_in_transaction(
            producer, self.written, group_id, transactional_id=transactional_id
        )
        if not error:
            self.pending.setdefault(producer[0], {})[group_id] = (self.written, self.written)

    def write_plainly(self) -> None:
        group_id = self.chance.choice(GROUPS)
        self.written += 1
        assert self.tier.commit_offsets(group_id, offsets={0: self.written}) == {0: 0}
        self.committed[group_id] = (self.written, self.written)

    def end(self) -> None:
        who = self.some_producer()
        if who is not None:
            self.tier.end(who[1], committed=self.chance.random() < 0.7, transactional_id=who[0])

    def mark(self) -> None:
        """Deliver the markers of a transaction that is ending, perhaps twice or without the answer."""
        ending = [each for each in IDS if self.state(each) in ENDING]
        if not ending:
            return
        transactional_id = self.chance.choice(ending)
        transaction = self.tier.transaction(transactional_id)
        commits = transaction.state == PREPARE_COMMIT
        if OFFSETS_TOPIC in dict(transaction.partitions):
            self.settle(transaction.producer_id, commits)
        if self.chance.random() < 0.3:
            producer = (transaction.producer_id, transaction.producer_epoch)
            assert self.tier.mark(producer, committed=commits, term=self.term) == 0
        else:
            self.tier.end_markers(transactional_id, term=self.term)

    def mark_late(self) -> None:
        """Write a marker of an older term, which may contradict the newer one."""
        who = self.some_producer()
        if who is not None and who[1][0] in self.tier.shard.state.producer_markers:
            last = self.tier.shard.state.producer_markers[who[1][0]]
            assert self.tier.mark(who[1], committed=True, term=last.coordinator_epoch - 1) != 0

    def fail(self) -> None:
        self.tier.fail_over()
        self.term += 1

    def state(self, transactional_id: str) -> int:
        transaction = self.tier.shard.state.transactions.get(transactional_id)
        return -1 if transaction is None else transaction.state

    def settle(self, producer_id: int, commits: bool) -> None:
        for group_id, (place, offset) in self.pending.pop(producer_id, {}).items():
            if commits and place > self.committed.get(group_id, (0, 0))[0]:
                self.committed[group_id] = (place, offset)

    def check(self) -> None:
        for group_id in GROUPS:
            expected = self.committed.get(group_id, (0, -1))[1]
            assert self.tier.offset(group_id) == (expected, 0)
            is_open = any(group_id in groups for groups in self.pending.values())
            assert (self.tier.offset(group_id, stable=True)[1] != 0) == is_open
        self.tier.check_snapshot()

    def finish(self) -> None:
        """End all open transactions, and check that nothing stays pending."""
        for transactional_id in IDS:
            if self.state(transactional_id) == ONGOING:
                assert self.tier.init(transactional_id).error_code != 0
            if self.state(transactional_id) in ENDING:
                transaction = self.tier.transaction(transactional_id)
                self.settle(transaction.producer_id, transaction.state == PREPARE_COMMIT)
                self.tier.end_markers(transactional_id, term=self.term)
        self.check()
        assert not self.tier.shard.state.pending_offsets
        assert not self.tier.shard.state.open_producers


@pytest.mark.parametrize("seed", range(SEEDS))
def test_offsets_are_those_of_kafkas_log_whatever_happens(seed: int) -> None:
    """These are rules O7 and O10."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.finish()
