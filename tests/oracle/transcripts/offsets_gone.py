"""How offsets go: OffsetDelete, DeleteGroups, deleted topics, expiry (O5, O12 to O16, R8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle.kits import (
    beat,
    beat_in,
    commit,
    consumer_describe,
    describe,
    fetch,
    join,
    protocols,
    settle_alone,
    start_join,
    subscription,
)
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.offsets import stable_member
from tests.oracle.transcripts.transactions import end, opened, txn_commit

SOON_MS = 50


def delete_offsets(client: Client, group_id: str, topics: Mapping[str, Sequence[int]]) -> Any:
    asked = [
        {"name": topic, "partitions": [{"partition_index": number} for number in partitions]}
        for topic, partitions in topics.items()
    ]
    return client.ask("offset_delete", 0, group_id=group_id, topics=asked, unordered=("topics", "partitions"))


def until_gone(client: Client, group_id: str, topic: str, partitions: Sequence[int] = (0,)) -> None:
    """Fetch until these have no offset."""
    client.ask_until(
        lambda answer: all(each.committed_offset == -1 for each in answer.topics[0].partitions),
        "offset_fetch",
        7,
        group_id=group_id,
        topics=[{"name": topic, "partition_indexes": list(partitions)}],
    )


def until_forgotten(client: Client, group_id: str) -> None:
    """Describe until there is no such classic or simple group."""
    client.ask_until(
        lambda answer: answer.groups[0].error_code.value != 0, "describe_groups", 6, groups=[group_id]
    )


def until_consumer_forgotten(client: Client, group_id: str) -> None:
    """Describe until there is no such consumer group."""
    client.ask_until(
        lambda answer: answer.groups[0].error_code.value != 0,
        "consumer_group_describe",
        1,
        group_ids=[group_id],
    )


@transcript(rows=("O12",))
def delete_from_a_simple_group(play: Play) -> None:
    """What is not there is no error, unknown topics and partitions are; the group stays, empty."""
    a, topic = play.connect(), play.topic(partitions=2)
    delete_offsets(a, play.group(), {topic: [0]})
    delete_offsets(a, play.group(), {play.unique("none"): [0], topic: [9, -1]})
    delete_offsets(a, "", {topic: [0]})
    delete_offsets(a, "", {play.unique("none"): [0]})
    commit(a, 9, play.group(), {topic: {0: 5}})
    delete_offsets(a, play.group(), {topic: [1, 0, 9], play.unique("none"): [0]})
    fetch(a, 9, play.group(), {topic: [0]})
    delete_offsets(a, play.group(), {topic: [0]})
    delete_offsets(a, play.group(), {})
    describe(a, play.group(), 6)
    commit(a, 9, play.group(), {topic: {0: 5}}, generation_id_or_member_epoch=0)
    a.ask("delete_groups", 2, groups_names=[play.group()])
    delete_offsets(a, play.group(), {topic: [0]})


@transcript(rows=("O12",))
def delete_from_a_stable_group(play: Play) -> None:
    """86 for topics that members are subscribed to."""
    a, topic, other = play.connect(), play.topic(), play.topic("u")
    known = stable_member(a, play.group(), topic)
    commit(a, 9, play.group(), {topic: {0: 5}, other: {0: 6}}, **known)
    delete_offsets(a, play.group(), {topic: [0, 9], other: [0]})
    fetch(a, 9, play.group(), {topic: [0], other: [0]})
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": known["member_id"]}])
    delete_offsets(a, play.group(), {topic: [0]})
    fetch(a, 9, play.group(), None)


@transcript(rows=("O12",))
def delete_in_the_middle_of_a_rebalance(play: Play) -> None:
    """A parked member's topics do not count yet; they do from CompletingRebalance on."""
    a, b = play.connect("a"), play.connect("b")
    topic, other = play.topic(), play.topic("u")
    known = stable_member(a, play.group(), topic)
    commit(a, 9, play.group(), {topic: {0: 5}, other: {0: 6}}, **known)
    offered = protocols("range", metadata=subscription([other]))
    parked, _ = start_join(b, play.group(), protocols=offered)
    describe(a, play.group(), ignore=("members",))
    delete_offsets(a, play.group(), {topic: [0], other: [0]})
    join(
        a,
        play.group(),
        member_id=known["member_id"],
        protocols=protocols("range", metadata=subscription([topic])),
        ignore=("members",),
    )
    parked.collect(ignore=("members",))
    delete_offsets(a, play.group(), {topic: [0], other: [0]})


@transcript(rows=("O12",))
def delete_from_a_group_of_another_type(play: Play) -> None:
    """68 unless it is empty: nobody knows its topics."""
    a, topic = play.connect(), play.topic()
    joined = settle_alone(a, play.group(), protocol_type="connect")
    known = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    commit(a, 9, play.group(), {topic: {0: 5}}, **known)
    delete_offsets(a, play.group(), {topic: [0]})
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    delete_offsets(a, play.group(), {topic: [0]})
    fetch(a, 9, play.group(), {topic: [0]})


@transcript(rows=("O12",))
def delete_from_a_consumer_group(play: Play) -> None:
    """Topics are subscribed by names and by what a regular expression matches."""
    a, topic, other = play.connect(), play.topic(), play.topic("u")
    epoch = beat_in(a, play.group(), "m", [topic]).member_epoch
    known = {"generation_id_or_member_epoch": epoch, "member_id": "m"}
    commit(a, 9, play.group(), {topic: {0: 5}, other: {0: 6}}, **known)
    delete_offsets(a, play.group(), {topic: [0], other: [0]})
    fetch(a, 9, play.group(), {topic: [0], other: [0]})
    beat(a, play.group(), "m", -1)
    delete_offsets(a, play.group(), {topic: [0]})
    fetch(a, 9, play.group(), {topic: [0]})
    consumer_describe(a, play.group())


@transcript(rows=("O13",))
def delete_groups_with_offsets(play: Play) -> None:
    """Simple, classic and consumer groups, empty or not, missing, or named twice."""
    a, topic = play.connect(), play.topic()
    commit(a, 9, play.group("simple"), {topic: {0: 1}})
    known = stable_member(a, play.group("classic"), topic)
    commit(a, 9, play.group("classic"), {topic: {0: 2}}, **known)
    epoch = beat_in(a, play.group("consumer"), "m", [topic]).member_epoch
    commit(a, 9, play.group("consumer"), {topic: {0: 3}}, generation_id_or_member_epoch=epoch, member_id="m")
    names = [play.group(name) for name in ("simple", "classic", "consumer", "none", "simple")]
    a.ask("delete_groups", 2, groups_names=names)
    a.ask("leave_group", 5, group_id=play.group("classic"), members=[{"member_id": known["member_id"]}])
    beat(a, play.group("consumer"), "m", -1)
    a.ask("delete_groups", 1, groups_names=names)
    a.ask("delete_groups", 0, groups_names=names)
    for name in ("simple", "classic", "consumer"):
        fetch(a, 9, play.group(name), {topic: [0]})
        describe(a, play.group(name), 6)


@transcript(rows=("O16",))
def offsets_of_a_deleted_topic(play: Play) -> None:
    """They go in all groups, and nothing else does."""
    a, topic, other = play.connect(), play.topic(), play.topic("u")
    for name in ("g", "h"):
        commit(a, 9, play.group(name), {topic: {0: 5}, other: {0: 6}})
    play.delete_topic(topic)
    for name in ("g", "h"):
        until_gone(a, play.group(name), topic)
        fetch(a, 9, play.group(name), None)
    commit(a, 9, play.group(), {topic: {0: 7}})


@transcript(rows=("O16", "R8"))
def simple_group_whose_only_topic_is_deleted(play: Play) -> None:
    """It is Empty until the next check of retention."""
    a, topic = play.connect(), play.topic()
    commit(a, 9, play.group(), {topic: {0: 5}})
    play.delete_topic(topic)
    until_gone(a, play.group(), topic)
    describe(a, play.group(), 6)
    settle_alone(a, play.group())


@transcript(rows=("R8", "O1"))
def simple_group_becomes_a_real_one(play: Play) -> None:
    """The group becomes one of either type, with its offsets."""
    a, topic = play.connect(), play.topic()
    for name in ("classic", "consumer"):
        commit(a, 9, play.group(name), {topic: {0: 5}})
    settle_alone(a, play.group("classic"))
    describe(a, play.group("classic"), 6, ignore=("member_metadata",))
    beat_in(a, play.group("consumer"), "m", [topic])
    consumer_describe(a, play.group("consumer"))
    for name in ("classic", "consumer"):
        fetch(a, 9, play.group(name), {topic: [0]})
        commit(a, 9, play.group(name), {topic: {0: 6}})


@transcript(rows=("O5", "O15"), profile="expiry", cases={"v2": 2, "v3": 3, "v4": 4})
def commit_names_its_own_retention(play: Play, version: int) -> None:
    """It ends, and with its last offset the group."""
    a, topic = play.connect(), play.topic(partitions=3)
    commit(a, version, play.group(), {topic: {0: 5}}, retention_time=SOON_MS)
    commit(a, version, play.group(), {topic: {1: 6}}, retention_time=-1)
    commit(a, version, play.group(), {topic: {2: 7}}, retention_time=0)
    until_gone(a, play.group(), topic, (0, 2))
    fetch(a, version, play.group(), None)
    commit(a, version, play.group(), {topic: {1: 8}}, retention_time=SOON_MS)
    until_forgotten(a, play.group())
    fetch(a, version, play.group(), None)


@transcript(rows=("O5",))
def commit_without_a_retention_takes_it_back(play: Play) -> None:
    """A commit may name its retention below version 5; a later commit without one lasts as long as any."""
    a, topic = play.connect(), play.topic()
    for version, retention in ((2, 60_000), (4, -1), (3, 2**45), (4, 0)):
        commit(a, version, play.group(), {topic: {0: version}}, retention_time=retention)
        fetch(a, 9, play.group(), {topic: [0]})


def settle_at_once(client: Client, group_id: str, **fields: Any) -> Any:
    """A Stable classic group whose member joins by one request: Kafka forgets a group of which a member has
    been given no more than its id when a check of retention comes between (O15)."""
    joined = join(client, group_id, version=3, **fields)
    known = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    told = [{"member_id": joined.member_id, "assignment": b"mine"}]
    client.ask("sync_group", 3, group_id=group_id, assignments=told, **known)
    return joined


@transcript(rows=("O14", "O5"), profile="expiry")
def stable_group_keeps_the_offsets_of_its_topics(play: Play) -> None:
    """What it is not subscribed to expires; once everybody has left, all of it."""
    a, topic, other = play.connect(), play.topic(), play.topic("u")
    joined = settle_at_once(a, play.group(), protocols=protocols("range", metadata=subscription([topic])))
    known = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    commit(a, 4, play.group(), {topic: {0: 5}, other: {0: 6}}, **known, retention_time=SOON_MS)
    until_gone(a, play.group(), other)
    fetch(a, 7, play.group(), {topic: [0]})
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    until_forgotten(a, play.group())


@transcript(rows=("O14", "O5"), profile="expiry")
def nothing_expires_in_the_middle_of_a_rebalance(play: Play) -> None:
    a, b, topic = play.connect("a"), play.connect("b"), play.topic()
    commit(a, 4, play.group(), {topic: {0: 5}}, retention_time=500)
    first = join(a, play.group())
    play.wait(1.6)
    describe(a, play.group(), ignore=("member_metadata",))
    fetch(a, 7, play.group(), {topic: [0]})
    parked, _ = start_join(b, play.group())
    play.wait(1.2)
    fetch(a, 7, play.group(), {topic: [0]})
    join(a, play.group(), member_id=first.member_id, ignore=("members",))
    parked.collect(ignore=("members",))


@transcript(rows=("O14", "O5"), profile="expiry")
def consumer_group_keeps_the_offsets_of_its_topics(play: Play) -> None:
    """What it is not subscribed to expires; once everybody has left, all of it, and the group."""
    a, topic, other = play.connect(), play.topic(), play.topic("u")
    commit(a, 4, play.group(), {topic: {0: 5}, other: {0: 6}}, retention_time=SOON_MS)
    beat_in(a, play.group(), "m", [topic])
    until_gone(a, play.group(), other)
    fetch(a, 7, play.group(), {topic: [0]})
    beat(a, play.group(), "m", -1)
    until_gone(a, play.group(), topic)
    until_consumer_forgotten(a, play.group())


@transcript(rows=("O15",), profile="expiry")
def empty_groups_without_offsets_are_forgotten(play: Play) -> None:
    """They are forgotten at the next check, whatever retention is."""
    a, topic = play.connect(), play.topic()
    joined = settle_at_once(a, play.group("classic"))
    a.ask("leave_group", 5, group_id=play.group("classic"), members=[{"member_id": joined.member_id}])
    beat_in(a, play.group("consumer"), "m", [topic])
    beat(a, play.group("consumer"), "m", -1)
    until_forgotten(a, play.group("classic"))
    until_consumer_forgotten(a, play.group("consumer"))
    commit(a, 9, play.group("simple"), {topic: {0: 5}})
    delete_offsets(a, play.group("simple"), {topic: [0]})
    until_forgotten(a, play.group("simple"))
    settle_at_once(a, play.group("consumer"))


@transcript(rows=("O15",), profile="expiry")
def live_groups_without_offsets_are_kept(play: Play) -> None:
    a, topic = play.connect(), play.topic()
    settle_at_once(a, play.group("classic"))
    beat_in(a, play.group("consumer"), "m", [topic])
    play.wait(1.2)
    describe(a, play.group("classic"), 6, ignore=("member_metadata",))
    consumer_describe(a, play.group("consumer"))


@transcript(rows=("O8", "O5"), profile="expiry")
def open_transaction_keeps_an_offset(play: Play) -> None:
    """It expires at the first check after the transaction has ended; so does the group."""
    a, topic = play.connect(), play.topic(partitions=2)
    producer = opened(play, a, play.group())
    txn_commit(a, producer, play.group(), {topic: {0: 9}})
    commit(a, 4, play.group(), {topic: {0: 5, 1: 6}}, retention_time=SOON_MS)
    until_gone(a, play.group(), topic, (1,))
    play.wait(0.6)
    fetch(a, 6, play.group(), {topic: [0, 1]})
    end(a, producer, committed=False)
    until_forgotten(a, play.group())
    fetch(a, 6, play.group(), None)


@transcript(rows=("O13",))
def what_is_said_of_groups_that_cannot_be_deleted(play: Play) -> None:
    """Version 3 has a place for words, and they are missing."""
    a, topic = play.connect(), play.topic()
    beat_in(a, play.group("busy"), "m", [topic])
    settle_alone(a, play.group("classic"))
    commit(a, 8, play.group("simple"), {topic: {0: 5}})
    names = [play.group(name) for name in ("busy", "classic", "simple", "none", "none")]
    answer = a.ask("delete_groups", 3, groups_names=names)
    play.note("messages", sorted({str(result.error_message) for result in answer.results}))
