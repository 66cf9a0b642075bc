"""A member of a classic group: it joins, syncs and heartbeats as Java's consumer does.

An eager member lets go of everything before it joins again. A cooperative member (KIP-429) keeps what it has,
lets go of what its next assignment lacks, and then joins once more, so that another can be given it. PURE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from actors.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from bench.member.member import Asked, Member, Told
from bench.member.reactions import CLASSIC_REACTIONS, Reaction

Owned = Mapping[str, tuple[int, ...]]
"""The numbers of the owned partitions, by topic."""
NO_GENERATION: Final = -1
"""The generation of a client that is not a member."""


class Assignor(Protocol):
    """What a classic member's client library adds to the protocol: the content of the opaque bytes."""

    @property
    def protocol_type(self) -> str:
        """The protocol type in JoinGroup."""

    @property
    def name(self) -> str:
        """The protocol that the member offers."""

    @property
    def is_cooperative(self) -> bool:
        """Whether a member keeps what it owns while it joins again."""

    def metadata(self, owned: Owned, generation_id: int) -> bytes:
        """The metadata with which a member joins."""

    def share_out(self, members: Sequence[tuple[str, str | None, bytes]]) -> Mapping[str, bytes]:
        """Make the assignment of every member, by its id. `members` are id, instance id and metadata."""

    def read(self, assignment: bytes) -> Owned:
        """Read the partitions of an assignment."""


class ClassicTerms(NamedTuple):
    """The settings that the members of a group have in common."""

    group_id: str
    assignor: Assignor
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_interval_s: float = 3.0


class ClassicMember(Member):
    """A classic member. While `needs_join` is False it has a generation and its assignment."""

    __slots__ = ("_joined", "is_leader", "needs_join", "owned", "terms")

    reactions = CLASSIC_REACTIONS

    def __init__(self, terms: ClassicTerms, instance_id: str | None = None) -> None:
        super().__init__("", instance_id, NO_GENERATION)
        self.terms = terms
        self.owned: Owned = {}
        self.needs_join = True
        self.is_leader = False
        self._joined: JoinGroupResponse | None = None
        """The answer to JoinGroup, until SyncGroup is sent."""

    @property
    def interval_s(self) -> float:
        return self.terms.heartbeat_interval_s

    def join(self) -> JoinGroupRequest:
        """Make JoinGroup; an eager member has given all partitions up before."""
        terms = self.terms
        if not terms.assignor.is_cooperative:
            self.owned = {}
        self._joined = None
        return JoinGroupRequest(
            terms.group_id,
            terms.session_timeout_ms,
            terms.rebalance_timeout_ms,
            self.member_id,
            self.instance_id,
            terms.assignor.protocol_type,
            ((terms.assignor.name, terms.assignor.metadata(self.owned, self.epoch)),),
        )

    def sync(self) -> SyncGroupRequest:
        """Make SyncGroup, after JoinGroup was answered without an error; the leader's has all assignments."""
        joined, self._joined = self._joined, None
        assert joined is not None, "it has joined"
        assignor = self.terms.assignor
        shares: Mapping[str, bytes] = {}
        if self.is_leader and not joined.skip_assignment:
            shares = assignor.share_out(joined.members)
        return SyncGroupRequest(
            self.terms.group_id,
            self.epoch,
            self.member_id,
            self.instance_id,
            assignor.protocol_type,
            assignor.name,
            tuple(shares.items()),
        )

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(self.terms.group_id, self.epoch, self.member_id, self.instance_id)

    def leave(self) -> LeaveGroupRequest | None:
        """Make LeaveGroup; None for a static member, which will be back."""
        if self.instance_id is not None or not self.member_id:
            return None
        return LeaveGroupRequest(self.terms.group_id, (LeavingMember(self.member_id),))

    def lose(self) -> None:
        self.member_id = ""
        self._lose_generation()

    def take(self, answer: Told) -> Reaction:
        reaction = self.reaction(answer.error_code)
        match reaction:
            case Reaction.FINE if isinstance(answer, JoinGroupResponse):
                self._is_in(answer)
            case Reaction.FINE if isinstance(answer, SyncGroupResponse):
                self._is_assigned(self.terms.assignor.read(answer.assignment))
            case Reaction.UNNAMED if isinstance(answer, JoinGroupResponse):
                self.member_id = answer.member_id
            case Reaction.REJOIN:
                self.needs_join = True
            case Reaction.STALE:
                self._lose_generation()
            case Reaction.LOST:
                self.lose()
        return reaction

    def _is_in(self, joined: JoinGroupResponse) -> None:
        self._joined = joined
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        self.is_leader = joined.leader == joined.member_id

    def _is_assigned(self, assigned: Owned) -> None:
        gives_up = any(set(numbers) - set(assigned.get(topic, ())) for topic, numbers in self.owned.items())
        self.owned = assigned
        self.needs_join = gives_up

    def _lose_generation(self) -> None:
        self.epoch = NO_GENERATION
        self.owned = {}
        self.is_leader = False
        self.needs_join = True
        self._joined = None

    def _request(self) -> Asked:
        if not self.needs_join:
            return self.heartbeat()
        return self.join() if self._joined is None else self.sync()

    def _is_at_rest(self, reaction: Reaction) -> bool:
        return reaction is Reaction.FINE and not self.needs_join
