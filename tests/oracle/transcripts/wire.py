"""Frames, headers and lengths that are right, unusual or wrong (W12, W13, W14), answered or cut off."""

from __future__ import annotations

import struct

from tests.oracle.access import committed
from tests.oracle.kits import heartbeat, join, sync
from tests.oracle.play import Play, framed
from tests.oracle.registry import transcript

API_VERSIONS, HEARTBEAT, METADATA = 18, 12, 3
NO_CLIENT = struct.pack(">h", -1)


def header(api_key: int, version: int, client: bytes = NO_CLIENT, correlation_id: int = 7) -> bytes:
    return struct.pack(">hhi", api_key, version, correlation_id) + client


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def beat(group: str = "g") -> bytes:
    """The body of Heartbeat 0 to 2."""
    return text(group) + struct.pack(">i", 1) + text("m")


CLOSING = {
    "unknown key": framed(header(999, 0)),
    "negative key": framed(header(-1, 0)),
    "version too new": framed(header(HEARTBEAT, 99) + beat()),
    "version that was removed": framed(header(8, 1) + beat()),
    "negative version": framed(header(HEARTBEAT, -1) + beat()),
    "length 0": struct.pack(">i", 0),
    "length 7": struct.pack(">i", 7) + b"1234567",
    "negative length": struct.pack(">i", -1),
    "length beyond the limit": struct.pack(">i", 100 * 1024 * 1024 + 1),
    "length of a giant": struct.pack(">i", 2**31 - 1),
    "truncated body": framed(header(HEARTBEAT, 0) + beat()[:-1]),
    "no body": framed(header(HEARTBEAT, 0)),
    "null where none may be": framed(header(HEARTBEAT, 0) + b"\xff\xff" + beat()[3:]),
    "string beyond the end": framed(header(HEARTBEAT, 0) + struct.pack(">h", 32_000) + b"g"),
    "array beyond the end": framed(header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "client id beyond the end": framed(struct.pack(">hhih", HEARTBEAT, 0, 7, 1_000) + b"x"),
    "header that ends early": framed(struct.pack(">hhi", HEARTBEAT, 0, 7)),
    "tags beyond the end": framed(header(HEARTBEAT, 4) + b"\x05\x00\x7f"),
}


@transcript(rows=("W13",), cases=CLOSING)
def what_closes_a_connection(play: Play, content: bytes) -> None:
    play.connect().ask_bytes(content)


ANSWERED = {
    "trailing bytes": header(HEARTBEAT, 0) + beat() + b"behind",
    "client id of length -2": header(HEARTBEAT, 0, struct.pack(">h", -2)) + beat(),
    "client id that is no UTF-8": header(HEARTBEAT, 0, b"\x00\x02\xff\xfe") + beat(),
    "empty client id": header(HEARTBEAT, 0, text("")) + beat(),
    "group that is no UTF-8": header(HEARTBEAT, 0) + b"\x00\x02\xff\xfe" + beat()[3:],
    "negative correlation id": header(HEARTBEAT, 0, correlation_id=-5) + beat(),
    "tag in the header": header(HEARTBEAT, 4) + b"\x01\x09\x02ab" + b"\x02g\0\0\0\x01\x02m\0\0",
    "tag in the body": header(HEARTBEAT, 4) + b"\0" + b"\x02g\0\0\0\x01\x02m\0\x01\x09\x02ab",
    "tags out of order": header(HEARTBEAT, 4) + b"\0" + b"\x02g\0\0\0\x01\x02m\0\x02\x09\x01a\x03\x01b",
    "tag twice": header(HEARTBEAT, 4) + b"\0" + b"\x02g\0\0\0\x01\x02m\0\x02\x09\x01a\x09\x01b",
}


@transcript(rows=("W13",), cases=ANSWERED)
def what_is_answered_all_the_same(play: Play, content: bytes) -> None:
    play.connect().ask_bytes(framed(content))


@transcript(rows=("W13",))
def answers_come_in_order(play: Play) -> None:
    """Requests that are sent at once are answered one after the other, whatever their correlation ids."""
    a = play.connect()
    a.post("find_coordinator", 0, {"key": play.group()})
    a.post("heartbeat", 0, {"group_id": play.group(), "generation_id": 1, "member_id": "m"})
    a.post("list_groups", 0, {})
    ids = [struct.unpack(">i", a.receive(10.0)[:4])[0] for _ in range(3)]
    play.note("correlation ids", ids)
    frame = framed(header(HEARTBEAT, 0) + beat())
    first = a.ask_bytes(frame + frame)
    play.note("the same correlation id twice", first == a.receive(10.0))


@transcript(rows=("W13",))
def parked_join_holds_up_what_comes_behind_it(play: Play) -> None:
    """One request of a connection is in flight; others' connections are not held up."""
    a, b = play.connect("a"), play.connect("b")
    group = play.group()
    first = join(a, group)
    sync(a, group, first)
    told = b.ask("join_group", 9, group_id=group)
    parked = b.send("join_group", 9, group_id=group, member_id=told.member_id)
    behind = b.send("heartbeat", 4, group_id=play.group("other"), generation_id=1, member_id="m")
    parked.expect_silence()
    heartbeat(a, group, first)
    a.ask("join_group", 9, group_id=group, member_id=first.member_id)
    parked.collect(ignore=("leader", "members"))
    behind.collect()


@transcript(rows=("W13",))
def member_whose_connection_closes_while_its_join_is_parked(play: Play) -> None:
    """It stays in the group and is in the next generation."""
    a, b = play.connect("a"), play.connect("b")
    group = play.group()
    first = join(a, group)
    sync(a, group, first)
    told = b.ask("join_group", 9, group_id=group)
    b.send("join_group", 9, group_id=group, member_id=told.member_id)
    b.close()
    again = a.ask("join_group", 9, group_id=group, member_id=first.member_id)
    play.note("members", len(again.members))


@transcript(rows=("W13",), cases={"v0": 0, "v1": 1, "v3": 3, "v4": 4, "too new": 99, "negative": -1})
def api_versions_alone_answers_a_version_it_does_not_know(play: Play, version: int) -> None:
    """The answer is in the layout of version 0, with error 35 and the broker's own versions."""
    # A version of the future has a header with tags.
    body = b"\0\x04abc\x041.0\0" if version >= 3 else b""
    a = play.connect()
    answer = a.quiet_bytes(framed(header(API_VERSIONS, version) + body))
    play.note("correlation id and error", list(struct.unpack(">ih", answer[:6])))
    a.ask("heartbeat", 0, group_id=play.group(), generation_id=1, member_id="m")


@transcript(rows=("W13",), cases={"spaces": "a b", "empty": "", "dash": "-a"})
def software_names_that_cannot_be(play: Play, name: str) -> None:
    a = play.connect()
    raw = name.encode()
    body = b"\0" + bytes([len(raw) + 1]) + raw + b"\x041.0\0"
    answer = a.quiet_bytes(framed(header(API_VERSIONS, 3) + body))
    play.note("error", struct.unpack(">h", answer[4:6])[0])


@transcript(rows=("W14",), cases={"v0": 0, "v1": 1, "v4": 4})
def throttle_time_is_there_from_the_first_version_that_has_it(play: Play, version: int) -> None:
    """Nobody is throttled here: the field is 0."""
    a = play.connect()
    answer = a.quietly("heartbeat", version, group_id=play.group(), generation_id=1, member_id="m")
    play.note("throttle time", str(getattr(answer, "throttle_time", "no such field")))


@transcript(rows=("W12",), cases={"v2": 2, "v7": 7, "v9": 9})
def commit_for_what_is_not_there(play: Play, version: int) -> None:
    """Each unknown topic or partition is refused by itself, before the group is looked at."""
    topic, a = play.topic(), play.connect()
    topics = [*committed(topic, play.unique("gone"))]
    topics[0]["partitions"].append({"partition_index": 9, "committed_offset": 1})
    a.ask("offset_commit", version, group_id=play.group(), topics=topics, unordered=("topics", "partitions"))
    gone = committed(play.unique("gone"))
    unknown = {"generation_id_or_member_epoch": 3, "member_id": "nobody"}
    a.ask("offset_commit", version, group_id=play.group(), topics=gone, **unknown)


@transcript(rows=("W12",))
def operations_that_everybody_has_without_an_authorizer(play: Play) -> None:
    """All that the resource has; the schema's default where nobody asks."""
    topic, a = play.topic(), play.connect()
    group = play.group()
    joined = join(a, group)
    sync(a, group, joined)
    for include in (False, True):
        for version in (3, 5):
            a.ask(
                "describe_groups",
                version,
                groups=[group],
                include_authorized_operations=include,
                ignore=("client_host",),
            )
        a.ask(
            "metadata",
            8,
            topics=[{"name": topic}],
            include_topic_authorized_operations=include,
            include_cluster_authorized_operations=include,
        )
        a.ask("metadata", 12, topics=[{"name": topic}], include_topic_authorized_operations=include)
        a.ask("describe_cluster", 1, endpoint_type=1, include_cluster_authorized_operations=include)
    beat = {"member_id": "m", "rebalance_timeout": 30_000, "subscribed_topic_names": [topic]}
    a.quietly("consumer_group_heartbeat", 1, group_id=play.group("new"), **beat, topic_partitions=[])
    groups = [play.group("new"), play.group("none")]
    fields = {"group_ids": groups, "include_authorized_operations": True}
    answer = a.quietly("consumer_group_describe", 1, **fields)
    play.note("operations", sorted(each.authorized_operations for each in answer.groups))


@transcript(rows=("W12",), cases={"acls": "describe_acls"})
def acls_without_an_authorizer(play: Play, api: str) -> None:
    a = play.connect()
    any_acl = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    a.ask(api, 3, **any_acl)
    a.ask("delete_acls", 3, filters=[any_acl])
    entry = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a"}
    a.ask("create_acls", 3, creations=[entry | {"host": "*", "operation": 3, "permission_type": 3}])


@transcript(rows=("W13",))
def sasl_on_a_listener_without_it(play: Play) -> None:
    a = play.connect()
    a.ask("sasl_handshake", 1, mechanism="PLAIN")
    a.ask("sasl_authenticate", 2, auth_bytes=b"\0a\0b")
