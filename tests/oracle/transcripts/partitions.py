"""What administrators ask of partitions: DescribeTopicPartitions, DescribeProducers, ElectLeaders, sizes of
logs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

NO_TOPIC = "x" * 249
"""No topic has this name."""


def described(client: Client, names: list[str], limit: int, cursor: tuple[str, int] | None = None) -> Any:
    after = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    return client.ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=after,
        ignore=("replica_nodes", "isr_nodes", "topic_id"),
    )


@transcript(rows=("W21",))
def partitions_are_told_a_page_at_a_time(play: Play) -> None:
    """Topics come by name, each once; a cursor goes on where the page ended, and may lie."""
    a = play.connect()
    one, two, three = play.topic("one", 3), play.topic("two", 2), play.topic("three")
    everything = [two, one, three, one]
    for limit in (2000, 3, 2, 0, -1):
        described(a, everything, limit)
    page = described(a, everything, 2)
    while page.next_cursor is not None:
        page = described(a, everything, 2, (page.next_cursor.topic_name, page.next_cursor.partition_index))
    described(a, everything, 9, (two, 7))
    described(a, everything, 9, (two, -1))
    described(a, everything, 9, (NO_TOPIC, 0))
    described(a, [NO_TOPIC, one], 9)
    described(a, ["", one], 9)


@transcript(rows=("W22",))
def producers_of_partitions_that_are_there_and_not(play: Play) -> None:
    a, topic = play.connect(), play.topic(partitions=2)
    topics = [
        {"name": topic, "partition_indexes": [0, 1, 7, -1]},
        {"name": NO_TOPIC, "partition_indexes": [0]},
        {"name": "", "partition_indexes": [0]},
        {"name": "no good", "partition_indexes": [0]},
        {"name": topic, "partition_indexes": []},
    ]
    a.ask("describe_producers", 0, topics=topics)
    a.ask("describe_producers", 0, topics=[])


@transcript(rows=("W23",), cases={"v1": 1, "v2": 2, "v4": 4, "v5": 5})
def sizes_of_logs(play: Play, version: int) -> None:
    """Partitions that are not there, or not on this broker, are left out; so are their topics."""
    a, topic = play.connect(), play.topic(partitions=2)
    topics = [{"topic": topic, "partitions": [0, 9]}, {"topic": NO_TOPIC, "partitions": [0]}]
    of_the_machine = ("log_dir", "total_bytes", "usable_bytes")
    a.ask("describe_log_dirs", version, topics=topics, ignore=of_the_machine)
    a.ask("describe_log_dirs", version, topics=[], ignore=of_the_machine)


@transcript(rows=("W24",), cases={"v0": 0, "v1": 1, "v2": 2})
def elections_that_are_not_needed(play: Play, version: int) -> None:
    a, topic = play.connect(), play.topic(partitions=2)
    topics = [
        {"topic": topic, "partitions": [0, 9, -1]},
        {"topic": NO_TOPIC, "partitions": [0]},
    ]
    for election_type in (0, 1, 2) if version else (0,):
        a.ask(
            "elect_leaders",
            version,
            election_type=election_type,
            topic_partitions=topics,
            unordered=("replica_election_results", "partition_result"),
        )
    a.ask("elect_leaders", version, election_type=0, topic_partitions=[])


@transcript(rows=("W25",))
def no_metrics_are_asked_of_clients(play: Play) -> None:
    """The subscription's number is any number."""
    a = play.connect()
    for client_id in (None, UUID(int=5)):
        ignored = ("subscription_id",) if client_id else ("subscription_id", "client_instance_id")
        a.ask("get_telemetry_subscriptions", 0, client_instance_id=client_id, ignore=ignored)
