"""OffsetCommit and OffsetFetch 10: topics by id (W12, W16, O9)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle.kits import beat_in, commit, fetch
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.offsets import partition

UNKNOWN = uuid.UUID(int=0xABCD)
ZERO = None


def commit_by_id(
    client: Client, group_id: str, offsets: Mapping[uuid.UUID | None, Mapping[int, int]], **fields: Any
) -> Any:
    topics = [
        {
            "topic_id": topic_id,
            "partitions": [partition(number, offset) for number, offset in of_topic.items()],
        }
        for topic_id, of_topic in offsets.items()
    ]
    unordered = ("topics", "partitions")
    return client.ask("offset_commit", 10, group_id=group_id, topics=topics, unordered=unordered, **fields)


def fetch_by_id(
    client: Client, group_id: str, topics: Mapping[uuid.UUID | None, Sequence[int]] | None, **fields: Any
) -> Any:
    asked = None
    if topics is not None:
        asked = [{"topic_id": topic_id, "partition_indexes": list(each)} for topic_id, each in topics.items()]
    member = {
        name: fields.pop(name, default) for name, default in (("member_id", None), ("member_epoch", -1))
    }
    return client.ask(
        "offset_fetch", 10, groups=[{"group_id": group_id, "topics": asked, **member}], **fields
    )


@transcript(rows=("W16", "O1", "O9"))
def commit_and_fetch_by_id(play: Play) -> None:
    """An offset is the same by id and by name."""
    a, topic = play.connect(), play.topic(partitions=2)
    topic_id = play.topic_id(topic)
    commit_by_id(a, play.group(), {topic_id: {0: 5}})
    fetch_by_id(a, play.group(), {topic_id: [0, 1, 9]})
    fetch_by_id(a, play.group(), None)
    fetch(a, 9, play.group(), {topic: [0]})
    commit(a, 9, play.group(), {topic: {1: 6}})
    fetch_by_id(a, play.group(), {topic_id: [1]})
    fetch_by_id(a, play.group(), {topic_id: [1]}, require_stable=True)


@transcript(rows=("W12", "O9"))
def ids_of_no_topic(play: Play) -> None:
    """Error 100 on each partition, zero or unknown; 3 for a partition that a known topic does not have."""
    a, topic_id = play.connect(), play.topic_id(play.topic())
    commit_by_id(a, play.group(), {UNKNOWN: {0: 1}})
    fetch_by_id(a, play.group(), {UNKNOWN: [0, 1]})
    commit_by_id(a, play.group(), {UNKNOWN: {0: 1, 1: 2}, topic_id: {0: 3, 4: 4}, ZERO: {0: 5}})
    fetch_by_id(a, play.group(), {ZERO: [0], topic_id: [0], UNKNOWN: [7]})
    commit_by_id(a, play.group(), {UNKNOWN: {0: 1}, topic_id: {0: 3}}, generation_id_or_member_epoch=4)
    commit_by_id(a, play.group("none"), {UNKNOWN: {0: 1}}, generation_id_or_member_epoch=4)
    commit_by_id(a, play.group("none"), {topic_id: {0: 1}}, generation_id_or_member_epoch=4)
    fetch_by_id(a, play.group("none"), {topic_id: [0]})
    commit_by_id(a, play.group(), {})
    fetch_by_id(a, play.group(), {})


@transcript(rows=("O6", "O11", "W16"))
def member_commits_and_fetches_by_id(play: Play) -> None:
    """A refused member's error is the group's on a fetch, each partition's on a commit."""
    a, topic = play.connect(), play.topic()
    topic_id = play.topic_id(topic)
    epoch = beat_in(a, play.group(), "m", [topic]).member_epoch
    for member_id, sent in (("m", epoch), ("m", epoch + 1), ("stranger", epoch)):
        commit_by_id(
            a, play.group(), {topic_id: {0: sent}}, generation_id_or_member_epoch=sent, member_id=member_id
        )
        commit_by_id(
            a,
            play.group(),
            {topic_id: {0: sent}, UNKNOWN: {0: 1}},
            generation_id_or_member_epoch=sent,
            member_id=member_id,
        )
        for asked in ({topic_id: [0]}, {UNKNOWN: [0]}, {topic_id: [0], UNKNOWN: [0]}, None):
            fetch_by_id(a, play.group(), asked, member_id=member_id, member_epoch=sent)


@transcript(rows=("O9", "O16"))
def recreated_topic_starts_without_offsets(play: Play) -> None:
    """Earlier offsets go with the earlier topic: by name, by id, and for all topics."""
    a, topic = play.connect(), play.topic()
    commit(a, 9, play.group(), {topic: {0: 5}})
    play.delete_topic(topic)
    play.create_topic(topic)
    a.ask_until(
        lambda answer: answer.groups[0].topics[0].partitions[0].committed_offset == -1,
        "offset_fetch",
        9,
        groups=[
            {
                "group_id": play.group(),
                "topics": [{"name": topic, "partition_indexes": [0]}],
                "member_id": None,
                "member_epoch": -1,
            }
        ],
    )
    fetch_by_id(a, play.group(), {play.topic_id(topic): [0]})
    fetch_by_id(a, play.group(), None)
    commit_by_id(a, play.group(), {play.topic_id(topic): {0: 7}})
    fetch_by_id(a, play.group(), None)


@transcript(rows=("W12",))
def topics_without_partitions_by_id(play: Play) -> None:
    """A known one is left out of a commit's answer."""
    a, topic_id = play.connect(), play.topic_id(play.topic())
    other = play.topic_id(play.topic("u"))
    commit_by_id(a, play.group(), {topic_id: {}})
    commit_by_id(a, play.group(), {UNKNOWN: {}})
    commit_by_id(a, play.group(), {topic_id: {}, UNKNOWN: {}, other: {0: 5}})
    commit_by_id(a, play.group(), {UNKNOWN: {0: 1}, topic_id: {}, other: {0: 5}})
    fetch_by_id(a, play.group(), {topic_id: [], UNKNOWN: [], other: [0]})
