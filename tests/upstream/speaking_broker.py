"""A broker on a real port that describes its cluster, for stories of requests that are passed on."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from kio.schema.errors import ErrorCode

from actors.network.wire import request_frame
from actors.protocol.api_keys import API_VERSIONS, DESCRIBE_CLUSTER
from tests.upstream.speaking import Speaker

VERSION = 1


class SpeakingBroker(Speaker):
    """A broker that describes its cluster: it names itself as the controller."""

    apis: ClassVar[Mapping[int, tuple[str, int, int]]] = {
        API_VERSIONS: ("api_versions", 0, 3),
        DESCRIBE_CLUSTER: ("describe_cluster", 0, 1),
    }

    def __init__(self, broker_id: int) -> None:
        super().__init__()
        self.broker_id = broker_id
        self.asked = 0
        self.hangs_up = False
        """Whether it reads one more request, and closes the connection instead of answering."""
        self.is_confused = False
        """Whether its answers have the correlation id 0, whatever is asked."""

    async def _answered(self, frame: bytes) -> bytes:
        api_key, version = struct.unpack_from(">hh", frame)
        _, least, most = self.apis.get(api_key, ("", 0, -1))
        if not least <= version <= most:
            raise ConnectionError("a broker closes the connection on what it does not know")
        answer = await super()._answered(frame)
        return answer[:4] + bytes(4) + answer[8:] if self.is_confused else answer

    async def _describe_cluster(self, asked: Any) -> dict[str, Any]:
        self.asked += 1
        if self.hangs_up:
            self.hangs_up = False
            raise ConnectionError
        return {
            "throttle_time": 0,
            "error_code": ErrorCode.none,
            "error_message": None,
            "endpoint_type": 1,
            "cluster_id": "upstream",
            "controller_id": self.broker_id,
            "brokers": [],
            "cluster_authorized_operations": 0,
        }

    async def _api_versions(self, asked: Any) -> dict[str, Any]:
        told = await super()._api_versions(asked)
        features = [{"name": f"feature-{self.broker_id}", "min_version": 1, "max_version": 2}]
        return told if not asked else {**told, **_told_since_3(features)}


def _told_since_3(features: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "supported_features": features,
        "finalized_features_epoch": 0,
        "finalized_features": [],
        "zk_migration_ready": False,
    }


def question(correlation_id: int) -> bytes:
    """DescribeCluster, without its length."""
    fields = {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    return request_frame("describe_cluster", VERSION, correlation_id, "client", fields)[4:]
