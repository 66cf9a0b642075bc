"""A member of a KIP-848 group: one heartbeat does everything, as Java's consumer uses it.

The assignment that the member is told is its target. It owns that when its shell lets it reconcile, at the
latest with the next request, which goes out at once and says so. PURE.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.coordinator.ground import partitions
from actors.ground.records import TopicPartitions
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from bench.member.member import Asked, Member, Told
from bench.member.reactions import CONSUMER_REACTIONS, Reaction

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""The epochs by which a heartbeat says that its member joins or leaves. A static member that leaves for a
while keeps its place (KIP-848)."""


class ConsumerTerms(NamedTuple):
    """The settings that the members of a group have in common."""

    group_id: str
    topics: tuple[str, ...]
    rebalance_timeout_ms: int = 60_000
    server_assignor: str | None = None


class ConsumerMember(Member):
    """A consumer member, which chooses its id itself (version 1 of the heartbeat)."""

    __slots__ = ("_interval_s", "_says_all", "_says_owned", "owned", "target", "terms")

    reactions = CONSUMER_REACTIONS

    def __init__(self, terms: ConsumerTerms, member_id: str, instance_id: str | None = None) -> None:
        super().__init__(member_id, instance_id, JOINS)
        self.terms = terms
        self.owned: TopicPartitions = ()
        self.target: TopicPartitions | None = None
        """The partitions that the member is to own; None: those that it owns."""
        self._interval_s = 0.0
        self._says_all = True
        """Whether the next heartbeat carries all fields: the first one does, and one after anything that went
        wrong."""
        self._says_owned = True

    @property
    def interval_s(self) -> float:
        """Seconds from one heartbeat to the next, as the member was last told."""
        return self._interval_s

    @property
    def revoked(self) -> TopicPartitions:
        """The partitions that the member gives up when it reconciles: it has to commit them before."""
        return () if self.target is None else partitions.difference(self.owned, self.target)

    def reconcile(self) -> None:
        """Own the target; the next heartbeat says so."""
        if self.target is not None:
            self.owned, self.target = self.target, None
            self._says_owned = True

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        terms = self.terms
        request = ConsumerGroupHeartbeatRequest(terms.group_id, self.member_id, self.epoch, self.instance_id)
        if self._says_all:
            request = request._replace(
                rebalance_timeout_ms=terms.rebalance_timeout_ms,
                subscribed_topic_names=terms.topics,
                server_assignor=terms.server_assignor,
                topic_partitions=self.owned,
            )
        elif self._says_owned:
            request = request._replace(topic_partitions=self.owned)
        self._says_all, self._says_owned = (
            True,
            False,
        )  # everything again, unless this one is answered without an error
        return request

    def leave(self) -> ConsumerGroupHeartbeatRequest | None:
        if self.epoch == JOINS:
            return None
        self.epoch = LEAVES if self.instance_id is None else LEAVES_FOR_A_WHILE
        return ConsumerGroupHeartbeatRequest(
            self.terms.group_id, self.member_id, self.epoch, self.instance_id
        )

    def lose(self) -> None:
        self.epoch = JOINS
        self.owned = ()
        self.target = None
        self._says_all = True

    def take(self, answer: Told) -> Reaction:
        assert isinstance(answer, ConsumerGroupHeartbeatResponse), "it asks nothing else"
        reaction = self.reaction(answer.error_code)
        if reaction is Reaction.FINE:
            self._is_served(answer)
        elif reaction is Reaction.LOST:
            self.lose()
        return reaction

    def _is_served(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self._says_all = False
        has_joined = self.epoch == JOINS
        self.epoch = answer.member_epoch
        self._interval_s = answer.heartbeat_interval_ms / 1000
        if answer.assignment is None:
            return
        # A client says that it owns its first assignment even if that is nothing.
        is_news = has_joined or answer.assignment != self.owned
        self.target = answer.assignment if is_news else None

    def _request(self) -> Asked:
        if self.target is not None:
            self.reconcile()
        return self.heartbeat()

    def _is_at_rest(self, reaction: Reaction) -> bool:
        return reaction is Reaction.FINE and self.target is None and not self._says_owned
