"""A member of a classic group, as Java's consumer is one: eager (range, opaque) or cooperative (KIP-429)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from bench.swarm.members import assigning
from bench.swarm.members.asking import JOINING, STABLE
from bench.swarm.members.member import Heartbeat, Member
from bench.swarm.members.processing import plain
from bench.swarm.planning.plan import CLASSIC_COOPERATIVE, CLASSIC_OPAQUE, MemberPlan
from bench.swarm.planning.reactions import CLASSIC_REACTIONS, Reaction
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.answers import Joined, joined, left, plain_error, synced
from bench.swarm.wire.connection import REQUEST_TIMEOUT_S
from bench.swarm.wire.requests import (
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from storage.history.calls import Call

JOIN_GRACE_S: Final = 5.0
"""Kafka's clients wait for JoinGroup as long as a rebalance may take, and so much longer."""
NOBODY: Final = -1
"""The generation of no member."""


class ClassicMember(Member):
    """Joins whenever it has to; beats in between."""

    reactions = CLASSIC_REACTIONS

    def __init__(self, plan: MemberPlan, life: int, shared: Shared) -> None:
        super().__init__(plan, life, shared)
        self._needs_join = True
        self._leads: Mapping[str, int] | None = None
        """As leader: how many partitions the topics had that it shared out."""

    @property
    def is_cooperative(self) -> bool:
        return self.plan.protocol == CLASSIC_COOPERATIVE

    def settle(self) -> bool:
        if self._leads is not None and self._leads != self._partitions():
            self._needs_join = True
        if not self._needs_join:
            return False
        self.become(JOINING)
        if self.owned and self.epoch != NOBODY and self.software.commits_before_join:
            self.commit_all()
        if not self.is_cooperative:
            self.take({})
        answer = self._join()
        if answer is not None:
            self._sync(answer)
        return True

    @property
    def is_member(self) -> bool:
        return self.epoch != NOBODY

    def heartbeat(self) -> Heartbeat:
        def read(answer: bytes, call: Call) -> tuple[Call, int]:
            error_code = plain_error(answer)
            return call._replace(error_code=error_code), error_code

        timeout_s = self.software.heartbeat_timeout_ms / 1000
        return Heartbeat(heartbeat(self.identity()), self.call(), read, timeout_s)

    def beat_interval_s(self) -> float:
        return self.plan.heartbeat_interval_ms / 1000

    def beaten(self, told: int) -> None:
        self._react(self.check(told, dict(self.software.heartbeat_errors)))

    def lose(self) -> None:
        self.member_id = ""
        self.epoch = NOBODY
        self._leads = None
        self._needs_join = True
        self.take({})

    def say_goodbye(self) -> bool:
        if self.plan.instance_id is not None or not self.member_id:
            return False

        def read(answer: bytes, call: Call) -> tuple[Call, int]:
            error_code = left(answer)
            return call._replace(error_code=error_code), error_code

        self.ask(leave_group(self.identity()), self.call(), read)
        return True

    def _join(self) -> Joined | None:
        """None: once more."""
        raw = assigning.metadata(self.plan.protocol, self.plan.topics, self.owned, self.epoch)
        protocol_type = "connect" if self.plan.protocol == CLASSIC_OPAQUE else "consumer"
        timeouts_ms = self.plan.session_timeout_ms, self.plan.rebalance_timeout_ms
        request = join_group(
            self.plan.group_id,
            self.member_id,
            self.plan.instance_id,
            timeouts_ms,
            (protocol_type, self.plan.protocol, raw),
        )

        def read(answer: bytes, call: Call) -> tuple[Call, Joined]:
            told = joined(answer)
            return call._replace(error_code=told.error_code, told_epoch=told.generation_id), told

        owned = plain(self.owned) if self.is_cooperative else None
        call = self.call()._replace(subscribed=self.plan.topics, owned=owned)
        told = self.ask_and_be_held(request, call, read, self._join_timeout_s())
        reaction = self.check(told.error_code)
        if reaction is Reaction.UNNAMED:
            self.member_id = told.member_id
            return None
        if reaction is not Reaction.FINE:
            self._react(reaction)
            return None
        self.member_id, self.epoch = told.member_id, told.generation_id
        return told

    def _sync(self, told: Joined) -> None:
        is_leader = told.leader == self.member_id
        self._leads = self._partitions() if is_leader else None
        assignments: dict[str, bytes] = {}
        if is_leader:
            joiners = assigning.joiners(self.plan.protocol, told.members)
            topics = {topic for joiner in joiners for topic in joiner.subscription.topics}
            partitions = self.shared.catalogue.of(topics)
            assignments = assigning.share_out(self.plan.protocol, joiners, partitions)

        def read(answer: bytes, call: Call) -> tuple[Call, tuple[int, dict[str, tuple[int, ...]]]]:
            error_code, raw = synced(answer)
            if error_code:
                return call._replace(error_code=error_code), (error_code, {})
            assigned = assigning.read(self.plan.protocol, raw)
            return call._replace(told_epoch=call.epoch, assigned=plain(assigned)), (0, assigned)

        request = sync_group(self.identity(), assignments)
        call = self.call()._replace(subscribed=self.plan.topics)
        error_code, assigned = self.ask_and_be_held(request, call, read, self._join_timeout_s())
        reaction = self.check(error_code)
        if reaction is Reaction.FINE:
            self._is_assigned(assigned)
        else:
            self._react(reaction)

    def _is_assigned(self, assigned: Mapping[str, tuple[int, ...]]) -> None:
        self.beat_at = time.monotonic() + self.plan.heartbeat_interval_ms / 1000
        gives_up = any(set(numbers) - set(assigned.get(topic, ())) for topic, numbers in self.owned.items())
        news = self.take(assigned)
        # KIP-429: whoever gives something up joins again at once, so that it can be given to another.
        self._needs_join = gives_up
        if not gives_up:
            self.become(STABLE, gained=sum(len(numbers) for _, numbers in news))
        self.find_positions(news)

    def _react(self, reaction: Reaction) -> None:
        if reaction is Reaction.REJOIN:
            self._needs_join = True
        elif reaction is Reaction.STALE:
            member_id = self.member_id
            self.lose()
            self.member_id = member_id
        elif reaction is Reaction.LOST:
            self.lose()

    def _partitions(self) -> Mapping[str, int]:
        return self.shared.catalogue.of(self.plan.topics)

    def _join_timeout_s(self) -> float:
        return max(REQUEST_TIMEOUT_S, self.plan.rebalance_timeout_ms / 1000 + JOIN_GRACE_S)
