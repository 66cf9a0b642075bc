"""What all coordinators' APIs have in common when a request as a whole is refused.

The answer itself is made by the API's row in the catalog (`Coordinated.refuse`).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

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
