"""Who may commit offsets: asked of every OffsetCommit, also of one that is known."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request
from actors.protocol.errors import GroupError
from actors.protocol.messages import OffsetCommitRequest

GROUP_ID_NOT_FOUND_VERSION = 9
"""The first OffsetCommit version that knows GROUP_ID_NOT_FOUND (O2)."""


def check_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """Raise GroupError unless the group takes commits from this member (O1, O2, O3, O6)."""
    body: OffsetCommitRequest = request.body
    group_id = body.group_id
    for groups, kind in state.groups_by_kind:  # as `kind_of` has it
        if group_id in groups:
            kind.validate_commit(state, request, now_ms)
            return
    if body.generation_id_or_member_epoch < 0:
        return
    raise no_group_of(state, group_id, is_known=request.api_version >= GROUP_ID_NOT_FOUND_VERSION)


def no_group_of(state: ShardState, group_id: str, *, is_known: bool) -> GroupError:
    """Return why a member's commit is refused whose group has no members here. `is_known`: the version of the
    request knows GROUP_ID_NOT_FOUND."""
    if simple_groups.exists(state, group_id) or state.from_kafka.has_lost_members:
        # A simple group is an empty group: it has no generation and no member that could name one.
        return GroupError(ErrorCode.unknown_member_id)
    if is_known:
        return GroupError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
    return GroupError(ErrorCode.illegal_generation)
