"""The live classic group and its transition table. Volatile: only the leader of the partition has it (C26).

Rule 1: whatever affects the state of a group or counts its members is in this file.
Rule 2: this file answers nobody and writes nothing; `classic_rebalance` and the handlers do.

A group that is deleted becomes Dead and leaves the shard's table in the same step, so no request ever meets
a Dead group, and C2's and C17's COORDINATOR_NOT_AVAILABLE for one has no case here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.protocols import (
    CONSUMER_PROTOCOL_TYPE,
    Protocols,
    offered_names,
    subscribed_topics,
    winner,
)
from actors.coordinator.ground.alike import SHARED_CHARS_MAX, alike, shared, shared_bytes, shared_text
from actors.coordinator.ground.batching import Storm
from actors.coordinator.ground.sparse import NONE, put
from actors.ground.contract import Request, Token, new_tuple
from actors.ground.records import ClassicMemberValue, GroupMetadataValue
from actors.protocol.errors import GroupError
from actors.protocol.messages import JoinGroupRequest

MEMBER_ID_REQUIRED_VERSION = 4
"""The first version of JoinGroup whose clients come back with the id they are given (KIP-394)."""
SESSION_TIMER = "classic-session"
"""(kind, group id, member id); a pending member id has one too."""
JOIN_TIMER = "classic-join"
SYNC_TIMER = "classic-sync"


class GroupState(Enum):
    """The states of a classic group (C1); the values are Kafka's names."""

    __hash__ = object.__hash__  # what looks a transition up should not call Enum's, which is Python
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD


class Step(Enum):
    """What moves a group from state to state."""

    __hash__ = object.__hash__
    REBALANCE = "rebalance"
    MEMBERS_JOINED = "members joined"
    NOBODY_JOINED = "nobody joined"
    LEADER_SYNCED = "leader synced"
    DELETED = "deleted"


TRANSITIONS = {
    (EMPTY, Step.REBALANCE): PREPARING_REBALANCE,
    (STABLE, Step.REBALANCE): PREPARING_REBALANCE,
    (COMPLETING_REBALANCE, Step.REBALANCE): PREPARING_REBALANCE,
    (PREPARING_REBALANCE, Step.MEMBERS_JOINED): COMPLETING_REBALANCE,
    (PREPARING_REBALANCE, Step.NOBODY_JOINED): EMPTY,
    (COMPLETING_REBALANCE, Step.LEADER_SYNCED): STABLE,
    (EMPTY, Step.DELETED): DEAD,
    (PREPARING_REBALANCE, Step.DELETED): DEAD,
    (COMPLETING_REBALANCE, Step.DELETED): DEAD,
    (STABLE, Step.DELETED): DEAD,
}
"""C1. A pair that is missing here is a bug, and `ClassicGroup.move` says so."""


class ClassicMember:
    """One member, with the tokens of its parked requests."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_key",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(self, group_id: str, member_id: str, value: ClassicMemberValue) -> None:
        self.member_id = member_id
        self.group_instance_id = value.group_instance_id
        self.client_id = value.client_id
        self.client_host = value.client_host
        self.rebalance_timeout_ms = value.rebalance_timeout_ms
        self.session_timeout_ms = value.session_timeout_ms
        self.protocols: Protocols = value.protocols
        self.assignment = value.assignment
        self.is_new = False
        """C12: its first join is still parked, so a timeout may remove it in spite of that. It is in no
        generation yet, though the group may be Stable (`batching`)."""
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        self.session_key = (SESSION_TIMER, group_id, member_id)
        """The key of its session timer, made once: the steady heartbeat schedules with it."""

    @classmethod
    def joining(cls, request: Request, member_id: str, other: ClassicMember | None = None) -> ClassicMember:
        """Make the member that a JoinGroup describes; what another member of the group has too is kept
        once."""
        body: JoinGroupRequest = request.body
        value = ClassicMemberValue(
            body.group_instance_id,
            request.client_id,
            request.client_host,
            body.rebalance_timeout_ms,
            body.session_timeout_ms,
            body.protocols,
            assignment=b"",
        )
        return cls(body.group_id, member_id, kept_once(value, None if other is None else other.value()))

    def value(self) -> ClassicMemberValue:
        fields = (
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols,
            self.assignment,
        )
        value: ClassicMemberValue = new_tuple(ClassicMemberValue, fields)
        return value

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return what the member sent for this protocol, b"" if nothing."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def is_waited_for(self) -> bool:
        """C12: a parked join or sync counts as a heartbeat, but not a new member's."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)


class ClassicGroup:
    """One group as it is now. Its members are in the order in which they came."""

    __slots__ = (
        "_storm",
        "_supported",
        "changes",
        "current_state_timestamp_ms",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "join_deadline_ms",
        "last_newcomer_ms",
        "last_protocols",
        "leader",
        "members",
        "new_member_added",
        "newcomers",
        "parked_joins",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "slowest_return_ms",
        "state",
        "static_members",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.previous_state = EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: Mapping[str, str] = NONE
        """group instance id -> member id."""
        self.pending_joins: Mapping[str, tuple[str, str, str]] = NONE
        """C7: member ids handed out with MEMBER_ID_REQUIRED -> their session timers' keys."""
        self.pending_syncs: Mapping[str, bool] = NONE
        """C16: who has not synced since the join phase completed, in order."""
        self.parked_joins = 0
        self.last_protocols: Protocols = ()
        """What the last member that rejoined offered: most likely the next one offers the same."""
        self._supported: dict[str, int] | None = None
        """What `supported` says; None while nobody asks, as nobody does of a group at rest."""
        self.subscribed_topics: frozenset[str] | None = None
        """What members had subscribed to when a join phase was last completed (O12); None: unknown."""
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.new_member_added = False
        """C10: somebody came during the initial delay, which therefore may be extended."""
        self.newcomers = 0
        """How many came during this join phase; the next field is when the last of them did."""
        self.last_newcomer_ms = now_ms
        self.slowest_return_ms = 0
        """The longest time that a newcomer of this join phase took to come back with the id it was given."""
        self.join_deadline_ms = now_ms
        """C11: when this join phase is over for those who have not rejoined."""
        self.current_state_timestamp_ms = now_ms
        self._storm: Storm | None = None
        self.changes = 0
        """Joins and leaves of a Stable group that wait for its next rebalance, which `join_key` begins."""

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        return self.state.value

    @property
    def size(self) -> int:
        """How many members it has, those included that wait for their first generation."""
        return len(self.members)

    @property
    def storm(self) -> Storm:
        if self._storm is None:
            self._storm = Storm()
        return self._storm

    @property
    def join_key(self) -> tuple[str, str]:
        """The key of the join timer. It is made when it is needed, as `sync_key`: most groups wait for
        nobody."""
        return JOIN_TIMER, self.group_id

    @property
    def sync_key(self) -> tuple[str, str]:
        return SYNC_TIMER, self.group_id

    def move(self, step: Step, now_ms: int) -> None:
        assert (self.state, step) in TRANSITIONS, self.story(step)
        self.previous_state = self.state
        self._supported = None
        self.state = TRANSITIONS[self.state, step]
        self.current_state_timestamp_ms = now_ms

    def story(self, step: Step) -> str:
        return (
            f"group {self.group_id!r}: no way from {self.state.value} (before: {self.previous_state.value}) "
            f"by {step.value!r}; generation {self.generation}, {len(self.members)} members, "
            f"{self.parked_joins} joins parked, {len(self.pending_joins)} member ids pending"
        )

    def metadata_value(self) -> GroupMetadataValue:
        return GroupMetadataValue(
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.leader,
            self.current_state_timestamp_ms,
        )

    # Members.

    def add(self, member: ClassicMember) -> None:
        """Take a member in; the first one is the leader (C14)."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members = put(self.static_members, member.group_instance_id, member.member_id)
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending_joins = put(self.pending_joins, member.member_id, None)

    def remove(self, member: ClassicMember) -> None:
        """Let a member go; the leader is followed by any other (C14). Its requests are answered before."""
        assert member.join_token is None
        assert member.sync_token is None
        del self.members[member.member_id]
        self._count(member.protocols, -1)
        if member.group_instance_id is not None:
            self.static_members = put(self.static_members, member.group_instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_syncs = put(self.pending_syncs, member.member_id, None)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """C21: a static member came back under a new member id and keeps its role and its assignment."""
        was_leader = self.leader == old.member_id
        owes_sync = old.member_id in self.pending_syncs
        new.assignment = old.assignment
        self.remove(old)
        self.add(new)
        if was_leader:
            self.leader = new.member_id
        if owes_sync:
            self.pending_syncs = put(self.pending_syncs, new.member_id, True)

    def update(self, member: ClassicMember, protocols: Protocols) -> None:
        """Take what a member brings that has joined again."""
        self._count(member.protocols, -1)
        if protocols != self.last_protocols:
            self.last_protocols = protocols
        member.protocols = self.last_protocols
        self._count(protocols, 1)

    def park_join(self, member: ClassicMember, token: Token) -> None:
        assert member.join_token is None
        member.join_token = token
        self.parked_joins += 1

    def take_join(self, member: ClassicMember) -> Token | None:
        """The token of its parked join, which is parked no longer."""
        token = member.join_token
        if token is not None:
            member.join_token = None
            self.parked_joins -= 1
        return token

    def find(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member that a request speaks for. Raises FENCED_INSTANCE_ID if the instance belongs to another
        member id (E5), UNKNOWN_MEMBER_ID if there is no such instance (E6) or member."""
        if group_instance_id is not None:
            mapped = self.static_members.get(group_instance_id)
            if mapped is None:
                raise GroupError(ErrorCode.unknown_member_id)
            if mapped != member_id:
                raise GroupError(ErrorCode.fenced_instance_id)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.unknown_member_id)
        return member

    @property
    def last_member(self) -> ClassicMember | None:
        """The member that came last."""
        return self.members[next(reversed(self.members))] if self.members else None

    @property
    def has_working_members(self) -> bool:
        """Whether the group is Stable and a member works in this generation, which the next one would
        disturb."""
        return self.state is STABLE and any(not member.is_new for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        return self.parked_joins == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The members' longest rebalance timeout (C11), never negative, whatever a member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """C13: keep the leader if it has rejoined, else take any that has. False if nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader = member.member_id
                return True
        return False

    # Protocols.

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """C6. The supported set counts the asking member itself, if it is one already."""
        offered = offered_names(protocols)
        if self.state is EMPTY:
            return protocol_type != "" and offered != ()
        if protocol_type != self.protocol_type:
            return False
        size = len(self.members)
        return size in map(self.supported.get, offered) if size else bool(offered)

    @property
    def supported(self) -> Mapping[str, int]:
        """protocol name -> how many members offer it."""
        if self._supported is None:
            self._supported = {}
            for member in self.members.values():
                self._count(member.protocols, 1)
        return self._supported

    def select_protocol(self) -> str:
        """C15: each member votes for the first of its protocols that all support."""
        size = len(self.members)
        candidates = {name for name, count in self.supported.items() if count == size}
        return winner(
            next((name for name, _ in member.protocols if name in candidates), member.protocols[0][0])
            for member in self.members.values()
        )

    def learn_subscribed_topics(self) -> None:
        """Read the members' subscriptions, when a join phase completes and when the group is rebuilt
        (O12)."""
        self.subscribed_topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: frozenset[str] = frozenset()
        # Most members subscribe to the same: each subscription is read once, and what is read is kept once.
        for metadata in {member.metadata(self.protocol_name) for member in self.members.values()}:
            of_member = subscribed_topics(metadata)
            if of_member is None:
                return None
            topics = of_member if topics <= of_member else topics | of_member
        return topics

    def _count(self, protocols: Protocols, change: int) -> None:
        supported = self._supported
        if supported is None:
            return
        for name in offered_names(protocols):
            count = supported.get(name, 0) + change
            if count:
                supported[name] = count
            else:
                del supported[name]


def kept_once(value: ClassicMemberValue, other: ClassicMemberValue | None) -> ClassicMemberValue:
    """Make a member's value of the objects that other members have, of its own group or of any."""
    value = alike(value, other)
    if value is other:
        return value
    instance_id, client_id, client_host, rebalance_ms, session_ms, protocols, assignment = value
    if sum(len(name) + len(metadata) for name, metadata in protocols) <= SHARED_CHARS_MAX:
        rebalance_ms, session_ms, protocols = shared((rebalance_ms, session_ms, protocols))
    who = instance_id, shared_text(client_id), shared_text(client_host)
    what = rebalance_ms, session_ms, protocols, shared_bytes(assignment)
    kept: ClassicMemberValue = new_tuple(ClassicMemberValue, (*who, *what))
    return kept
