"""Offsets that are committed with a transaction, and the markers that settle them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.protocol.java_hash import partition_for
from tests.oracle.kits import beat_in, commit, describe, fetch, settle_alone
from tests.oracle.play import Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.transactions import (
    V0_TO_V3,
    add_offsets,
    end,
    init,
    offsets,
    opened,
    settled,
    txn_commit,
)

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 5


@transcript(rows=("O7", "O10"), cases={"commit": True, "abort": False})
def offsets_of_a_transaction(play: Play, committed: bool) -> None:
    a, topic = play.connect(), play.topic(partitions=2)
    commit(a, 8, play.group(), {topic: {0: 1}})
    producer = opened(play, a, play.group())
    txn_commit(a, producer, play.group(), {topic: {0: 5}})
    txn_commit(a, producer, play.group(), {topic: {0: 6, 1: 7}})
    groups = [{"group_id": play.group(), "topics": [{"name": topic, "partition_indexes": [0, 1]}]}]
    for stable in (False, True):
        a.ask("offset_fetch", 8, groups=groups, require_stable=stable)
        a.ask("offset_fetch", 8, groups=[{"group_id": play.group(), "topics": None}], require_stable=stable)
    end(a, producer, committed)
    settled(a, play.group(), topic)
    fetch(a, 8, play.group(), {topic: [0, 1]})


@transcript(rows=("O7", "W8"), cases={f"v{version}": version for version in range(5)})
def commit_without_a_transaction(play: Play, version: int) -> None:
    """The error is 48, and from version 4 on 120; another epoch gets 47, an unknown producer 49."""
    a, topic = play.connect(), play.topic()
    producer = init(a, play.unique("tx"))
    describe(a, play.group())
    txn_commit(a, producer, play.group(), {topic: {0: 5}}, version)
    add_offsets(a, producer, play.group())
    for change in (
        {"producer_epoch": 7},
        {"producer_epoch": -1},
        {"producer_id": producer["producer_id"] + 1_000_000},
        {"transactional_id": play.unique("unseen")},
        {},
    ):
        txn_commit(a, {**producer, **change}, play.group(), {topic: {0: 5}}, version)
    end(a, producer, True)
    settled(a, play.group(), topic)


@transcript(rows=("O7", "O4", "W2", "W12"), cases=V0_TO_V3)
def commit_what_cannot_be(play: Play, version: int) -> None:
    """Each partition has its own error."""
    a, topic = play.connect(), play.topic(partitions=2)
    producer = opened(play, a, play.group())
    topics = offsets({topic: {0: 5, 1: 6, 2: 7, -1: 8}, play.unique("none"): {0: 1}})
    topics[0]["partitions"][1]["committed_metadata"] = "x" * 4_097
    txn_commit(a, producer, play.group(), {}, version, topics=topics)
    txn_commit(a, producer, "", {topic: {0: 5, 7: 5}}, version)
    txn_commit(a, producer, "", {play.unique("none"): {0: 5}}, version)
    txn_commit(a, producer, play.group(), {topic: {0: -5}}, version)
    end(a, producer, True)
    settled(a, play.group(), topic)


@transcript(rows=("O7",))
def members_of_a_classic_group_commit_in_a_transaction(play: Play) -> None:
    """Who names nobody is not asked."""
    a, topic = play.connect(), play.topic()
    joined = settle_alone(a, play.group())
    producer = opened(play, a, play.group())
    known = {"generation_id": 1, "member_id": joined.member_id}
    for fields in (
        {},
        known,
        {**known, "generation_id": 2},
        {**known, "generation_id": 0},
        {**known, "generation_id": -1},
        {**known, "member_id": "made-up"},
        {**known, "member_id": ""},
        {**known, "group_instance_id": "none"},
        {"group_instance_id": "none"},
        {"generation_id": 5},
    ):
        txn_commit(a, producer, play.group(), {topic: {0: 5}}, **fields)


@transcript(rows=("O7",))
def generations_of_a_group_that_has_none(play: Play) -> None:
    a, topic = play.connect(), play.topic()
    producer = opened(play, a, play.group())
    for fields in ({"generation_id": 0}, {"generation_id": 3, "member_id": "m"}, {"member_id": "m"}):
        txn_commit(a, producer, play.group(), {topic: {0: 5}}, **fields)
    for fields in ({"generation_id": 0}, {"generation_id": 3, "member_id": "m"}, {"member_id": "m"}):
        txn_commit(a, producer, play.group(), {topic: {0: 6}}, **fields)


@transcript(rows=("O7", "O6"))
def members_of_a_consumer_group_commit_in_a_transaction(play: Play) -> None:
    """A wrong epoch is an illegal generation here."""
    a, topic = play.connect(), play.topic()
    joined = beat_in(a, play.group(), "m", [topic])
    producer = opened(play, a, play.group())
    known = {"generation_id": joined.member_epoch, "member_id": joined.member_id}
    for fields in (
        {},
        known,
        {**known, "generation_id": joined.member_epoch + 1},
        {**known, "generation_id": 0},
        {**known, "generation_id": -1},
        {**known, "member_id": "made-up"},
        {"generation_id": 5},
        {"group_instance_id": "none"},
    ):
        txn_commit(a, producer, play.group(), {topic: {0: 5}}, **fields)


@transcript(rows=("O7",))
def a_plain_commit_is_newer_than_the_transactions(play: Play) -> None:
    a, topic = play.connect(), play.topic()
    producer = opened(play, a, play.group())
    txn_commit(a, producer, play.group(), {topic: {0: 5}})
    commit(a, 8, play.group(), {topic: {0: 3}})
    end(a, producer, True)
    settled(a, play.group(), topic)


@transcript(rows=("O7", "O10"), cases={"in order": (0, 1), "the other way round": (1, 0)})
def the_transaction_that_wrote_last_wins(play: Play, order: tuple[int, int]) -> None:
    a, topic = play.connect(), play.topic()
    producers = [opened(play, a, play.group(), name) for name in ("one", "two")]
    for number, producer in enumerate(producers):
        txn_commit(a, producer, play.group(), {topic: {0: 10 + number}})
    for number in order:
        end(a, producers[number], True)
        init(a, producers[number]["transactional_id"])
        fetch(a, 8, play.group(), {topic: [0]})
    settled(a, play.group(), topic)


@transcript(rows=("O8", "O13"))
def delete_a_group_in_the_middle_of_a_transaction(play: Play) -> None:
    """The group goes, and the commit brings nothing back."""
    a, topic = play.connect(), play.topic()
    commit(a, 8, play.group(), {topic: {0: 1}})
    producer = opened(play, a, play.group())
    txn_commit(a, producer, play.group(), {topic: {0: 5}})
    a.ask("delete_groups", 2, groups_names=[play.group()])
    settled(a, play.group(), topic)
    end(a, producer, True)
    init(a, producer["transactional_id"])
    settled(a, play.group(), topic)
    a.ask("delete_groups", 2, groups_names=[play.group()])


@transcript(rows=("O8", "O13", "O1"), cases={"commit": True, "abort": False})
def a_group_of_pending_offsets_alone(play: Play, committed: bool) -> None:
    a, topic = play.connect(), play.topic()
    producer = opened(play, a, play.group())
    describe(a, play.group())
    txn_commit(a, producer, play.group(), {topic: {0: 5}})
    describe(a, play.group())
    end(a, producer, committed)
    init(a, producer["transactional_id"])
    describe(a, play.group())
    a.ask("delete_groups", 2, groups_names=[play.group()])
    a.ask("delete_groups", 2, groups_names=[play.group()])


@transcript(rows=("O8", "O12"))
def delete_an_offset_in_the_middle_of_a_transaction(play: Play) -> None:
    a, topic = play.connect(), play.topic()
    commit(a, 8, play.group(), {topic: {0: 1}})
    producer = opened(play, a, play.group())
    txn_commit(a, producer, play.group(), {topic: {0: 5}})
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    a.ask("offset_delete", 0, group_id=play.group(), topics=topics)
    settled(a, play.group(), topic)
    end(a, producer, True)
    init(a, producer["transactional_id"])
    settled(a, play.group(), topic)


# Markers.


@transcript(rows=("O7",), cases={"v1": 1, "v2": 2})
def markers_to_topics(play: Play, version: int) -> None:
    """Whoever asks, without an authorizer; of a producer that was never seen too."""
    a, topic = play.connect(), play.topic()
    producer = init(a, play.unique("tx"))

    def mark(numbers: Mapping[str, list[int]], **changes: Any) -> None:
        marker = {
            "producer_id": producer["producer_id"],
            "producer_epoch": 5,
            "transaction_result": True,
            "coordinator_epoch": 5,
            "topics": [{"name": name, "partition_indexes": each} for name, each in numbers.items()],
            **changes,
        }
        a.ask("write_txn_markers", version, unordered=("topics", "partitions"), markers=[marker])

    mark({topic: [0]})
    mark({topic: [0, 3], play.unique("none"): [0]})
    mark({topic: [0]}, producer_epoch=4)
    mark({topic: [0]}, coordinator_epoch=4)
    mark({topic: [0]}, transaction_result=False)
    a.ask("write_txn_markers", version, markers=[])


@transcript(rows=("O7",), cases={"commit": True, "abort": False})
def markers_to_a_groups_partition(play: Play, committed: bool) -> None:
    """They settle what the producer has pending; late ones are refused."""
    a, topic, group_id = play.connect(), play.topic(), play.group()
    producer = opened(play, a, group_id)
    txn_commit(a, producer, group_id, {topic: {0: 5}})

    def mark(what: str, **changes: Any) -> None:
        marker = {
            "producer_id": producer["producer_id"],
            "producer_epoch": producer["producer_epoch"],
            "transaction_result": committed,
            "coordinator_epoch": 50,
            "topics": [
                {
                    "name": OFFSETS_TOPIC,
                    "partition_indexes": [partition_for(group_id, OFFSETS_PARTITIONS)],
                }
            ],
            **changes,
        }
        answer = a.quietly("write_txn_markers", 1, markers=[marker])
        [[[[number]]]] = [[[t.partitions for t in m.topics] for m in answer.markers]]
        play.note(what, number.error_code.name)

    mark("an older epoch", producer_epoch=-1)
    mark("the marker")
    settled(a, group_id, topic)
    mark("again")
    mark("of an older coordinator", coordinator_epoch=49)
    mark("of a newer epoch", producer_epoch=producer["producer_epoch"] + 3)
    mark("of the epoch before", producer_epoch=producer["producer_epoch"])
