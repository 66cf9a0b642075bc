"""Random requests, faults and time against the whole shard, with checks of what must hold whatever happens.

The checks live outside the code under test: offsets are compared with a plain dict, ownership with the
records, snapshots and undo by every live record.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.coordinator.ground.timers import SLOT_MS
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import CURRENT_MEMBER_ASSIGNMENT, CurrentAssignmentValue
from actors.ground.release import LEVEL_MAX
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from tests.coordinator.batches import one_by_one
from tests.coordinator.driver import Driver, image_of, topic_id

SEEDS = 25
STEPS = 250
CLASSIC_GROUPS = ("classic", "mixed")
CONSUMER_GROUPS = ("consumer", "mixed")
GROUPS = ("classic", "consumer", "mixed")
TOPICS = ("t", "u")
PARTITIONS = 4
STATES = {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling"}
SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"
"""A consumer's subscription of version 0, with topics ["t"] and no user data."""


@dataclass(slots=True)
class Member:
    """What a client knows of its own membership."""

    group_id: str
    member_id: str
    epoch: int = -1
    """The generation of a classic member, or the epoch of a KIP-848 member."""
    leader: bool = False
    members: tuple[str, ...] = ()
    owned: Any = ()
    consumer: bool = False

    def start_over(self) -> None:
        """Start over, as a client does that the group does not know any more."""
        self.member_id, self.epoch, self.leader, self.members = "", -1, False, ()


@dataclass(slots=True)
class World:
    chance: random.Random
    tier: Driver
    members: list[Member] = field(default_factory=list)
    waiting: dict[int, tuple[Member, str]] = field(default_factory=dict)
    """The member that waits, and for what, by the request's token."""
    offsets: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    committed: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    version: int = 1
    topic_ids: dict[str, int] = field(default_factory=lambda: {"t": 1, "u": 2})

    def step(self) -> None:
        steps = {
            self.join: 8,
            self.sync: 10,
            self.heartbeat: 4,
            self.consumer_join: 4,
            self.consumer_beat: 12,
            self.leave: 2,
            self.commit_offsets: 8,
            self.delete_offsets: 1,
            self.delete_group: 1,
            self.pass_time: 6,
            self.commit: 8,
            self.fail_over: 1,
            self.recreate_topic: 1,
        }
        self.chance.choices(list(steps), list(steps.values()))[0]()
        self.learn()

    def a_member(self, *, consumer: bool | None = None, joined: bool = True) -> Member:
        """Choose one of the clients, now and then an unknown one."""
        known = [m for m in self.members if consumer is None or m.consumer is consumer]
        known = [m for m in known if m.epoch > 0 or not joined]
        if known and self.chance.random() < 0.95:
            return self.chance.choice(known)
        return Member(self.chance.choice(GROUPS), "stranger", self.chance.randrange(4))

    # The clients' steps.

    def join(self) -> None:
        member = Member(self.chance.choice(CLASSIC_GROUPS), "")
        if self.chance.random() < 0.8:
            member = self.a_member(consumer=False, joined=False)
        body = JoinGroupRequest(
            member.group_id, 10_000, 30_000, member.member_id, None, "consumer", (("range", SUBSCRIPTION),)
        )
        self.waiting[self.tier.send(api_keys.JOIN_GROUP, body, 9)] = (member, "join")

    def sync(self) -> None:
        member = self.a_member(consumer=False)
        assignments = tuple((m, m.encode()) for m in member.members) if member.leader else ()
        body = SyncGroupRequest(
            member.group_id, member.epoch, member.member_id, None, "consumer", "range", assignments
        )
        self.waiting[self.tier.send(api_keys.SYNC_GROUP, body, 5)] = (member, "sync")

    def heartbeat(self) -> None:
        member = self.a_member(consumer=False)
        body = HeartbeatRequest(member.group_id, member.epoch, member.member_id)
        error = self.tier.ask(api_keys.HEARTBEAT, body, 4).error_code
        assert error in {0, 22, 25, 27}
        if error == 25:
            member.start_over()

    def consumer_join(self) -> None:
        member = Member(self.chance.choice(CONSUMER_GROUPS), f"m{self.chance.randrange(4)}", 0, consumer=True)
        names = self.chance.choice([("t",), ("u",), ("t", "u")])
        body = ConsumerGroupHeartbeatRequest(
            member.group_id, member.member_id, 0, None, None, 30_000, names, topic_partitions=()
        )
        self.beat(member, body)

    def consumer_beat(self) -> None:
        member = self.a_member(consumer=True)
        names = self.chance.choice([None] * 8 + [("t",), ("t", "u")])
        owned = self.chance.choice([None, member.owned])
        epoch = max(member.epoch, 1)
        body = ConsumerGroupHeartbeatRequest(
            member.group_id, member.member_id, epoch, None, None, -1, names, topic_partitions=owned
        )
        self.beat(member, body)

    def beat(self, member: Member, body: ConsumerGroupHeartbeatRequest) -> None:
        answer = self.tier.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        assert answer.error_code in {0, 25, 69, 110, 111}, answer
        if answer.error_code:
            self.members = [m for m in self.members if m is not member]
            return
        member.epoch = answer.member_epoch
        member.owned = member.owned if answer.assignment is None else answer.assignment
        if body.member_epoch == 0:
            twins = (member.group_id, member.member_id)
            self.members = [m for m in self.members if (m.group_id, m.member_id) != twins]
            self.members.append(member)

    def leave(self) -> None:
        member = self.a_member()
        self.members = [m for m in self.members if m is not member]
        if member.consumer and self.chance.random() < 0.5:
            self.beat(member, ConsumerGroupHeartbeatRequest(member.group_id, member.member_id, -1))
            return
        body = LeaveGroupRequest(member.group_id, (LeavingMember(member.member_id),))
        assert self.tier.ask(api_keys.LEAVE_GROUP, body, 5).error_code == 0

    def commit_offsets(self) -> None:
        member = self.a_member()
        if self.chance.random() < 0.2:
            member = Member(self.chance.choice(GROUPS), "")
        topic = self.chance.choice(TOPICS)
        offsets = {p: self.chance.randrange(1, 1_000) for p in self.chance.sample(range(PARTITIONS + 1), 2)}
        errors = self.tier.commit_offsets(
            member.group_id, topic, offsets, generation=member.epoch, member_id=member.member_id
        )
        for partition, error in errors.items():
            assert error in ({3} if partition == PARTITIONS else {0, 22, 25, 27, 69, 113})
            if error == 0:
                self.offsets[member.group_id, topic, partition] = offsets[partition]

    # The steps of administrators, and faults.

    def delete_offsets(self) -> None:
        group_id, topic = self.chance.choice(GROUPS), self.chance.choice(TOPICS)
        answer = self.tier.delete_offsets(group_id, topic, *range(PARTITIONS))
        assert answer.error_code in {0, 69}
        for name, errors in answer.topics:
            for partition, error in errors:
                assert error in {0, 86}
                if error == 0:
                    self.offsets.pop((group_id, name, partition), None)

    def delete_group(self) -> None:
        group_id = self.chance.choice(GROUPS)
        [error] = self.tier.delete_groups(group_id).values()
        assert error in {0, 68, 69}
        if error == 0:
            self.offsets = Counter({key: o for key, o in self.offsets.items() if key[0] != group_id})
            assert group_id not in {group.group_id for group in self.tier.list_groups()}

    def pass_time(self) -> None:
        spans_ms = {10: 8, 500: 8, 1_100: 8, 3_000: 4, 12_000: 1, 50_000: 1}
        self.tier.advance(self.chance.choices(list(spans_ms), list(spans_ms.values()))[0])

    def commit(self) -> None:
        self.tier.commit()
        self.committed = self.offsets.copy()

    def fail_over(self) -> None:
        self.tier.fail_over()
        self.offsets = self.committed.copy()

    def recreate_topic(self) -> None:
        self.version += 1
        name = self.chance.choice(TOPICS)
        self.topic_ids[name] = 10 * self.version
        topics = tuple(TopicImage(topic_id(i), n, (0,) * PARTITIONS) for n, i in self.topic_ids.items())
        features = self.tier.image.features
        self.tier.set_image(MetadataImage(version=self.version, topics=topics, features=features))
        self.offsets = Counter({key: o for key, o in self.offsets.items() if key[1] != name})
        # A new replica may never have seen the old topic: let the tombstones be written and committed.
        self.tier.advance(2 * SLOT_MS)
        self.commit()

    # What clients learn from answers that came late.

    def learn(self) -> None:
        for token in [token for token in self.waiting if token in self.tier.replies]:
            member, what = self.waiting.pop(token)
            answer = self.tier.replies[token]
            if what == "sync":
                assert answer.error_code in {0, 16, 22, 23, 25, 27}, answer
                if answer.error_code == 25:
                    member.start_over()
                continue
            assert isinstance(answer, JoinGroupResponse)
            assert answer.error_code in {0, 16, 22, 23, 25, 27, 79}, answer
            if answer.error_code in {0, 79}:
                self.joined(member, answer)
            elif answer.error_code == 25:
                member.start_over()

    def joined(self, member: Member, answer: JoinGroupResponse) -> None:
        member.member_id = answer.member_id
        member.epoch = answer.generation_id
        member.leader = answer.member_id == answer.leader
        member.members = tuple(member_id for member_id, _, _ in answer.members)
        if member not in self.members:
            self.members.append(member)

    # Checks.

    def check(self) -> None:
        live = self.tier.records()
        restored = self.tier.restored()
        assert dict(one_by_one(restored.records())) == live
        assert described(restored, self.tier.now_ms) == described(self.tier.shard, self.tier.now_ms)
        found = Counter({(g, t, p): o for g in GROUPS for (t, p), o in self.tier.offsets(g).items()})
        assert found == self.offsets
        self.check_owners(live)
        listed = [group.group_id for group in self.tier.list_groups()]
        assert len(listed) == len(set(listed))
        assert {group.group_state for group in self.tier.list_groups()} <= STATES
        assert {key[1] for key in live} <= set(listed)

    def check_owners(self, live: dict[Any, Any]) -> None:
        """Check that no partition has two owners in a group, those that have still to give it up included
        (M12)."""
        owners: Counter[tuple[str, bytes, bytes]] = Counter()
        for key, value in live.items():
            if key[0] != CURRENT_MEMBER_ASSIGNMENT:
                continue
            assert isinstance(value, CurrentAssignmentValue)
            for topic, partitions in (*value.assigned, *value.pending_revocation):
                for at in range(0, len(partitions), 4):
                    owners[key[1], topic, partitions[at : at + 4]] += 1
        assert not owners or max(owners.values()) == 1, [who for who, n in owners.items() if n > 1]


def described(shard: CoordinatorShard, now_ms: int) -> list[Any]:
    """The consumer groups with what is derived from their records (state, assignor), in a fixed order."""
    body = ConsumerGroupDescribeRequest(CONSUMER_GROUPS)
    request = Request(0, api_keys.CONSUMER_GROUP_DESCRIBE, 1, "", "", body)
    [reply] = shard.handle(request, now_ms).replies
    found = [group for group in reply.body.groups if group.error_code == 0]
    return [group._replace(members=tuple(sorted(group.members))) for group in found]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_histories(seed: int) -> None:
    """Offsets are as acknowledged, each partition has one owner, undo and failover are exact (O1 to O17, R2,
    R4, C26, M12, M26)."""
    settings = GroupSettings(group_initial_rebalance_delay_ms=1_000, group_rebalance_batch_max_ms=0)
    image = image_of(1, t=PARTITIONS, u=PARTITIONS)
    image.features = Features(1, ((GROUPD_VERSION, 1 + seed % LEVEL_MAX),))
    world = World(random.Random(seed), Driver(image, settings))
    for _ in range(STEPS):
        world.step()
        world.check()
    assert sum(world.offsets.values()) or world.tier.replies
