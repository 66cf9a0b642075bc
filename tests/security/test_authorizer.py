"""Who may do what: the rules of Kafka's StandardAuthorizer (W10)."""

from __future__ import annotations

import random

from actors.ground.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from actors.security.authorizer import (
    ANSWERS_REMEMBERED_MAX,
    NAME_REMEMBERED_MAX,
    Access,
    Authorizer,
)

ALICE, BOB, HOST = "User:alice", "User:bob", "/127.0.0.1"
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def allow(name: str, operation: Operation, **changes: object) -> Acl:
    entry = Acl(TOPIC, name, PatternType.LITERAL, ALICE, "*", operation, Permission.ALLOW)
    return entry._replace(**changes)  # type: ignore[arg-type]


def deny(name: str, operation: Operation, **changes: object) -> Acl:
    return allow(name, operation, permission=Permission.DENY, **changes)


def access(*acls: Acl, principal: str = ALICE, without_acls: bool = False) -> Access:
    return Authorizer(acls, frozenset({"User:root"}), without_acls).access(principal, HOST)


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not access().may(READ, TOPIC, "t")


def test_a_superuser_may_do_what_is_forbidden_to_everybody() -> None:
    everybody = deny("*", Operation.ALL, principal="User:*")
    assert access(everybody, principal="User:root").may(WRITE, TOPIC, "t")


def test_what_no_entry_speaks_of_is_allowed_where_the_tier_says_so() -> None:
    mine = access(allow("mine", READ, principal=BOB), without_acls=True)
    assert mine.may(READ, TOPIC, "other")
    assert not mine.may(READ, TOPIC, "mine")


def test_a_denial_beats_an_allowance_from_wherever_it_comes() -> None:
    one = access(
        allow("t", READ),
        allow("*", READ),
        deny("", READ, resource_name="t", pattern_type=PatternType.PREFIXED),
    )
    assert not one.may(READ, TOPIC, "t")
    assert one.may(READ, TOPIC, "other")


def test_reading_and_writing_imply_describing_but_their_denial_does_not() -> None:
    for operation in (READ, WRITE, Operation.DELETE, Operation.ALTER):
        assert access(allow("t", operation)).may(DESCRIBE, TOPIC, "t")
    assert not access(allow("t", Operation.CREATE)).may(DESCRIBE, TOPIC, "t")
    assert access(allow("t", DESCRIBE), deny("t", READ)).may(DESCRIBE, TOPIC, "t")
    configs = access(allow("t", Operation.ALTER_CONFIGS))
    assert configs.may(Operation.DESCRIBE_CONFIGS, TOPIC, "t")
    assert not configs.may(DESCRIBE, TOPIC, "t")


def test_an_entry_is_for_its_principal_its_host_and_its_kind_of_resource() -> None:
    assert not access(allow("t", READ), principal=BOB).may(READ, TOPIC, "t")
    assert access(allow("t", READ, principal="User:*"), principal=BOB).may(READ, TOPIC, "t")
    assert access(allow("t", READ, host="127.0.0.1")).may(READ, TOPIC, "t")
    assert not access(allow("t", READ, host="192.0.2.1")).may(READ, TOPIC, "t")
    assert not access(allow("t", READ)).may(READ, GROUP, "t")


def test_a_prefix_covers_the_names_that_begin_so() -> None:
    team = access(allow("team-", READ, pattern_type=PatternType.PREFIXED))
    assert team.may(READ, TOPIC, "team-")
    assert team.may(READ, TOPIC, "team-a")
    assert not team.may(READ, TOPIC, "team")


def test_authorized_operations_are_the_bits_of_what_is_allowed() -> None:
    assert access(allow("t", READ)).operations(TOPIC, "t") == 1 << READ | 1 << DESCRIBE
    assert Access().operations(GROUP, "g") == 3400, "as a Kafka without an authorizer says"
    assert Access().operations(TOPIC, "t") == 3576


def test_somebody_may_write_somewhere_unless_a_denial_covers_all_that_is_allowed() -> None:
    """This is KIP-679's Authorizer.authorizeByResourceType."""
    prefix = PatternType.PREFIXED
    assert access(allow("t", WRITE)).may_with_any(WRITE, TOPIC)
    assert not access(allow("t", READ)).may_with_any(WRITE, TOPIC)
    assert not access(allow("t", WRITE), deny("t", WRITE)).may_with_any(WRITE, TOPIC)
    assert not access(allow("t", WRITE), deny("*", WRITE)).may_with_any(WRITE, TOPIC)
    assert not access(allow("team-a", WRITE), deny("team-", WRITE, pattern_type=prefix)).may_with_any(
        WRITE, TOPIC
    )
    assert access(allow("te", WRITE, pattern_type=prefix), deny("team-", WRITE)).may_with_any(WRITE, TOPIC)
    assert access(allow("*", WRITE), deny("team-", WRITE, pattern_type=prefix)).may_with_any(WRITE, TOPIC)


def test_index_finds_what_a_look_at_every_entry_finds() -> None:
    chance = random.Random(7)
    names = ["", "a", "ab", "abc", "b", "*"]
    for _ in range(300):
        acls = tuple(
            Acl(
                TOPIC,
                chance.choice(names[1:]),
                chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                chance.choice((ALICE, BOB, "User:*")),
                chance.choice(("*", "127.0.0.1")),
                chance.choice((READ, WRITE, DESCRIBE, Operation.ALL)),
                chance.choice((Permission.ALLOW, Permission.DENY)),
            )
            for _ in range(chance.randrange(6))
        )
        for name in ("a", "ab", "abcd", "b", "c"):
            for operation in (READ, WRITE, DESCRIBE):
                expected = _by_the_book(acls, operation, name)
                assert access(*acls).may(operation, TOPIC, name) == expected, (acls, name, operation)


def _by_the_book(acls: tuple[Acl, ...], operation: Operation, name: str) -> bool:
    concerned = [
        acl
        for acl in acls
        if AclFilter(TOPIC, name, PatternType.MATCH).matches(acl) and acl.principal in (ALICE, "User:*")
    ]
    same = {operation, Operation.ALL}
    if any(acl.permission == Permission.DENY and acl.operation in same for acl in concerned):
        return False
    implying = same | ({READ, WRITE} if operation == DESCRIBE else set())
    return any(acl.permission == Permission.ALLOW and acl.operation in implying for acl in concerned)


def test_what_is_remembered_of_a_client_that_asks_for_everything_has_a_bound() -> None:
    """A tier serves for months between two changes of its ACLs."""
    authorizer = Authorizer((allow("t", READ),), frozenset(), False)
    for number in range(ANSWERS_REMEMBERED_MAX):
        assert not authorizer.access(ALICE, HOST).may(READ, TOPIC, f"t-{number}")
    full = authorizer.access(ALICE, HOST)
    for name in ("t" * (NAME_REMEMBERED_MAX + 1), "t-0", "t-1"):
        assert not full.may(READ, TOPIC, name)
    assert authorizer.access(ALICE, HOST) is full, "nothing new was remembered"
    assert full.may(READ, TOPIC, "t")
    assert authorizer.access(ALICE, HOST) is not full
    assert authorizer.access(ALICE, HOST).may(READ, TOPIC, "t")
