"""`__consumer_offsets` and `__transaction_state` as topics that clients look at and may not write (W51)."""

from __future__ import annotations

from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.oracle.logs import log_topic, produced
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.transactions import init, passed
from tests.topics.batches import batch

IGNORED = ("brokers", "replica_nodes", "isr_nodes", "cluster_authorized_operations", "topic_id")
KEY_TYPES = {OFFSETS_TOPIC: 0, TRANSACTIONS_TOPIC: 1}
"""Topic -> the type of the key with which FindCoordinator has Kafka make it."""
TOPICS = {"groups": OFFSETS_TOPIC, "transactions": TRANSACTIONS_TOPIC}


def versions(*numbers: int) -> dict[str, tuple[str, int]]:
    """Return a case for each topic and version."""
    return {f"{of}-v{number}": (topic, number) for of, topic in TOPICS.items() for number in numbers}


def looked_at(play: Play, topic: str) -> Client:
    """Have Kafka make the topic, which it does when a coordinator is looked for first."""

    def is_there() -> bool:
        asked = {"key_type": KEY_TYPES[topic], "coordinator_keys": [play.unique("g")]}
        answer = play.admin.quietly("find_coordinator", 4, **asked)
        return bool(answer.coordinators[0].error_code.value == 0)

    play.until(is_there, "a coordinator")
    return play.connect("a")


@transcript(rows=("W51",), cases=versions(0, 1, 5, 9, 13))
def internal_topic_in_metadata(play: Play, case: tuple[str, int]) -> None:
    topic, version = case
    a = looked_at(play, topic)
    fields = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": True}
    a.ask("metadata", version, ignore=IGNORED, unordered=("partitions",), **fields)


@transcript(rows=("W51",), cases=TOPICS)
def internal_topic_in_pages(play: Play, topic: str) -> None:
    a = looked_at(play, topic)
    a.ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": topic}],
        response_partition_limit=3,
        cursor=None,
        ignore=IGNORED,
    )


@transcript(rows=("W51",), cases=TOPICS)
def internal_topic_is_made_once_and_has_its_configs(play: Play, topic: str) -> None:
    a = looked_at(play, topic)
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    a.ask("create_topics", 7, topics=[{**new, "assignments": [], "configs": []}], ignore=("topic_id",))
    names = ["cleanup.policy", "compression.type", "segment.bytes"]
    if topic == TRANSACTIONS_TOPIC:
        names += ["min.insync.replicas", "unclean.leader.election.enable"]
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": names}
    a.ask("describe_configs", 4, resources=[resource], unordered=("configs",))


@transcript(rows=("W51",), cases=versions(3, 9, 13))
def internal_topic_takes_nobodys_records(play: Play, case: tuple[str, int]) -> None:
    """A damaged batch, acknowledgements that there are not, and partitions that are not there come first."""
    topic, version = case
    a = looked_at(play, topic)
    for records in (batch(b"x"), batch(b"x")[:-1]):
        a.ask("produce", version, acks=-1, topic_data=produced(play, topic, {0: records}))
    a.ask("produce", version, acks=7, topic_data=produced(play, topic, {0: batch(b"x")}))
    a.ask("produce", version, acks=-1, topic_data=produced(play, topic, {99: batch(b"x")}))


@transcript(rows=("W51",), cases=TOPICS)
def internal_topic_keeps_its_records(play: Play, topic: str) -> None:
    a = looked_at(play, topic)
    partitions = [{"partition_index": number, "offset": 0} for number in (0, 99)]
    a.ask("delete_records", 2, topics=[{"name": topic, "partitions": partitions}])


@transcript(rows=("W51",), cases=TOPICS)
def internal_topic_is_in_no_clients_transaction(play: Play, topic: str) -> None:
    """Not even beside another topic, which is then not added either; brokers may add it."""
    looked_at(play, OFFSETS_TOPIC)
    a, other = looked_at(play, topic), log_topic(play)
    looked_at(play, TRANSACTIONS_TOPIC)
    producer = init(a, play.unique("tx"))
    asked = {f"v3_and_below_{name}": value for name, value in producer.items()}
    for named in ({topic: [0, 99]}, {other: [0], topic: [0]}, {play.unique("none"): [0], topic: [0]}):
        topics = [{"name": name, "partitions": numbers} for name, numbers in named.items()]
        unordered = ("results_by_topic_v3_and_below", "results_by_partition")
        a.ask("add_partitions_to_txn", 3, unordered=unordered, v3_and_below_topics=topics, **asked)
    partitions = [{"name": topic, "partitions": [0]}]
    a.ask("add_partitions_to_txn", 4, transactions=[{**producer, "verify_only": False, "topics": partitions}])
    a.ask_until(passed, "end_txn", 4, committed=True, **producer)
