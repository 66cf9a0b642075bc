"""A real Kafka for stories about its metadata: how to reach its controllers, and what its own answers say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.network.wire import Wire
from actors.upstream.controllers import Connect
from actors.upstream.image import BROKER_RESOURCE, EVERY_BROKER, GROUP_RESOURCE, TOPIC_RESOURCE
from cluster.attaching import looking
from cluster.groups.properties import ClientProperties

OPEN: Final = ClientProperties.model_validate({"bootstrap.servers": "named:1"})
"""The properties of a client that does not authenticate."""
ACLS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}
SMALL: Final = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""Settings for one broker."""
_OWN_SOURCES: Final = {TOPIC_RESOURCE: 1, BROKER_RESOURCE: 2, GROUP_RESOURCE: 8}
"""Where a config is from that was set for a resource of this type itself, as DescribeConfigs numbers it."""
_EVERY_BROKERS_SOURCE: Final = 3


def connector(properties: ClientProperties = OPEN) -> Connect:
    """Connect as these properties say."""
    return looking.connector(properties)


@asynccontextmanager
async def wired(host: str, port: int) -> AsyncIterator[Wire]:
    """A connection to a broker, closed afterwards."""
    wire = await Wire.connect(host, port)
    try:
        yield wire
    finally:
        await wire.close()


async def asked(wire: Wire, api: str, version: int, **fields: Any) -> dict[str, Any]:
    """An answer without an error at its top."""
    answer = await wire.call(api, version, **fields)
    assert not answer.get("error_code"), answer
    return answer


async def topics(wire: Wire) -> dict[str, Any]:
    """Every topic as Metadata tells of it: name -> (id, partition -> (leader, epoch, replicas, isr))."""
    answer = await asked(
        wire,
        "metadata",
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return {
        topic["name"]: (
            topic["topic_id"],
            {
                row["partition_index"]: (
                    row["leader_id"],
                    row["leader_epoch"],
                    tuple(row["replica_nodes"]),
                    tuple(row["isr_nodes"]),
                )
                for row in topic["partitions"]
            },
        )
        for topic in answer["topics"]
    }


async def own_configs(wire: Wire, resource_type: int, name: str) -> dict[str, str | None]:
    """The configs that were set for a resource itself."""
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}
    answer = await wire.call("describe_configs", 4, resources=[resource], include_synonyms=False)
    (result,) = answer["results"]
    assert result["error_code"] == ErrorCode.none, result
    source = _EVERY_BROKERS_SOURCE if name == EVERY_BROKER else _OWN_SOURCES[resource_type]
    return {row["name"]: row["value"] for row in result["configs"] if row["config_source"] == source}


async def set_configs(wire: Wire, resource_type: int, name: str, **configs: str | None) -> None:
    """Set configs of a resource, or delete those that are None; "_" stands for "." in names."""
    rows = [
        {"name": key.replace("_", "."), "config_operation": 1 if value is None else 0, "value": value}
        for key, value in configs.items()
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": rows}
    answer = await wire.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert not answer["responses"][0]["error_code"], answer


async def create_topic(wire: Wire, name: str, partitions: int, **configs: str) -> None:
    rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": rows,
    }
    answer = await wire.call("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)
    assert not answer["topics"][0]["error_code"], answer


async def acls(wire: Wire) -> set[tuple[Any, ...]]:
    """Every rule: (type, name, pattern, principal, host, operation, permission)."""
    answer = await asked(
        wire,
        "describe_acls",
        3,
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return {
        (
            *(resource[name] for name in ("resource_type", "resource_name", "pattern_type")),
            *(row[name] for name in ("principal", "host", "operation", "permission_type")),
        )
        for resource in answer["resources"]
        for row in resource["acls"]
    }


async def quotas(wire: Wire) -> dict[tuple[tuple[str, str | None], ...], Mapping[str, float]]:
    answer = await asked(wire, "describe_client_quotas", 1, components=[], strict=False)
    return {
        tuple(sorted((each["entity_type"], each["entity_name"]) for each in entry["entity"])): {
            value["key"]: value["value"] for value in entry["values"]
        }
        for entry in answer["entries"]
    }


async def scram_users(wire: Wire) -> set[tuple[str, int, int]]:
    """Every credential: (user, mechanism, iterations)."""
    answer = await asked(wire, "describe_user_scram_credentials", 0, users=None)
    return {
        (result["user"], row["mechanism"], row["iterations"])
        for result in answer["results"]
        for row in result["credential_infos"]
    }


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)
