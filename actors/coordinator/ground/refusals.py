"""What the group APIs have in common when a request as a whole is refused.

Kafka has no common form: OffsetCommit has no field for a request-wide error and says it on every partition,
the batch APIs say it for every group, JoinGroup gives the member id back. So each area brings the refusals of
its own APIs (`Area.refusals`); here is what holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request

Refusal = Callable[[Request, ErrorCode, str | None], Any]
"""(request, error, message where the answer has a place for one) -> the response body."""

_AS_COORDINATOR_ERROR = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}


def coordinator_error(error_code: int) -> ErrorCode:
    """W3: what goes wrong below the coordinator reaches clients as a coordinator's error."""
    error = ErrorCode(error_code)
    return _AS_COORDINATOR_ERROR.get(error, error)
