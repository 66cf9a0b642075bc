"""`__consumer_offsets` as a topic that clients look at and may not write (W51)."""

from __future__ import annotations

from actors.ground.topic_names import OFFSETS_TOPIC
from tests.oracle.logs import produced
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.topics.batches import batch

IGNORED = ("brokers", "replica_nodes", "isr_nodes", "cluster_authorized_operations", "topic_id")


def looked_at(play: Play) -> Client:
    """Have Kafka make the topic, which it does when a coordinator is looked for first."""

    def is_there() -> bool:
        asked = {"key_type": 0, "coordinator_keys": [play.unique("g")]}
        answer = play.admin.quietly("find_coordinator", 4, **asked)
        return bool(answer.coordinators[0].error_code.value == 0)

    play.until(is_there, "a coordinator")
    return play.connect("a")


@transcript(rows=("W51",), cases={f"v{version}": version for version in (0, 1, 5, 9, 13)})
def internal_topic_in_metadata(play: Play, version: int) -> None:
    a = looked_at(play)
    fields = {"topics": [{"name": OFFSETS_TOPIC, "topic_id": None}], "allow_auto_topic_creation": True}
    a.ask("metadata", version, ignore=IGNORED, unordered=("partitions",), **fields)


@transcript(rows=("W51",))
def internal_topic_in_pages(play: Play) -> None:
    a = looked_at(play)
    a.ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": OFFSETS_TOPIC}],
        response_partition_limit=3,
        cursor=None,
        ignore=IGNORED,
    )


@transcript(rows=("W51",))
def internal_topic_is_made_once_and_has_its_configs(play: Play) -> None:
    a = looked_at(play)
    new = {"name": OFFSETS_TOPIC, "num_partitions": 1, "replication_factor": 1}
    a.ask("create_topics", 7, topics=[{**new, "assignments": [], "configs": []}], ignore=("topic_id",))
    resource = {
        "resource_type": 2,
        "resource_name": OFFSETS_TOPIC,
        "configuration_keys": ["cleanup.policy", "compression.type", "segment.bytes"],
    }
    a.ask("describe_configs", 4, resources=[resource], unordered=("configs",))


@transcript(rows=("W51",), cases={"v3": 3, "v9": 9, "v13": 13})
def internal_topic_takes_nobodys_records(play: Play, version: int) -> None:
    """A damaged batch, acknowledgements that there are not, and partitions that are not there come first."""
    a = looked_at(play)
    for records in (batch(b"x"), batch(b"x")[:-1]):
        a.ask("produce", version, acks=-1, topic_data=produced(play, OFFSETS_TOPIC, {0: records}))
    a.ask("produce", version, acks=7, topic_data=produced(play, OFFSETS_TOPIC, {0: batch(b"x")}))
    a.ask("produce", version, acks=-1, topic_data=produced(play, OFFSETS_TOPIC, {99: batch(b"x")}))


@transcript(rows=("W51",))
def internal_topic_keeps_its_records(play: Play) -> None:
    a = looked_at(play)
    partitions = [{"partition_index": number, "offset": 0} for number in (0, 99)]
    a.ask("delete_records", 2, topics=[{"name": OFFSETS_TOPIC, "partitions": partitions}])
