"""A member is settled if, and only if, the same heartbeat, decided again, would tell it nothing."""

from __future__ import annotations

import random

import pytest

from actors.coordinator.consumer.held import settled
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.member import STABLE
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground import partitions
from actors.coordinator.ground.held import Settled
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request
from actors.ground.records import TopicPartitions
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT
from actors.protocol.messages import ConsumerGroupHeartbeatRequest
from tests.leader.holding import GROUP, SETTINGS, Leader, Member, image

SEEDS = 20
STEPS = 60
NOT_HELD = SETTINGS._replace(group_heartbeat_hold_clients=())


class Walk:
    """A group in which members join, leave, send heartbeats and are assigned partitions by chance."""

    def __init__(self, seed: int) -> None:
        self.leader = Leader(NOT_HELD)
        self.chance = random.Random(seed)
        self.members: list[Member] = []
        self.made = 0
        self.images = 1

    def step(self) -> None:
        leader, chance = self.leader, self.chance
        what = chance.randrange(10)
        if what == 0 or not self.members:
            self.made += 1
            self.members.append(Member(leader, f"m{self.made}"))
            self.members[-1].join()
        elif what == 1 and len(self.members) > 1:
            self.members.pop(chance.randrange(len(self.members))).beat(-1)
        elif what == 2:
            self.images += 1
            leader.set_image(image(self.images, chance.choice((6, 6, 8))))
        elif what <= 6:
            chance.choice(self.members).acknowledge()
        elif what == 7:
            chance.choice(self.members).beat()
        else:
            leader.advance(chance.choice((10, 300, 1_100)))

    def judge(self, member: Member) -> Settled | None:
        """Whether `settled` says of the member what a decision of its heartbeat then shows."""
        leader = self.leader
        shard = leader.replica.shard
        assert isinstance(shard, CoordinatorShard)
        group = consumer_groups(shard.state)[GROUP]
        owned: TopicPartitions = member.assigned
        body = ConsumerGroupHeartbeatRequest(GROUP, member.member_id, member.epoch)
        request = Request(-1, CONSUMER_GROUP_HEARTBEAT, 1, "client", "/127.0.0.1", body)
        found = settled(shard.state, request, owned, leader.now_ms)
        decided = shard.handle(request, leader.now_ms)
        (reply,) = decided.replies
        told = (reply.body.error_code, reply.body.member_epoch, reply.body.assignment)
        says_nothing = told == (0, member.epoch, None)
        if found is not None:
            assert says_nothing, decided
        elif says_nothing and not decided.records and _has_all(group, member):
            # The metadata image is new and has nothing for the group: known once a heartbeat was decided.
            found = settled(shard.state, request, owned, leader.now_ms)
            assert found is not None
        return found


def _has_all(group: ConsumerGroup, member: Member) -> bool:
    known = group.members[member.member_id]
    assert known.current is not None
    return bool(
        known.current.state == STABLE
        and known.current.assigned == (member.assigned or partitions.EMPTY)
        and known.current.member_epoch == group.assignment_epoch
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_member_is_settled_if_its_next_answer_would_say_nothing(seed: int) -> None:
    walk = Walk(seed)
    found: list[Settled | None] = []
    for _ in range(STEPS):
        walk.step()
        found += [walk.judge(member) for member in walk.members if member.assigned is not None]
    assert None in found
    assert any(each is not None and not each.waits for each in found)
