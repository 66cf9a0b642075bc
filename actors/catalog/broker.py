"""The rows of the APIs that a broker answers, and of those that its connections answer."""

from __future__ import annotations

from typing import Final

from actors.catalog.api import NEVER_FLEXIBLE, Api, Server
from actors.protocol import api_keys
from actors.security import broker_checks, topic_checks

_BROKER = Server.BROKER
_CONNECTION = Server.CONNECTION

BROKER: Final = (
    # Old librdkafkas take a broker without Produce 0 for one that knows no compression (KIP-896).
    Api(api_keys.PRODUCE, 3, 13, 9, _BROKER, topic_checks.produce, told_min_version=0),
    Api(api_keys.FETCH, 4, 18, 12, _BROKER, topic_checks.fetch),
    Api(api_keys.LIST_OFFSETS, 1, 11, 6, _BROKER, topic_checks.list_offsets),
    Api(api_keys.METADATA, 0, 13, 9, _BROKER, topic_checks.metadata, always_screened=True),
    Api(api_keys.FIND_COORDINATOR, 0, 6, 3, _BROKER, broker_checks.find_coordinator),
    Api(api_keys.SASL_HANDSHAKE, 0, 1, NEVER_FLEXIBLE, _CONNECTION),
    Api(api_keys.API_VERSIONS, 0, 5, 3, _CONNECTION),
    Api(api_keys.CREATE_TOPICS, 2, 7, 5, _BROKER, topic_checks.create_topics),
    Api(api_keys.DELETE_TOPICS, 1, 6, 4, _BROKER, topic_checks.delete_topics),
    Api(api_keys.DELETE_RECORDS, 0, 2, 2, _BROKER, topic_checks.delete_records),
    Api(api_keys.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4, _BROKER, topic_checks.offset_for_leader_epoch),
    Api(api_keys.DESCRIBE_ACLS, 1, 3, 2, _BROKER, broker_checks.describe_acls),
    Api(api_keys.CREATE_ACLS, 1, 3, 2, _BROKER, broker_checks.create_acls),
    Api(api_keys.DELETE_ACLS, 1, 3, 2, _BROKER, broker_checks.delete_acls),
    Api(api_keys.DESCRIBE_CONFIGS, 1, 4, 4, _BROKER, broker_checks.describe_configs),
    Api(api_keys.ALTER_CONFIGS, 0, 2, 2, _BROKER, broker_checks.alter_configs),
    Api(api_keys.DESCRIBE_LOG_DIRS, 1, 5, 2, _BROKER, broker_checks.describe_log_dirs),
    Api(api_keys.SASL_AUTHENTICATE, 0, 2, 2, _CONNECTION),
    Api(api_keys.CREATE_PARTITIONS, 0, 3, 2, _BROKER, topic_checks.create_partitions),
    Api(api_keys.ELECT_LEADERS, 0, 2, 2, _BROKER, broker_checks.elect_leaders),
    Api(api_keys.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1, _BROKER, broker_checks.alter_configs),
    Api(api_keys.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1, _BROKER, broker_checks.describe_quotas),
    Api(api_keys.ALTER_CLIENT_QUOTAS, 0, 1, 1, _BROKER, broker_checks.alter_quotas),
    Api(api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0, _BROKER, broker_checks.describe_credentials),
    Api(api_keys.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0, _BROKER, broker_checks.alter_credentials),
    Api(api_keys.UPDATE_FEATURES, 0, 2, 0, _BROKER, broker_checks.update_features),
    Api(api_keys.DESCRIBE_CLUSTER, 0, 2, 0, _BROKER, broker_checks.describe_cluster, always_screened=True),
    Api(api_keys.DESCRIBE_PRODUCERS, 0, 0, 0, _BROKER, topic_checks.describe_producers),
    Api(api_keys.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, 0, _BROKER, announced=False),
    Api(api_keys.LIST_CONFIG_RESOURCES, 0, 1, 0, _BROKER, broker_checks.list_config_resources),
    Api(
        api_keys.DESCRIBE_TOPIC_PARTITIONS,
        0,
        0,
        0,
        _BROKER,
        topic_checks.describe_topic_partitions,
        always_screened=True,
    ),
)
