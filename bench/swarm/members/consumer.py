"""A member of a KIP-848 group: beats as often as it is told, gives up what is asked for, and says so."""

from __future__ import annotations

import time
from typing import Final
from uuid import NAMESPACE_OID, uuid5

import gevent

from actors.coordinator.ground import partitions
from actors.ground.records import TopicPartitions
from actors.protocol.messages import ConsumerGroupHeartbeatResponse
from bench.member import answers, consumer
from bench.member.reactions import CONSUMER_REACTIONS, Reaction
from bench.member.requests import encoded
from bench.swarm.members.asking import JOINING, STABLE
from bench.swarm.members.member import Heartbeat, Member
from bench.swarm.members.processing import plain
from bench.swarm.planning.plan import MemberPlan
from bench.swarm.rows.shared import Shared
from storage.history.calls import Call

RESTART_S: Final = 1.0
"""How long it takes until a client is started again whose instance id another member holds."""


class ConsumerMember(Member):
    """A KIP-848 member. It chooses another member id in each life (version 1 of the heartbeat)."""

    reactions = CONSUMER_REACTIONS

    def __init__(self, plan: MemberPlan, life: int, shared: Shared) -> None:
        self._member = consumer.ConsumerMember(
            consumer.ConsumerTerms(plan.group_id, plan.topics, plan.rebalance_timeout_ms),
            str(uuid5(NAMESPACE_OID, f"{shared.run_id}/{plan.name}#{life}")),
            plan.instance_id,
        )
        super().__init__(plan, life, shared, self._member)

    def settle(self) -> bool:
        if self._member.target is not None:
            self._reconcile(self._member.target)
            return True
        if self.epoch == consumer.JOINS:
            self.become(JOINING)
            self._beat_now()
            return True
        return False

    @property
    def is_member(self) -> bool:
        return True  # it joins by a heartbeat

    def heartbeat(self) -> Heartbeat:
        request = self._member.heartbeat()
        owned = request.topic_partitions
        call = self.call()._replace(
            subscribed=request.subscribed_topic_names or (),
            owned=None if owned is None else plain(self._named(owned)),
        )
        software = self.software
        timeout_s = software.heartbeat_timeout_ms / 1000
        if software.consumer_timeout_is_interval and self._member.interval_s:
            timeout_s = self._member.interval_s
        return Heartbeat(encoded(request), call, self._read, timeout_s)

    def beat_interval_s(self) -> float:
        """Seconds from one heartbeat to the next, as the member was last told."""
        return self._member.interval_s

    def beaten(self, told: ConsumerGroupHeartbeatResponse) -> None:
        reaction = self.check(told.error_code)
        if reaction is Reaction.HELD_BY_ANOTHER:
            gevent.sleep(RESTART_S)
            return
        epoch, interval_s = self.epoch, self.beat_interval_s()
        self._member.take(told)
        if reaction is not Reaction.FINE:
            self.take({})
            return
        if self.beat_interval_s() != interval_s:
            self.beat_at = time.monotonic() + self.beat_interval_s()
        if self._member.target == self._member.owned:
            self._member.reconcile()  # its next heartbeat says so, when that is due
        if self._member.target is not None:
            self.become(JOINING)
        elif self.epoch != epoch or self.state == JOINING:
            self.become(STABLE)

    def lose(self) -> None:
        self._member.lose()
        self.take({})

    def say_goodbye(self) -> bool:
        request = self._member.leave()
        if request is None:
            return False
        self.ask(encoded(request), self.call(), self._read)
        return True

    def _beat_now(self) -> None:
        """Join: send a heartbeat and do what its answer asks for before anything else. One member never has
        two heartbeats under way."""
        while self._flights:
            self._flights[0].wait()
            self._land()
        self._take_off()
        self._flights[0].wait()
        self._land()

    def _read(self, answer: bytes, call: Call) -> tuple[Call, ConsumerGroupHeartbeatResponse]:
        told = answers.consumer_beaten(answer)
        assigned = told.assignment
        call = call._replace(
            error_code=int(told.error_code),
            told_epoch=told.member_epoch,
            assigned=None if assigned is None else plain(self._named(assigned)),
        )
        return call, told

    def _named(self, packed: TopicPartitions) -> dict[str, tuple[int, ...]]:
        """Partition numbers by topic."""
        name = self.shared.catalogue.name
        return {name(topic_id): partitions.unpack(numbers) for topic_id, numbers in packed}

    def _reconcile(self, target: TopicPartitions) -> None:
        """Commit and give up what is no longer assigned, take over the rest, and say so at once. Clients go
        on meanwhile: a coordinator with no news for a settled member may hold the answer for seconds."""
        if self._member.revoked:
            self.commit_all()
        news = self.take(self._named(target))
        self._member.reconcile()
        self.beat_at = time.monotonic()
        if self._may_beat():
            self._take_off()
        self.become(STABLE, gained=sum(len(numbers) for _, numbers in news))
        self.find_positions(news)
