"""ListOffsets and OffsetForLeaderEpoch (W36, W37)."""

from __future__ import annotations

from typing import Any

from tests.oracle.logs import filled, log_topic
from tests.oracle.play import Play
from tests.oracle.registry import transcript
from tests.topics.batches import batch

LIST_VERSIONS = {f"v{version}": version for version in range(1, 12)}
EPOCH_VERSIONS = {f"v{version}": version for version in (2, 3, 4)}
QUESTIONS = (-1, -2, -3, -4, -5, -6, -7, -99)


def _asked(*partitions: tuple[int, int], epoch: int = -1) -> list[dict[str, Any]]:
    return [
        {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
        for index, timestamp in partitions
    ]


@transcript(rows=("W36",), cases=LIST_VERSIONS)
def every_question(play: Play, version: int) -> None:
    topic, a = log_topic(play, partitions=2), play.connect("a")
    filled(play, topic, {0: batch(b"a", b"b", b"c", timestamps=[100, 300, 200])})
    for timestamp in (*QUESTIONS, 0, 100, 101, 300, 301):
        for index in (0, 1):
            topics = [{"name": topic, "partitions": _asked((index, timestamp))}]
            a.ask("list_offsets", version, replica_id=-1, topics=topics)


@transcript(rows=("W36",), cases={f"v{version}": version for version in (1, 4, 7, 11)})
def what_cannot_be_asked(play: Play, version: int) -> None:
    topic, a = log_topic(play, partitions=2), play.connect("a")
    for epoch in (-2, -1, 0, 1):
        topics = [{"name": topic, "partitions": _asked((0, -1), epoch=epoch)}]
        a.ask("list_offsets", version, replica_id=-1, topics=topics)
    a.ask("list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": _asked((7, -1))}])
    for timestamp in (-1, -99):
        gone = [{"name": play.unique("none"), "partitions": _asked((0, timestamp), epoch=1)}]
        a.ask("list_offsets", version, replica_id=-1, topics=gone)
    topics = [{"name": topic, "partitions": _asked((0, -1))}]
    a.ask("list_offsets", version, replica_id=-1, topics=topics, isolation_level=7)
    twice = [
        {"name": topic, "partitions": _asked((0, -1), (1, -1))},
        {"name": topic, "partitions": _asked((0, -2))},
    ]
    a.ask("list_offsets", version, replica_id=-1, topics=twice)
    a.ask("list_offsets", version, replica_id=-1, topics=[])


@transcript(rows=("W36",), cases={"v7": 7, "v11": 11})
def log_that_begins_later(play: Play, version: int) -> None:
    topic, a = log_topic(play), play.connect("a")
    filled(play, topic, {0: batch(b"a", b"b", b"c", timestamps=[100, 200, 300])})
    deleted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    a.ask("delete_records", 2, topics=deleted)
    for timestamp in (*QUESTIONS, 0, 150, 300):
        topics = [{"name": topic, "partitions": _asked((0, timestamp))}]
        a.ask("list_offsets", version, replica_id=-1, topics=topics)


@transcript(rows=("W37",), cases=EPOCH_VERSIONS)
def end_of_an_epoch(play: Play, version: int) -> None:
    topic, empty, a = log_topic(play), log_topic(play, "u"), play.connect("a")
    filled(play, topic, {0: batch(b"a", b"b", b"c")})
    deleted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    play.admin.quietly("delete_records", 2, topics=deleted)

    def ask(name: str, partition: int, epoch: int, current: int) -> None:
        asked = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
        topics = [{"topic": name, "partitions": [asked]}]
        a.ask("offset_for_leader_epoch", version, replica_id=-1, topics=topics)

    for epoch in (-2, -1, 0, 1, 9):
        for current in (-2, -1, 0, 1):
            ask(topic, 0, epoch, current)
        ask(empty, 0, epoch, -1)
    ask(topic, 7, 0, 1)
    ask(play.unique("none"), 0, 0, -2)


@transcript(rows=("W37",), cases=EPOCH_VERSIONS)
def partition_that_is_asked_about_twice(play: Play, version: int) -> None:
    topic, a = log_topic(play, partitions=2), play.connect("a")
    first, second, third = (
        {"partition": index, "leader_epoch": epoch, "current_leader_epoch": -1}
        for index, epoch in ((0, 0), (0, 1), (1, 0))
    )
    topics = [{"topic": topic, "partitions": [first, second]}, {"topic": topic, "partitions": [third]}]
    a.ask("offset_for_leader_epoch", version, replica_id=-1, topics=topics)
