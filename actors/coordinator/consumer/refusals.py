"""What the APIs of consumer groups answer when a request as a whole is refused."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.refusals import Refusal
from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)


def refused_heartbeat(
    request: Request, error: ErrorCode, message: str | None
) -> ConsumerGroupHeartbeatResponse:
    # M1: every error answer has member id null, epoch 0, interval 0.
    return ConsumerGroupHeartbeatResponse(error, message)


def _describe(request: Request, error: ErrorCode, message: str | None) -> ConsumerGroupDescribeResponse:
    body: ConsumerGroupDescribeRequest = request.body
    return ConsumerGroupDescribeResponse(
        tuple(DescribedConsumerGroup(error, group_id, message) for group_id in body.group_ids)
    )


REFUSALS: dict[int, Refusal] = {
    api_keys.CONSUMER_GROUP_HEARTBEAT: refused_heartbeat,
    api_keys.CONSUMER_GROUP_DESCRIBE: _describe,
}
