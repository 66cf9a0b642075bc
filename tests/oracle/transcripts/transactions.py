"""Transactions: the coordinator of transactional ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

PASSING = (14, 15, 16, 51)
"""While a coordinator loads, and while the markers of the last transaction are written."""
V0_TO_V3 = {f"v{version}": version for version in range(4)}
V0_TO_V4 = {f"v{version}": version for version in range(5)}


def passed(answer: Any) -> bool:
    return answer.error_code.value not in PASSING


def init(client: Client, transactional_id: str, version: int = 4, **fields: Any) -> dict[str, Any]:
    """A producer, as the fields that its next requests share."""
    client.ask_until(
        lambda answer: answer.coordinators[0].error_code.value == 0,
        "find_coordinator",
        4,
        key_type=1,
        coordinator_keys=[transactional_id],
    )
    answer = client.ask_until(
        passed, "init_producer_id", version, transactional_id=transactional_id, **fields
    )
    return {
        "transactional_id": transactional_id,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }


def add_partitions(
    client: Client, producer: Mapping[str, Any], topics: Mapping[str, list[int]], version: int = 3
) -> Any:
    named = [{"name": name, "partitions": numbers} for name, numbers in topics.items()]
    unordered = ("results_by_topic_v3_and_below", "results_by_partition", "topic_results")
    if version < 4:
        fields: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in producer.items()}
        fields["v3_and_below_topics"] = named
    else:
        fields = {"transactions": [{**producer, "verify_only": False, "topics": named}]}
    return client.ask("add_partitions_to_txn", version, unordered=unordered, **fields)


def add_offsets(client: Client, producer: Mapping[str, Any], group_id: str, version: int = 3) -> Any:
    return client.ask("add_offsets_to_txn", version, group_id=group_id, **producer)


def offsets(numbers: Mapping[str, Mapping[int, int]]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": number,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
                for number, offset in partitions.items()
            ],
        }
        for topic, partitions in numbers.items()
    ]


def txn_commit(
    client: Client,
    producer: Mapping[str, Any],
    group_id: str,
    numbers: Mapping[str, Mapping[int, int]],
    version: int = 3,
    **fields: Any,
) -> Any:
    named = {"generation_id": -1, "member_id": ""} | dict(fields)
    topics = named.pop("topics", None) or offsets(numbers)
    return client.ask(
        "txn_offset_commit",
        version,
        unordered=("topics", "partitions"),
        group_id=group_id,
        topics=topics,
        **producer,
        **named,
    )


def end(client: Client, producer: Mapping[str, Any], committed: bool, version: int = 3) -> Any:
    return client.ask_until(passed, "end_txn", version, committed=committed, **producer)


def opened(play: Play, client: Client, group_id: str, name: str = "tx", **fields: Any) -> dict[str, Any]:
    """A producer whose open transaction has the group's offsets."""
    client.ask_until(
        lambda answer: answer.coordinators[0].error_code.value == 0,
        "find_coordinator",
        4,
        key_type=0,
        coordinator_keys=[group_id],
    )
    producer = init(client, play.unique(name), **fields)
    add_offsets(client, producer, group_id)
    return producer


def settled(client: Client, group_id: str, topic: str) -> Any:
    """What is committed once no transaction is open."""

    def is_stable(answer: Any) -> bool:
        return all(
            partition.error_code.value != 88
            for group in answer.groups
            for each in group.topics
            for partition in each.partitions
        )

    groups = [{"group_id": group_id, "topics": [{"name": topic, "partition_indexes": [0]}]}]
    return client.ask_until(is_stable, "offset_fetch", 8, groups=groups, require_stable=True)


@transcript(rows=("O7",), cases={f"v{version}": version for version in range(1, 7)})
def find_the_coordinator_of_a_transactional_id(play: Play, version: int) -> None:
    a, key = play.connect(), play.unique("tx")
    init(a, key)
    keys = [key, play.unique("other")] if version >= 4 else [key]
    a.ask("find_coordinator", version, key=key, key_type=1, coordinator_keys=keys)
    a.ask("find_coordinator", version, key="", key_type=1, coordinator_keys=[""])


@transcript(rows=("O7",), cases={f"v{version}": version for version in range(6)})
def initialize_a_producer(play: Play, version: int) -> None:
    """Each time the next epoch; what makes no sense is refused."""
    a, key = play.connect(), play.unique("tx")
    init(a, key)
    for fields in (
        {"transactional_id": key},
        {"transactional_id": key, "transaction_timeout": 1},
        {"transactional_id": ""},
        {"transactional_id": key, "transaction_timeout": 0},
        {"transactional_id": key, "transaction_timeout": -1},
        {"transactional_id": key, "transaction_timeout": 900_001},
        {"transactional_id": key},
    ):
        a.ask("init_producer_id", version, **fields)


@transcript(rows=("O7",), cases={"v3": 3, "v4": 4, "v5": 5})
def a_producer_recovers(play: Play, version: int) -> None:
    """KIP-360: with its last id and epoch, which a retry may repeat."""
    a, key = play.connect(), play.unique("tx")
    producer = init(a, key)
    number, epoch = producer["producer_id"], producer["producer_epoch"]
    for producer_id, producer_epoch in (
        (number, epoch),
        (number, epoch),
        (number, epoch + 1),
        (number, epoch + 1),
        (number, epoch),
        (number, epoch + 9),
        (number, -1),
        (-1, epoch),
        (number + 1_000_000, epoch),
    ):
        a.ask(
            "init_producer_id",
            version,
            transactional_id=key,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
    for producer_id, producer_epoch in ((number, epoch), (number, -1), (-1, 0)):
        a.ask(
            "init_producer_id",
            version,
            transactional_id=None,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )


@transcript(rows=("O7",), cases=V0_TO_V3)
def partitions_become_part_of_a_transaction(play: Play, version: int) -> None:
    """All or none of them; version 2 knows PRODUCER_FENCED."""
    a, topic = play.connect(), play.topic(partitions=3)
    producer = init(a, play.unique("tx"))
    add_partitions(a, producer, {topic: [0, 1]}, version)
    add_partitions(a, producer, {topic: [0]}, version)
    add_partitions(a, producer, {topic: [2, 3]}, version)
    add_partitions(a, producer, {topic: [2], play.unique("none"): [0]}, version)
    add_partitions(a, producer, {}, version)
    for change in (
        {"producer_epoch": 7},
        {"producer_epoch": -1},
        {"producer_id": producer["producer_id"] + 1_000_000},
        {"transactional_id": ""},
        {"transactional_id": play.unique("unseen")},
    ):
        add_partitions(a, {**producer, **change}, {topic: [0]}, version)


@transcript(rows=("O7",), cases={"v4": 4, "v5": 5})
def brokers_verify_and_add_in_batches(play: Play, version: int) -> None:
    """KIP-890. (Kafka never answers an empty batch; here it has an empty answer.)"""
    a, topic = play.connect(), play.topic(partitions=3)
    producer = init(a, play.unique("tx"))
    add_partitions(a, producer, {topic: [0]}, version)

    def verify(changes: Mapping[str, Any], numbers: list[int], name: str = topic) -> None:
        topics = [{"name": name, "partitions": numbers}]
        transactions = [{**producer, **changes, "verify_only": True, "topics": topics}]
        a.ask(
            "add_partitions_to_txn", version, unordered=("results_by_partition",), transactions=transactions
        )

    verify({}, [0])
    verify({}, [0, 1])
    verify({}, [0, 9])
    verify({}, [0], play.unique("none"))
    verify({"producer_epoch": 4}, [0])
    verify({"producer_id": producer["producer_id"] + 1_000_000}, [0])
    verify({"transactional_id": ""}, [0])
    verify({"transactional_id": play.unique("unseen")}, [0])


@transcript(rows=("O7",), cases=V0_TO_V4)
def a_groups_offsets_become_part_of_a_transaction(play: Play, version: int) -> None:
    a = play.connect()
    producer = opened(play, a, play.group())
    add_offsets(a, producer, play.group(), version)
    for change in (
        {"producer_epoch": 7},
        {"producer_id": producer["producer_id"] + 1_000_000},
        {"transactional_id": ""},
        {"transactional_id": play.unique("unseen")},
    ):
        add_offsets(a, {**producer, **change}, play.group(), version)
    add_offsets(a, producer, "", version)


@transcript(rows=("O7",), cases=V0_TO_V4)
def a_transaction_ends_once(play: Play, version: int) -> None:
    """A retry is answered as the first one; the other outcome is refused."""
    a, topic = play.connect(), play.topic()
    producer = init(a, play.unique("tx"))
    for committed in (True, False):
        a.ask("end_txn", version, committed=committed, **producer)
    for first, second in ((True, False), (False, True)):
        add_partitions(a, producer, {topic: [0]})
        end(a, producer, first, version)
        end(a, producer, first, version)
        end(a, producer, second, version)
    for change in (
        {"producer_epoch": 7},
        {"producer_epoch": -1},
        {"producer_id": producer["producer_id"] + 1_000_000},
        {"transactional_id": ""},
        {"transactional_id": play.unique("unseen")},
    ):
        a.ask("end_txn", version, committed=True, **{**producer, **change})


@transcript(rows=("O7",), cases={"v1": 1, "v4": 4})
def a_new_producer_fences_the_old_one(play: Play, version: int) -> None:
    """The old producer's open transaction is aborted meanwhile, and nothing of it stays."""
    a, topic, key = play.connect(), play.topic(), play.unique("tx")
    zombie = init(a, key)
    add_offsets(a, zombie, play.group())
    txn_commit(a, zombie, play.group(), {topic: {0: 5}})
    successor = init(a, key, version)
    play.note("epochs in between", successor["producer_epoch"] - zombie["producer_epoch"])
    add_partitions(a, zombie, {topic: [0]}, min(version, 3))
    a.ask("end_txn", min(version, 3), committed=True, **zombie)
    txn_commit(a, zombie, play.group(), {topic: {0: 6}}, min(version, 3))
    settled(a, play.group(), topic)
