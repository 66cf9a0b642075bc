"""The authorizer: a pure function of the tier's ACLs, as Kafka's StandardAuthorizer decides.

A matching DENY wins over every ALLOW. Without a matching entry the answer is no, unless no entry at all
speaks of the resource and `allow.everyone.if.no.acl.found` is set. Superusers may do everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from actors.ground.acl import (
    ANY_USER,
    CLUSTER_NAME,
    SUPPORTED,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

ANSWERS_REMEMBERED_MAX: Final = 100_000
"""How many answers are remembered of all clients together: beyond it all are worked out again."""
CLIENTS_REMEMBERED_MAX: Final = 10_000
"""How many clients are remembered, which are pairs of principal and host."""
NAME_REMEMBERED_MAX: Final = 256
"""How many characters a resource's name may have to be remembered: a client may ask for names of 32,767."""

_IMPLY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Operation -> the operations of which an ALLOW allows it too. A DENY denies what it names and no more."""


class Access:
    """What one client may do: everything, if it is a client of a tier without an authorizer."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return True

    def may_with_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether there is a resource of that type, here or to come, to which the client may do it."""
        return True

    def may_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return what the client may do to a resource, as `authorized operations` of answers (KIP-430): bit n
        is set if operation n is allowed."""
        return sum(1 << each for each in SUPPORTED[resource_type] if self.may(each, resource_type, name))


EVERYTHING: Final = Access()


class Authorizer:
    """All ACLs of one metadata image, found by resource."""

    def __init__(self, acls: tuple[Acl, ...], super_users: frozenset[str], allow_without_acls: bool) -> None:
        self.acls = acls
        self.super_users = super_users
        self.allow_without_acls = allow_without_acls
        self._literal: defaultdict[tuple[int, str], list[Acl]] = defaultdict(list)
        self._prefixed: defaultdict[tuple[int, str], list[Acl]] = defaultdict(list)
        self._longest_prefix: dict[int, int] = {}
        self._access: dict[tuple[str, str], Access] = {}
        self._answers = 0
        """How many answers the clients in `_access` remember together."""
        for acl in acls:
            resource = (acl.resource_type, acl.resource_name)
            if acl.pattern_type == PatternType.PREFIXED:
                self._prefixed[resource].append(acl)
                longest = self._longest_prefix.get(acl.resource_type, 0)
                self._longest_prefix[acl.resource_type] = max(longest, len(acl.resource_name))
            else:
                self._literal[resource].append(acl)

    def access(self, principal: str, client_host: str) -> Access:
        """Return what a client at `client_host`, as Kafka shows it ("/127.0.0.1"), may do."""
        if principal in self.super_users:
            return EVERYTHING
        client = (principal, client_host)
        access = self._access.get(client)
        if access is None:
            if len(self._access) >= CLIENTS_REMEMBERED_MAX:
                self._forget()
            access = self._access[client] = _ListedAccess(self, principal, client_host.removeprefix("/"))
        return access

    def count_answer(self) -> None:
        """Count an answer that a client's Access is going to remember."""
        self._answers += 1
        if self._answers > ANSWERS_REMEMBERED_MAX:
            self._forget()

    def _forget(self) -> None:
        self._access.clear()
        self._answers = 0

    def about(self, resource_type: int, name: str) -> Iterable[Acl]:
        """Yield every entry that concerns the resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for length in range(1, min(len(name), self._longest_prefix.get(resource_type, 0)) + 1):
            yield from self._prefixed.get((resource_type, name[:length]), ())


class _ListedAccess(Access):
    """What a client may do for whom the ACLs decide."""

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._answers: dict[tuple[int, int, str], bool] = {}

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        question = (operation, resource_type, name)
        answer = self._answers.get(question)
        if answer is None:
            answer = self._decide(operation, resource_type, name)
            if len(name) <= NAME_REMEMBERED_MAX:
                self._authorizer.count_answer()
                self._answers[question] = answer
        return answer

    def _decide(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        listed = allowed = False
        for acl in self._authorizer.about(resource_type, name):
            listed = True
            if self._concerns(acl, operation):
                if acl.permission == Permission.DENY:
                    return False
                allowed = True
        return allowed or (not listed and self._authorizer.allow_without_acls)

    def _concerns(self, acl: Acl, operation: Operation) -> bool:
        if acl.principal not in (self._principal, ANY_USER) or acl.host not in (self._host, WILDCARD):
            return False
        if acl.operation in (Operation.ALL, operation):
            return True
        return acl.permission == Permission.ALLOW and acl.operation in _IMPLY.get(operation, ())

    def may_with_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        # As in Authorizer.authorizeByResourceType of Kafka, a name that nobody has stands for those to come.
        if self.may(operation, resource_type, "hardcode"):
            return True
        mine = [
            acl
            for acl in self._authorizer.acls
            if acl.resource_type == resource_type
            and acl.principal in (self._principal, ANY_USER)
            and acl.host in (self._host, WILDCARD)
            and acl.operation in (Operation.ALL, operation)
        ]
        denied = [acl for acl in mine if acl.permission == Permission.DENY]
        allowed = (acl for acl in mine if acl.permission == Permission.ALLOW)
        return any(not any(_covers(deny, allow) for deny in denied) for allow in allowed)


def _covers(deny: Acl, allow: Acl) -> bool:
    """Return whether `deny` leaves nothing of what `allow` allows."""
    if deny.pattern_type == PatternType.PREFIXED:
        return allow.resource_name.startswith(deny.resource_name) and not _is_everything(allow)
    if _is_everything(deny):
        return True
    return allow.pattern_type == PatternType.LITERAL and allow.resource_name == deny.resource_name


def _is_everything(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD
