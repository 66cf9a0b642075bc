"""Static members of classic groups (KIP-345): E1 to E12, C21, C22, C24."""

from __future__ import annotations

from typing import Any

from tests.oracle.kits import (
    describe,
    heartbeat,
    join,
    protocols,
    settle_alone,
    settle_two,
    start_join,
    subscription,
    sync,
)
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

STATIC = {"group_instance_id": "i"}


@transcript(rows=("E4", "C7"), cases={f"v{version}": version for version in range(5, 10)})
def new_static_member_is_in_at_once(play: Play, version: int) -> None:
    """It is never told to come again, and is seen by its instance."""
    a = play.connect()
    a.ask("join_group", version, group_id=play.group(), **STATIC)
    describe(a, play.group())


@transcript(rows=("E3", "E10", "C21", "C22"), cases={f"v{version}": version for version in range(5, 10)})
def lone_static_leader_restarts(play: Play, version: int) -> None:
    """No rebalance; version 9 tells the new leader to skip the assignment, older ones name the old leader.
    (DescribeGroups of Kafka goes on showing the old process's client id and host: not copied.)"""
    a, b = play.connect("a"), play.connect("b", client_id="a")
    joined = settle_alone(a, play.group(), **STATIC)
    again = b.ask("join_group", version, group_id=play.group(), **STATIC)
    heartbeat(a, play.group(), joined, **STATIC)
    heartbeat(b, play.group(), again, **STATIC)
    b.ask("sync_group", 3, group_id=play.group(), generation_id=1, member_id=again.member_id, **STATIC)
    describe(b, play.group())


@transcript(rows=("E3", "C21"), cases={"v5": 5, "v9": 9})
def static_follower_restarts(play: Play, version: int) -> None:
    a, b, again = play.connect("a"), play.connect("b"), play.connect("again", client_id="b")
    first, second = settle_two(a, b, play.group(), of_b=STATIC)
    rejoined = again.ask("join_group", version, group_id=play.group(), **STATIC)
    heartbeat(a, play.group(), first)
    heartbeat(b, play.group(), second, **STATIC)
    again.ask("sync_group", 3, group_id=play.group(), generation_id=2, member_id=rejoined.member_id, **STATIC)
    describe(a, play.group())


@transcript(rows=("C21",))
def restart_with_another_subscription(play: Play) -> None:
    """The selected protocol stays, so nobody is bothered; what the member now wants is kept."""
    a, again = play.connect("a"), play.connect("again", client_id="a")
    settle_alone(a, play.group(), **STATIC)
    other = protocols("range", metadata=subscription(["other"]))
    again.ask("join_group", 9, group_id=play.group(), protocols=other, **STATIC)
    describe(a, play.group())


@transcript(rows=("C21",))
def restart_with_a_longer_session(play: Play) -> None:
    """The member has the session timeout of its old self until its first heartbeat."""
    a, again = play.connect("a"), play.connect("again", client_id="a")
    settle_alone(a, play.group(), session_timeout=1_500, **STATIC)
    again.ask("join_group", 9, group_id=play.group(), session_timeout=60_000, **STATIC)
    _until_empty(a, play.group())


@transcript(rows=("C21",))
def restart_with_a_shorter_session(play: Play) -> None:
    """The member outlives another one, whose session is longer than its new one; a heartbeat, and it is out
    in time."""
    a, again, other = play.connect("a"), play.connect("again", client_id="a"), play.connect("other")
    settle_alone(a, play.group(), session_timeout=60_000, **STATIC)
    joined = again.ask("join_group", 9, group_id=play.group(), session_timeout=300, **STATIC)
    settle_alone(other, play.group("clock"), session_timeout=900)
    _until_empty(other, play.group("clock"))
    heartbeat(again, play.group(), joined, **STATIC)
    _until_empty(a, play.group())


def _until_empty(client: Client, group_id: str) -> None:
    def is_empty(said: Any) -> bool:
        return bool(said.groups[0].group_state == "Empty")

    client.ask_until(is_empty, "describe_groups", 5, groups=[group_id])


@transcript(rows=("C21",))
def restart_that_changes_the_protocol(play: Play) -> None:
    """Within the common set: a rebalance. Outside: 23, and the old member stays."""
    a, b, again = play.connect("a"), play.connect("b"), play.connect("again")
    both = protocols("range", "roundrobin")
    first, _ = settle_two(a, b, play.group(), protocols=both, of_b=STATIC)
    again.ask("join_group", 9, group_id=play.group(), protocols=protocols("sticky"), **STATIC)
    parked = again.send("join_group", 9, group_id=play.group(), protocols=protocols("roundrobin"), **STATIC)
    parked.expect_silence()
    heartbeat(a, play.group(), first)
    join(a, play.group(), member_id=first.member_id, protocols=both)
    parked.collect()


@transcript(rows=("C6", "C21"))
def lone_static_restart_with_another_protocol_is_refused(play: Play) -> None:
    a, again = play.connect("a"), play.connect("again")
    joined = settle_alone(a, play.group(), **STATIC)
    again.ask("join_group", 9, group_id=play.group(), protocols=protocols("sticky"), **STATIC)
    again.ask("join_group", 9, group_id=play.group(), protocol_type="connect", **STATIC)
    heartbeat(a, play.group(), joined, **STATIC)


@transcript(rows=("C21",))
def restart_while_the_join_is_parked(play: Play) -> None:
    """The one that waited is fenced, the new one takes its place."""
    a, b, again = play.connect("a"), play.connect("b"), play.connect("again")
    first = settle_alone(a, play.group())
    parked = b.send("join_group", 9, group_id=play.group(), **STATIC)
    successor = again.send("join_group", 9, group_id=play.group(), **STATIC)
    parked.collect()
    join(a, play.group(), member_id=first.member_id, unordered=("members",))
    successor.collect()


@transcript(rows=("C21",))
def restart_while_the_sync_is_parked(play: Play) -> None:
    """CompletingRebalance: always a new rebalance."""
    a, b, again = play.connect("a"), play.connect("b"), play.connect("again")
    first = settle_alone(a, play.group())
    parked = b.send("join_group", 9, group_id=play.group(), **STATIC)
    join(a, play.group(), member_id=first.member_id)
    second = parked.collect()
    waiting = b.send(
        "sync_group", 5, group_id=play.group(), generation_id=2, member_id=second.member_id, **STATIC
    )
    successor = again.send("join_group", 9, group_id=play.group(), **STATIC)
    waiting.collect()
    heartbeat(a, play.group(), first, generation_id=2)
    join(a, play.group(), member_id=first.member_id)
    successor.collect()


@transcript(rows=("E5", "E6", "C17", "C20"))
def wrong_pairs_are_fenced(play: Play) -> None:
    """A known instance with another member id: 82; an unknown instance with a member id: 25."""
    a = play.connect()
    joined = settle_alone(a, play.group(), **STATIC)
    pairs = (("made-up", "i"), ("", "i"), (joined.member_id, "j"), ("made-up", "j"), ("", "j"))
    for member_id, instance in pairs:
        both: dict[str, Any] = {"member_id": member_id, "group_instance_id": instance}
        if member_id:
            a.ask("join_group", 9, group_id=play.group(), **both)
        a.ask("sync_group", 5, group_id=play.group(), generation_id=1, **both)
        a.ask("sync_group", 5, group_id=play.group(), generation_id=7, **both)
        a.ask("heartbeat", 4, group_id=play.group(), generation_id=1, **both)
        a.ask("heartbeat", 4, group_id=play.group(), generation_id=7, **both)
        a.ask(
            "offset_commit",
            8,
            group_id=play.group(),
            generation_id_or_member_epoch=1,
            topics=[],
            **both,
        )
    a.ask("heartbeat", 4, group_id=play.group(), generation_id=1, member_id=joined.member_id)
    a.ask("heartbeat", 2, group_id=play.group(), generation_id=1, member_id=joined.member_id)
    heartbeat(a, play.group(), joined, **STATIC)


@transcript(rows=("E5",))
def known_static_member_rejoins_with_its_id(play: Play) -> None:
    """The leader starts a rebalance, a follower is told the current generation."""
    a, b = play.connect("a"), play.connect("b")
    first, second = settle_two(a, b, play.group(), of_b=STATIC)
    b.ask("join_group", 9, group_id=play.group(), member_id=second.member_id, **STATIC)
    b.ask("join_group", 9, group_id=play.group(), member_id=second.member_id)
    heartbeat(a, play.group(), first)


@transcript(rows=("E7", "C23"))
def static_member_is_removed_by_its_instance(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group(), **STATIC)
    a.ask("leave_group", 3, group_id=play.group(), members=[{"member_id": "", "group_instance_id": "i"}])
    heartbeat(a, play.group(), joined, **STATIC)
    describe(a, play.group())
    join(a, play.group(), **STATIC)


@transcript(rows=("E7",))
def static_member_is_removed_by_its_member_id(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group(), **STATIC)
    members = [{"member_id": joined.member_id, "group_instance_id": None}]
    a.ask("leave_group", 4, group_id=play.group(), members=members)
    describe(a, play.group())


@transcript(rows=("E8", "C13", "C16"))
def static_member_that_is_away_stays_through_a_rebalance(play: Play) -> None:
    """It does not rejoin in time and keeps its place; the newcomer leads."""
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group(), rebalance_timeout=700, **STATIC)
    parked, _ = start_join(b, play.group(), rebalance_timeout=100)
    parked.collect()
    heartbeat(a, play.group(), first, **STATIC)
    describe(a, play.group())


@transcript(rows=("E8", "C20", "B9"))
def silent_static_member_is_removed_after_its_session(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    joined = settle_alone(a, play.group(), session_timeout=700, **STATIC)
    b.ask_until(
        lambda said: said.groups[0].group_state == "Empty", "describe_groups", 5, groups=[play.group()]
    )
    heartbeat(a, play.group(), joined, **STATIC)
    join(a, play.group(), **STATIC)


@transcript(rows=("E12", "C9"))
def static_and_dynamic_members_mix(play: Play) -> None:
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    first, second = settle_two(a, b, play.group(), of_b=STATIC)
    parked = c.send("join_group", 9, group_id=play.group(), group_instance_id="j")
    parked_b = b.send("join_group", 9, group_id=play.group(), member_id=second.member_id, **STATIC)
    again = join(a, play.group(), member_id=first.member_id)
    parked.collect()
    parked_b.collect()
    sync(a, play.group(), again)
    describe(a, play.group())


_INSTANCES = {
    "empty": "",
    "blank": "a b",
    "letters": "ä",
    "dot": ".",
    "dots": "..",
    "249": "x" * 249,
    "250": "x" * 250,
}


@transcript(rows=("C24",), cases=_INSTANCES)
def instance_ids_are_not_checked(play: Play, instance: str) -> None:
    a = play.connect()
    a.ask("join_group", 9, group_id=play.group(), group_instance_id=instance)
    describe(a, play.group())


@transcript(rows=("E2",), cases={"v3": 3, "v4": 4})
def instances_are_unknown_to_old_versions(play: Play, version: int) -> None:
    """A field that the version lacks is not sent: the member is dynamic."""
    a = play.connect()
    a.ask("join_group", version, group_id=play.group(), **STATIC)


@transcript(rows=("E1", "E9"))
def long_session_is_allowed(play: Play) -> None:
    a = play.connect()
    join(a, play.group(), session_timeout=1_800_000, **STATIC)


@transcript(rows=("E2", "E5", "O1"))
def static_member_commits(play: Play) -> None:
    """The pair is checked in commits too; without members ids the group is not simple."""
    a = play.connect()
    topic = play.topic()
    joined = settle_alone(a, play.group(), **STATIC)
    part = {
        "partition_index": 0,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    topics = [{"name": topic, "partitions": [part]}]
    for member_id, instance, generation in (
        (joined.member_id, "i", 1),
        (joined.member_id, None, 1),
        (joined.member_id, "j", 1),
        ("made-up", "i", 1),
        (joined.member_id, "i", 2),
        ("", None, -1),
        (joined.member_id, None, -1),
        ("made-up", None, -1),
    ):
        a.ask(
            "offset_commit",
            8,
            group_id=play.group(),
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=topics,
        )
