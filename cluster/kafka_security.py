"""Change and list users and ACLs through a Kafka AdminClient, which works against this tier and any other
Kafka.

Every function raises TierError in words for the user; results are plain values, ready for JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from actors.ground.acl import CLUSTER_NAME
from actors.security.scram import ITERATIONS_MIN, MECHANISM_NUMBERS
from cluster.kafka_admin import REQUEST_TIMEOUT_S, KafkaAdmin
from cluster.tier_file import TierError

RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
"""Word of the command line -> what librdkafka calls it (its BROKER is Kafka's CLUSTER)."""
OPERATIONS: Final = {
    each.name.lower().replace("_", "-"): each
    for each in AclOperation
    if each not in (AclOperation.UNKNOWN, AclOperation.ANY)
}


class Rule(NamedTuple):
    """One ACL in the words of the command line."""

    principal: str
    operation: str
    resource: str
    """The resource that the rule is about: "topic:orders", "group:*", "cluster"."""
    prefixed: bool = False
    host: str = "*"
    deny: bool = False


class KafkaSecurity(KafkaAdmin):
    """The AdminClient's calls about users and ACLs."""

    def list_users(self) -> list[dict[str, Any]]:
        described = self._one(self._client.describe_user_scram_credentials(request_timeout=REQUEST_TIMEOUT_S))
        return [
            {"user": user, "mechanism": _mechanism_name(info.mechanism), "iterations": info.iterations}
            for user, one in sorted(described.items())
            for info in one.scram_credential_infos
        ]

    def add_user(self, user: str, password: str, mechanisms: Sequence[str]) -> None:
        """Add a user's credentials one after the other: Kafka takes one of a user in a request."""
        for mechanism in mechanisms:
            info = ScramCredentialInfo(_mechanism(mechanism), ITERATIONS_MIN)
            upsertion = UserScramCredentialUpsertion(user, info, password.encode())
            self._alter_user(upsertion)

    def remove_user(self, user: str) -> None:
        mine = [each["mechanism"] for each in self.list_users() if each["user"] == user]
        if not mine:
            raise TierError(f"{user}: there is no such user")
        for mechanism in mine:
            self._alter_user(UserScramCredentialDeletion(user, _mechanism(mechanism)))

    def _alter_user(self, alteration: Any) -> None:
        self._each(self._client.alter_user_scram_credentials([alteration], request_timeout=REQUEST_TIMEOUT_S))

    def list_acls(self, principal: str | None = None) -> list[dict[str, Any]]:
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            principal,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        found = self._one(self._client.describe_acls(everything, request_timeout=REQUEST_TIMEOUT_S))
        return sorted((_plain(acl) for acl in found), key=lambda acl: tuple(map(str, acl.values())))

    def add_acl(self, rule: Rule) -> None:
        binding = AclBinding(*_fields(rule))
        for created in self._client.create_acls([binding], request_timeout=REQUEST_TIMEOUT_S).values():
            self._one(created)

    def remove_acl(self, rule: Rule) -> None:
        """Remove an ACL. Raises TierError if there is no such rule."""
        binding = AclBindingFilter(*_fields(rule))
        for deleted in self._client.delete_acls([binding], request_timeout=REQUEST_TIMEOUT_S).values():
            if not self._one(deleted):
                raise TierError("there is no such ACL; `groupd acls list` shows those that there are")


def _fields(rule: Rule) -> tuple[Any, ...]:
    kind, _, name = rule.resource.partition(":")
    if kind not in RESOURCES or (kind != "cluster" and not name):
        kinds = ", ".join(f"{each}:NAME" for each in RESOURCES if each != "cluster")
        raise TierError(f"{rule.resource}: one of {kinds} or cluster is expected")
    if rule.operation.lower() not in OPERATIONS:
        raise TierError(f"{rule.operation}: one of {', '.join(sorted(OPERATIONS))} is expected")
    pattern = ResourcePatternType.PREFIXED if rule.prefixed else ResourcePatternType.LITERAL
    permission = AclPermissionType.DENY if rule.deny else AclPermissionType.ALLOW
    operation = OPERATIONS[rule.operation.lower()]
    return RESOURCES[kind], name or CLUSTER_NAME, pattern, rule.principal, rule.host, operation, permission


def _plain(acl: Any) -> dict[str, Any]:
    kinds = {kind: word for word, kind in RESOURCES.items()}
    return {
        "principal": acl.principal,
        "permission": acl.permission_type.name.lower(),
        "operation": acl.operation.name.lower().replace("_", "-"),
        "resource": kinds.get(acl.restype, acl.restype.name.lower()),
        "name": acl.name,
        "pattern": acl.resource_pattern_type.name.lower(),
        "host": acl.host,
    }


def _mechanism(name: str) -> ScramMechanism:
    if name not in MECHANISM_NUMBERS:
        raise TierError(f"{name}: one of {', '.join(MECHANISM_NUMBERS)} is expected")
    return ScramMechanism[name.replace("-", "_")]


def _mechanism_name(mechanism: Any) -> str:
    return str(mechanism.name).replace("_", "-")
