"""Drives the classic area as its host does: applies records, keeps replies, fires timers, fails over.

The host that this stands in for is `actors.replica.replica`; here every record is committed at once.
"""

from __future__ import annotations

from typing import Any

import msgpack
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.area import AREA
from actors.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from actors.coordinator.classic.protocols import offered_names
from actors.coordinator.classic.state import classic_groups, stored_groups
from actors.coordinator.ground.batching import ALONE_MS
from actors.coordinator.ground.state import ShardState
from actors.coordinator.kinds import KINDS
from actors.coordinator.refusals import refusal
from actors.ground.contract import Record, Request, Result, Token
from actors.ground.image import MetadataImage
from actors.ground.records import GROUP_METADATA, ClassicMemberValue, GroupMetadataValue
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

GROUP = "orders"
START_MS = 1_000_000
PROTOCOLS = (("range", b"\0\1range"), ("sticky", b"\0\1sticky"))
BATCHING = GroupSettings(group_initial_rebalance_delay_ms=0)
NO_DELAY = GroupSettings(group_initial_rebalance_delay_ms=0, group_rebalance_batch_max_ms=0)
"""Nobody waits for others who may come."""
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Driver:
    """One shard's classic groups, with a clock that only `advance` moves."""

    def __init__(self, settings: GroupSettings = NO_DELAY) -> None:
        self.settings = settings
        self.now_ms = START_MS
        self.replies: dict[Token, Any] = {}
        self.events: list[Any] = []
        self.records: list[Record] = []
        self.log: list[Record] = []
        self._next_token = 0
        self._next_id = 0
        self.state = self._new_state()

    def _new_state(self) -> ShardState:
        return ShardState(self.settings, self._new_id, MetadataImage(), KINDS)

    def _new_id(self) -> str:
        self._next_id += 1
        return f"uuid{self._next_id}"

    # Requests. Each returns its token; `reply` gives the answer, None while it is parked.

    def send(self, api_key: int, body: Any, version: int, client_id: str = "c") -> Token:
        self._next_token += 1
        request = Request(self._next_token, api_key, version, client_id, "/127.0.0.1", body)
        try:
            self._carry_out(AREA.handlers[api_key](self.state, request, self.now_ms))
        except GroupError as error:
            self._note(request.token, refusal(request, error.error_code, error.message))
        return request.token

    def join(self, member_id: str = "", *, version: int = 9, client_id: str = "c", **fields: Any) -> Token:
        values: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": member_id,
            "group_instance_id": fields.pop("instance", None),
            "protocol_type": "consumer",
            "protocols": PROTOCOLS,
        }
        body = JoinGroupRequest(**(values | fields))
        return self.send(api_keys.JOIN_GROUP, body, version, client_id)

    def sync(self, member_id: str, generation: int, **fields: Any) -> Token:
        values: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": generation,
            "member_id": member_id,
            "group_instance_id": fields.pop("instance", None),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": tuple(fields.pop("assignments", {}).items()),
        }
        version = fields.pop("version", 5)
        return self.send(api_keys.SYNC_GROUP, SyncGroupRequest(**(values | fields)), version)

    def beat(
        self, member_id: str, generation: int, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        body = HeartbeatRequest(group, generation, member_id, instance)
        error: ErrorCode = self.replies[self.send(api_keys.HEARTBEAT, body, 4)].error_code
        return error

    def leave(self, *members: LeavingMember | str, group: str = GROUP) -> LeaveGroupResponse:
        batch = tuple(LeavingMember(member) if isinstance(member, str) else member for member in members)
        token = self.send(api_keys.LEAVE_GROUP, LeaveGroupRequest(group, batch), 5)
        answer: LeaveGroupResponse = self.replies[token]
        return answer

    # Answers and state.

    def joined(self, token: Token) -> JoinGroupResponse:
        answer = self.replies[token]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def synced(self, token: Token) -> SyncGroupResponse:
        answer = self.replies[token]
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def parked(self, token: Token) -> bool:
        return token not in self.replies

    @property
    def group(self) -> ClassicGroup:
        return classic_groups(self.state)[GROUP]

    # Longer moves.

    def new_member(self, **fields: Any) -> Token:
        """A version 3 join, which needs no second round."""
        return self.join(version=3, **fields)

    def stable_group(self, *client_ids: str, **fields: Any) -> list[str]:
        """A Stable group with a member for each client id; the first leads."""
        tokens = [self.new_member(client_id=client_id, **fields) for client_id in client_ids]
        while any(self.parked(token) for token in tokens):
            self.rejoin_all(**fields)
            self.advance(self.settings.group_initial_rebalance_delay_ms or ALONE_MS)
        members = list(self.group.members)
        self.sync_all()
        return members

    def rejoin_all(self, **fields: Any) -> dict[str, Token]:
        """Every member that is not waiting already joins again."""
        waiting = [member for member in self.group.members.values() if member.join_token is None]
        return {
            member.member_id: self.join(member.member_id, instance=member.group_instance_id, **fields)
            for member in waiting
        }

    def sync_all(self) -> dict[str, Token]:
        """Every member syncs, the leader last; it gives each the assignment b"for <member id>"."""
        group = self.group
        members = sorted(group.members, key=lambda member_id: member_id == group.leader)
        assignments = {member_id: b"for " + member_id.encode() for member_id in members}
        names = {"protocol_type": group.protocol_type, "protocol_name": group.protocol_name}
        return {
            member_id: self.sync(
                member_id,
                group.generation,
                assignments=assignments if member_id == group.leader else {},
                **names,
            )
            for member_id in members
        }

    # Time and failure.

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing each timer when the host would."""
        end_ms = self.now_ms + by_ms
        timers = self.state.timers
        while (due_ms := timers.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            key = timers.pop_due(self.now_ms)
            if key is not None:
                assert isinstance(key, tuple)
                self._carry_out(AREA.timers[key[0]](self.state, key, self.now_ms))
        self.now_ms = end_ms

    def fail_over(self, settings: GroupSettings | None = None) -> None:
        """Another replica leads: it has the records and nothing else. The host answers whoever is parked."""
        snapshot = [(_wire(key), _wire(value)) for key, value in AREA.records(self.state)]
        self.settings = settings or self.settings
        self.state = self._new_state()
        for key, value in snapshot:
            value_type = GroupMetadataValue if key[0] == GROUP_METADATA else ClassicMemberValue
            AREA.appliers[key[0]](self.state, key, value_type(*value))
        self._carry_out(AREA.on_elected(self.state, self.now_ms))

    def carry_out(self, records: list[Record]) -> None:
        """Records that another area would have put into its Result."""
        self._carry_out(Result(records))

    def _carry_out(self, result: Result) -> None:
        self.records = list(result.records)
        for key, value in result.records:
            AREA.appliers[key[0]](self.state, key, value)
        self.log += result.records
        self.events += result.events
        for reply in result.replies:
            assert reply.group_id is not None
            self._note(reply.token, reply.body)
        for group in classic_groups(self.state).values():
            check_invariants(self.state, group)
        known = [key for group in classic_groups(self.state).values() for key in timer_keys(group)]
        assert len(self.state.timers) == sum(key in self.state.timers for key in known)

    def _note(self, token: Token, body: Any) -> None:
        assert token not in self.replies, "a request has one answer"
        self.replies[token] = body


def _wire(value: tuple[Any, ...] | None) -> Any:
    return msgpack.unpackb(msgpack.packb(value), use_list=False)


def timer_keys(group: ClassicGroup) -> list[tuple[str, ...]]:
    """Every timer that may belong to the group; no other may run."""
    sessions = [member.session_key for member in group.members.values()]
    return [group.join_key, group.sync_key, *sessions, *group.pending_joins.values()]


def check_invariants(state: ShardState, group: ClassicGroup) -> None:
    """What holds for a live group after every step."""
    members = group.members.values()
    assert group.parked_joins == sum(member.join_token is not None for member in members)
    newcomers = [member for member in members if member.is_new]
    assert all(member.join_token is not None for member in newcomers)
    assert group.changes == 0 or group.has_working_members
    if group.state is not PREPARING_REBALANCE:
        assert group.parked_joins == len(newcomers)
        assert not newcomers or group.changes > 0
    assert group.state is COMPLETING_REBALANCE or all(member.sync_token is None for member in members)
    assert (group.state is not EMPTY) or not group.members
    assert group.members or group.state in (EMPTY, PREPARING_REBALANCE)
    assert (group.leader in group.members) if group.members else group.leader is None
    assert set(group.pending_syncs) <= set(group.members)
    assert not set(group.pending_joins) & set(group.members)
    statics = {
        member.group_instance_id: member.member_id
        for member in members
        if member.group_instance_id is not None
    }
    assert group.static_members == statics
    offers = [name for member in members for name in offered_names(member.protocols)]
    assert group.supported == {name: offers.count(name) for name in set(offers)}
    for member in members:
        assert member.session_key in state.timers or member.is_waited_for()
    for key in group.pending_joins.values():
        assert key in state.timers
    waits = group.state is PREPARING_REBALANCE or group.changes > 0
    assert (group.join_key in state.timers) == waits
    assert (group.sync_key in state.timers) == (len(group.pending_syncs) > 0)
    stored = stored_groups(state)[group.group_id]
    assert stored.metadata is not None
    if group.state in (STABLE, EMPTY) and not group.changes:
        assert {member.member_id: member.value() for member in members} == stored.members
        assert stored.metadata.generation == group.generation
        assert stored.metadata.leader == group.leader
