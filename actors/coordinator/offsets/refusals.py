"""What OffsetCommit, OffsetFetch and OffsetDelete answer when a request as a whole is refused."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.refusals import Refusal
from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from actors.protocol.offset_refusals import refused_commit, refused_fetch

_WRITE_FAILED = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.coordinator_not_available,
    }
)


def refused_offset_commit(request: Request, error: ErrorCode, message: str | None) -> OffsetCommitResponse:
    body: OffsetCommitRequest = request.body
    return OffsetCommitResponse(refused_commit(body.topics, error), body.topic_ids)


def _offset_fetch(request: Request, error: ErrorCode, message: str | None) -> OffsetFetchResponse:
    body: OffsetFetchRequest = request.body
    if body.require_stable and error in _WRITE_FAILED:
        # W5: a stable fetch is a write; old clients retry NOT_COORDINATOR and look up a new coordinator.
        error = ErrorCode.not_coordinator
    return OffsetFetchResponse(
        tuple(refused_fetch(group, error, request.api_version) for group in body.groups)
    )


def _offset_delete(request: Request, error: ErrorCode, message: str | None) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error)


REFUSALS: dict[int, Refusal] = {
    api_keys.OFFSET_COMMIT: refused_offset_commit,
    api_keys.OFFSET_FETCH: _offset_fetch,
    api_keys.OFFSET_DELETE: _offset_delete,
}
