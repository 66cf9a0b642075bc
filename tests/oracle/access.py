"""Giving a user rights in a transcript of the profile `security`: alice has what she is given and no more."""

from __future__ import annotations

from typing import Any

from actors.ground.acl import Operation, PatternType, Permission, ResourceType
from tests.oracle.play import Client, Play

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
CREATE, DELETE, ALTER = Operation.CREATE, Operation.DELETE, Operation.ALTER
DENY = Permission.DENY


def acl(resource_type: int, name: str, operation: int, **changes: Any) -> dict[str, Any]:
    """Return an ACL of alice's as CreateAcls takes it."""
    entry = {
        "resource_type": int(resource_type),
        "resource_name": name,
        "resource_pattern_type": int(PatternType.LITERAL),
        "principal": "User:alice",
        "host": "*",
        "operation": int(operation),
        "permission_type": int(Permission.ALLOW),
    }
    return entry | {key: int(value) if isinstance(value, int) else value for key, value in changes.items()}


def allow(play: Play, *entries: dict[str, Any]) -> None:
    """Add them, and wait until they hold where alice is served."""
    done = play.admin.quietly("create_acls", 3, creations=list(entries))
    assert all(result.error_code.value == 0 for result in done.results), done
    marker = play.unique(f"marker-{len(play.steps)}-")
    play.admin.quietly("create_acls", 3, creations=[acl(GROUP, marker, DESCRIBE)])
    probe = play.connect("probe", user="alice")
    play.until(
        lambda: probe.quietly("offset_fetch", 7, group_id=marker, topics=[]).error_code.value == 0,
        "ACLs that hold",
    )
    probe.close()


def alice(play: Play, *entries: dict[str, Any]) -> Client:
    """Return a connection of alice's, once these ACLs allow her what they say."""
    allow(play, *entries)
    return play.connect("alice", user="alice")


def committed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"committed_offset": 1}]} for name in names]
