"""Answer DescribeAcls, CreateAcls and DeleteAcls: with SECURITY_DISABLED if the tier has no authorizer to
heed them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.context import IMAGE_WAIT_S, BrokerContext
from actors.catalog import codec
from actors.ground.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from actors.metadata.commands import CreateAcls, DeleteAcls
from actors.protocol.api_keys import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from actors.protocol.header import Header
from actors.security.gate import NO_AUTHORIZER

_DISABLED = "No Authorizer is configured."
_NO_ERROR_MESSAGE = ""


def _is_disabled(context: BrokerContext) -> bool:
    return context.settings.authorizer == NO_AUTHORIZER


def _filter(asked: Any) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


async def describe_acls(context: BrokerContext, header: Header, entity: Any) -> Any:
    version = header.api_version
    response_class = codec.response_class(DESCRIBE_ACLS, version)
    if _is_disabled(context):
        message = "No Authorizer is configured on the broker"
        error = ErrorCode.security_disabled
        return codec.build(response_class, error_code=error, error_message=message, resources=())
    asked = _filter(entity)
    if _has_unknown(asked):
        return codec.build(
            response_class, error_code=ErrorCode.unknown_server_error, error_message=None, resources=()
        )
    resource_class = codec.nested(DESCRIBE_ACLS, version, "DescribeAclsResource")
    acl_class = codec.nested(DESCRIBE_ACLS, version, "AclDescription")
    matching = sorted(acl for acl in context.image.acls if asked.matches(acl))
    return codec.build(
        response_class,
        error_code=ErrorCode.none,
        error_message=_NO_ERROR_MESSAGE,
        resources=tuple(
            codec.build(
                resource_class,
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=tuple(
                    codec.build(
                        acl_class,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ),
            )
            for (resource_type, name, pattern_type), acls in groupby(matching, key=lambda acl: acl[:3])
        ),
    )


def _has_unknown(asked: AclFilter) -> bool:
    """Return whether a filter has a number 0, which Kafka cannot read at all."""
    return 0 in (asked.resource_type, asked.pattern_type, asked.operation, asked.permission)


def _cannot_be_created(creation: Any) -> bool:
    """Return whether Kafka refuses a whole request for this creation: an entry must say exactly what it
    means."""
    return (
        creation.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY)
        or creation.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        or creation.operation in (Operation.UNKNOWN, Operation.ANY)
        or creation.permission_type not in (Permission.DENY, Permission.ALLOW)
    )


async def create_acls(context: BrokerContext, header: Header, entity: Any) -> Any:
    acls = tuple(
        Acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        for creation in entity.creations
    )
    outcomes: list[tuple[int, str | None]]
    if _is_disabled(context):
        outcomes = [(ErrorCode.security_disabled, _DISABLED)] * len(acls)
    elif any(map(_cannot_be_created, entity.creations)):
        outcomes = [(ErrorCode.unknown_server_error, None)] * len(acls)
    else:
        result = await context.submit(CreateAcls(acls))
        created = [acl for acl, outcome in zip(acls, result.acls, strict=True) if not outcome.error_code]
        await context.wait_for_image(lambda image: set(created) <= set(image.acls), IMAGE_WAIT_S)
        outcomes = [
            (outcome.error_code, outcome.error_message if outcome.error_code else _NO_ERROR_MESSAGE)
            for outcome in result.acls
        ]
    result_class = codec.nested(CREATE_ACLS, header.api_version, "AclCreationResult")
    return codec.build(
        codec.response_class(CREATE_ACLS, header.api_version),
        results=tuple(
            codec.build(result_class, error_code=ErrorCode(code), error_message=message)
            for code, message in outcomes
        ),
    )


async def delete_acls(context: BrokerContext, header: Header, entity: Any) -> Any:
    version = header.api_version
    filters = tuple(_filter(asked) for asked in entity.filters)
    results: list[tuple[int, str | None, tuple[Acl, ...]]]
    if _is_disabled(context):
        results = [(ErrorCode.security_disabled, _DISABLED, ())] * len(filters)
    elif any(map(_has_unknown, filters)):
        results = [(ErrorCode.unknown_server_error, None, ())] * len(filters)
    else:
        decided = await context.submit(DeleteAcls(filters))
        results = [
            (each.error_code, each.error_message, tuple(Acl(*acl) for acl in each.acls))
            for each in decided.filters
        ]
        gone = {acl for _, _, acls in results for acl in acls}
        await context.wait_for_image(lambda image: gone.isdisjoint(image.acls), IMAGE_WAIT_S)
    result_class = codec.nested(DELETE_ACLS, version, "DeleteAclsFilterResult")
    return codec.build(
        codec.response_class(DELETE_ACLS, version),
        filter_results=tuple(
            codec.build(
                result_class,
                error_code=ErrorCode(code),
                error_message=message,
                matching_acls=tuple(_deleted(version, acl) for acl in acls),
            )
            for code, message, acls in results
        ),
    )


def _deleted(version: int, acl: Acl) -> Any:
    return codec.build(
        codec.nested(DELETE_ACLS, version, "DeleteAclsMatchingAcl"),
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
