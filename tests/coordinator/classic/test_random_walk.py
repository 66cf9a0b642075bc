"""One group lives a random life: its invariants hold after each step, and no request waits for ever (C1 to
C27)."""

from __future__ import annotations

import random

import pytest

from actors.coordinator.classic.group import COMPLETING_REBALANCE, PREPARING_REBALANCE
from actors.coordinator.classic.state import classic_groups
from actors.ground.settings import GroupSettings
from actors.protocol.messages import JoinGroupResponse, LeavingMember
from tests.coordinator.classic.driver import RETENTION, Driver

STEPS = 400
PROTOCOLS = (
    (("range", b"1"), ("sticky", b"1")),
    (("sticky", b"2"), ("range", b"2")),
    (("range", b"3"),),
)
INSTANCES = ("s1", "s2", "s3")


class Walk:
    """Clients that send any request at any time, right or wrong."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.driver = Driver(
            GroupSettings(
                group_initial_rebalance_delay_ms=self.chance.choice((0, 3_000)),
                group_max_size=self.chance.choice((3, 6, 1_000)),
                group_rebalance_batch_max_ms=self.chance.choice((0, 25_000)),
            )
        )
        self.rebalance_timeouts_ms = self.chance.choice(((0, 5_000, 60_000), (40_000, 60_000)))
        self.ids: list[str] = [""]
        self.waiting: dict[int, int] = {}
        """The time at which each waiting request was sent (ms), by the request's token."""

    def step(self) -> None:
        self.chance.choice(
            (
                self.join,
                self.join,
                self.sync,
                self.sync_leader,
                self.beat,
                self.leave,
                self.pass_time,
                self.settle,
            )
        )()
        for token in list(self.waiting):
            answer = self.driver.replies.get(token)
            if answer is not None:
                del self.waiting[token]
            if isinstance(answer, JoinGroupResponse) and answer.member_id not in self.ids:
                self.ids.append(answer.member_id)

    def member(self) -> tuple[str, str | None]:
        """Choose a member id, mostly one that is in the group."""
        group = classic_groups(self.driver.state).get("orders")
        if group is not None and group.members and self.chance.random() < 0.8:
            member = self.chance.choice(list(group.members.values()))
            return member.member_id, member.group_instance_id
        return self.chance.choice(self.ids), self.chance.choice((None, *INSTANCES))

    def generation(self) -> int:
        group = classic_groups(self.driver.state).get("orders")
        return (0 if group is None else group.generation) - (self.chance.random() < 0.1)

    def join(self) -> None:
        member_id, instance = self.member()
        if self.chance.random() < 0.3:
            member_id = ""
        token = self.driver.join(
            member_id,
            instance=instance,
            version=self.chance.choice((3, 8, 9)),
            protocols=self.chance.choice(PROTOCOLS),
            rebalance_timeout_ms=self.chance.choice(self.rebalance_timeouts_ms),
        )
        self.waiting[token] = self.driver.now_ms

    def sync(self) -> None:
        member_id, instance = self.member()
        token = self.driver.sync(
            member_id, self.generation(), instance=instance, version=3, protocol_name=None
        )
        self.waiting[token] = self.driver.now_ms

    def sync_leader(self) -> None:
        group = classic_groups(self.driver.state).get("orders")
        if group is not None and group.leader is not None:
            token = self.driver.sync(group.leader, self.generation(), version=3, protocol_name=None)
            self.waiting[token] = self.driver.now_ms

    def beat(self) -> None:
        member_id, instance = self.member()
        self.driver.beat(member_id, self.generation(), instance)

    def leave(self) -> None:
        if self.chance.random() < 0.4:
            self.driver.leave(*(LeavingMember(*self.member()) for _ in range(self.chance.randint(0, 2))))

    def settle(self) -> None:
        """Let all clients do at once what a correct client does."""
        group = classic_groups(self.driver.state).get("orders")
        if group is not None and group.state is PREPARING_REBALANCE:
            self.driver.rejoin_all(protocols=PROTOCOLS[0])
        if group is not None and group.state is COMPLETING_REBALANCE:
            self.driver.sync_all()

    def pass_time(self) -> None:
        self.driver.advance(self.chance.choice((10, 1_000, 4_000, 20_000)))


@pytest.mark.parametrize("seed", range(25))
def test_group_keeps_its_invariants_and_settles(seed: int) -> None:
    """The driver checks the invariants at every step. When no more requests come, all parked ones are
    answered, every member expires, and the group ends Empty, in its records and after a failover."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    driver = walk.driver
    driver.advance(1_000_000)
    assert [token for token in walk.waiting if driver.waits(token)] == []
    assert driver.group.members == {}
    assert driver.group.state.value == "Empty"
    assert len(driver.state.timers) == RETENTION
    generation = driver.group.generation
    driver.fail_over()
    assert (driver.group.state.value, driver.group.generation) == ("Empty", generation)


@pytest.mark.parametrize("seed", range(25, 35))
def test_failover_at_any_moment_gives_a_sound_group(seed: int) -> None:
    """C26: the invariants hold on the new leader too, and the group lives on there."""
    walk = Walk(seed)
    for _ in range(10):
        for _ in range(STEPS // 10):
            walk.step()
        walk.waiting.clear()
        walk.driver.fail_over()
    walk.driver.advance(1_000_000)
    assert all(group.members == {} for group in classic_groups(walk.driver.state).values())
