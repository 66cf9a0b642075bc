"""TxnOffsetCommit 6: topics by id, and errors that older versions have no names for (KIP-1319)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from tests.oracle.access import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE, acl, alice
from tests.oracle.kits import beat_in, fetch, settle_alone
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.offsets import partition
from tests.oracle.transcripts.offsets_ids import UNKNOWN, ZERO
from tests.oracle.transcripts.transactions import end, init, opened, settled

Ids = Mapping[uuid.UUID | None, Mapping[int, int]]


def commit_by_id(
    client: Client, producer: Mapping[str, Any], group_id: str, offsets: Ids, **fields: Any
) -> Any:
    topics = [
        {
            "topic_id": topic_id,
            "partitions": [partition(number, offset) for number, offset in of_topic.items()],
        }
        for topic_id, of_topic in offsets.items()
    ]
    named = {"generation_id_or_member_epoch": -1, "member_id": ""} | producer | fields
    unordered = ("topics", "partitions")
    return client.ask("txn_offset_commit", 6, group_id=group_id, topics=topics, unordered=unordered, **named)


@transcript(rows=("O7", "W16"), cases={"commit": True, "abort": False})
def offsets_of_a_transaction_by_id(play: Play, committed: bool) -> None:
    """They are those of the topic's name."""
    a, topic = play.connect(), play.topic(partitions=2)
    producer = opened(play, a, play.group())
    commit_by_id(a, producer, play.group(), {play.topic_id(topic): {0: 5}})
    commit_by_id(a, producer, play.group(), {play.topic_id(topic): {0: 6, 1: 7}})
    groups = [{"group_id": play.group(), "topics": [{"name": topic, "partition_indexes": [0, 1]}]}]
    a.ask("offset_fetch", 8, groups=groups, require_stable=True)
    end(a, producer, committed)
    settled(a, play.group(), topic)
    fetch(a, 8, play.group(), {topic: [0, 1]})


@transcript(rows=("O7", "W12", "W2"))
def ids_of_no_topic_in_a_transaction(play: Play) -> None:
    """Error 100 on each partition, zero or unknown; 3 for a partition that a known topic does not have."""
    a, topic = play.connect(), play.topic()
    topic_id, other = play.topic_id(topic), play.topic_id(play.topic("u"))
    producer = opened(play, a, play.group())
    for offsets in (
        {UNKNOWN: {0: 1}},
        {UNKNOWN: {0: 1, 1: 2}, topic_id: {0: 3, 4: 4, -1: 5}, ZERO: {0: 5}},
        {topic_id: {}},
        {UNKNOWN: {}},
        {UNKNOWN: {}, topic_id: {}, other: {0: 6}},
        {},
    ):
        commit_by_id(a, producer, play.group(), offsets)
    commit_by_id(a, producer, "", {topic_id: {0: 5}, UNKNOWN: {0: 5}})
    commit_by_id(a, producer, "", {UNKNOWN: {0: 5}})
    end(a, producer, True)
    settled(a, play.group(), topic)


@transcript(rows=("O7", "O2"))
def generations_of_a_missing_group_by_id(play: Play) -> None:
    """GROUP_ID_NOT_FOUND, which older versions call an illegal generation."""
    a, topic = play.connect(), play.topic()
    topic_id = play.topic_id(topic)
    producer = opened(play, a, play.group())
    for _ in range(2):
        for fields in (
            {"generation_id_or_member_epoch": 0},
            {"generation_id_or_member_epoch": 3, "member_id": "m"},
            {"member_id": "m"},
        ):
            commit_by_id(a, producer, play.group(), {topic_id: {0: 5}, UNKNOWN: {0: 5}}, **fields)


@transcript(rows=("O7", "O6"))
def members_of_a_consumer_group_commit_by_id(play: Play) -> None:
    """A wrong epoch is STALE_MEMBER_EPOCH, which older versions call an illegal generation."""
    a, topic = play.connect(), play.topic()
    topic_id = play.topic_id(topic)
    joined = beat_in(a, play.group(), "m", [topic])
    producer = opened(play, a, play.group())
    epoch = joined.member_epoch
    known = {"generation_id_or_member_epoch": epoch, "member_id": joined.member_id}
    for fields in (
        {},
        known,
        {**known, "generation_id_or_member_epoch": epoch + 1},
        {**known, "generation_id_or_member_epoch": 0},
        {**known, "generation_id_or_member_epoch": -1},
        {**known, "member_id": "made-up"},
        {"generation_id_or_member_epoch": 5},
        {"group_instance_id": "none"},
    ):
        commit_by_id(a, producer, play.group(), {topic_id: {0: 5}}, **fields)


@transcript(rows=("O7",))
def members_of_a_classic_group_commit_by_id(play: Play) -> None:
    """A wrong generation stays what it is."""
    a, topic = play.connect(), play.topic()
    topic_id = play.topic_id(topic)
    joined = settle_alone(a, play.group())
    producer = opened(play, a, play.group())
    known = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    for fields in (
        known,
        {**known, "generation_id_or_member_epoch": 2},
        {**known, "member_id": "made-up"},
        {**known, "group_instance_id": "none"},
    ):
        commit_by_id(a, producer, play.group(), {topic_id: {0: 5}}, **fields)


@transcript(rows=("W10", "W12", "O7"), profile="security")
def rights_of_a_transactions_commit_by_id(play: Play) -> None:
    """The topic of an id is what counts; an id of no topic tells nothing."""
    mine, theirs = play.topic_id(play.topic("mine")), play.topic_id(play.topic("theirs"))
    group, tx = play.group(), play.unique("tx")
    offsets: Ids = {theirs: {0: 1}, UNKNOWN: {0: 2}, mine: {0: 3, 9: 4}}
    nobody = {"transactional_id": tx, "producer_id": 4_711_000, "producer_epoch": 0}
    commit_by_id(alice(play), nobody, group, offsets)
    commit_by_id(alice(play, acl(TRANSACTIONAL_ID, tx, WRITE)), nobody, group, offsets)
    client = alice(play, acl(GROUP, group, READ), acl(TOPIC, play.unique("mine"), READ))
    commit_by_id(client, nobody, group, {theirs: {0: 1}, UNKNOWN: {0: 2}})
    producer = init(client, tx)
    commit_by_id(client, producer, group, offsets)
