"""The broker's own APIs in all advertised versions: kio's request entities come in, kio's response entities
go out.

This file only dispatches. Pure answers are in `metadata`, topics in `topics`, records in `produce`, `fetch`
and `data`, partitions' leaders and sizes in `partitions`, configs in `configs` and `config_changes`, quotas
in `quotas`, features in `features`, producer ids in `producers`.
Group requests are answered by coordinators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.api import (
    acls,
    config_changes,
    configs,
    credentials,
    data,
    features,
    fetch,
    partitions,
    produce,
    quotas,
    telemetry,
    topics,
    transactions,
)
from actors.api.context import (
    BrokerContext,
    ControllerClient,
    Elect,
    InternalLogs,
    NotAvailable,
    Verify,
)
from actors.api.metadata import describe_cluster_answer, find_coordinator_answer, metadata_answer
from actors.api.producers import ProducerIds, init_producer_id
from actors.api.replica_fetch import is_followed, replica_fetch
from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings
from actors.protocol import api_keys
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.transaction_messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = [
    "BrokerApis",
    "ControllerClient",
    "NotAvailable",
    "find_coordinator_answer",
    "metadata_answer",
]

EXPIRE_INTERVAL_S = 10.0
_Handler = Callable[[BrokerContext, Header, Any], Awaitable[Any]]
_HANDLERS: Mapping[int, _Handler] = {
    api_keys.PRODUCE: produce.produce,
    api_keys.FETCH: fetch.fetch,
    api_keys.LIST_OFFSETS: data.list_offsets,
    api_keys.OFFSET_FOR_LEADER_EPOCH: data.offset_for_leader_epoch,
    api_keys.DELETE_RECORDS: data.delete_records,
    api_keys.METADATA: topics.metadata,
    api_keys.CREATE_TOPICS: topics.create_topics,
    api_keys.DELETE_TOPICS: topics.delete_topics,
    api_keys.CREATE_PARTITIONS: topics.create_partitions,
    api_keys.DESCRIBE_CONFIGS: configs.describe_configs,
    api_keys.ALTER_CONFIGS: config_changes.alter_configs,
    api_keys.INCREMENTAL_ALTER_CONFIGS: config_changes.alter_configs,
    api_keys.UPDATE_FEATURES: features.update_features,
    api_keys.DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
    api_keys.ALTER_CLIENT_QUOTAS: quotas.alter_client_quotas,
    api_keys.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    api_keys.DESCRIBE_ACLS: acls.describe_acls,
    api_keys.CREATE_ACLS: acls.create_acls,
    api_keys.DELETE_ACLS: acls.delete_acls,
    api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS: credentials.describe_credentials,
    api_keys.ALTER_USER_SCRAM_CREDENTIALS: credentials.alter_credentials,
    api_keys.DESCRIBE_TOPIC_PARTITIONS: partitions.describe_topic_partitions,
    api_keys.DESCRIBE_PRODUCERS: partitions.describe_producers,
    api_keys.DESCRIBE_LOG_DIRS: partitions.describe_log_dirs,
    api_keys.ELECT_LEADERS: partitions.elect_leaders,
    api_keys.GET_TELEMETRY_SUBSCRIPTIONS: telemetry.get_telemetry_subscriptions,
}


class BrokerApis:
    """One broker's answers to everything but group requests and ApiVersions."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._producer_ids = ProducerIds(self._context)
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def image(self) -> MetadataImage:
        return self._context.image

    @property
    def settings(self) -> BrokerSettings:
        """Return the settings that are in force on this node now."""
        return self._context.settings

    def verify_with(self, verify: Verify) -> None:
        """Append transactional batches only once `verify` says that they may be."""
        self._context.verify = verify

    def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Write markers of transactions for topics' partitions that this broker leads."""
        return transactions.write_markers(self._context, request)

    def elect_with(self, elect: Elect) -> None:
        """Have `elect` elect the leaders of offsets partitions."""
        self._context.elect = elect

    def read_internal_from(self, logs: InternalLogs) -> None:
        """Read internal topics from `logs`."""
        self._context.internal_logs = logs

    def set_image(self, image: MetadataImage) -> None:
        """Take a newer image: requests that wait for it go on, logs that are led elsewhere are dropped."""
        self._context.set_image(image)

    @property
    def offsets_leaders(self) -> Mapping[int, int]:
        """Return offsets partition -> node id of its leader, as far as there is news fresher than the
        image."""
        return self._context.offsets_leaders

    @offsets_leaders.setter
    def offsets_leaders(self, offsets_leaders: Mapping[int, int]) -> None:
        self._context.set_offsets_leaders(offsets_leaders)

    async def handle(self, header: Header, entity: Any) -> Any | None:
        """Return the response entity; None if the request has no answer (Produce with acks 0).

        Raises UnsupportedRequest for an API that is not the broker's own.
        """
        if self._expiry is None:
            self._expire()
        if header.api_key == api_keys.FETCH and is_followed(self._context, header, entity):
            return await replica_fetch(self._context, header, entity)
        handler = _HANDLERS.get(header.api_key)
        if handler is not None:
            return await handler(self._context, header, entity)
        context, version = self._context, header.api_version
        match header.api_key:
            case api_keys.FIND_COORDINATOR:
                return find_coordinator_answer(context.image, context.offsets_leaders, version, entity)
            case api_keys.DESCRIBE_CLUSTER:
                return describe_cluster_answer(context.image, context.node_id, version, entity)
            case api_keys.INIT_PRODUCER_ID:
                return await init_producer_id(self._producer_ids, header, entity)
        raise UnsupportedRequest(f"API {header.api_key} is not answered here")

    def close(self) -> None:
        """Stop the timer that expires records."""
        if self._expiry is not None:
            self._expiry.cancel()

    def _expire(self) -> None:
        self._context.logs.expire(self._context.clock_ms())
        self._expiry = asyncio.get_running_loop().call_later(EXPIRE_INTERVAL_S, self._expire)
