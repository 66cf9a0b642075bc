"""Create and delete access control entries, with the checks of Kafka's controller (AclControlManager)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.acl import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from actors.ground.contract import Record
from actors.ground.limits import ACLS_MAX
from actors.metadata.commands import (
    CreateAcls,
    CreateAclsResult,
    DeleteAcls,
    DeleteAclsResult,
    DeletedAcls,
    Outcome,
)
from actors.metadata.records import ACL, AclKey, AclValue
from actors.metadata.state import MetadataState
from actors.protocol.errors import GroupError

_RESOURCES = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_OPERATIONS = frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}


def create_acls(state: MetadataState, command: CreateAcls) -> tuple[list[Record], CreateAclsResult]:
    """Create access control entries. One that exists already is created again without effect."""
    new: dict[Acl, None] = {}
    outcomes = []
    for acl in command.acls:
        try:
            _check(acl)
            if acl not in state.acls and acl not in new:
                if len(state.acls) + len(new) >= ACLS_MAX:
                    message = f"The tier holds at most {ACLS_MAX} ACLs: delete some first."
                    raise GroupError(ErrorCode.policy_violation, message)
                new[acl] = None
        except GroupError as error:
            outcomes.append(Outcome(error.error_code, error.message))
            continue
        outcomes.append(Outcome())
    return [Record(AclKey(ACL, "", acl), AclValue()) for acl in new], CreateAclsResult(tuple(outcomes))


def _check(acl: Acl) -> None:
    """Check an entry that is to be created. Raises GroupError."""
    wrong = None
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        wrong = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.resource_name:
        wrong = "Invalid empty resource name"
    elif acl.resource_type not in _RESOURCES:
        wrong = f"Invalid resourceType {acl.resource_type}"
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        wrong = f"Invalid patternType {acl.pattern_type}"
    elif acl.operation not in _OPERATIONS:
        wrong = f"Invalid operation {acl.operation}"
    elif acl.permission not in (Permission.DENY, Permission.ALLOW):
        wrong = f"Invalid permissionType {acl.permission}"
    elif ":" not in acl.principal[1:]:
        wrong = f"Could not parse principal from `{acl.principal}` (no type and colon before the name)"
    if wrong is not None:
        raise GroupError(ErrorCode.invalid_request, wrong)


def delete_acls(state: MetadataState, command: DeleteAcls) -> tuple[list[Record], DeleteAclsResult]:
    """Delete the entries that match. If two filters match one entry, both results name it."""
    gone: dict[Acl, None] = {}
    results = []
    for asked in command.filters:
        wrong = _filter_problem(asked)
        if wrong is not None:
            results.append(DeletedAcls((), int(ErrorCode.invalid_request), wrong))
            continue
        matching = tuple(acl for acl in sorted(state.acls) if asked.matches(acl))
        gone.update(dict.fromkeys(matching))
        results.append(DeletedAcls(matching))
    return [Record(AclKey(ACL, "", acl), None) for acl in gone], DeleteAclsResult(tuple(results))


def _filter_problem(asked: AclFilter) -> str | None:
    if asked.resource_type not in set(ResourceType) - {0} or asked.pattern_type not in set(PatternType) - {0}:
        return "Unknown patternFilter."
    if asked.operation not in set(Operation) - {0} or asked.permission not in set(Permission) - {0}:
        return "Unknown entryFilter."
    return None
