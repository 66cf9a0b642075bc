"""Groups live seeded random lives: no partition has two owners, epochs never go back, and all is owned in the
end.

These are rules M11 to M13, M16, M17, M20, M21, M24 to M26 and A13; also, undoing any batch restores the state
exactly.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.consumer import area as consumer
from actors.coordinator.consumer import target_arrays
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground import partitions
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Key, Record, Value
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    CurrentAssignmentValue,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetMemberValue,
    TargetMetadataValue,
)
from actors.ground.settings import GroupSettings
from actors.protocol.errors import GroupError
from tests.coordinator.arrays_check import check_arrays
from tests.coordinator.consumer.driver import GROUP, Client, Driver, make_image, owned, snapshot, topic_id

FENCED = (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id)
TOPICS = ("orders", "returns", "audit")
REGEXES = ("", "orders", ".*s", "a.*|returns")


class UndoingShard(CoordinatorShard):
    """A shard that takes every write back, looks, and writes it again."""

    chance: random.Random
    arrays_checked = 0

    def apply(self, key: Key, value: Value | None) -> Value | None:
        before = snapshot(self.state)
        replaced = super().apply(key, value)
        after = snapshot(self.state)
        super().apply(key, replaced)
        assert snapshot(self.state) == before
        if self.chance.random() < 0.3:
            check_arrays(self.state)
        super().apply(key, value)
        assert snapshot(self.state) == after
        if self.chance.random() < 0.3:
            self.arrays_checked += check_arrays(self.state)
        return replaced


class UndoingDriver(Driver):
    def __init__(self, chance: random.Random, **fields: Any) -> None:
        self.chance = chance
        self.shards: list[UndoingShard] = []
        super().__init__(**fields)

    def new_shard(self) -> CoordinatorShard:
        shard = UndoingShard(self.settings, self.new_id, self.image)
        shard.chance = self.chance
        self.shards.append(shard)
        return shard

    def fail_over_in(self, records: Iterable[Record], before: dict[Key, Value], cut: int) -> None:
        """Let a leader take over that has the records before the last decision, and the first `cut` of those
        that it wrote."""
        left = dict(before)
        for key, value in list(records)[:cut]:
            left.pop(key, None)
            if value is not None:
                left[key] = value
        self.failover(self.chance, [Record(key, value) for key, value in left.items()])


def expect(error: GroupError, *codes: ErrorCode) -> None:
    assert error.error_code in codes, error


class Life:
    """The random life of one group."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        settings = GroupSettings(
            group_consumer_assignment_interval_ms=self.rng.choice([0, 1_000]),
            group_rebalance_batch_max_ms=0,
            group_consumer_assignors=self.rng.choice([("uniform", "range"), ("range-rack",)]),
        )
        self.counts = {name: self.rng.randrange(1, 9) for name in TOPICS[:2]}
        self.version = 1
        chance = random.Random(seed)
        self.driver = UndoingDriver(chance, settings=settings, image=make_image(1, **self.counts))
        self.clients: dict[str, Client] = {}
        self.away: set[str] = set()
        """Instance ids whose member left with -2."""
        self.names = 0
        self.group_epoch = 0

    def step(self) -> None:
        actions = {
            self.start: 6 if len(self.clients) < 8 else 0,
            self.beat: 40,
            self.beat_unheard: 6,
            self.leave: 2,
            self.leave_for_a_while: 2,
            self.change_subscription: 2,
            self.change_regex: 2,
            self.change_topics: 1,
            self.fail_over: 1,
            self.fail_over_in_a_batch: 1,
            self.lose_a_join: 1,
            self.wait: 6,
            self.fall_silent: 1,
        }
        (action,) = self.rng.choices(list(actions), list(actions.values()))
        action()
        self.check()

    def pick(self) -> Client | None:
        return self.rng.choice(list(self.clients.values())) if self.clients else None

    def start(self) -> None:
        self.names += 1
        fields: dict[str, Any] = {"rebalance_timeout_ms": self.rng.choice([4_000, 60_000])}
        if self.rng.random() < 0.5:
            fields["instance_id"] = f"i{self.rng.randrange(3)}"
        client = Client(self.driver, f"m{self.names}", *self.some_topics(), **fields)
        try:
            client.join()
        except GroupError as error:
            expect(error, ErrorCode.unreleased_instance_id)
            return
        self.away.discard(fields.get("instance_id", ""))
        self.clients[client.member_id] = client

    def some_topics(self) -> tuple[str, ...]:
        return tuple(self.rng.sample(TOPICS, self.rng.randrange(1, 4)))

    def beat(self, *, lost: bool = False, **fields: Any) -> None:
        client = self.pick()
        if client is None:
            return
        if "subscribed_topic_regex" in fields:
            client.fields["subscribed_topic_regex"] = fields["subscribed_topic_regex"]
        try:
            client.beat(lost=lost, **fields)
        except GroupError as error:
            expect(error, *FENCED)
            client.owned = ()
            if error.error_code is not ErrorCode.unknown_member_id and "instance_id" in client.fields:
                # This is as in Kafka: a fenced static member waits for its session to end, or was replaced.
                del self.clients[client.member_id]
            else:
                self.rejoin(client)

    def rejoin(self, client: Client) -> None:
        try:
            client.join()
        except GroupError as error:
            expect(error, ErrorCode.unreleased_instance_id)
            del self.clients[client.member_id]

    def beat_unheard(self) -> None:
        self.beat(lost=True)

    def leave(self) -> None:
        client = self.pick()
        if client is not None and self.is_member(client):
            client.leave()
            del self.clients[client.member_id]

    def leave_for_a_while(self) -> None:
        client = self.pick()
        if client is not None and "instance_id" in client.fields and self.is_member(client):
            client.leave(-2)
            self.away.add(client.fields["instance_id"])
            del self.clients[client.member_id]

    def change_subscription(self) -> None:
        self.beat(subscribed_topic_names=self.some_topics())

    def change_regex(self) -> None:
        self.beat(subscribed_topic_regex=self.rng.choice(REGEXES))

    def change_topics(self) -> None:
        for name in TOPICS:
            if self.rng.random() < 0.4:
                self.counts[name] = self.counts.get(name, 0) + self.rng.randrange(1, 4)
            elif self.rng.random() < 0.1:
                self.counts.pop(name, None)
        self.version += 1
        self.driver.set_image(make_image(self.version, **self.counts))

    def fail_over(self) -> None:
        self.driver.failover(self.rng)

    def fail_over_in_a_batch(self) -> None:
        """Let the leader fail when only the first of a heartbeat's records are committed and its answer was
        not sent."""
        client = self.pick()
        if client is None:
            return
        before, cut = self.driver.records(), self.rng.randrange(6)
        try:
            client.beat(lost=True, subscribed_topic_names=self.some_topics())
        except GroupError as error:
            expect(error, *FENCED)
        self.driver.fail_over_in(self.driver.last_records, before, cut)

    def lose_a_join(self) -> None:
        """Let the leader fail in the same way for a member that never comes back."""
        instance = f"i{self.rng.randrange(3)}" if self.rng.random() < 0.5 else None
        before, cut = self.driver.records(), self.rng.randrange(6)
        try:
            self.driver.join(f"lost{self.rng.randrange(5)}", *self.some_topics(), instance_id=instance)
        except GroupError as error:
            expect(error, ErrorCode.unreleased_instance_id)
        self.driver.fail_over_in(self.driver.last_records, before, cut)

    def wait(self) -> None:
        self.driver.advance(self.rng.randrange(8_000))

    def fall_silent(self) -> None:
        client = self.pick()
        if client is not None:
            del self.clients[client.member_id]

    def is_member(self, client: Client) -> bool:
        group = consumer_groups(self.driver.state).get(GROUP)
        return group is not None and group.member(client.member_id) is not None

    def check(self) -> None:
        group = consumer_groups(self.driver.state).get(GROUP)
        if group is None:
            return
        live = [client for client in self.clients.values() if self.is_member(client)]
        owners = Counter(partition for client in live for partition in client.partitions)
        twice = [partition for partition, number in owners.items() if number > 1]
        assert not twice, "two members were told to own it"
        assert all(n == 1 for h in group.holders.values() for n in h.counts if n), "held once or not at all"
        assert group.group_epoch >= self.group_epoch
        assert group.assignment_epoch <= group.group_epoch
        self.group_epoch = group.group_epoch

    def converge(self) -> None:
        """Check that every partition of a subscribed topic gets its owner when nothing more happens."""
        self.driver.advance(61_000)
        for _ in range(40):
            for client in list(self.clients.values()):
                try:
                    client.beat()
                except GroupError:
                    client.owned = ()
                    self.rejoin(client)
            self.check()
            self.driver.advance(1_000)
        subscribed = {name for client in self.clients.values() for name in client.topics}
        for client in self.clients.values():
            regex = client.fields.get("subscribed_topic_regex", "")
            subscribed |= {name for name in TOPICS if re.fullmatch(regex, name)}
        wanted = {(topic_id(n), p) for n in subscribed for p in range(self.counts.get(n, 0))}
        have = [partition for client in self.clients.values() for partition in client.partitions]
        assert sorted(have) == sorted(wanted)
        if self.clients:
            assert self.driver.group().state_name == "Stable"
            assert self.driver.group().size == len(self.clients)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_life_keeps_ownership_single_and_converges(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arrays that a leader keeps for the assignors are at every moment as made anew, too."""
    monkeypatch.setattr(target_arrays, "ARRAYS_FROM", 0)
    life = Life(seed)
    for _ in range(250):
        life.step()
    life.converge()
    assert sum(shard.arrays_checked for shard in life.driver.shards) > 0


def random_record(rng: random.Random) -> Record:
    member_id, epoch = rng.choice("abc"), rng.randrange(4)
    group_id = rng.choice(["g", "h"])
    some = owned(
        orders=rng.sample(range(4), rng.randrange(4)), returns=rng.sample(range(2), rng.randrange(2))
    )
    more = partitions.difference(owned(orders=range(4)), some)
    names = tuple(sorted(rng.sample(TOPICS, rng.randrange(4))))
    regex = rng.choice(["", "a.*"])
    instance = rng.choice([None, "i", "j"])
    assignor = rng.choice([None, "uniform", "range"])
    member = ConsumerMemberValue(instance, None, "c", "/h", names, regex, 5, assignor)
    current = CurrentAssignmentValue(rng.randrange(3), rng.randrange(3), rng.randrange(3), some, more)
    key, value = rng.choice(
        [
            (ConsumerGroupKey(CONSUMER_GROUP_METADATA, group_id), ConsumerGroupValue(epoch, 1)),
            (
                ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group_id),
                TargetMetadataValue(rng.randrange(4), 1),
            ),
            (ConsumerMemberKey(CONSUMER_MEMBER_METADATA, group_id, member_id), member),
            (ConsumerMemberKey(TARGET_ASSIGNMENT_MEMBER, group_id, member_id), TargetMemberValue(some)),
            (ConsumerMemberKey(CURRENT_MEMBER_ASSIGNMENT, group_id, member_id), current),
            (
                RegularExpressionKey(REGULAR_EXPRESSION, group_id, "a.*"),
                RegularExpressionValue(("audit",), rng.randrange(3), 0),
            ),
        ]
    )
    return Record(key, None if rng.random() < 0.3 else value)


@pytest.mark.parametrize("seed", range(40))
def test_apply_is_total_and_undo_exact_for_any_records(seed: int) -> None:
    """Records come in any order. Undone newest first they give the state of every earlier moment, and a
    snapshot in any order gives the same state."""
    rng, driver = random.Random(seed), Driver()
    moments, undo = [snapshot(driver.state)], []
    for _ in range(120):
        key, value = random_record(rng)
        undo.append((key, driver.shard.apply(key, value)))
        moments.append(snapshot(driver.state))
    records = list(driver.shard.records())
    rng.shuffle(records)
    assert snapshot(driver.restored(records).state) == moments[-1]
    for key, value in reversed(undo):
        assert snapshot(driver.state) == moments.pop()
        driver.shard.apply(key, value)
    assert snapshot(driver.state) == moments.pop() == {}


def test_plain_tuples_from_the_log_are_taken() -> None:
    """Records from the log are tuples without names, as msgpack reads them."""
    driver = Driver()
    driver.join("a", subscribed_topic_regex="o.*")
    other = Driver()
    for record in consumer.AREA.records(driver.state):
        other.shard.apply(record.key, None if record.value is None else tuple(record.value))
    assert snapshot(other.state) == snapshot(driver.state)
