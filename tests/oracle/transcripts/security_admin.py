"""ACLs, users and logging in: what administrators and strangers ask (W10)."""

from __future__ import annotations

from actors.ground.acl import Operation, PatternType, Permission
from tests.oracle.access import CLUSTER, DENY, DESCRIBE, GROUP, READ, TOPIC, WRITE, acl, alice
from tests.oracle.kits import heartbeat, join
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("W10",), profile="security")
def acls_that_cannot_be(play: Play) -> None:
    admin = play.connect("root")
    name = play.unique("r")
    for wrong in (
        acl(CLUSTER, name, DESCRIBE),
        acl(TOPIC, name, Operation.ANY),
        acl(TOPIC, "", READ),
        acl(TOPIC, name, READ, principal="alice"),
        acl(9, name, READ),
        acl(TOPIC, name, READ, resource_pattern_type=PatternType.MATCH),
        acl(TOPIC, name, 77),
        acl(TOPIC, name, READ, permission_type=Permission.ANY),
    ):
        admin.ask("create_acls", 3, creations=[wrong])


@transcript(rows=("W10",), profile="security", cases={"v1": 1, "v3": 3})
def acls_come_and_go(play: Play, version: int) -> None:
    admin, name = play.connect("root"), play.unique("r")
    entries = [acl(TOPIC, name, READ), acl(TOPIC, name, WRITE), acl(TOPIC, name, READ, permission_type=DENY)]
    admin.ask("create_acls", version, creations=[*entries, entries[0], acl(CLUSTER, name, READ)])
    one = {"resource_type_filter": int(TOPIC), "resource_name_filter": name, "pattern_type_filter": 3}
    every = {"operation": 1, "permission_type": 1}
    lists = ("resources", "acls", "matching_acls")
    settled = {"unordered": lists}
    admin.ask_until(
        lambda answer: sum(len(each.acls) for each in answer.resources) == 3,
        "describe_acls",
        version,
        **one,
        **every,
        **settled,
    )
    admin.ask("describe_acls", version, **one, operation=int(READ), permission_type=1, **settled)
    admin.ask("describe_acls", version, **one | {"pattern_type_filter": 2}, **every, **settled)
    admin.ask(
        "delete_acls", version, filters=[one | every | {"operation": int(WRITE)}, one | every], **settled
    )
    admin.ask_until(lambda answer: not answer.resources, "describe_acls", version, **one, **every)
    client = alice(play)
    client.ask("describe_acls", version, **one, **every)
    client.ask("create_acls", version, creations=entries[:1])
    client.ask("delete_acls", version, filters=[one | every])


@transcript(rows=("W10",), profile="security")
def users_come_and_go(play: Play) -> None:
    admin, user = play.connect("root"), play.unique("user")
    new = {"name": user, "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
    for deletions, upsertions in (
        ([{"name": user, "mechanism": 1}], []),
        ([], [new]),
        ([], [new, new]),
        ([], [new | {"iterations": 4095}]),
        ([], [new | {"iterations": 16_385}]),
        ([], [new | {"mechanism": 0}]),
        ([], [new | {"name": ""}]),
        ([{"name": user, "mechanism": 2}], [new | {"name": play.unique("user2")}]),
    ):
        admin.ask(
            "alter_user_scram_credentials",
            0,
            deletions=deletions,
            upsertions=upsertions,
            unordered=("results",),
        )
    asked = [{"name": user}, {"name": play.unique("nobody")}]
    admin.ask_until(
        lambda answer: answer.results[0].error_code.value == 0,
        "describe_user_scram_credentials",
        0,
        users=asked,
        unordered=("results",),
    )
    admin.ask("describe_user_scram_credentials", 0, users=[{"name": user}, {"name": user}])
    admin.ask("alter_user_scram_credentials", 0, deletions=[{"name": user, "mechanism": 1}], upsertions=[])
    client = alice(play)
    client.ask("describe_user_scram_credentials", 0, users=asked[:1])
    client.ask("alter_user_scram_credentials", 0, deletions=[{"name": user, "mechanism": 1}], upsertions=[])


@transcript(rows=("W10",), profile="security")
def logging_in(play: Play) -> None:
    """What SASL's requests are answered, in and out of place."""
    for token in (
        b"\0alice\0wrong",
        b"\0nobody\0x",
        b"bob\0alice\0alice-secret",
        b"alice",
        b"\0\0x",
        b"\0alice\0",
    ):
        client = play.connect("stranger", user=None)
        client.ask("sasl_handshake", 1, mechanism="PLAIN", unordered=("mechanisms",))
        client.ask("sasl_authenticate", 2, auth_bytes=token)
        client.expect_closed()
    client = play.connect("other", user=None)
    client.ask("sasl_handshake", 1, mechanism="GSSAPI", unordered=("mechanisms",))
    client.expect_closed()
    client = play.connect("other", user=None)
    client.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256", unordered=("mechanisms",))
    client.ask("sasl_authenticate", 1, auth_bytes=b"n,,n=nobody,r=abc")
    client.expect_closed()
    client = play.connect("late")
    client.ask("sasl_handshake", 1, mechanism="PLAIN")
    client.ask("sasl_authenticate", 2, auth_bytes=b"\0alice\0alice-secret")
    client.ask("sasl_authenticate", 0, auth_bytes=b"")


@transcript(
    rows=("W10", "W13"), profile="security", cases={"join_group": "join_group", "metadata": "metadata"}
)
def nothing_is_served_before_logging_in(play: Play, api: str) -> None:
    client = play.connect("stranger", user=None)
    client.post(api, 1, {"group_id": "g"} if api == "join_group" else {})
    client.expect_closed()


@transcript(rows=("W10", "C1"), profile="security")
def member_whose_right_is_taken_away(play: Play) -> None:
    """A heartbeat that was allowed is not, once the ACL is gone."""
    group = play.group()
    client = alice(play, acl(GROUP, group, READ))
    joined = join(client, group)
    client.ask(
        "sync_group", 5, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    heartbeat(client, group, joined)
    named = {"resource_type_filter": int(GROUP), "resource_name_filter": group, "pattern_type_filter": 3}
    play.admin.quietly("delete_acls", 3, filters=[named | {"operation": 1, "permission_type": 1}])
    client.ask_until(
        lambda answer: answer.error_code.value,
        "heartbeat",
        4,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
    )
