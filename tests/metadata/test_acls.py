"""ACLs and users as the controller keeps them: AclControlManager's and ScramControlManager's rules (W10)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from actors.ground.limits import ACLS_MAX, CREDENTIALS_MAX
from actors.metadata.commands import (
    AlterCredentials,
    CreateAcls,
    CredentialToDelete,
    DeleteAcls,
    NewCredential,
    pack,
    unpack,
)
from actors.metadata.wire import pack_image, unpack_image
from tests.metadata.driver import Host, new_shard, state_of, tier

READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)
NEW = NewCredential("alice", 1, 4_096, b"salt", b"stored", b"server")


def codes(host: Host, *acls: Acl) -> list[int]:
    return [outcome.error_code for outcome in host.submit(CreateAcls(acls)).acls]


def test_acls_are_in_the_image_and_in_the_snapshot() -> None:
    host = tier()
    assert codes(host, READ, WRITE, READ) == [0, 0, 0]
    image = unpack_image(pack_image(host.shard.image()))
    assert set(image.acls) == {READ, WRITE}
    assert all(isinstance(acl, Acl) for acl in image.acls)
    copy = new_shard()
    for key, value in host.shard.records():
        copy.apply(tuple(key), value)
    assert state_of(copy) == state_of(host.shard)


def test_an_entry_that_can_mean_nothing_is_refused_alone() -> None:
    host = tier()
    refused = codes(
        host,
        READ._replace(resource_type=ResourceType.CLUSTER),
        READ._replace(resource_name=""),
        READ._replace(principal="alice"),
        READ._replace(operation=77),
        READ._replace(resource_type=9),
        READ,
    )
    assert refused == [ErrorCode.invalid_request] * 5 + [0]
    assert host.shard.image().acls == (READ,)


def test_a_filter_deletes_what_it_matches_and_tells_of_it() -> None:
    host = tier()
    prefixed = READ._replace(pattern_type=PatternType.PREFIXED)
    codes(host, READ, WRITE, prefixed, READ._replace(resource_name="other"))
    command = unpack(pack(DeleteAcls((AclFilter(resource_name="t", pattern_type=PatternType.LITERAL),))))
    (deleted,) = host.submit(command).filters
    assert {Acl(*acl) for acl in deleted.acls} == {READ, WRITE}
    (deleted,) = host.submit(
        DeleteAcls((AclFilter(resource_name="tea", pattern_type=PatternType.MATCH),))
    ).filters
    assert deleted.acls == (prefixed,)
    host.take_back()
    assert host.shard.image().acls == ()


def test_an_undone_decision_leaves_the_acls_as_they_were() -> None:
    host = tier()
    codes(host, READ)
    host.undo.clear()
    host.submit(DeleteAcls((AclFilter(),)))
    host.take_back()
    assert host.shard.image().acls == (READ,)


def test_a_tier_holds_a_bounded_number_of_acls() -> None:
    host = tier()
    many = tuple(READ._replace(resource_name=f"t{number}") for number in range(ACLS_MAX))
    assert not any(codes(host, *many))
    assert codes(host, READ, many[0]) == [ErrorCode.policy_violation, 0]


def altered(host: Host, *changes: CredentialToDelete | NewCredential) -> dict[str, int]:
    command = AlterCredentials(
        tuple(change for change in changes if isinstance(change, CredentialToDelete)),
        tuple(change for change in changes if isinstance(change, NewCredential)),
    )
    return {each.user: each.error_code for each in host.submit(unpack(pack(command))).users}


def test_users_come_and_go() -> None:
    host = tier()
    assert altered(host, NEW, NEW._replace(user="bob", mechanism=2)) == {"alice": 0, "bob": 0}
    image = unpack_image(pack_image(host.shard.image()))
    assert set(image.credentials) == {("alice", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-512")}
    assert image.credentials["alice", "SCRAM-SHA-256"].stored_key == b"stored"
    assert altered(host, CredentialToDelete("alice", 1)) == {"alice": 0}
    assert set(host.shard.image().credentials) == {("bob", "SCRAM-SHA-512")}


def test_a_credential_that_cannot_be_is_refused() -> None:
    host = tier()
    bad = ErrorCode.unacceptable_credential
    assert altered(host, NEW, NEW) == {"alice": ErrorCode.duplicate_resource}
    assert altered(host, NEW, CredentialToDelete("alice", 1)) == {"alice": ErrorCode.duplicate_resource}
    assert altered(host, NEW._replace(iterations=4_095)) == {"alice": bad}
    assert altered(host, NEW._replace(iterations=16_385)) == {"alice": bad}
    assert altered(host, NEW._replace(user="")) == {"": bad}
    assert altered(host, NEW._replace(mechanism=3)) == {"alice": ErrorCode.unsupported_sasl_mechanism}
    assert altered(host, CredentialToDelete("alice", 1)) == {"alice": ErrorCode.resource_not_found}
    assert host.shard.image().credentials == {}


def test_no_request_brings_more_users_than_the_tier_has_room_for() -> None:
    host = tier()
    many = tuple(NEW._replace(user=f"user-{number}") for number in range(CREDENTIALS_MAX + 2))
    codes_of = [each.error_code for each in host.submit(AlterCredentials((), many)).users]
    assert codes_of == [0] * CREDENTIALS_MAX + [ErrorCode.policy_violation] * 2
    assert len(host.shard.image().credentials) == CREDENTIALS_MAX
