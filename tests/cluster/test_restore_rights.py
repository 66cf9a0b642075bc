"""Users and ACLs of a backup in a new tier."""

from __future__ import annotations

from actors.ground.acl import Acl, Operation, PatternType, Permission, ResourceType
from actors.metadata.commands import AlterCredentials, CreateAcls, NewCredential, Outcome
from cluster.restore_rights import commands_of, problem
from tests.metadata.driver import Host, tier

READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


def user(name: str, mechanism: int = 1, stored: bytes = b"old") -> NewCredential:
    return NewCredential(name, mechanism, 4_096, b"salt", stored, b"server")


def old_tier() -> Host:
    host = tier()
    host.submit(CreateAcls(tuple(READ._replace(resource_name=f"t{number}") for number in range(1_500))))
    host.submit(AlterCredentials((), (user("alice"), user("admin"))))
    host.submit(AlterCredentials((), (user("alice", 2),)))
    return host


def test_rights_and_users_live_on_and_the_new_administrator_stays() -> None:
    old, new = old_tier(), tier()
    new.submit(AlterCredentials((), (user("admin", stored=b"new"),)))
    for command in list(commands_of(old.shard.records(), new.shard.records())):
        assert problem(new.submit(command)) is None
    image = new.shard.image()
    assert image.acls == old.shard.image().acls
    assert set(image.credentials) == set(old.shard.image().credentials)
    assert image.credentials["admin", "SCRAM-SHA-256"].stored_key == b"new"


def test_a_refusal_is_told_in_words() -> None:
    host = tier()
    assert problem(host.submit(CreateAcls((READ, READ._replace(operation=99))))) == "Invalid operation 99"
    assert problem(Outcome(41, "this replica does not lead")) == "this replica does not lead"
