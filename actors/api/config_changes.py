"""Answer IncrementalAlterConfigs, which changes configs one by one, and AlterConfigs, which says all configs
that a resource is to have (W41).

What a request changes goes to the controller in one command for each type of resource, and the answer leaves
once this broker knows what the controller has decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from actors.api.context import IMAGE_WAIT_S, BrokerContext
from actors.catalog import codec
from actors.ground.changeable import CHANGEABLE, parsed
from actors.metadata.commands import (
    SET,
    AlterBrokerConfigs,
    AlterGroupConfigs,
    AlterTopicConfigs,
    BrokerConfigChange,
    BrokerOutcome,
    GroupConfigChange,
    GroupOutcome,
    TopicConfigChange,
    TopicOutcome,
)
from actors.protocol.api_keys import ALTER_CONFIGS
from actors.protocol.header import Header

_UNKNOWN = "Resources of type {} have no configs that can be changed here."


class _Asked(NamedTuple):
    """What a request of either API asks for."""

    resources: Sequence[Any]
    validate_only: bool
    replace: bool
    """Whether configs that are not named go back to their defaults: so it is with AlterConfigs."""

    def of_type(self, resource_type: int) -> list[tuple[str, tuple[tuple[str, int, str | None], ...]]]:
        """Return names and changes of the resources of one type."""
        return [
            (resource.resource_name, tuple(self._change(config) for config in resource.configs))
            for resource in self.resources
            if resource.resource_type == resource_type
        ]

    def _change(self, config: Any) -> tuple[str, int, str | None]:
        return config.name, SET if self.replace else config.config_operation, config.value


async def alter_configs(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer both APIs."""
    replace = header.api_key == ALTER_CONFIGS
    asked = _Asked(entity.resources, entity.validate_only, replace)
    outcomes: dict[int, Iterator[TopicOutcome | GroupOutcome | BrokerOutcome]] = {
        TOPIC_RESOURCE: iter(await _alter_topics(context, asked)),
        GROUP_RESOURCE: iter(await _alter_groups(context, asked)),
        BROKER_RESOURCE: iter(await _alter_brokers(context, asked)),
    }
    responses = []
    for resource in entity.resources:
        name, kind = resource.resource_name, resource.resource_type
        refused = TopicOutcome(name, ErrorCode.invalid_request, _UNKNOWN.format(kind))
        outcome = next(outcomes[kind]) if kind in outcomes else refused
        responses.append(
            codec.build(
                codec.nested(header.api_key, header.api_version, "AlterConfigsResourceResponse"),
                error_code=ErrorCode(outcome.error_code),
                error_message=outcome.error_message,
                resource_type=kind,
                resource_name=name,
            )
        )
    response_class = codec.response_class(header.api_key, header.api_version)
    return codec.build(response_class, responses=tuple(responses))


async def _alter_topics(context: BrokerContext, asked: _Asked) -> Sequence[TopicOutcome]:
    changes = tuple(TopicConfigChange(*each) for each in asked.of_type(TOPIC_RESOURCE))
    if not changes:
        return ()
    result = await context.submit(AlterTopicConfigs(changes, asked.validate_only, asked.replace))
    outcomes: Sequence[TopicOutcome] = result.topics
    return outcomes


async def _alter_groups(context: BrokerContext, asked: _Asked) -> Sequence[GroupOutcome]:
    changes = tuple(GroupConfigChange(*each) for each in asked.of_type(GROUP_RESOURCE))
    if not changes:
        return ()
    result = await context.submit(AlterGroupConfigs(changes, asked.validate_only, asked.replace))
    outcomes: Sequence[GroupOutcome] = result.groups
    if not asked.validate_only:
        made = [change for change, done in zip(changes, outcomes, strict=True) if not done.error_code]
        await context.wait_for_image(
            lambda image: _shows(image.group_configs, made, asked.replace), IMAGE_WAIT_S
        )
    return outcomes


async def _alter_brokers(context: BrokerContext, asked: _Asked) -> Sequence[BrokerOutcome]:
    """Change settings of all nodes, or of this one: nobody changes another's (W43)."""
    named = asked.of_type(BROKER_RESOURCE)
    if not named:
        return ()
    wrong = [_not_this_node(context, name) for name, _ in named]
    changes = tuple(
        BrokerConfigChange(name and str(context.node_id), each)
        for (name, each), problem in zip(named, wrong, strict=True)
        if problem is None
    )
    outcomes: Sequence[BrokerOutcome] = ()
    if changes:
        result = await context.submit(AlterBrokerConfigs(changes, asked.validate_only, asked.replace))
        outcomes = result.brokers
    if not asked.validate_only:
        made = [change for change, done in zip(changes, outcomes, strict=True) if not done.error_code]
        await context.wait_for_image(
            lambda image: _shows(image.broker_configs, map(_as_kept, made), asked.replace), IMAGE_WAIT_S
        )
    decided = iter(outcomes)
    return [
        next(decided) if problem is None else BrokerOutcome(name, ErrorCode.invalid_request, problem)
        for (name, _), problem in zip(named, wrong, strict=True)
    ]


def _as_kept(change: BrokerConfigChange) -> BrokerConfigChange:
    """Return a change that was made with its values as they are kept."""
    return BrokerConfigChange(
        change.broker,
        tuple(
            (name, operation, value if operation != SET or value is None else parsed(CHANGEABLE[name], value))
            for name, operation, value in change.changes
        ),
    )


def _not_this_node(context: BrokerContext, name: str) -> str | None:
    """Return why this broker changes no settings under a name, in Kafka's words; None if it does."""
    if not name:
        return None
    try:
        node_id = int(name)
    except ValueError:
        return f"Node id must be an integer, but it is: {name}"
    if node_id == context.node_id:
        return None
    return f"Unexpected broker id, expected {context.node_id}, but received {name}"


def _shows(
    configs: Mapping[str, Mapping[str, str]],
    made: Iterable[GroupConfigChange | BrokerConfigChange],
    replace: bool,
) -> bool:
    """Return whether the configs are as they were changed. A deletion carries no value that counts."""
    for name_of_owner, changes in made:
        own = configs.get(name_of_owner, {})
        if any(own.get(name) != (value if operation == SET else None) for name, operation, value in changes):
            return False
        if replace and len(own) != len(changes):
            return False
    return True
