"""Answer DescribeConfigs of topics, brokers and groups, and ListConfigResources. Configs are changed in
`config_changes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.config_entries import (
    ConfigEntry,
    broker_configs,
    changed_broker_configs,
    group_configs,
    topic_configs,
)
from actors.api.context import BrokerContext
from actors.catalog import codec
from actors.ground.topic_names import name_problem
from actors.protocol.api_keys import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES
from actors.protocol.errors import GroupError
from actors.protocol.header import Header

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

_ALL_TYPES_VERSION = 1
"""The first version of ListConfigResources that knows other types than CLIENT_METRICS (KIP-1142)."""
_LISTED_TYPES = frozenset(
    {TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE}
)


async def describe_configs(context: BrokerContext, header: Header, entity: Any) -> Any:
    version = header.api_version
    return codec.build(
        codec.response_class(DESCRIBE_CONFIGS, version),
        results=tuple(_described(context, version, entity, resource) for resource in entity.resources),
    )


def _described(context: BrokerContext, version: int, entity: Any, resource: Any) -> Any:
    error_code, message = ErrorCode.none, None
    listed: Sequence[ConfigEntry] = ()
    try:
        listed = _listed(context, resource)
    except GroupError as error:
        error_code, message = error.error_code, error.message
    # Null and empty both mean all configs.
    wanted = set(resource.configuration_keys or ())
    return codec.build(
        codec.nested(DESCRIBE_CONFIGS, version, "DescribeConfigsResult"),
        error_code=error_code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _entry(version, entity, entry) for entry in listed if not wanted or entry.name in wanted
        ),
    )


def _listed(context: BrokerContext, resource: Any) -> Sequence[ConfigEntry]:
    """Return the configs of a resource. Raises GroupError."""
    lister = _LISTERS.get(resource.resource_type)
    if lister is None:
        raise GroupError(
            ErrorCode.invalid_request, f"Resources of type {resource.resource_type} have no configs here."
        )
    return lister(context, resource.resource_name)


def _listed_of_topic(context: BrokerContext, name: str) -> Sequence[ConfigEntry]:
    wrong = name_problem(name)
    if wrong is not None:
        raise GroupError(ErrorCode.invalid_topic_exception, wrong)
    topic = context.image.topics.get(name)
    if topic is None:
        raise GroupError(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    return topic_configs(topic.configs, context.node)


def _listed_of_broker(context: BrokerContext, name: str) -> Sequence[ConfigEntry]:
    if name == "":
        return changed_broker_configs(context.image.broker_configs)
    if name != str(context.broker_id):
        raise GroupError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {context.broker_id} or empty string, but received {name}",
        )
    return broker_configs(context.node)


def _listed_of_group(context: BrokerContext, name: str) -> Sequence[ConfigEntry]:
    """Return the configs of any group, whether it exists or not (A19)."""
    if not name:
        raise GroupError(ErrorCode.invalid_request, "Group name must not be empty")
    return group_configs(context.image.group_configs.get(name, {}), context.node)


_LISTERS: Mapping[int, Callable[[BrokerContext, str], Sequence[ConfigEntry]]] = {
    TOPIC_RESOURCE: _listed_of_topic,
    BROKER_RESOURCE: _listed_of_broker,
    GROUP_RESOURCE: _listed_of_group,
}


def _entry(version: int, entity: Any, entry: ConfigEntry) -> Any:
    synonym_class = codec.nested(DESCRIBE_CONFIGS, version, "DescribeConfigsSynonym")
    documented = version >= 3 and entity.include_documentation
    return codec.build(
        codec.nested(DESCRIBE_CONFIGS, version, "DescribeConfigsResourceResult"),
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            codec.build(synonym_class, name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if entity.include_synonyms else ())
        ),
        config_type=entry.config_type,
        documentation=entry.documentation if documented else None,
    )


async def list_config_resources(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer ListConfigResources (KIP-1142): groups that have configs of their own, topics, brokers. There
    are no client metrics here."""
    version = header.api_version
    known = _LISTED_TYPES if version >= _ALL_TYPES_VERSION else frozenset({CLIENT_METRICS_RESOURCE})
    wanted = set(getattr(entity, "resource_types", ())) or known
    response_class = codec.response_class(LIST_CONFIG_RESOURCES, version)
    if not wanted <= known:
        return codec.build(response_class, error_code=ErrorCode.unsupported_version, config_resources=())
    image = context.image
    nodes = tuple(str(node.node_id) for node in image.nodes.values() if node.alive)
    names: dict[int, Iterable[str]] = {
        GROUP_RESOURCE: sorted(image.group_configs),
        BROKER_LOGGER_RESOURCE: nodes,
        BROKER_RESOURCE: nodes,
        TOPIC_RESOURCE: sorted(image.topics),
    }
    resource_class = codec.nested(LIST_CONFIG_RESOURCES, version, "ConfigResource")
    resources = tuple(
        codec.build(resource_class, resource_name=name, resource_type=resource_type)
        for resource_type, listed in names.items()
        if resource_type in wanted
        for name in listed
    )
    return codec.build(response_class, error_code=ErrorCode.none, config_resources=resources)
