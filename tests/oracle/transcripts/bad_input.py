"""Bad input: every field of the group APIs out of range, empty, unknown, too long, duplicated or null.

Each transcript spoils one field of a request that is right otherwise, once for each wrong value, and each
time on a new connection: a server that hangs up says so as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.oracle.kits import beat_in, settle_alone, subscription
from tests.oracle.play import Broken, Client, Play
from tests.oracle.registry import transcript
from tests.oracle.requests import body, request_entity

INT16 = (-(2**15), -1, 2**15 - 1)
INT32 = (-(2**31), -2, -1, 0, 1, 2**31 - 1)
INT64 = (-(2**63), -2, -1, 0, 2**63 - 1)
LONG = "x" * 300
VERY_LONG = "y" * 32_000
TEXTS = ("", " ", "ä漢😀", "a\0b", "nobody", LONG)
MARK = "null-here"
Fields = Mapping[str, Any]


def spoil(play: Play, api: str, version: int, right: Fields, field: str, values: Sequence[Any]) -> None:
    """Ask with each of `values` in turn."""
    for value in values:
        with suppress(Broken):
            connect(play).ask(api, version, **{**right, field: value})


def connect(play: Play) -> Client:
    """A connection of a client that has shown itself to be one: we take long frames only then."""
    client = play.connect()
    client.quietly("api_versions", 3)
    return client


def spoil_with_null(play: Play, api: str, version: int, right: Fields, flexible: bool) -> None:
    """A null where the schema allows none: in `right` it is what bears MARK."""
    written = body(request_entity(api, version, right))
    raw = MARK.encode()
    text = bytes([len(raw) + 1]) + raw if flexible else len(raw).to_bytes(2, "big") + raw
    assert written.count(text) == 1
    play.connect().ask_body(api, version, written.replace(text, b"\0" if flexible else b"\xff\xff"))


# A request that is right, by API: what is spoilt belongs to a group that is there.


def _joining(play: Play) -> Fields:
    return {"group_id": play.group(), "group_instance_id": None, "member_id": ""}


def _member(play: Play) -> Fields:
    joined = settle_alone(play.connect(), play.group())
    return {
        "group_id": play.group(),
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "group_instance_id": None,
    }


def _committer(play: Play) -> Fields:
    known = dict(_member(play))
    known["generation_id_or_member_epoch"] = known.pop("generation_id")
    return known | {"topics": [offsets(play.topic("t"))]}


def _consumer(play: Play) -> Fields:
    """A member that waits for a topic that is not there: nothing is ever assigned, so that nothing moves."""
    joined = beat_in(play.connect(), play.group(), "m", ["nowhere"])
    return {
        "group_id": play.group(),
        "member_id": "m",
        "member_epoch": joined.member_epoch,
        "rebalance_timeout": -1,
        "topic_partitions": None,
    }


def _new_consumer(play: Play) -> Fields:
    return {
        "group_id": play.group(),
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["nowhere"],
        "topic_partitions": [],
    }


def offsets(topic: str, *partitions: Fields, **fields: Any) -> dict[str, Any]:
    """One topic of an OffsetCommit."""
    right = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
        **fields,
    }
    return {"name": topic, "partitions": [{**right, **each} for each in partitions] or [right]}


def protocol(name: str = "range", metadata: bytes = subscription(())) -> dict[str, Any]:
    return {"name": name, "metadata": metadata}


# No name twice: a lone member that does so is given an id by Kafka, and then never an answer (C15, bug).
PROTOCOLS = (
    [],
    [protocol("")],
    [protocol(metadata=b"")],
    [protocol(metadata=b"\xff")],
    [protocol(metadata=b"\0\0\x7f\xff\xff\xff")],
    [protocol(LONG)],
    [protocol(f"p{n}") for n in range(50)],
    [protocol(metadata=subscription((), user_data=b"m" * 100_000))],
)
IDS = ("", ".", "..", "a b", "a/b", LONG, "x" * 249)
JOIN: Mapping[str, Sequence[Any]] = {
    "group_id": ("", VERY_LONG),
    "session_timeout": (*INT32, 99, 100, 1_800_000, 1_800_001),
    "rebalance_timeout": INT32,
    "member_id": TEXTS[1:],
    "group_instance_id": (*IDS, "ä"),
    "protocol_type": ("", " ", "connect", LONG),
    "protocols": PROTOCOLS,
    "reason": ("", LONG, "ä" * 400),
}
MEMBER: Mapping[str, Sequence[Any]] = {
    "group_id": ("", "nobody", VERY_LONG),
    "generation_id": INT32,
    "member_id": TEXTS,
    "group_instance_id": ("", "nobody", LONG),
}
SYNC: Mapping[str, Sequence[Any]] = {
    **MEMBER,
    "protocol_type": ("", "connect", None, LONG),
    "protocol_name": ("", "roundrobin", None, LONG),
    "assignments": (
        [{"member_id": "nobody", "assignment": b"x"}],
        [{"member_id": "", "assignment": b""}] * 2,
        [{"member_id": LONG, "assignment": b"x" * 100_000}],
    ),
}
COMMIT: Mapping[str, Sequence[Any]] = {
    "group_id": ("", "nobody", VERY_LONG),
    "generation_id_or_member_epoch": INT32,
    "member_id": TEXTS,
    "group_instance_id": ("", "nobody", LONG),
}


@transcript(rows=("C2", "C3", "C28"), cases={name: name for name in JOIN})
def join_with_a_bad(play: Play, field: str) -> None:
    """Version 9 says what is wrong and version 0 what it can: a group that nobody could join is not there."""
    for version in (9, 4, 0) if field not in ("group_instance_id", "reason", "rebalance_timeout") else (9, 5):
        right = _joining(play)
        if field == "reason" and version < 8:
            continue
        for number, value in enumerate(JOIN[field]):
            group = {"group_id": play.group(f"g{version}-{number}")}
            if field == "group_id":
                group = {"group_id": value and play.group(f"{version}{value}")}
            with suppress(Broken):
                connect(play).ask("join_group", version, **{**right, field: value, **group})


@transcript(rows=("C17", "C18"), cases={name: name for name in SYNC})
def sync_with_a_bad(play: Play, field: str) -> None:
    right = {**_member(play), "assignments": []}
    spoil(play, "sync_group", 5, right, field, SYNC[field])
    if field in ("group_id", "generation_id", "member_id"):
        spoil(play, "sync_group", 0, right, field, SYNC[field])


@transcript(rows=("C20",), cases={name: name for name in MEMBER})
def heartbeat_with_a_bad(play: Play, field: str) -> None:
    right = _member(play)
    spoil(play, "heartbeat", 4, right, field, MEMBER[field])
    if field != "group_instance_id":
        spoil(play, "heartbeat", 0, right, field, MEMBER[field])


@transcript(rows=("C22", "C23"))
def leave_with_bad_members(play: Play) -> None:
    """A batch answers for each of its members; before version 3 there is one, and no batch."""
    right = _member(play)
    nobody = {"member_id": "nobody", "group_instance_id": None}
    both = {"member_id": right["member_id"], "group_instance_id": "i"}
    batches = ([], [nobody, nobody], [{**nobody, "member_id": ""}], [both], [{**both, "member_id": ""}])
    for group_id in (right["group_id"], "nobody", ""):
        for version in (5, 3):
            spoil(play, "leave_group", version, {"group_id": group_id}, "members", batches)
        spoil(play, "leave_group", 2, {"group_id": group_id}, "member_id", TEXTS)


@transcript(rows=("O2", "O4"), cases={name: name for name in COMMIT})
def commit_with_a_bad(play: Play, field: str) -> None:
    right = _committer(play)
    spoil(play, "offset_commit", 9, right, field, COMMIT[field])
    if field == "group_instance_id":
        return
    spoil(play, "offset_commit", 6, right, field, COMMIT[field])


@transcript(rows=("O2", "O4", "O5"))
def commit_of_bad_offsets(play: Play) -> None:
    right = dict(_committer(play))
    topic = right["topics"][0]["name"]
    spoilt = [
        [],
        [{"name": topic, "partitions": []}],
        [{"name": "nowhere", "partitions": []}],
        [offsets(topic), offsets(topic, committed_offset=2)],
        [offsets(topic, {}, {"committed_offset": 3})],
        [offsets(name) for name in ("", "a b", ".", LONG, "nowhere")],
        [offsets(topic, *({"partition_index": number} for number in INT32))],
        *([offsets(topic, committed_offset=offset)] for offset in INT64),
        *([offsets(topic, committed_leader_epoch=epoch)] for epoch in INT32),
        *(
            [offsets(topic, committed_metadata=text)]
            for text in (None, "m" * 4_096, "m" * 4_097, "😀" * 2_049)
        ),
    ]
    for version in (9, 6):
        spoil(play, "offset_commit", version, right, "topics", spoilt)
    asked = [{"name": topic, "partition_indexes": [0, 1, -1]}]
    groups = [{"group_id": right["group_id"], "member_id": None, "member_epoch": -1, "topics": asked}]
    play.connect().ask("offset_fetch", 9, groups=groups)


@transcript(rows=("O5",))
def commit_with_a_bad_retention(play: Play) -> None:
    topics = [offsets(play.topic("t"))]
    right = {"group_id": play.group(), "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    spoil(play, "offset_commit", 2, right, "retention_time", (-2, -1, 0, 1, 10**12))


@transcript(rows=("O9", "O10"))
def fetch_of_bad_groups(play: Play) -> None:
    """One answer a group, also for one that was named twice, and for members that are none."""
    _member(play)
    topic = play.topic("t")
    asked = [
        {"name": topic, "partition_indexes": [0, 0, -1, 7, 2**31 - 1]},
        {"name": "", "partition_indexes": [0]},
    ]
    right = {"group_id": play.group(), "member_id": None, "member_epoch": -1, "topics": asked}
    spoilt = [
        [],
        [right, right],
        [{**right, "topics": [*asked, *asked]}],
        [{**right, "topics": []}],
        [{**right, "group_id": group_id} for group_id in ("", "nobody", LONG)],
        *([{**right, "member_id": member_id, "member_epoch": 1}] for member_id in ("", "nobody", None)),
        *([{**right, "member_id": "m", "member_epoch": epoch}] for epoch in INT32),
    ]
    spoil(play, "offset_fetch", 9, {}, "groups", spoilt)
    for version in (1, 7):
        spoil(play, "offset_fetch", version, {"topics": asked}, "group_id", ("", "nobody", play.group()))


@transcript(rows=("O12",))
def deletion_of_bad_offsets(play: Play) -> None:
    _member(play)
    topic = play.topic("t")
    named = [{"name": topic, "partitions": [{"partition_index": number} for number in (0, 0, -1, 9)]}]
    for group_id in ("", "nobody", play.group()):
        right = {"group_id": group_id}
        unknown = [{"name": "", "partitions": [{"partition_index": 0}]}]
        for topics in ([], named, unknown):
            # Kafka answers for the partitions that are not there first.
            connect(play).ask("offset_delete", 0, **right, topics=topics, unordered=("topics", "partitions"))


@transcript(rows=("W6", "C25", "M23"))
def lists_of_bad_groups(play: Play) -> None:
    """Empty, unknown, named twice."""
    _member(play)
    ids = ([], [""], ["nobody", "nobody"], [play.group(), play.group()], [LONG])
    for version in (6, 5, 0):
        spoil(play, "describe_groups", version, {}, "groups", ids)
    for version in (1, 0):
        spoil(play, "consumer_group_describe", version, {}, "group_ids", ids)
    for version in (2, 0):
        spoil(play, "delete_groups", version, {}, "groups_names", ids[:3])


@transcript(rows=("W9", "G3"))
def filters_that_are_none(play: Play) -> None:
    """States and types that do not exist match nothing; their letters' size does not matter."""
    _member(play)
    for states in (["nonsense"], [""], ["stable"], ["STABLE", "nonsense"], ["Stable", "Stable"]):
        spoil(play, "list_groups", 5, {"types_filter": []}, "states_filter", (states,))
    for types in (["nonsense"], [""], ["CLASSIC"], ["classic", "nonsense"], ["Consumer"]):
        spoil(play, "list_groups", 5, {"states_filter": []}, "types_filter", (types,))


@transcript(rows=("W5", "W6"))
def coordinators_of_bad_keys(play: Play) -> None:
    for version in (6, 4):
        right = {"key_type": 0, "coordinator_keys": []}
        spoil(play, "find_coordinator", version, right, "coordinator_keys", ([], [""], ["g", "g"], [LONG]))
        spoil(
            play, "find_coordinator", version, {**right, "coordinator_keys": ["g"]}, "key_type", (-1, 9, 127)
        )
    spoil(play, "find_coordinator", 3, {"key_type": 0}, "key", ("", "g", LONG))
    spoil(play, "find_coordinator", 3, {"key": "g"}, "key_type", (-1, 9, 127))


CONSUMER: Mapping[str, Sequence[Any]] = {
    "group_id": ("", " ", VERY_LONG),
    "member_id": ("", " ", LONG, "m" * 37),
    "member_epoch": INT32,
    "instance_id": ("", " ", "i", LONG),
    "rack_id": ("", " ", LONG),
    "rebalance_timeout": INT32,
    "subscribed_topic_names": (None, [], [""], ["u", "u"], ["a b"], [LONG]),
    "subscribed_topic_regex": ("", " ", "(", "a{2,1}", "(?<=a)b", "x" * 1_000, "\\p{Nope}"),
    "server_assignor": ("", " ", "nobody", "RANGE", LONG),
    "topic_partitions": (None, [], [{"topic_id": None, "partitions": [0, 0, -1]}]),
}


@transcript(rows=("M1", "M2", "M5"), cases={name: name for name in CONSUMER})
def consumer_joins_with_a_bad(play: Play, field: str) -> None:
    """Each in a group of its own: who is refused has made none."""
    right = _new_consumer(play)
    for version in (1, 0) if field != "subscribed_topic_regex" else (1,):
        for number, value in enumerate(CONSUMER[field]):
            group = {"group_id": play.group(f"g{version}-{number}")}
            if field == "group_id":
                group = {"group_id": value and play.group(f"{version}{value}")}
            with suppress(Broken):
                connect(play).ask("consumer_group_heartbeat", version, **{**right, field: value, **group})


@transcript(rows=("M1", "M2", "M6"), cases={name: name for name in CONSUMER})
def consumer_beats_with_a_bad(play: Play, field: str) -> None:
    """A member that is in. Its epoch goes last: it may leave by it."""
    right = _consumer(play)
    values = [value for value in CONSUMER[field] if not (field == "member_epoch" and value in (-1, -2))]
    spoil(play, "consumer_group_heartbeat", 1, right, field, values)
    play.connect().ask("consumer_group_describe", 1, group_ids=[right["group_id"]])


NULLS: Mapping[str, tuple[str, int, bool, Callable[[], Fields]]] = {
    "join group id": ("join_group", 9, True, lambda: {"group_id": MARK}),
    "join member id": ("join_group", 3, False, lambda: {"group_id": "g", "member_id": MARK}),
    "join protocol type": ("join_group", 9, True, lambda: {"group_id": "g", "protocol_type": MARK}),
    "sync group id": ("sync_group", 5, True, lambda: {"group_id": MARK}),
    "heartbeat group id": ("heartbeat", 4, True, lambda: {"group_id": MARK}),
    "heartbeat member id": ("heartbeat", 0, False, lambda: {"group_id": "g", "member_id": MARK}),
    "leave group id": ("leave_group", 5, True, lambda: {"group_id": MARK}),
    "commit group id": ("offset_commit", 9, True, lambda: {"group_id": MARK}),
    "commit topic": ("offset_commit", 6, False, lambda: {"group_id": "g", "topics": [offsets(MARK)]}),
    "fetch group id": ("offset_fetch", 7, True, lambda: {"group_id": MARK, "topics": []}),
    "described group": ("describe_groups", 5, True, lambda: {"groups": [MARK]}),
    "deleted group": ("delete_groups", 2, True, lambda: {"groups_names": [MARK]}),
    "consumer group id": ("consumer_group_heartbeat", 1, True, lambda: {"group_id": MARK}),
    "consumer member id": ("consumer_group_heartbeat", 1, True, lambda: {"group_id": "g", "member_id": MARK}),
    "subscribed topic": (
        "consumer_group_heartbeat",
        1,
        True,
        lambda: {"group_id": "g", "member_id": "m", "subscribed_topic_names": [MARK]},
    ),
}


@transcript(rows=("W13",), cases={name.replace(" ", "-"): name for name in NULLS})
def null_where_none_may_be(play: Play, name: str) -> None:
    """The server hangs up."""
    api, version, flexible, right = NULLS[name]
    spoil_with_null(play, api, version, right(), flexible)


@transcript(rows=("C18", "C20", "C22", "O3"))
def calls_in_the_wrong_order(play: Play) -> None:
    """Sync, beat, commit and leave before anybody joined, and join twice before the sync."""
    a = play.connect()
    ids = {"group_id": play.group(), "member_id": "m", "generation_id": 1}
    a.ask("sync_group", 5, **ids)
    a.ask("heartbeat", 4, **ids)
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": "m", "group_instance_id": None}])
    told = a.ask("join_group", 9, group_id=play.group())
    ids["member_id"] = told.member_id
    a.ask("sync_group", 5, **ids)
    a.ask("heartbeat", 4, **ids)
    for _ in range(2):
        joined = a.ask("join_group", 9, group_id=play.group(), member_id=told.member_id)
        a.ask("heartbeat", 4, **{**ids, "generation_id": joined.generation_id})
    a.ask("sync_group", 5, **{**ids, "generation_id": joined.generation_id - 1})
