"""Consumers of either protocol for a shard: fake members that do one thing at a time.

The partitions that they own are those that are read in the group.
"""

from __future__ import annotations

from actors.coordinator.ground import partitions as sets
from actors.ground.contract import Token
from bench.member.assigning import CLASSIC_COOPERATIVE, CLASSIC_RANGE, Sharing
from bench.member.classic import ClassicMember, ClassicTerms
from bench.member.consumer import ConsumerMember, ConsumerTerms
from bench.member.member import NEVER, NEWEST, Asked
from bench.member.reactions import Reaction
from tests.coordinator.consumer.migration.driver import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    Both,
    numbers_of,
)

PARTITIONS = range(6)


class Client:
    """A consumer. It heartbeats whenever it has nothing else to do."""

    def __init__(self, both: Both, member: ClassicMember | ConsumerMember) -> None:
        self.both = both
        self.instance_id = member.instance_id
        self._member = member
        self._waits_for: Token | None = None

    @property
    def owned(self) -> tuple[int, ...]:
        """The partitions that the consumer reads: assigned ones at once, and revoked ones until it has
        acknowledged that."""
        member = self._member
        if isinstance(member, ClassicMember):
            return member.owned.get(TOPIC, ())
        return numbers_of(sets.union(member.owned, member.target or ()))

    def step(self) -> None:
        """Send the next request, unless an answer is still to come, and look for the answer."""
        if self._waits_for is None:
            asked = self._member.next_request(NEVER)
            assert asked is not None, "it waits for no answer"
            self._waits_for = self._send(asked)
        answer = self.both.replies.get(self._waits_for)
        if answer is not None:
            self._waits_for = None
            if self._member.received(answer) is Reaction.GIVE_UP:
                self._member.lose()

    def stop(self) -> None:
        """Stop the consumer. A static member of the classic protocol sends nothing, because it will be
        back."""
        asked = self._member.leave()
        self._member.lose()
        if asked is not None:
            self._send(asked)

    def _send(self, asked: Asked) -> Token:
        api_key, version = NEWEST[type(asked)]
        return self.both.send(api_key, asked, version)


def classic(both: Both, *, cooperative: bool, instance_id: str | None = None) -> Client:
    """Make a consumer of the classic protocol, eager or cooperative."""
    protocol = CLASSIC_COOPERATIVE if cooperative else CLASSIC_RANGE
    sharing = Sharing(protocol, (TOPIC,), lambda topics: dict.fromkeys(topics, len(PARTITIONS)))
    terms = ClassicTerms(GROUP, sharing, SESSION_MS, REBALANCE_MS)
    return Client(both, ClassicMember(terms, instance_id))


def modern(both: Both, member_id: str, instance_id: str | None = None) -> Client:
    """Make a consumer of the consumer protocol."""
    terms = ConsumerTerms(GROUP, (TOPIC,), REBALANCE_MS)
    return Client(both, ConsumerMember(terms, member_id, instance_id))
