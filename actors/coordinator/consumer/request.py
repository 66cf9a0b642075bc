"""What a ConsumerGroupHeartbeat must look like (M1): checked before anything is looked up."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.model.group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from actors.coordinator.consumer.target import assignor_names
from actors.ground.settings import GroupSettings
from actors.protocol.errors import GroupError
from actors.protocol.messages import ConsumerGroupHeartbeatRequest

CLIENT_MADE_MEMBER_ID_VERSION = 1
"""KIP-1082: from this version on the client makes its member id."""
_JAVA_BLANK = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""


def validate(body: ConsumerGroupHeartbeatRequest, api_version: int, settings: GroupSettings) -> None:
    """Check a heartbeat by itself. Raises GroupError: invalid_request, then unsupported_assignor."""
    epoch = body.member_epoch
    if api_version >= CLIENT_MADE_MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH:
        _refuse_blank(body.member_id, "MemberId can't be empty.")
    _refuse_blank(body.group_id, "GroupId can't be empty.")
    _refuse_blank(body.instance_id, "InstanceId can't be empty.")
    _refuse_blank(body.rack_id, "RackId can't be empty.")
    if epoch == 0:
        _validate_join(body)
    elif epoch == LEAVE_STATIC_EPOCH and body.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if body.server_assignor is not None and body.server_assignor not in assignor_names(settings):
        raise GroupError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {body.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignor_names(settings))}.",
        )


def _validate_join(body: ConsumerGroupHeartbeatRequest) -> None:
    if body.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if body.topic_partitions is None or body.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _refuse_blank(value: str | None, message: str) -> None:
    if value is not None and not value.strip(_JAVA_BLANK):
        raise _invalid(message)


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.invalid_request, message)
