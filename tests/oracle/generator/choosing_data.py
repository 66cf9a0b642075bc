"""Which operations a seed plays about logs, producers, topics and brokers.

Names of topics are the sequence's own: "p" of two partitions and "q" of one are there from the beginning, "n"
comes and goes, "unknown" never comes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.oracle.generator.operation import Draw, Operation, any_slot

OWN_TOPICS: Mapping[str, int] = {"p": 2, "q": 1, "n": 0, "unknown": 0}
"""How many partitions each has when a sequence begins; 0: it is not there."""
NAMES = ("p", "p", "p", "q", "q", "n", "unknown")
BAD_NAMES = ("", "a/b", ".", "x" * 250)
PARTITIONS = (0, 0, 0, 1, 1, 7, -1)
TIMESTAMPS = (*range(-7, 0), -1, -2, -3, -99, 0, 1_000, 1_001, 1_002, 99_999)
EPOCHS = (-1, -1, -1, -2, 0, 0, 1, 9)
BATCH_KINDS = (
    "none",
    "two",
    "cut in its header",
    "cut at its end",
    "with a few bytes behind it",
    "longer than it is",
    "damaged",
    "of magic 1",
    "with a base offset",
    "of no record",
    "of another count",
    "of control records",
    "of a codec that there is not",
    "of a producer without a sequence",
)
TOPIC_CONFIGS: Mapping[str, tuple[str | None, ...]] = {
    "delete.retention.ms": ("1", "0", "60000", "-2", "x", None),
    "cleanup.policy": ("compact", "delete", "compact,delete", "none", "", None),
    "flush.messages": ("1", "7", "0", None),
    "segment.ms": ("60000", "0", None),
    "no.such": ("1", None),
}
# Sequences are played side by side, so none of these may change what another one is answered.
BROKER_CONFIGS: Mapping[str, tuple[str | None, ...]] = {
    "message.max.bytes": ("1000", "2000000", "-1", "x", "", None),
    "producer.id.expiration.ms": ("600000", "700000", "0", None),
    "node.id": ("1", None),
    "no.such": ("1", None),
}
BROKER_SETTINGS = ("message.max.bytes", "producer.id.expiration.ms", "node.id")
"""What brokers really have of BROKER_CONFIGS."""
KEPT_BROKER_CONFIGS = ("message.max.bytes", "producer.id.expiration.ms", "no.such")
"""What Kafka may have kept of BROKER_CONFIGS from the sequences before."""
SET, DELETE, APPEND, SUBTRACT = range(4)
FEATURES = ("group.version", "metadata.version", "transaction.version", "no.such", "")
QUOTAS = ("producer_byte_rate", "request_percentage", "connection_creation_rate", "no.such")
WHO = (("user", "u"), ("client-id", "c"), ("user", None), ("ip", "1.2.3.4"), ("ip", "no address"), ("", "x"))


def _partition(rng: random.Random) -> int:
    return rng.choice(PARTITIONS)


def produce(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randint(3, 13), "topic": rng.choice(NAMES)}
    args |= {"partition": _partition(rng), "count": rng.randint(1, 3), "acks": rng.choice((-1, -1, -1, 1, 2))}
    if rng.random() < 0.3:
        args["batch"] = rng.choice(BATCH_KINDS)
    if rng.random() < 0.15:
        args["also"] = (rng.choice(NAMES), _partition(rng))
    return Operation("produce", any_slot(rng), args)


def produce_as_producer(rng: random.Random) -> Operation:
    """A batch of an idempotent producer, mostly the next one."""
    args: dict[str, Any] = {"version": rng.randint(3, 13), "topic": rng.choice(NAMES[:5])}
    args |= {"partition": rng.choice((0, 0, 1)), "count": rng.randint(1, 3)}
    if rng.random() < 0.3:
        args["off"] = rng.choice((1, -1, -2, -3, 5, 1_000))
    if rng.random() < 0.15:
        args["epoch"] = rng.choice((1, -1))
    if rng.random() < 0.05:
        args["producer_id"] = 987_654_321
    return Operation("produce_as_producer", any_slot(rng), args)


def produce_in_transaction(rng: random.Random) -> Operation:
    drawn = produce_as_producer(rng)
    args = {**drawn.args, "transactional": rng.random() < 0.9}
    return Operation("produce_as_producer", rng.randrange(2), args)


def be_producer(rng: random.Random) -> Operation:
    return Operation("be_producer", any_slot(rng), {"version": rng.randrange(6)})


def be_transactional(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randrange(6), "transactional": True}
    args["goes_on"] = rng.random() < 0.4
    args["timeout"] = rng.choice((60_000, 60_000, 60_000, 60_000, 0, -1, 900_001))
    return Operation("be_producer", rng.randrange(2), args)


def _fetched_name(rng: random.Random) -> str:
    """A topic, and now and then the zero id: beside another topic that ends the sequence (`known`)."""
    return "zero" if rng.random() < 0.01 else rng.choice(NAMES)


def fetch_records(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randint(4, 18), "isolation": rng.choice((0, 0, 1, 1, 2))}
    args["topics"] = [
        (_fetched_name(rng), _partition(rng), rng.choice((0, 0, 1, 2, 3, 5, -1, 1_000)))
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    args["epoch"] = rng.choice(EPOCHS)
    args["fetched_epoch"] = rng.choice((-1, -1, -1, 0, 1, -2))
    args["max_bytes"] = rng.choice((1_000_000, 1_000_000, 100, 0))
    args["partition_max_bytes"] = rng.choice((1_000_000, 1_000_000, 100, 0, -1))
    return Operation("fetch_records", any_slot(rng), args)


def fetch_in_session(rng: random.Random) -> Operation:
    drawn = fetch_records(rng)
    args: dict[str, Any] = {**drawn.args, "version": rng.randint(7, 18), "max_bytes": 1_000_000}
    args["session"] = rng.choice(("go on", "go on", "go on", "go on", "begin", "close", "skip", "nobody's"))
    if args["session"] == "go on" and rng.random() < 0.5:
        args["topics"] = []
    if rng.random() < 0.2:
        args["forgotten"] = [(rng.choice(NAMES), _partition(rng))]
    return Operation("fetch_records", any_slot(rng), args)


def list_offsets(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randint(1, 11), "isolation": rng.choice((0, 1)), "replica": -1}
    args["asked"] = [
        (rng.choice(NAMES), _partition(rng), rng.choice(TIMESTAMPS)) for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    args["epoch"] = rng.choice(EPOCHS)
    return Operation("list_offsets", any_slot(rng), args)


def end_of_epoch(rng: random.Random) -> Operation:
    args = {"version": rng.randint(2, 4), "topic": rng.choice(NAMES), "partition": _partition(rng)}
    args |= {"epoch": rng.choice((-2, -1, 0, 0, 1, 9)), "current": rng.choice(EPOCHS)}
    return Operation("end_of_epoch", any_slot(rng), args)


def delete_records(rng: random.Random) -> Operation:
    args = {"version": rng.randrange(3), "topic": rng.choice(NAMES), "partition": _partition(rng)}
    args["offset"] = rng.choice((0, 1, 2, 3, -1, -2, 1_000))
    return Operation("delete_records", any_slot(rng), args)


def describe_producers(rng: random.Random) -> Operation:
    topics = [(rng.choice(NAMES), rng.sample((0, 1, 7, -1), 2)) for _ in range(rng.choice((1, 2)))]
    return Operation("describe_producers", any_slot(rng), {"topics": topics})


def log_dirs(rng: random.Random) -> Operation:
    topics = [(rng.choice(NAMES), rng.sample((0, 1, 7), 2)) for _ in range(rng.choice((0, 1, 2)))]
    return Operation("log_dirs", any_slot(rng), {"version": rng.randint(1, 5), "topics": topics})


def metadata(rng: random.Random) -> Operation:
    names = [rng.choice((*NAMES, *BAD_NAMES)) for _ in range(rng.choice((1, 1, 2)))]
    args: dict[str, Any] = {"version": rng.randrange(14), "names": names, "by_id": rng.random() < 0.3}
    return Operation("metadata", any_slot(rng), args)


def pages(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"names": [rng.choice((*NAMES, "")) for _ in range(rng.choice((1, 2, 3)))]}
    args["limit"] = rng.choice((2_000, 1, 2, 3, 0, -1))
    if rng.random() < 0.4:
        args["cursor"] = (rng.choice(NAMES), rng.choice((0, 1, 7, -1)))
    return Operation("pages", any_slot(rng), args)


def add_partitions(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.choice((0, 1, 2, 3, 3, 4, 5)), "verify": rng.random() < 0.2}
    args["topics"] = [(rng.choice(NAMES), [rng.choice((0, 0, 1, 7))]) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.1:
        args["producer_epoch"] = rng.choice((1, -1))
    if rng.random() < 0.05:
        args["producer_id"] = 1
    return Operation("add_partitions", rng.randrange(2), args)


def end_transaction(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randrange(6), "commits": rng.random() < 0.6}
    if rng.random() < 0.15:
        args["producer_epoch"] = rng.choice((1, -1))
    if rng.random() < 0.05:
        args["producer_id"] = 1
    return Operation("end_txn", rng.randrange(2), args)


def commit_in_transaction(rng: random.Random) -> Operation:
    what = rng.choice(("txn_commit", "txn_commit", "add_offsets"))
    version = rng.randrange(5 if what == "add_offsets" else 6)
    args: dict[str, Any] = {"version": version, "offset": rng.randrange(100), "by_id": rng.random() < 0.3}
    return Operation(what, rng.randrange(2), args)


def describe_transactions(rng: random.Random) -> Operation:
    return Operation("describe_transactions", any_slot(rng), {"strangers": rng.random() < 0.3})


def list_transactions(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randrange(3)}
    args["states"] = rng.choice(
        ((), (), ("Ongoing",), ("Empty", "CompleteCommit"), ("nonsense", "Ongoing"), ("Dead",))
    )
    args["duration"] = rng.choice((-1, -1, 0, 3_600_000, -7))
    args["pattern"] = rng.choice((None, None, "", "x0.*", "nobody", "("))
    return Operation("list_transactions", any_slot(rng), args)


def create_topics(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randint(2, 7), "names": [rng.choice(("n", "n", "p", *BAD_NAMES))]}
    args["partitions"] = rng.choice((1, 2, 3, 0, -2))
    args["replication"] = rng.choice((1, 1, -1, 0, 2))
    args["validate_only"] = rng.random() < 0.2
    if rng.random() < 0.3:
        args["configs"] = [_config(rng, TOPIC_CONFIGS)]
    if rng.random() < 0.1:
        args["names"] *= 2
    return Operation("create_topics", any_slot(rng), args)


def delete_topics(rng: random.Random) -> Operation:
    args: dict[str, Any] = {
        "version": rng.randint(1, 6),
        "names": [rng.choice(("n", "n", "unknown", "q", ""))],
    }
    args["by_id"] = rng.random() < 0.3
    if rng.random() < 0.1:
        args["names"] *= 2
    return Operation("delete_topics", any_slot(rng), args)


def create_partitions(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randrange(4), "topic": rng.choice(("n", "p", "q", "unknown", ""))}
    args["count"] = rng.choice((1, 2, 3, 4, 0, -1))
    args["validate_only"] = rng.random() < 0.3
    return Operation("create_partitions", any_slot(rng), args)


def _config(rng: random.Random, values: Mapping[str, tuple[str | None, ...]]) -> tuple[str, str | None]:
    name = rng.choice(tuple(values))
    return name, rng.choice(values[name])


def _changes(
    rng: random.Random, values: Mapping[str, tuple[str | None, ...]]
) -> list[tuple[str, int, str | None]]:
    changes = []
    for _ in range(rng.choice((1, 1, 1, 2, 0))):
        name, value = _config(rng, values)
        way = (
            DELETE
            if value is None and rng.random() < 0.8
            else rng.choice((SET, SET, SET, SET, APPEND, SUBTRACT))
        )
        changes.append((name, way, value))
    return changes


def describe_topic_configs(rng: random.Random) -> Operation:
    names = rng.choice(([*TOPIC_CONFIGS], ["delete.retention.ms"], ["no.such"]))
    args = {"type": 2, "name": rng.choice((*NAMES, "")), "names": names, "version": rng.randint(1, 4)}
    return Operation("describe_configs_of", any_slot(rng), args | {"synonyms": rng.random() < 0.3})


def change_topic_configs(rng: random.Random) -> Operation:
    args = {"type": 2, "name": rng.choice((*NAMES, "")), "changes": _changes(rng, TOPIC_CONFIGS)}
    return Operation(_way_to_change(rng), any_slot(rng), args | _how_to_change(rng))


def _way_to_change(rng: random.Random) -> str:
    return rng.choice(("change_configs", "change_configs", "replace_configs"))


def _how_to_change(rng: random.Random) -> dict[str, Any]:
    return {"version": rng.randrange(2), "validate_only": rng.random() < 0.2}


def describe_broker_configs(rng: random.Random) -> Operation:
    names = rng.choice(([*BROKER_CONFIGS], ["message.max.bytes"], ["no.such"]))
    args = {"type": 4, "name": rng.choice(("1", "1", "", "77", "x")), "names": names}
    return Operation(
        "describe_configs_of", any_slot(rng), args | {"version": rng.randint(1, 4), "synonyms": True}
    )


def change_broker_configs(rng: random.Random) -> Operation:
    args = {
        "type": 4,
        "name": rng.choice(("1", "1", "", "77", "x")),
        "changes": _changes(rng, BROKER_CONFIGS),
    }
    return Operation(_way_to_change(rng), any_slot(rng), args | _how_to_change(rng))


def change_other_configs(rng: random.Random) -> Operation:
    args = {"type": rng.choice((0, 1, 8, 16, 64)), "name": "x", "changes": _changes(rng, TOPIC_CONFIGS)}
    return Operation(_way_to_change(rng), any_slot(rng), args | _how_to_change(rng))


def elect(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.randrange(3), "election": rng.choice((0, 0, 1, 2))}
    args["topics"] = [(rng.choice(NAMES), rng.sample((0, 1, 7, -1), 2)) for _ in range(rng.choice((0, 1, 2)))]
    return Operation("elect", any_slot(rng), args)


def describe_quotas(rng: random.Random) -> Operation:
    components = [
        (
            rng.choice(("user", "client-id", "ip", "no.such", "")),
            rng.choice((0, 1, 2, 2, 3)),
            rng.choice((None, None, "u")),
        )
        for _ in range(rng.choice((0, 1, 1, 2)))
    ]
    args = {"components": components, "strict": rng.random() < 0.5, "version": rng.randrange(2)}
    return Operation("describe_quotas", any_slot(rng), args)


def change_quotas(rng: random.Random) -> Operation:
    """Quotas of the tier cannot be set, so what Kafka would store is only looked at (`validate_only`)."""
    entries = [
        (
            [rng.choice(WHO) for _ in range(rng.choice((1, 1, 2, 0)))],
            [
                (rng.choice(QUOTAS), rng.choice((1.0, 1_000.0, 0.5, -1.0, 1e30, None)))
                for _ in range(rng.choice((0, 1, 1, 2)))
            ],
        )
        for _ in range(rng.choice((1, 1, 2)))
    ]
    return Operation("change_quotas", any_slot(rng), {"entries": entries, "version": rng.randrange(2)})


def update_features(rng: random.Random) -> Operation:
    """The levels that are there stay: other sequences live by them."""
    updates = [
        (rng.choice(FEATURES), rng.choice((0, 1, 1, 2, 5, 33, -1)), rng.choice((1, 1, 2, 3, 0, 4)))
        for _ in range(rng.choice((0, 1, 1, 2)))
    ]
    return Operation("update_features", any_slot(rng), {"updates": updates, "version": rng.choice((1, 2, 2))})


def telemetry(rng: random.Random) -> Operation:
    """Asked by a client without an id: one that asks again too soon is throttled by Kafka alone (W25)."""
    return Operation("telemetry", any_slot(rng))


def describe_cluster(rng: random.Random) -> Operation:
    args = {"version": rng.randrange(3), "endpoint": rng.choice((1, 1, 2, 0)), "fenced": rng.random() < 0.5}
    return Operation("describe_cluster", any_slot(rng), args)


def offsets_topic(rng: random.Random) -> Operation:
    """Requests about `__consumer_offsets`: what all groups have written is not compared."""
    args: dict[str, Any] = {
        "what": rng.choice(("list_offsets", "fetch", "fetch", "produce", "delete_records"))
    }
    args |= {"partition": rng.choice((0, 1, 4, 5, -1)), "timestamp": rng.choice((-2, -1))}
    version = {"list_offsets": (1, 11), "fetch": (4, 18), "produce": (3, 13), "delete_records": (0, 2)}[
        args["what"]
    ]
    return Operation("offsets_topic", any_slot(rng), args | {"version": rng.randint(*version)})


DATA_WEIGHTS: Mapping[str, list[tuple[Draw, float]]] = {
    "logs": [
        (produce, 6),
        (produce_as_producer, 4),
        (be_producer, 1),
        (fetch_records, 5),
        (fetch_in_session, 4),
        (list_offsets, 4),
        (end_of_epoch, 2),
        (delete_records, 1.5),
        (describe_producers, 1),
        (log_dirs, 0.7),
        (metadata, 0.5),
        (pages, 0.5),
    ],
    "producers": [
        (be_transactional, 2.5),
        (add_partitions, 4),
        (produce_in_transaction, 6),
        (end_transaction, 3),
        (commit_in_transaction, 1.5),
        (describe_transactions, 1.5),
        (list_transactions, 1.5),
        (fetch_records, 3),
        (list_offsets, 2),
        (describe_producers, 1.5),
    ],
    "topics": [
        (create_topics, 3),
        (delete_topics, 1.5),
        (create_partitions, 2),
        (metadata, 3),
        (pages, 2),
        (describe_topic_configs, 2),
        (change_topic_configs, 3),
        (elect, 1),
        (log_dirs, 1),
        (produce, 1),
        (list_offsets, 1),
        (end_of_epoch, 0.5),
    ],
    "brokers": [
        (describe_quotas, 3),
        (change_quotas, 3),
        (update_features, 3),
        (describe_broker_configs, 2),
        (change_broker_configs, 3),
        (change_other_configs, 0.5),
        (telemetry, 0.7),
        (describe_cluster, 1),
        (offsets_topic, 2),
        (elect, 0.5),
    ],
}
"""The kinds of sequences about data and administration, and what they draw from."""
