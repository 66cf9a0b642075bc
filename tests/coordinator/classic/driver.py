"""Drives a coordinator's classic groups as their members do, and checks every group after every step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

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
from actors.ground.contract import Record, Result, Token
from actors.ground.image import MetadataImage
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
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
from tests.coordinator.host import Host

GROUP = "orders"
START_MS = 1_000_000
PROTOCOLS = (("range", b"\0\1range"), ("sticky", b"\0\1sticky"))
BATCHING = GroupSettings(group_initial_rebalance_delay_ms=0)
NO_DELAY = GroupSettings(group_initial_rebalance_delay_ms=0, group_rebalance_batch_max_ms=0)
"""Settings by which a rebalance does not wait for further members."""
NEVER_MS = 10**9
RETENTION = 1
"""The key of the one timer that belongs to no group: the next check for expired offsets, which is due after
every test."""
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Driver(Host):
    """Classic groups, with a clock that only `advance` moves; every record is committed at once."""

    def __init__(self, settings: GroupSettings = NO_DELAY) -> None:
        self.decided: list[Record] = []
        """The records that the last decision wrote."""
        self.log: list[Record] = []
        settings = settings._replace(offsets_retention_check_interval_ms=NEVER_MS)
        super().__init__(settings, MetadataImage(), START_MS, "uuid{}")

    # Requests. Each returns its token; `reply` gives the answer, None while it is parked.

    def send(self, api_key: int, body: Any, version: int, client_id: str = "c") -> Token:
        self.decided = []
        return super().send(api_key, body, version, client_id)

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

    def waits(self, token: Token) -> bool:
        return token not in self.replies

    @property
    def group(self) -> ClassicGroup:
        return classic_groups(self.state)[GROUP]

    # Longer moves.

    def new_member(self, **fields: Any) -> Token:
        """Let a client join in version 3, which needs no second request. Returns the member id."""
        return self.join(version=3, **fields)

    def stable_group(self, *client_ids: str, **fields: Any) -> list[str]:
        """Make a Stable group with a member for each client id; the first leads."""
        tokens = [self.new_member(client_id=client_id, **fields) for client_id in client_ids]
        while any(self.waits(token) for token in tokens):
            self.rejoin_all(**fields)
            self.advance(self.settings.group_initial_rebalance_delay_ms or ALONE_MS)
        members = list(self.group.members)
        self.sync_all()
        return members

    def rejoin_all(self, **fields: Any) -> dict[str, Token]:
        """Let every member join again that is not waiting for an answer."""
        waiting = [member for member in self.group.members.values() if member.join_token is None]
        return {
            member.member_id: self.join(member.member_id, instance=member.group_instance_id, **fields)
            for member in waiting
        }

    def sync_all(self) -> dict[str, Token]:
        """Let every member sync, the leader last, which assigns b"for <member id>" to each."""
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

    # What the coordinator tells.

    def fail_over(self, settings: GroupSettings | None = None) -> None:
        """Let another replica lead, which has the records and nothing else."""
        self.commit()
        super().fail_over(settings and settings._replace(offsets_retention_check_interval_ms=NEVER_MS))

    def saw(self, result: Result) -> None:
        super().saw(result)
        self.decided = list(result.records)
        self.log += result.records
        assert all(reply.group_id is not None for reply in result.replies)
        groups = classic_groups(self.state).values()
        for group in groups:
            check_invariants(self.state, group)
        timers = self.state.timers
        known = [key for group in groups for key in timer_keys(group)]
        assert len(timers) == RETENTION + sum(key in timers for key in known)


def timer_keys(group: ClassicGroup) -> list[tuple[str, ...]]:
    """The keys of all timers that the group may have; no other may run."""
    sessions = [member.session_key for member in group.members.values()]
    return [group.join_key, group.sync_key, *sessions, *group.pending_joins.values()]


def check_invariants(state: ShardState, group: ClassicGroup) -> None:
    """Check what holds for a live group after every step."""
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
    offered = Counter(member.protocols for member in members)
    supported: Counter[str] = Counter()
    for protocols, count in offered.items():
        supported.update(dict.fromkeys(offered_names(protocols), count))
    assert group.supported == supported
    for member in members:
        assert member.session_key in state.timers or member.is_waited_for()
    for key in group.pending_joins.values():
        assert key in state.timers
    waits = group.state is PREPARING_REBALANCE or group.changes > 0
    assert (group.join_key in state.timers) == waits
    assert (group.sync_key in state.timers) == (len(group.pending_syncs) > 0)
    stored = stored_groups(state)[group.group_id]
    assert stored.metadata is not None
    if group.state in (STABLE, EMPTY) and not group.changes and group.generation:
        assert {member.member_id: member.value() for member in members} == stored.members
        assert stored.metadata.generation == group.generation
        assert stored.metadata.leader == group.leader
