"""DescribeConfigs of topics and brokers, IncrementalAlterConfigs of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.config_entries import ConfigEntry, broker_configs, topic_configs
from actors.api.context import BrokerContext
from actors.metadata.commands import AlterTopicConfigs, TopicConfigChange, TopicOutcome
from actors.metadata.names import name_problem
from actors.protocol import codec
from actors.protocol.api_keys import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from actors.protocol.errors import GroupError
from actors.protocol.headers import Header

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


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
    # Null and empty both mean all of them.
    wanted = set(resource.configuration_keys or ())
    read_only = resource.resource_type != TOPIC_RESOURCE
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
    """Raises GroupError."""
    name = resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        wrong = name_problem(name)
        if wrong is not None:
            raise GroupError(ErrorCode.invalid_topic_exception, wrong)
        topic = context.image.topics.get(name)
        if topic is None:
            raise GroupError(
                ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
            )
        return topic_configs(topic.configs, context.settings)
    if resource.resource_type != BROKER_RESOURCE:
        raise GroupError(
            ErrorCode.invalid_request, f"Resources of type {resource.resource_type} have no configs here."
        )
    if name == "":
        # Kafka's cluster-wide dynamic settings; there are none here.
        return ()
    if name != str(context.node_id):
        raise GroupError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {context.node_id} or empty string, but received {name}",
        )
    return broker_configs(context.node_id, context.settings)


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
    version = header.api_version
    changes = tuple(
        TopicConfigChange(
            resource.resource_name,
            tuple((config.name, config.config_operation, config.value) for config in resource.configs),
        )
        for resource in entity.resources
        if resource.resource_type == TOPIC_RESOURCE
    )
    outcomes: list[TopicOutcome] = []
    if changes:
        result = await context.submit(AlterTopicConfigs(changes, entity.validate_only))
        outcomes = list(result.topics)
    remaining = iter(outcomes)
    response_class = codec.nested(INCREMENTAL_ALTER_CONFIGS, version, "AlterConfigsResourceResponse")
    responses = []
    for resource in entity.resources:
        if resource.resource_type == TOPIC_RESOURCE:
            outcome = next(remaining)
        else:
            message = "Only the configs of topics can be changed; a broker's are given when the tier starts."
            outcome = TopicOutcome(resource.resource_name, ErrorCode.invalid_request, message)
        responses.append(
            codec.build(
                response_class,
                error_code=ErrorCode(outcome.error_code),
                error_message=outcome.error_message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return codec.build(codec.response_class(INCREMENTAL_ALTER_CONFIGS, version), responses=tuple(responses))
