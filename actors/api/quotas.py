"""Answer DescribeClientQuotas and AlterClientQuotas (KIP-546) for a tier that has no quotas: the table is
empty, whatever is asked for, and stays so.

A request that Kafka would refuse is refused as there. What Kafka would store is refused too, for nobody here
would keep to it; to remove what is not there succeeds, as in Kafka (W42).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.catalog import codec
from actors.protocol.errors import GroupError
from actors.protocol.header import Header

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)
_EXACT, _DEFAULT, _SPECIFIED = range(3)
_MATCH_TYPES: Final = {
    _EXACT: "MATCH_TYPE_EXACT",
    _DEFAULT: "MATCH_TYPE_DEFAULT",
    _SPECIFIED: "MATCH_TYPE_SPECIFIED",
}
_FRACTIONS: Final = ("DOUBLE", None)
_CLIENT_KEYS: Final[Mapping[str, tuple[str, int | None]]] = {
    "producer_byte_rate": ("LONG", 2**63 - 1),
    "consumer_byte_rate": ("LONG", 2**63 - 1),
    "request_percentage": _FRACTIONS,
    "controller_mutation_rate": _FRACTIONS,
}
"""Quota of a user or client id -> its type and largest value; None for a number that may have a fraction."""
_IP_KEYS: Final[Mapping[str, tuple[str, int | None]]] = {"connection_creation_rate": ("INT", 2**31 - 1)}
_NO_QUOTAS: Final = "This tier has no client quotas: it slows no client down, so none can be set."

Entity = Mapping[str, str | None]
"""Type -> name of what a quota is for; None stands for the default of the type."""


async def describe_client_quotas(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Return the entries that match: none, for there are none."""
    response_class = codec.response_class(header.api_key, header.api_version)
    try:
        _check_filter(entity.components)
    except GroupError as error:
        return codec.build(
            response_class, error_code=error.error_code, error_message=error.message, entries=None
        )
    return codec.build(response_class, error_code=ErrorCode.none, error_message=None, entries=())


def _check_filter(components: Sequence[Any]) -> None:
    """Check what DescribeClientQuotas looks for. Raises GroupError."""
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise GroupError(ErrorCode.invalid_request, "Invalid empty entity type.")
        if kind not in _TYPES:
            raise GroupError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        _check_match(component)
        if kind in seen:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise GroupError(ErrorCode.invalid_request, message)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        message = (
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component."
        )
        raise GroupError(ErrorCode.invalid_request, message)


def _check_match(component: Any) -> None:
    name = _MATCH_TYPES.get(component.match_type)
    if name is None:
        raise GroupError(ErrorCode.invalid_request, f"Unknown match type {component.match_type}")
    if component.match_type == _EXACT and component.match is None:
        raise GroupError(
            ErrorCode.invalid_request, f"Request specified {name}, but set match string to null."
        )
    if component.match_type != _EXACT and component.match is not None:
        message = f"Request specified {name}, but also specified a match string."
        raise GroupError(ErrorCode.invalid_request, message)


async def alter_client_quotas(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Return what becomes of each entry. Of an entry that is named more often there is one answer."""
    asked = [
        ({part.entity_type: part.entity_name for part in entry.entity}, entry.ops) for entry in entity.entries
    ]
    times = Counter(frozenset(who.items()) for who, _ in asked)
    outcomes: dict[frozenset[tuple[str, str | None]], Any] = {}
    for who, operations in asked:
        key = frozenset(who.items())
        if key not in outcomes:
            outcomes[key] = _altered(header, who, operations, repeated=times[key] > 1)
    return codec.build(
        codec.response_class(header.api_key, header.api_version), entries=tuple(outcomes.values())
    )


def _altered(header: Header, who: Entity, operations: Iterable[Any], *, repeated: bool) -> Any:
    error_code, message = ErrorCode.none, None
    try:
        _check_alteration(who, tuple(operations), repeated)
    except GroupError as error:
        error_code, message = error.error_code, error.message
    entity_class = codec.nested(header.api_key, header.api_version, "EntityData")
    return codec.build(
        codec.nested(header.api_key, header.api_version, "EntryData"),
        error_code=error_code,
        error_message=message,
        entity=tuple(
            codec.build(entity_class, entity_type=kind, entity_name=name) for kind, name in who.items()
        ),
    )


def _check_alteration(who: Entity, operations: Sequence[Any], repeated: bool) -> None:
    """Check one entry of AlterClientQuotas. Raises GroupError."""
    keys = [operation.key for operation in operations]
    if repeated or len(set(keys)) < len(keys):
        raise GroupError(
            ErrorCode.invalid_request, f"The entity or a quota of it is named twice: {dict(who)}"
        )
    known = _keys_of(who)
    to_set = [operation for operation in operations if not operation.remove]
    for operation in to_set:
        if operation.key not in known:
            raise GroupError(ErrorCode.invalid_request, f"Invalid configuration key {operation.key}")
        _check_value(operation.key, operation.value, *known[operation.key])
    if to_set:
        raise GroupError(ErrorCode.policy_violation, _NO_QUOTAS)


def _keys_of(who: Entity) -> Mapping[str, tuple[str, int | None]]:
    """Return the quotas that an entity may have. Raises GroupError for one that cannot be."""
    if not who:
        raise GroupError(ErrorCode.invalid_request, "Invalid empty client quota entity")
    for kind, name in who.items():
        if kind not in _TYPES:
            raise GroupError(ErrorCode.invalid_request, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise GroupError(ErrorCode.invalid_request, f"Empty {kind} not supported")
    if IP not in who:
        return _CLIENT_KEYS
    if len(who) > 1:
        message = "Invalid quota entity combination: an IP stands alone, without a user or client id."
        raise GroupError(ErrorCode.invalid_request, message)
    address = who[IP]
    if address is not None and not _is_address(address):
        raise GroupError(ErrorCode.invalid_request, f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    """Return whether a text is an IP address. Names of hosts are not looked up: no quota comes of them."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(key: str, value: float, kind: str, highest: int | None) -> None:
    if not value > 0:
        raise GroupError(ErrorCode.invalid_request, f"Quota {key} must be greater than 0")
    if highest is None:
        return
    if value > highest:
        raise GroupError(ErrorCode.invalid_request, f"Proposed value for {key} is too large for a {kind}.")
    if value != int(value):
        raise GroupError(ErrorCode.invalid_request, f"{key} cannot be a fractional value.")
