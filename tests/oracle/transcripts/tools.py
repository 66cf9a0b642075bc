"""What kafka-consumer-groups and `groupd groups` ask, in the order they ask it (B10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.kits import (
    beat_in,
    commit,
    consumer_describe,
    describe,
    fetch,
    join,
    protocols,
    settle_alone,
    subscription,
)
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

EARLIEST, LATEST = -2, -1


def list_offsets(client: Client, version: int, topic: str, partitions: Sequence[int], timestamp: int) -> Any:
    rows = [
        {"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp}
        for number in partitions
    ]
    return client.ask("list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": rows}])


def delete_offsets(client: Client, group_id: str, topic: str, partitions: Sequence[int]) -> Any:
    rows = [{"partition_index": number} for number in partitions]
    topics = [{"name": topic, "partitions": rows}]
    # Kafka names what it refuses before what it deletes.
    return client.ask("offset_delete", 0, group_id=group_id, topics=topics, unordered=("partitions",))


@transcript(rows=("A12", "B10"), cases={"v0": 0, "v1": 1})
def describing_goes_from_the_new_api_to_the_old_one(play: Play, version: int) -> None:
    """A classic group, a simple one, none at all, and a consumer group asked for by the old API."""
    a, topic = play.connect(), play.topic(partitions=2)
    classic, simple, modern = play.group("classic"), play.group("simple"), play.group("modern")
    settle_alone(a, classic)
    commit(a, 7, simple, {topic: {0: 3}})
    beat_in(a, modern, "m", [topic])
    for group_id in (classic, simple, play.group("none")):
        consumer_describe(a, group_id, version)
        describe(a, group_id, 6)
    consumer_describe(a, modern, version)
    describe(a, modern, 5)
    describe(a, modern, 6)


@transcript(rows=("B10", "O9"))
def lag_is_told_from_what_is_committed_and_where_the_log_ends(play: Play) -> None:
    """One partition is one that nobody wrote to, another is not there."""
    a, topic, group_id = play.connect(), play.topic(partitions=2), play.group()
    commit(a, 8, group_id, {topic: {0: 0, 1: 7}})
    fetch(a, 8, group_id, None)
    for timestamp in (EARLIEST, LATEST, 0, 2**62):
        list_offsets(a, 7, topic, (0, 1), timestamp)
    list_offsets(a, 7, topic, (2,), LATEST)
    list_offsets(a, 7, NO_TOPIC, (0,), LATEST)


NO_TOPIC = "x" * 249
"""No topic has this name."""


@transcript(rows=("B10", "O1", "O6"))
def resetting_needs_a_group_without_members(play: Play) -> None:
    """The commit of a tool: no member id, no generation."""
    a, topic = play.connect(), play.topic()
    classic, modern = play.group("classic"), play.group("modern")
    joined = settle_alone(a, classic, protocols=protocols("range", metadata=subscription([topic])))
    commit(a, 8, classic, {topic: {0: 5}})
    a.ask("leave_group", 5, group_id=classic, members=[{"member_id": joined.member_id}])
    commit(a, 8, classic, {topic: {0: 5}})
    beat_in(a, modern, "m", [topic])
    commit(a, 8, modern, {topic: {0: 5}})
    a.ask("consumer_group_heartbeat", 1, group_id=modern, member_id="m", member_epoch=-1)
    commit(a, 8, modern, {topic: {0: 5}})
    fetch(a, 8, modern, None)


@transcript(rows=("B10", "O12"))
def offsets_are_deleted_as_the_tool_does(play: Play) -> None:
    """The tool deletes offsets of subscribed topics, of others, of partitions that are not there, and of a
    group that is none."""
    a, topic, other, group_id = play.connect(), play.topic(partitions=2), play.topic("other"), play.group()
    commit(a, 8, group_id, {topic: {0: 1, 1: 1}, other: {0: 1}})
    delete_offsets(a, play.group("none"), topic, [0])
    delete_offsets(a, group_id, topic, [1, 9])
    settle_alone(a, group_id, protocols=protocols("range", metadata=subscription([topic])))
    delete_offsets(a, group_id, topic, [0])
    delete_offsets(a, group_id, other, [0])
    fetch(a, 8, group_id, None)


@transcript(rows=("B10", "C23"))
def members_are_removed_as_the_tool_does(play: Play) -> None:
    """Static ones by their instance alone, dynamic ones by their id; who is not there by either."""
    a, group_id = play.connect(), play.group()
    joined = join(a, group_id, group_instance_id="i")
    sync_of = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    given = [{"member_id": joined.member_id, "assignment": b"x"}]
    a.ask("sync_group", 5, group_id=group_id, group_instance_id="i", assignments=given, **sync_of)
    asked = [
        {"member_id": "", "group_instance_id": "other", "reason": "by hand"},
        {"member_id": "unknown", "group_instance_id": None, "reason": "by hand"},
        {"member_id": "unknown", "group_instance_id": "i", "reason": "by hand"},
        {"member_id": "", "group_instance_id": "i", "reason": "by hand"},
    ]
    for member in asked:
        a.ask("leave_group", 5, group_id=group_id, members=[member])
    describe(a, group_id, 6)


@transcript(rows=("B10", "G3", "C23"))
def members_of_the_consumer_protocol_are_not_removed_by_leave_group(play: Play) -> None:
    """The tool's LeaveGroup knows the members that speak the classic protocol alone."""
    a, topic, group_id = play.connect(), play.topic(), play.group()
    beat_in(a, group_id, "m", [topic], instance_id="i")
    for member in ({"member_id": "m"}, {"member_id": "", "group_instance_id": "i"}, {"member_id": "no"}):
        a.ask("leave_group", 5, group_id=group_id, members=[{"group_instance_id": None, **member}])
    answer = consumer_describe(a, group_id)
    play.note("members that are left", len(answer.groups[0].members))


@transcript(rows=("B10", "W9"), cases={"v4": 4, "v5": 5})
def groups_are_listed_with_state_and_type(play: Play, version: int) -> None:
    """Filters of either case, words that no group knows; other groups of the broker are passed over."""
    a, topic = play.connect(), play.topic()
    names = {kind: play.group(kind) for kind in ("classic", "simple", "modern")}
    settle_alone(a, names["classic"])
    commit(a, 8, names["simple"], {topic: {0: 1}})
    beat_in(a, names["modern"], "m", [topic])
    filters: list[dict[str, Any]] = [
        {},
        {"states_filter": ["stable"]},
        {"states_filter": ["Empty", "STABLE"]},
        {"states_filter": ["none"]},
    ]
    if version >= 5:
        filters += [{"types_filter": ["classic"]}, {"types_filter": ["CONSUMER"]}, {"types_filter": ["none"]}]
    for given in filters:
        answer = a.quietly("list_groups", version, **given)
        rows = {
            kind: [row.protocol_type, row.group_state, getattr(row, "group_type", None)]
            for row in answer.groups
            for kind, group_id in names.items()
            if row.group_id == group_id
        }
        play.note(f"listed with {given}", [int(answer.error_code), dict(sorted(rows.items()))])
