"""Committed offsets: who may commit what, and what is read again (O1 to O6, O9 to O11, O17)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.kits import (
    beat,
    beat_in,
    commit,
    describe,
    fetch,
    join,
    protocols,
    settle_alone,
    settle_two,
    start_join,
    subscription,
)
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

BY_NAME = {f"v{version}": version for version in range(2, 10)}


def partition(number: int, offset: int, epoch: int = -1, metadata: str | None = "") -> dict[str, Any]:
    return {
        "partition_index": number,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": metadata,
    }


def commit_partitions(
    client: Client,
    version: int,
    group_id: str,
    topic: str,
    partitions: Sequence[dict[str, Any]],
    **fields: Any,
) -> Any:
    topics = [{"name": topic, "partitions": partitions}]
    return client.ask("offset_commit", version, group_id=group_id, topics=topics, **fields)


def stable_member(client: Client, group_id: str, *topics: str, **fields: Any) -> dict[str, Any]:
    """A Stable group of one member that is subscribed to `topics`; its fields of an OffsetCommit."""
    joined = settle_alone(
        client, group_id, protocols=protocols("range", metadata=subscription(topics)), **fields
    )
    return {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}


@transcript(rows=("O1", "B1"), cases=BY_NAME)
def commit_without_a_group(play: Play, version: int) -> None:
    """It makes a simple group, which takes any member id but no generation."""
    a, topic = play.connect(), play.topic(partitions=2)
    describe(a, play.group(), 6)
    commit(a, version, play.group(), {topic: {0: 5}})
    describe(a, play.group(), 6)
    commit(a, version, play.group(), {topic: {1: 6}}, member_id="made-up")
    commit(a, version, play.group(), {topic: {1: 7}}, generation_id_or_member_epoch=0)
    commit(a, version, play.group(), {topic: {1: 7}}, generation_id_or_member_epoch=0, member_id="made-up")
    commit(a, version, play.group(), {topic: {1: 8}}, generation_id_or_member_epoch=-7, member_id="made-up")
    commit(a, version, play.group(), {topic: {0: 1}}, group_instance_id="i")
    fetch(a, min(version, 9), play.group(), {topic: [0, 1]})


@transcript(rows=("O2",), cases=BY_NAME)
def commit_of_a_generation_without_a_group(play: Play, version: int) -> None:
    a, topic = play.connect(), play.topic()
    for fields in (
        {"generation_id_or_member_epoch": 0},
        {"generation_id_or_member_epoch": 5, "member_id": "m"},
    ):
        commit(a, version, play.group(), {topic: {0: 5}}, **fields)
    describe(a, play.group(), 6)


@transcript(rows=("O3",), cases={"v2": 2, "v6": 6, "v7": 7, "v9": 9})
def commit_to_a_stable_group(play: Play, version: int) -> None:
    a, topic = play.connect(), play.topic()
    joined = settle_alone(a, play.group())
    known = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    for fields in (
        known,
        {"generation_id_or_member_epoch": -1},
        {**known, "generation_id_or_member_epoch": -1},
        {"generation_id_or_member_epoch": -1, "member_id": "made-up"},
        {**known, "generation_id_or_member_epoch": 0},
        {**known, "generation_id_or_member_epoch": 2},
        {**known, "member_id": "made-up"},
        {**known, "member_id": ""},
    ):
        commit(a, version, play.group(), {topic: {0: 5}}, **fields)
    fetch(a, 5, play.group(), {topic: [0]})


@transcript(rows=("O3",))
def commit_in_the_middle_of_a_rebalance(play: Play) -> None:
    """PreparingRebalance takes the last generation's commits; CompletingRebalance takes nobody's."""
    a, b, topic = play.connect("a"), play.connect("b"), play.topic()
    first = settle_alone(a, play.group())
    old = {"generation_id_or_member_epoch": 1, "member_id": first.member_id}
    parked, second_id = start_join(b, play.group())
    describe(a, play.group())
    commit(a, 9, play.group(), {topic: {0: 5}}, **old)
    commit(a, 9, play.group(), {topic: {0: 6}}, generation_id_or_member_epoch=1, member_id=second_id)
    commit(a, 9, play.group(), {topic: {0: 6}})
    join(a, play.group(), member_id=first.member_id)
    second = parked.collect()
    describe(a, play.group())
    commit(a, 9, play.group(), {topic: {0: 7}}, **old)
    commit(a, 9, play.group(), {topic: {0: 8}}, **{**old, "generation_id_or_member_epoch": 2})
    commit(a, 9, play.group(), {topic: {0: 9}}, generation_id_or_member_epoch=2, member_id=second.member_id)
    commit(a, 9, play.group(), {topic: {0: 9}})
    fetch(a, 9, play.group(), {topic: [0]})


@transcript(rows=("O3", "E2", "E5", "E6"), cases={"v7": 7, "v8": 8, "v9": 9})
def commit_of_a_static_member(play: Play, version: int) -> None:
    """It commits with its instance id from version 7 on: someone else's is 82, an unknown one 25."""
    a, b, topic = play.connect("a"), play.connect("b"), play.topic()
    first, second = settle_two(a, b, play.group(), group_instance_id="one", of_b={"group_instance_id": "two"})
    known = {"generation_id_or_member_epoch": first.generation_id, "member_id": first.member_id}
    for fields in (
        {**known, "group_instance_id": "one"},
        known,
        {**known, "group_instance_id": "two"},
        {**known, "group_instance_id": "none"},
        {**known, "member_id": second.member_id, "group_instance_id": "one"},
        {**known, "member_id": "", "group_instance_id": "one"},
        {"generation_id_or_member_epoch": -1, "group_instance_id": "one"},
    ):
        commit(a, version, play.group(), {topic: {0: 5}}, **fields)


@transcript(rows=("O3", "O1"))
def commit_to_a_group_that_everybody_left(play: Play) -> None:
    """Empty again: anybody without a generation, and nobody with one."""
    a, topic = play.connect(), play.topic()
    joined = settle_alone(a, play.group())
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    commit(a, 9, play.group(), {topic: {0: 5}})
    commit(a, 9, play.group(), {topic: {0: 6}}, member_id=joined.member_id)
    commit(a, 9, play.group(), {topic: {0: 7}}, generation_id_or_member_epoch=1, member_id=joined.member_id)
    commit(a, 9, play.group(), {topic: {0: 7}}, generation_id_or_member_epoch=2)
    fetch(a, 9, play.group(), {topic: [0]})


@transcript(rows=("O3",))
def commit_keeps_a_member_alive(play: Play) -> None:
    """It resets the session timer as a heartbeat does."""
    a, topic = play.connect(), play.topic()
    joined = settle_alone(a, play.group(), session_timeout=1_000)
    known = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    for offset in range(4):
        play.wait(0.4)
        commit(a, 9, play.group(), {topic: {0: offset}}, **known)


@transcript(rows=("O4",), cases=BY_NAME)
def metadata_may_be_4096_characters(play: Play, version: int) -> None:
    """Per partition, the rest is committed; characters are Java's, not bytes; null reads as ""."""
    a, topic = play.connect(), play.topic(partitions=6)
    partitions = [
        partition(0, 1, metadata="x" * 4_096),
        partition(1, 2, metadata="x" * 4_097),
        partition(2, 3, metadata="ä" * 4_096),
        partition(3, 4, metadata="\N{GRINNING FACE}" * 2_048),
        partition(4, 5, metadata="\N{GRINNING FACE}" * 2_049),
        partition(5, 6, metadata=None),
    ]
    commit_partitions(a, version, play.group(), topic, partitions)
    fetch(a, version, play.group(), {topic: [1, 4, 5]})


@transcript(rows=("O4", "O1"))
def commit_of_which_nothing_can_be_stored(play: Play) -> None:
    """It makes no group. (In Kafka what writes sees one from then on, what reads does not: not copied.)"""
    a, topic = play.connect(), play.topic()
    commit_partitions(a, 9, play.group(), topic, [partition(0, 1, metadata="x" * 4_097)])
    describe(a, play.group(), 6)


@transcript(rows=("O6",))
def commit_of_a_consumer_member(play: Play) -> None:
    """The current epoch may commit anything; a newer one, or none, is refused; a stranger is unknown."""
    a, topic = play.connect(), play.topic(partitions=2)
    other = play.topic("u")
    joined = beat_in(a, play.group(), "m", [topic])
    epoch = joined.member_epoch
    for fields in (
        {"generation_id_or_member_epoch": epoch, "member_id": "m"},
        {"generation_id_or_member_epoch": epoch + 1, "member_id": "m"},
        {"generation_id_or_member_epoch": -1, "member_id": "m"},
        {"generation_id_or_member_epoch": 0, "member_id": "m"},
        {"generation_id_or_member_epoch": epoch, "member_id": "stranger"},
        {"generation_id_or_member_epoch": epoch, "member_id": ""},
        {"generation_id_or_member_epoch": -1},
    ):
        commit(a, 9, play.group(), {topic: {0: 5}, other: {0: 6}}, **fields)
    fetch(a, 9, play.group(), {topic: [0, 1], other: [0]})


@transcript(rows=("O6",), cases={"v2": 2, "v7": 7, "v8": 8})
def commit_of_a_consumer_member_in_an_old_version(play: Play, version: int) -> None:
    a, topic = play.connect(), play.topic()
    epoch = beat_in(a, play.group(), "m", [topic]).member_epoch
    for fields in (
        {"generation_id_or_member_epoch": epoch, "member_id": "m"},
        {"generation_id_or_member_epoch": epoch + 1, "member_id": "m"},
        {"generation_id_or_member_epoch": epoch, "member_id": "stranger"},
        {"generation_id_or_member_epoch": -1},
    ):
        commit(a, version, play.group(), {topic: {0: 5}}, **fields)


@transcript(rows=("O6", "O1"))
def commit_to_an_empty_consumer_group(play: Play) -> None:
    a, topic = play.connect(), play.topic()
    epoch = beat_in(a, play.group(), "m", [topic]).member_epoch
    beat(a, play.group(), "m", -1)
    for version in (2, 8, 9):
        commit(a, version, play.group(), {topic: {0: version}})
        commit(a, version, play.group(), {topic: {0: 5}}, member_id="made-up")
        commit(a, version, play.group(), {topic: {0: 5}}, generation_id_or_member_epoch=0)
        commit(a, version, play.group(), {topic: {0: 5}}, generation_id_or_member_epoch=epoch, member_id="m")
    fetch(a, 9, play.group(), {topic: [0]})


@transcript(rows=("O6",))
def commit_in_the_epoch_before(play: Play) -> None:
    """KIP-1251: good for partitions that the member had then and has still."""
    a, topic, other = play.connect(), play.topic(partitions=2), play.topic("u")
    old = beat_in(a, play.group(), "m", [topic]).member_epoch
    new = beat(a, play.group(), "m", old, subscribed_topic_names=[topic, other]).member_epoch
    play.note("epochs", (old, new))
    stale = {"generation_id_or_member_epoch": old, "member_id": "m"}
    commit(a, 9, play.group(), {topic: {0: 5, 1: 6}}, **stale)
    commit(a, 9, play.group(), {other: {0: 7}}, **stale)
    commit(a, 9, play.group(), {topic: {0: 8}, other: {0: 7}}, **stale)
    fetch(a, 9, play.group(), {topic: [0, 1], other: [0]})


@transcript(rows=("O17", "W6"), cases={f"v{version}": version for version in range(1, 10)})
def fetch_of_what_was_committed(play: Play, version: int) -> None:
    """Offset, leader epoch and text come back; what was never committed is -1 and no error."""
    a, topic = play.connect(), play.topic(partitions=4)
    committed = [
        partition(0, 0, 0, "none"),
        partition(1, 2**62, 7, "ä\N{GRINNING FACE}"),
        partition(2, 9),
    ]
    commit_partitions(a, max(version, 2), play.group(), topic, committed)
    fetch(a, version, play.group(), {topic: [2, 0, 1, 3]})
    fetch(a, version, play.group(), {topic: [1, 1]})
    fetch(a, version, play.group(), {topic: []})
    if version >= 2:
        fetch(a, version, play.group(), None)


@transcript(rows=("O9",), cases={f"v{version}": version for version in range(1, 10)})
def fetch_of_what_is_not_there(play: Play, version: int) -> None:
    """Unknown group, topic, partition: -1 and no error."""
    a, topic = play.connect(), play.topic()
    fetch(a, version, play.group(), {topic: [0, 99, -1], play.unique("none"): [0]})
    commit(a, 2, play.group(), {topic: {0: 5}})
    fetch(a, version, play.group(), {topic: [0, 99, -1], play.unique("none"): [0]})
    fetch(a, version, play.group(), {})
    if version >= 2:
        fetch(a, version, play.group("h"), None)


@transcript(rows=("O17",))
def later_commit_replaces_an_earlier_one(play: Play) -> None:
    """A commit replaces one with a higher offset, too; of two in one request the last wins."""
    a, topic = play.connect(), play.topic()
    for committed in (partition(0, 100, 3, "x"), partition(0, 5), partition(0, -1), partition(0, -5, -2)):
        commit_partitions(a, 9, play.group(), topic, [committed])
        fetch(a, 9, play.group(), {topic: [0]})
    commit_partitions(a, 9, play.group(), topic, [partition(0, 1), partition(0, 2)])
    fetch(a, 9, play.group(), {topic: [0]})
    a.ask("offset_commit", 9, group_id=play.group(), topics=[])


@transcript(rows=("O9", "W6"), cases={"v8": 8, "v9": 9})
def fetch_of_several_groups(play: Play, version: int) -> None:
    """Each has its own answer and its own error."""
    a, topic = play.connect(), play.topic()
    commit(a, 9, play.group("one"), {topic: {0: 1}})
    beat_in(a, play.group("two"), "m", [topic])
    topics = [{"name": topic, "partition_indexes": [0]}]
    groups = [
        {"group_id": play.group("one"), "topics": topics},
        {"group_id": play.group("two"), "topics": topics, "member_id": "stranger", "member_epoch": 1},
        {"group_id": play.group("none"), "topics": None},
        {"group_id": play.group("one"), "topics": None},
    ]
    given = [{"member_id": None, "member_epoch": -1, **group} for group in groups]
    a.ask("offset_fetch", version, groups=given)
    a.ask("offset_fetch", version, groups=given, require_stable=True)
    a.ask("offset_fetch", version, groups=[])


@transcript(rows=("W2", "O1"))
def empty_group_id(play: Play) -> None:
    """It commits and fetches as any other."""
    a, topic = play.connect(), play.topic()
    commit(a, 9, "", {topic: {0: 5}})
    commit(a, 2, "", {topic: {0: 6}}, generation_id_or_member_epoch=1)
    fetch(a, 9, "", {topic: [0]})
    fetch(a, 1, "", {topic: [0]})


@transcript(rows=("O10",), cases={"v7": 7, "v8": 8, "v9": 9})
def stable_fetch_without_a_transaction(play: Play, version: int) -> None:
    """Nothing is unstable: the same as any other."""
    a, topic = play.connect(), play.topic(partitions=2)
    fetch(a, version, play.group(), {topic: [0]}, require_stable=True)
    commit(a, 9, play.group(), {topic: {0: 5}})
    fetch(a, version, play.group(), {topic: [0, 1]}, require_stable=True)
    fetch(a, version, play.group(), None, require_stable=True)


@transcript(rows=("O11",), cases={"null": None, "empty": "", "stranger": "stranger", "right": "m"})
def fetch_of_a_consumer_member(play: Play, member_id: str | None) -> None:
    """Every epoch is tried: none, zero, the member's own, a newer one."""
    a, topic = play.connect(), play.topic()
    epoch = beat_in(a, play.group(), "m", [topic]).member_epoch
    commit(a, 9, play.group(), {topic: {0: 5}}, generation_id_or_member_epoch=epoch, member_id="m")
    for member_epoch in (-1, 0, epoch, epoch + 1, -2):
        for topics in ({topic: [0]}, None):
            fetch(a, 9, play.group(), topics, member_id=member_id, member_epoch=member_epoch)
    fetch(a, 8, play.group(), {topic: [0]})


@transcript(rows=("O11",))
def fetch_of_a_classic_member(play: Play) -> None:
    """Nobody looks at member id and epoch of a classic or a simple group, or of none."""
    a, topic = play.connect(), play.topic()
    known = stable_member(a, play.group(), topic)
    commit(a, 9, play.group(), {topic: {0: 5}}, **known)
    commit(a, 9, play.group("simple"), {topic: {0: 6}})
    for group_id in (play.group(), play.group("simple"), play.group("none")):
        for member_id, member_epoch in ((None, 5), ("", 0), ("stranger", -1), (known["member_id"], 77)):
            fetch(a, 9, group_id, {topic: [0]}, member_id=member_id, member_epoch=member_epoch)


@transcript(rows=("O11",))
def fetch_from_an_empty_consumer_group(play: Play) -> None:
    a, topic = play.connect(), play.topic()
    beat_in(a, play.group(), "m", [topic])
    beat(a, play.group(), "m", -1)
    for member_id, member_epoch in ((None, -1), (None, 0), ("", -1), ("m", 2)):
        fetch(a, 9, play.group(), {topic: [0]}, member_id=member_id, member_epoch=member_epoch)


@transcript(rows=("W12", "O1"), cases=BY_NAME)
def commit_to_what_does_not_exist(play: Play, version: int) -> None:
    """Error 3 each, whatever the group says to the rest."""
    a, topic = play.connect(), play.topic()
    none = play.unique("none")
    commit(
        a,
        version,
        play.group(),
        {none: {0: 1}, topic: {0: 2, 1: 3, -1: 4}},
        unordered=("topics", "partitions"),
    )
    commit(a, version, play.group(), {none: {0: 1}}, generation_id_or_member_epoch=5)
    commit(
        a,
        version,
        play.group(),
        {none: {0: 1}, topic: {0: 2, 7: 2}},
        generation_id_or_member_epoch=5,
        unordered=("topics", "partitions"),
    )
    commit(a, version, play.group("h"), {none: {0: 1}})
    describe(a, play.group("h"), 6)
    fetch(a, min(version, 9), play.group(), {topic: [0]})


@transcript(rows=("W12",), cases={"v2": 2, "v9": 9})
def commit_of_topics_without_partitions(play: Play, version: int) -> None:
    """A known one is left out of the answer."""
    a, topic, other = play.connect(), play.topic(), play.topic("u")
    none = play.unique("none")
    commit(a, version, play.group(), {topic: {}})
    commit(a, version, play.group(), {none: {}})
    commit(a, version, play.group(), {topic: {}, other: {0: 5}, none: {}}, unordered=("topics",))
    commit(a, version, play.group(), {topic: {}}, generation_id_or_member_epoch=5)
    describe(a, play.group("h"), 6)


@transcript(rows=("W12",), cases={"v2": 2, "v9": 9})
def commit_that_names_a_topic_twice(play: Play, version: int) -> None:
    """The topic's partitions are answered one after the other; the later offset counts."""
    a, topic = play.connect(), play.topic(partitions=2)
    twice = [
        {"name": topic, "partitions": [partition(0, 1)]},
        {"name": topic, "partitions": [partition(0, 2)]},
    ]
    a.ask("offset_commit", version, group_id=play.group(), topics=twice)
    fetch(a, version, play.group(), {topic: [0]})
    other = [
        {"name": topic, "partitions": [partition(0, 3), partition(9, 3)]},
        {"name": topic, "partitions": [partition(1, 4)]},
    ]
    a.ask("offset_commit", version, group_id=play.group(), topics=other, unordered=("partitions",))
    fetch(a, version, play.group(), {topic: [0, 1]})
