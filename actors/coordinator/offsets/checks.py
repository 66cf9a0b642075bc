"""Who may commit offsets: asked of every OffsetCommit, also of one that is known."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.kind import kind_of
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
    kind = kind_of(state, group_id)
    if kind is not None:
        kind.validate_commit(state, request, now_ms)
    elif body.generation_id_or_member_epoch < 0:
        return
    elif simple_groups.exists(state, group_id):
        # A simple group is an empty group: it has no generation and no member that could name one.
        raise GroupError(ErrorCode.unknown_member_id)
    elif request.api_version >= GROUP_ID_NOT_FOUND_VERSION:
        raise GroupError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
    else:
        raise GroupError(ErrorCode.illegal_generation)
