"""The APIs and versions that the tier advertises, and where the flexible versions (KIP-482) begin.

The table is the smallest that runs librdkafka, the Java client, kafka-python, aiokafka, franz-go, kafkajs
and sarama end to end, classic and KIP-848, plus topic and config administration. Two rows are gates more
than services: librdkafka refuses a broker without Produce 3, and a KIP-848 consumer needs OffsetCommit and
OffsetFetch 9 (W16). The Fetch versions with topic ids are left out on purpose: the development log is asked
by name.

`flexible_since` repeats what kio's classes say, because importing them all at start would be slow; a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from actors.protocol import api_keys

NEVER_FLEXIBLE: Final = 2**15
"""What stands for the first flexible version of an API that has none: above every int16 version."""


class ApiRange(NamedTuple):
    """One advertised API: Kafka's schema name in snake case and the inclusive range of its versions."""

    name: str
    min_version: int
    max_version: int
    flexible_since: int


VERSIONS: Final[Mapping[int, ApiRange]] = MappingProxyType(
    {
        api_keys.PRODUCE: ApiRange("produce", 3, 9, 9),
        api_keys.FETCH: ApiRange("fetch", 4, 12, 12),
        api_keys.LIST_OFFSETS: ApiRange("list_offsets", 1, 7, 6),
        api_keys.METADATA: ApiRange("metadata", 0, 12, 9),
        api_keys.OFFSET_COMMIT: ApiRange("offset_commit", 2, 10, 8),
        api_keys.OFFSET_FETCH: ApiRange("offset_fetch", 1, 10, 6),
        api_keys.FIND_COORDINATOR: ApiRange("find_coordinator", 0, 6, 3),
        api_keys.JOIN_GROUP: ApiRange("join_group", 0, 9, 6),
        api_keys.HEARTBEAT: ApiRange("heartbeat", 0, 4, 4),
        api_keys.LEAVE_GROUP: ApiRange("leave_group", 0, 5, 4),
        api_keys.SYNC_GROUP: ApiRange("sync_group", 0, 5, 4),
        api_keys.DESCRIBE_GROUPS: ApiRange("describe_groups", 0, 6, 5),
        api_keys.LIST_GROUPS: ApiRange("list_groups", 0, 5, 3),
        api_keys.SASL_HANDSHAKE: ApiRange("sasl_handshake", 0, 1, NEVER_FLEXIBLE),
        api_keys.API_VERSIONS: ApiRange("api_versions", 0, 4, 3),
        api_keys.CREATE_TOPICS: ApiRange("create_topics", 2, 7, 5),
        api_keys.DELETE_TOPICS: ApiRange("delete_topics", 1, 6, 4),
        api_keys.DELETE_RECORDS: ApiRange("delete_records", 0, 2, 2),
        api_keys.INIT_PRODUCER_ID: ApiRange("init_producer_id", 0, 5, 2),
        api_keys.DESCRIBE_ACLS: ApiRange("describe_acls", 1, 3, 2),
        api_keys.CREATE_ACLS: ApiRange("create_acls", 1, 3, 2),
        api_keys.DELETE_ACLS: ApiRange("delete_acls", 1, 3, 2),
        api_keys.ADD_PARTITIONS_TO_TXN: ApiRange("add_partitions_to_txn", 0, 5, 3),
        api_keys.ADD_OFFSETS_TO_TXN: ApiRange("add_offsets_to_txn", 0, 4, 3),
        # Version 5 belongs to transaction version 2, which is not among the tier's features.
        api_keys.END_TXN: ApiRange("end_txn", 0, 4, 3),
        api_keys.WRITE_TXN_MARKERS: ApiRange("write_txn_markers", 1, 2, 1),
        api_keys.TXN_OFFSET_COMMIT: ApiRange("txn_offset_commit", 0, 5, 3),
        api_keys.DESCRIBE_CONFIGS: ApiRange("describe_configs", 1, 4, 4),
        api_keys.SASL_AUTHENTICATE: ApiRange("sasl_authenticate", 0, 2, 2),
        api_keys.CREATE_PARTITIONS: ApiRange("create_partitions", 0, 3, 2),
        api_keys.DELETE_GROUPS: ApiRange("delete_groups", 0, 2, 2),
        api_keys.INCREMENTAL_ALTER_CONFIGS: ApiRange("incremental_alter_configs", 0, 1, 1),
        api_keys.OFFSET_DELETE: ApiRange("offset_delete", 0, 0, NEVER_FLEXIBLE),
        api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiRange("describe_user_scram_credentials", 0, 0, 0),
        api_keys.ALTER_USER_SCRAM_CREDENTIALS: ApiRange("alter_user_scram_credentials", 0, 0, 0),
        api_keys.DESCRIBE_CLUSTER: ApiRange("describe_cluster", 0, 2, 0),
        api_keys.CONSUMER_GROUP_HEARTBEAT: ApiRange("consumer_group_heartbeat", 0, 1, 0),
        api_keys.CONSUMER_GROUP_DESCRIBE: ApiRange("consumer_group_describe", 0, 1, 0),
        api_keys.LIST_CONFIG_RESOURCES: ApiRange("list_config_resources", 0, 1, 0),
    }
)

assert set(VERSIONS) >= api_keys.GROUP_APIS


def is_supported(api_key: int, api_version: int) -> bool:
    """Return whether the tier advertises this version of this API."""
    api = VERSIONS.get(api_key)
    return api is not None and api.min_version <= api_version <= api.max_version


def is_flexible(api_key: int, api_version: int) -> bool:
    """Return whether requests of this advertised API and version have compact fields and tags (KIP-482)."""
    return api_version >= VERSIONS[api_key].flexible_since


def has_flexible_response_header(api_key: int, api_version: int) -> bool:
    """Return whether the response header is of version 1, which has tags, and not of version 0, which has
    none.

    ApiVersions always answers with version 0, so that a client can read the refusal of a version that it
    guessed (KIP-511).
    """
    return api_key != api_keys.API_VERSIONS and is_flexible(api_key, api_version)
