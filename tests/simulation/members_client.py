"""Clients that are members of groups: fake members of the classic protocol (eager) and of KIP-848.

They commit for what they own, also before they give anything up, leave now and then and come back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from actors.coordinator.ground import partitions
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from bench.member import classic, consumer
from bench.member.classic import Owned
from bench.member.member import NEWEST, Asked
from bench.member.member import Member as FakeMember
from bench.member.reactions import Reaction
from tests.simulation.asked import Ask
from tests.simulation.clients import Client, Script, Step, commit_ask, fetch_ask
from tests.simulation.machines import PARTITIONS, REBALANCE_MS, SESSION_MS, TOPIC
from tests.simulation.parts import World

JOIN_TIMEOUT_S = 1.4
"""The rebalance timeout and some more, as the Java client waits for a join."""
INTERVAL_S = 0.1
AWAY_S = 0.2
"""How long a member that left stays away."""
CONSUMER_REBALANCE_MS = 60_000
"""Longer than a run: nobody is fenced for being slow to give up partitions."""
HANG_UP_S = 0.03
HANGING_UP = 0.05
"""How often, and how soon, a client closes the connection on which its heartbeat may be held."""
LEAVING = 0.06
"""The probability that a member that is well leaves."""
COMMITTING = 0.5
"""The probability that a member commits after a heartbeat."""
HEARTBEATS = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)


class Dealt:
    """An Assignor of one topic: members in order of their ids take partitions in turn, as packed numbers."""

    protocol_type = "consumer"
    name = "range"
    is_cooperative = False

    def metadata(self, owned: Owned, generation_id: int) -> bytes:
        return b"\0\0"

    def share_out(self, members: Sequence[tuple[str, str | None, bytes]]) -> dict[str, bytes]:
        names = sorted(member_id for member_id, _, _ in members)
        return {
            name: partitions.pack(range(place, PARTITIONS, len(names))) for place, name in enumerate(names)
        }

    def read(self, assignment: bytes) -> Owned:
        return {TOPIC: partitions.unpack(assignment)}


class Member(Client):
    """A client that asks what its fake member has to ask."""

    def __init__(self, world: World, name: str, group_id: str, member: FakeMember) -> None:
        super().__init__(world, name)
        self.group_id = group_id
        self._fake = member
        self.is_settled = False
        self._serial = 0

    @property
    def epoch(self) -> int:
        return self._fake.epoch

    @property
    @abstractmethod
    def owned(self) -> tuple[int, ...]:
        """Return the partitions that the member owns of the one topic."""

    def script(self) -> Script:
        while True:
            asked = self._fake.next_request(self.world.now)
            if asked is None:
                yield self._fake.next_deadline - self.world.now
                continue
            began_at = self.world.now
            answer = yield from self.once(self._request(asked))
            if answer is None:
                self._fake.unanswered()
            elif (reaction := self._fake.received(answer)) is Reaction.FINE:
                yield from self._is_served(asked, began_at)
            else:
                yield from self._is_refused(reaction)

    def _is_served(self, asked: Asked, began_at: float) -> Step:
        if not isinstance(asked, HEARTBEATS):
            return
        self.well_at = began_at
        if self._chance(LEAVING):
            yield from self._leave()
        elif self.world.chance.random() < COMMITTING:
            yield from self._commit()

    def _is_refused(self, reaction: Reaction) -> Step:
        self.is_settled = False
        if reaction is Reaction.REJOIN:
            yield from self._commit()
        elif reaction is not Reaction.UNNAMED:
            if reaction is Reaction.GIVE_UP:
                self._fake.lose()
            yield INTERVAL_S / 2

    def _commit(self) -> Step:
        """Commit for all that is owned; a refusal says what to do next, and so will the next heartbeat."""
        if self.owned:
            yield from self.once(self._commit_ask())

    def _commit_ask(self) -> Ask:
        """Make a commit for all that is owned. Those without metadata are known after the first."""
        self._serial += 1
        text = f"{self.name}-{self._serial}" if self._serial % 3 == 0 else ""
        offsets = dict.fromkeys(self.owned, (self._serial, text))
        return commit_ask(self.group_id, offsets, self.epoch, self._fake.member_id)

    def _leave(self) -> Step:
        """The member leaves, and comes back as another one. It may have one more commit under way."""
        late = self._commit_ask() if self.owned else None
        asked = self._fake.leave()
        assert asked is not None, "it is well"
        self._fake.lose()
        self.is_settled = False
        yield from self.once(self._request(asked))
        if late is not None:
            yield from self.once(late)
        yield AWAY_S

    def _request(self, asked: Asked) -> Ask:
        ask = Ask(*NEWEST[type(asked)], asked)
        if isinstance(asked, (JoinGroupRequest, SyncGroupRequest)):
            return ask._replace(timeout_s=JOIN_TIMEOUT_S)
        hangs_up = isinstance(asked, HEARTBEATS) and self._chance(HANGING_UP)
        return ask._replace(timeout_s=HANG_UP_S) if hangs_up else ask

    def _chance(self, share: float) -> bool:
        """Whether something happens that happens so often, as long as there are faults."""
        return not self.world.is_healed and self.world.chance.random() < share


class ClassicMember(Member):
    """A client of the classic protocol."""

    def __init__(self, world: World, name: str, group_id: str) -> None:
        terms = classic.ClassicTerms(group_id, Dealt(), SESSION_MS, REBALANCE_MS, INTERVAL_S)
        self._member = classic.ClassicMember(terms)
        super().__init__(world, name, group_id, self._member)

    @property
    def owned(self) -> tuple[int, ...]:
        return self._member.owned.get(TOPIC, ())

    def _is_served(self, asked: Asked, began_at: float) -> Step:
        self.is_settled = not self._member.needs_join
        if isinstance(asked, SyncGroupRequest) and self.owned:
            yield from self.once(fetch_ask(self.group_id, self.owned))
        yield from super()._is_served(asked, began_at)


class ConsumerMember(Member):
    """A client of KIP-848. What is taken away is given up before the next heartbeat says so."""

    def __init__(self, world: World, name: str, group_id: str, assignor: str | None) -> None:
        self._terms = consumer.ConsumerTerms(group_id, (TOPIC,), CONSUMER_REBALANCE_MS, assignor)
        self._member = consumer.ConsumerMember(self._terms, f"member-{name}")
        super().__init__(world, name, group_id, self._member)

    @property
    def owned(self) -> tuple[int, ...]:
        return tuple(number for _, packed in self._member.owned for number in partitions.unpack(packed))

    def _request(self, asked: Asked) -> Ask:
        self.world.answers.histories.keeps(self.group_id, self._member.member_id, set(self.owned))
        return super()._request(asked)

    def _is_served(self, asked: Asked, began_at: float) -> Step:
        self.is_settled = self._member.target is None
        if self._member.revoked:
            yield from self._commit()
        self._member.reconcile()
        yield from super()._is_served(asked, began_at)

    def _leave(self) -> Step:
        yield from super()._leave()
        self._member.member_id = f"member-{self.name}-{self.world.new_id()}"  # as after a restart


def is_stable(members: list[Member]) -> bool:
    """All of a group's members have their share, and together everything; save what one was given in answer
    to a request that it had given up, and that was late: it is not told again (M18), by Kafka neither."""
    shares = [partition for member in members for partition in member.owned]
    missed = any(member.name in member.world.answers.missed for member in members)
    is_whole = len(set(shares)) == len(shares) if missed else sorted(shares) == list(range(PARTITIONS))
    return is_whole and all(member.is_settled for member in members)
