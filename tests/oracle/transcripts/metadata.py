"""Metadata: topics that it creates, and topics by their ids (W38)."""

from __future__ import annotations

from tests.oracle.logs import NOBODYS_TOPIC, log_topic
from tests.oracle.play import Play
from tests.oracle.registry import transcript

VERSIONS = {f"v{version}": version for version in range(14)}
IGNORED = ("brokers", "replica_nodes", "isr_nodes", "cluster_authorized_operations")


@transcript(rows=("W38",), cases=VERSIONS, profile="delay")
def topic_that_is_created_by_itself(play: Play, version: int) -> None:
    """It is unknown to who asks first, and there for who asks again."""
    name, a = play.unique("new"), play.connect("a")
    fields = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": True}
    a.ask("metadata", version, ignore=(*IGNORED, "topic_id"), **fields)
    a.ask_until(
        lambda answer: (
            all(each.error_code.value == 0 for each in answer.topics[0].partitions)
            and answer.topics[0].partitions
        ),
        "metadata",
        version,
        ignore=(*IGNORED, "topic_id"),
        unordered=("partitions",),
        **fields,
    )


@transcript(rows=("W38",), cases={f"v{version}": version for version in (4, 9, 13)}, profile="delay")
def topic_that_the_client_does_not_want_created(play: Play, version: int) -> None:
    name, a = play.unique("none"), play.connect("a")
    fields = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False}
    for _ in range(3):
        a.ask("metadata", version, ignore=IGNORED, **fields)


@transcript(rows=("W38",), cases={f"v{version}": version for version in (0, 9, 12, 13)}, profile="delay")
def topic_of_a_name_that_cannot_be(play: Play, version: int) -> None:
    a = play.connect("a")
    for name in ("a/b", "", "x" * 250):
        fields = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": True}
        a.ask("metadata", version, ignore=IGNORED, **fields)


@transcript(rows=("W38",), cases={f"v{version}": version for version in range(10, 14)})
def topics_by_id(play: Play, version: int) -> None:
    """Versions 10 and 11 have the field and may not use it."""
    topic, a = log_topic(play), play.connect("a")
    known = {"name": "" if version < 12 else None, "topic_id": play.topic_id(topic)}
    unknown = {**known, "topic_id": NOBODYS_TOPIC}
    for topics in ([known], [unknown], [{"name": topic, "topic_id": None}, known]):
        a.ask("metadata", version, ignore=IGNORED, topics=topics)
