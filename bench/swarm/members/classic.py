"""A member of a classic group, as Java's consumer is one: eager (range, opaque) or cooperative (KIP-429)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from actors.protocol.messages import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from bench.member import answers, classic
from bench.member.assigning import CLASSIC_COOPERATIVE, Sharing
from bench.member.reactions import CLASSIC_REACTIONS, Reaction
from bench.member.requests import encoded
from bench.swarm.members.asking import JOINING, STABLE
from bench.swarm.members.member import Heartbeat, Member
from bench.swarm.members.processing import plain
from bench.swarm.planning.plan import MemberPlan
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.connection import REQUEST_TIMEOUT_S
from storage.history.calls import Call

JOIN_GRACE_S: Final = 5.0
"""Kafka's clients wait for JoinGroup as long as a rebalance may take, and so much longer."""


class ClassicMember(Member):
    """A classic member: it joins whenever it has to, and sends heartbeats in between."""

    reactions = CLASSIC_REACTIONS

    def __init__(self, plan: MemberPlan, life: int, shared: Shared) -> None:
        self._member = classic.ClassicMember(
            classic.ClassicTerms(
                plan.group_id,
                Sharing(plan.protocol, plan.topics, shared.catalogue.of),
                plan.session_timeout_ms,
                plan.rebalance_timeout_ms,
                plan.heartbeat_interval_ms / 1000,
            ),
            plan.instance_id,
        )
        super().__init__(plan, life, shared, self._member)
        self._leads: Mapping[str, int] = {}
        """How many partitions the topics had that the member shared out as leader."""

    @property
    def is_cooperative(self) -> bool:
        return self.plan.protocol == CLASSIC_COOPERATIVE

    def settle(self) -> bool:
        if self._member.is_leader and self._leads != self._partitions():
            self._member.needs_join = True
        if not self._member.needs_join:
            return False
        self.become(JOINING)
        if self.owned and self.is_member and self.software.commits_before_join:
            self.commit_all()
        if self._join():
            self._sync()
        return True

    @property
    def is_member(self) -> bool:
        return self.epoch != classic.NO_GENERATION

    def heartbeat(self) -> Heartbeat:
        def read(answer: bytes, call: Call) -> tuple[Call, HeartbeatResponse]:
            told = answers.beaten(answer)
            return call._replace(error_code=int(told.error_code)), told

        timeout_s = self.software.heartbeat_timeout_ms / 1000
        return Heartbeat(encoded(self._member.heartbeat()), self.call(), read, timeout_s)

    def beat_interval_s(self) -> float:
        return self._member.interval_s

    def beaten(self, told: HeartbeatResponse) -> None:
        self.check(told.error_code, dict(self.software.heartbeat_errors))
        if self._member.take(told) is not Reaction.FINE:
            self.take(self._member.owned)

    def lose(self) -> None:
        self._member.lose()
        self.take({})

    def say_goodbye(self) -> bool:
        request = self._member.leave()
        if request is None:
            return False

        def read(answer: bytes, call: Call) -> tuple[Call, int]:
            error_code = answers.left(answer)
            return call._replace(error_code=error_code), error_code

        self.ask(encoded(request), self.call(), read)
        return True

    def _join(self) -> bool:
        """Send JoinGroup. False: the member has to join once more."""
        request = self._member.join()
        self.take(self._member.owned)

        def read(answer: bytes, call: Call) -> tuple[Call, JoinGroupResponse]:
            told = answers.joined(answer)
            return call._replace(error_code=int(told.error_code), told_epoch=told.generation_id), told

        owned = plain(self.owned) if self.is_cooperative else None
        call = self.call()._replace(subscribed=self.plan.topics, owned=owned)
        told = self.ask_and_be_held(encoded(request), call, read, self._join_timeout_s())
        self.check(told.error_code)
        reaction = self._member.take(told)
        self.take(self._member.owned)
        return reaction is Reaction.FINE

    def _sync(self) -> None:
        if self._member.is_leader:
            self._leads = self._partitions()

        def read(answer: bytes, call: Call) -> tuple[Call, SyncGroupResponse]:
            told = answers.synced(answer)
            if told.error_code:
                return call._replace(error_code=int(told.error_code)), told
            assigned = self._member.terms.assignor.read(told.assignment)
            return call._replace(told_epoch=call.epoch, assigned=plain(assigned)), told

        call = self.call()._replace(subscribed=self.plan.topics)
        told = self.ask_and_be_held(encoded(self._member.sync()), call, read, self._join_timeout_s())
        self.check(told.error_code)
        reaction = self._member.take(told)
        news = self.take(self._member.owned)
        if reaction is Reaction.FINE:
            self.beat_at = time.monotonic() + self.beat_interval_s()
            if not self._member.needs_join:
                self.become(STABLE, gained=sum(len(numbers) for _, numbers in news))
            self.find_positions(news)

    def _partitions(self) -> Mapping[str, int]:
        return self.shared.catalogue.of(self.plan.topics)

    def _join_timeout_s(self) -> float:
        return max(REQUEST_TIMEOUT_S, self.plan.rebalance_timeout_ms / 1000 + JOIN_GRACE_S)
