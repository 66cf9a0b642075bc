"""Answer DescribeConfigs of topics, brokers and groups, IncrementalAlterConfigs of topics and groups, and
ListConfigResources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.config_entries import ConfigEntry, broker_configs, group_configs, topic_configs
from actors.api.context import IMAGE_WAIT_S, BrokerContext
from actors.catalog import codec
from actors.ground.image import MetadataImage
from actors.ground.topic_names import name_problem
from actors.metadata.commands import (
    SET,
    AlterGroupConfigs,
    AlterTopicConfigs,
    GroupConfigChange,
    GroupOutcome,
    TopicConfigChange,
    TopicOutcome,
)
from actors.protocol.api_keys import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES
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
_NOT_CHANGEABLE = (
    "Only configs of topics and groups can be changed; a broker's are given when the tier starts."
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
    read_only = resource.resource_type not in (TOPIC_RESOURCE, GROUP_RESOURCE)
    return codec.build(
        codec.nested(DESCRIBE_CONFIGS, version, "DescribeConfigsResult"),
        error_code=error_code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _entry(version, entity, entry, read_only)
            for entry in listed
            if not wanted or entry.name in wanted
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
    return topic_configs(topic.configs, context.settings)


def _listed_of_broker(context: BrokerContext, name: str) -> Sequence[ConfigEntry]:
    if name == "":
        # An empty name is for Kafka's cluster-wide dynamic settings; there are none here.
        return ()
    if name != str(context.node_id):
        raise GroupError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {context.node_id} or empty string, but received {name}",
        )
    return broker_configs(context.node_id, context.settings)


def _listed_of_group(context: BrokerContext, name: str) -> Sequence[ConfigEntry]:
    """Return the configs of any group, whether it exists or not (A19)."""
    if not name:
        raise GroupError(ErrorCode.invalid_request, "Group name must not be empty")
    return group_configs(context.image.group_configs.get(name, {}), context.group_settings)


_LISTERS: Mapping[int, Callable[[BrokerContext, str], Sequence[ConfigEntry]]] = {
    TOPIC_RESOURCE: _listed_of_topic,
    BROKER_RESOURCE: _listed_of_broker,
    GROUP_RESOURCE: _listed_of_group,
}


def _entry(version: int, entity: Any, entry: ConfigEntry, read_only: bool) -> Any:
    synonym_class = codec.nested(DESCRIBE_CONFIGS, version, "DescribeConfigsSynonym")
    documented = version >= 3 and entity.include_documentation
    return codec.build(
        codec.nested(DESCRIBE_CONFIGS, version, "DescribeConfigsResourceResult"),
        name=entry.name,
        value=entry.value,
        read_only=read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=tuple(
            codec.build(synonym_class, name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if entity.include_synonyms else ())
        ),
        config_type=entry.config_type,
        documentation=entry.documentation if documented else None,
    )


async def incremental_alter_configs(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Alter configs. Topics' changes and groups' go to the controller in a command each; this broker knows
    the groups' when it answers."""
    outcomes: dict[int, Iterator[TopicOutcome | GroupOutcome]] = {
        TOPIC_RESOURCE: iter(await _alter_topics(context, entity)),
        GROUP_RESOURCE: iter(await _alter_groups(context, entity)),
    }
    responses = []
    for resource in entity.resources:
        name, kind = resource.resource_name, resource.resource_type
        refused = TopicOutcome(name, ErrorCode.invalid_request, _NOT_CHANGEABLE)
        outcome = next(outcomes[kind]) if kind in outcomes else refused
        responses.append(
            codec.build(
                codec.nested(INCREMENTAL_ALTER_CONFIGS, header.api_version, "AlterConfigsResourceResponse"),
                error_code=ErrorCode(outcome.error_code),
                error_message=outcome.error_message,
                resource_type=kind,
                resource_name=name,
            )
        )
    response_class = codec.response_class(INCREMENTAL_ALTER_CONFIGS, header.api_version)
    return codec.build(response_class, responses=tuple(responses))


async def _alter_topics(context: BrokerContext, entity: Any) -> Sequence[TopicOutcome]:
    changes = tuple(
        TopicConfigChange(resource.resource_name, _changes(resource))
        for resource in entity.resources
        if resource.resource_type == TOPIC_RESOURCE
    )
    if not changes:
        return ()
    result = await context.submit(AlterTopicConfigs(changes, entity.validate_only))
    outcomes: Sequence[TopicOutcome] = result.topics
    return outcomes


async def _alter_groups(context: BrokerContext, entity: Any) -> Sequence[GroupOutcome]:
    changes = tuple(
        GroupConfigChange(resource.resource_name, _changes(resource))
        for resource in entity.resources
        if resource.resource_type == GROUP_RESOURCE
    )
    if not changes:
        return ()
    result = await context.submit(AlterGroupConfigs(changes, entity.validate_only))
    outcomes: Sequence[GroupOutcome] = result.groups
    if not entity.validate_only:
        made = [change for change, done in zip(changes, outcomes, strict=True) if not done.error_code]
        await context.wait_for_image(lambda image: _shows(image, made), IMAGE_WAIT_S)
    return outcomes


def _changes(resource: Any) -> tuple[tuple[str, int, str | None], ...]:
    return tuple((config.name, config.config_operation, config.value) for config in resource.configs)


def _shows(image: MetadataImage, made: Iterable[GroupConfigChange]) -> bool:
    """Return whether the image has what was changed. A deletion carries no value that counts."""
    return all(
        image.group_configs.get(group_id, {}).get(name) == (value if operation == SET else None)
        for group_id, changes in made
        for name, operation, value in changes
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
