"""What records about users, their rights and quotas change in the followed image. PURE."""

from collections.abc import Callable
from typing import Any, Final

from actors.ground.acl import Acl
from actors.ground.image import ScramCredential
from actors.security.scram import MECHANISM_NAMES
from actors.upstream.image import ClusterImage, DelegationToken
from actors.upstream.records import id_bytes


def _user_scram_credential(image: ClusterImage, fields: Any) -> None:
    key = (fields.name, _mechanism(fields.mechanism))
    image.credentials[key] = ScramCredential(
        *key, fields.salt, fields.stored_key, fields.server_key, fields.iterations
    )


def _remove_user_scram_credential(image: ClusterImage, fields: Any) -> None:
    image.credentials.pop((fields.name, _mechanism(fields.mechanism)), None)


def _mechanism(number: int) -> str:
    return MECHANISM_NAMES.get(number, f"mechanism {number}")


def _access_control_entry(image: ClusterImage, fields: Any) -> None:
    image.acls[id_bytes(fields.id_)] = Acl(
        fields.resource_type,
        fields.resource_name,
        fields.pattern_type,
        fields.principal,
        fields.host,
        fields.operation,
        fields.permission_type,
    )


def _remove_access_control_entry(image: ClusterImage, fields: Any) -> None:
    image.acls.pop(id_bytes(fields.id_), None)


def _client_quota(image: ClusterImage, fields: Any) -> None:
    entity = tuple(sorted((each.entity_type, each.entity_name) for each in fields.entity))
    quotas = image.quotas.setdefault(entity, {})
    if fields.remove:
        quotas.pop(fields.key, None)
    else:
        quotas[fields.key] = fields.value
    if not quotas:
        del image.quotas[entity]


def _delegation_token(image: ClusterImage, fields: Any) -> None:
    image.delegation_tokens[fields.token_id] = DelegationToken(
        fields.token_id,
        fields.owner,
        fields.requester,
        fields.renewers,
        fields.issue_timestamp,
        fields.max_timestamp,
        fields.expiration_timestamp,
    )


def _remove_delegation_token(image: ClusterImage, fields: Any) -> None:
    image.delegation_tokens.pop(fields.token_id, None)


APPLY: Final[dict[str, Callable[[ClusterImage, Any], None]]] = {
    "user_scram_credential": _user_scram_credential,
    "remove_user_scram_credential": _remove_user_scram_credential,
    "access_control_entry": _access_control_entry,
    "remove_access_control_entry": _remove_access_control_entry,
    "client_quota": _client_quota,
    "delegation_token": _delegation_token,
    "remove_delegation_token": _remove_delegation_token,
}
