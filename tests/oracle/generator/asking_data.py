"""An operation about logs, producers, topics or brokers as a request of one side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.ground.topic_names import OFFSETS_TOPIC
from tests.oracle.generator.knowledge import NOBODYS_TOPIC, Knowledge, Request
from tests.oracle.generator.slots import Slot
from tests.oracle.logs import BYTES_MAX, NO_LEADER_EPOCH, changed
from tests.oracle.transcripts.produce import BATCHES
from tests.topics.batches import batch

Args = Mapping[str, Any]
TRANSACTIONAL = 0x10
"""The bit of a batch's attributes that says that it belongs to a transaction."""
NOBODYS_SESSION = 123_456_789


def _named(known: Knowledge, name: str, **fields: Any) -> dict[str, Any]:
    """A topic by `name` and by id: each version has one of them."""
    return {"name": known.own.get(name, name), "topic_id": known.own_id(name), **fields}


def _topic(known: Knowledge, name: str, **fields: Any) -> dict[str, Any]:
    """A topic by `topic` and by id: each version has one of them."""
    return {"topic": known.own.get(name, name), "topic_id": known.own_id(name), **fields}


def _grouped(pairs: Sequence[tuple[str, Any]]) -> dict[str, list[Any]]:
    """What belongs to each topic, in the order in which they come."""
    found: dict[str, list[Any]] = {}
    for name, each in pairs:
        found.setdefault(name, []).append(each)
    return found


def _numbered(known: Knowledge, args: Args, name_field: str, numbers_field: str) -> list[dict[str, Any]]:
    """The sequence's own topics that an operation names, each with the numbers of partitions."""
    return [
        {name_field: known.own[name], numbers_field: list(numbers)}
        for name, numbers in dict(args["topics"]).items()
    ]


def _produce(known: Knowledge, slot: Slot, args: Args) -> Request:
    records = BATCHES[args["batch"]] if "batch" in args else batch(*[b"v"] * args["count"])
    places = [(args["topic"], args["partition"])]
    if "also" in args and args["also"] not in places:
        places.append(args["also"])
    data = [
        _named(known, name, partition_data=[{"index": index, "records": records} for index in indexes])
        for name, indexes in _grouped(places).items()
    ]
    fields = {"topic_data": data, "acks": args["acks"], "transactional_id": None}
    return Request(slot.number, "produce", args["version"], fields)


def _produce_as_producer(known: Knowledge, slot: Slot, args: Args) -> Request:
    where, count = (args["topic"], args["partition"]), args["count"]
    sequence = max(slot.sequences.get(where, 0) + args.get("off", 0), 0)
    producer_id, epoch = slot.producer
    if producer_id < 0:
        producer_id, epoch = args.get("producer_id", 987_654_321), 0
    epoch = max(epoch + args.get("epoch", 0), 0)
    producer_id = args.get("producer_id", producer_id)
    records = batch(*[b"v"] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
    transactional_id = None
    if args.get("transactional"):
        records = changed(records, attributes=TRANSACTIONAL)
        transactional_id = known.transactional_ids[slot.number]
    slot.sent = where, sequence + count
    data = [_named(known, args["topic"], partition_data=[{"index": args["partition"], "records": records}])]
    fields = {"topic_data": data, "acks": -1, "transactional_id": transactional_id}
    return Request(slot.number, "produce", args["version"], fields)


def _be_producer(known: Knowledge, slot: Slot, args: Args) -> Request:
    fields: dict[str, Any] = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    if args.get("transactional"):
        fields |= {
            "transactional_id": known.transactional_ids[slot.number],
            "transaction_timeout": args["timeout"],
        }
    if args.get("goes_on"):
        fields |= {"producer_id": slot.producer[0], "producer_epoch": slot.producer[1]}
    return Request(slot.number, "init_producer_id", args["version"], fields)


def _fetch(known: Knowledge, slot: Slot, args: Args) -> Request:
    session_id, epoch = {
        None: (0, -1),
        "begin": (0, 0),
        "go on": slot.session,
        "close": (slot.session[0], -1),
        "skip": (slot.session[0], slot.session[1] + 5),
        "nobody's": (NOBODYS_SESSION, 3),
    }[args.get("session")]
    asked = {(name, partition): offset for name, partition, offset in args["topics"]}
    topics = [
        _topic(known, name, partitions=[_fetched(args, *each) for each in partitions])
        for name, partitions in _grouped([(n, (p, offset)) for (n, p), offset in asked.items()]).items()
    ]
    fields = {
        "topics": topics,
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": args["max_bytes"],
        "isolation_level": args["isolation"],
        "session_id": session_id,
        "session_epoch": epoch,
        "forgotten_topics_data": [
            _topic(known, name, partitions=[partition]) for name, partition in args.get("forgotten", ())
        ],
    }
    return Request(slot.number, "fetch", args["version"], fields)


def _fetched(args: Args, partition: int, offset: int) -> dict[str, Any]:
    return {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": args["partition_max_bytes"],
        "current_leader_epoch": args["epoch"],
        "last_fetched_epoch": args["fetched_epoch"],
    }


def _list_offsets(known: Knowledge, slot: Slot, args: Args) -> Request:
    asked = [
        (name, {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": args["epoch"]})
        for name, partition, timestamp in args["asked"]
    ]
    topics = [{"name": known.own[name], "partitions": parts} for name, parts in _grouped(asked).items()]
    fields = {"replica_id": args["replica"], "isolation_level": args["isolation"], "topics": topics}
    return Request(slot.number, "list_offsets", args["version"], fields)


def _end_of_epoch(known: Knowledge, slot: Slot, args: Args) -> Request:
    asked = {
        "partition": args["partition"],
        "leader_epoch": args["epoch"],
        "current_leader_epoch": args["current"],
    }
    topics = [{"topic": known.own[args["topic"]], "partitions": [asked]}]
    return Request(
        slot.number, "offset_for_leader_epoch", args["version"], {"replica_id": -1, "topics": topics}
    )


def _delete_records(known: Knowledge, slot: Slot, args: Args) -> Request:
    partitions = [{"partition_index": args["partition"], "offset": args["offset"]}]
    fields = {"topics": [{"name": known.own[args["topic"]], "partitions": partitions}], "timeout": 5_000}
    return Request(slot.number, "delete_records", args["version"], fields)


def _describe_producers(known: Knowledge, slot: Slot, args: Args) -> Request:
    topics = _numbered(known, args, "name", "partition_indexes")
    return Request(slot.number, "describe_producers", 0, {"topics": topics})


def _log_dirs(known: Knowledge, slot: Slot, args: Args) -> Request:
    topics = _numbered(known, args, "topic", "partitions")
    return Request(slot.number, "describe_log_dirs", args["version"], {"topics": topics})


def _metadata(known: Knowledge, slot: Slot, args: Args) -> Request:
    by_id = args["by_id"] and args["version"] >= 12
    topics: list[dict[str, Any]] = [
        {"name": None, "topic_id": known.own_id(name)} if by_id else {"name": known.own.get(name, name)}
        for name in args["names"]
    ]
    return Request(slot.number, "metadata", args["version"], {"topics": topics})


def _pages(known: Knowledge, slot: Slot, args: Args) -> Request:
    name, partition = args.get("cursor", ("", 0))
    cursor = {"topic_name": known.own[name], "partition_index": partition} if name else None
    topics = [{"name": known.own.get(each, each)} for each in args["names"]]
    fields = {"topics": topics, "response_partition_limit": args["limit"], "cursor": cursor}
    return Request(slot.number, "describe_topic_partitions", 0, fields)


def producing(known: Knowledge, slot: Slot, args: Args) -> dict[str, Any]:
    """Who produces: the slot, or somebody that is a little like it."""
    return {
        "transactional_id": known.transactional_ids[slot.number],
        "producer_id": args.get("producer_id", slot.producer[0]),
        "producer_epoch": max(slot.producer[1] + args.get("producer_epoch", 0), -1),
    }


def _add_partitions(known: Knowledge, slot: Slot, args: Args) -> Request:
    producer = producing(known, slot, args)
    topics = _numbered(known, args, "name", "partitions")
    fields: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in producer.items()}
    fields["v3_and_below_topics"] = topics
    if args["version"] >= 4:
        fields = {"transactions": [{**producer, "verify_only": args["verify"], "topics": topics}]}
    return Request(slot.number, "add_partitions_to_txn", args["version"], fields)


def _describe_transactions(known: Knowledge, slot: Slot, args: Args) -> Request:
    ids = [*known.transactional_ids[:2], *(("nobody-has-it", "") if args["strangers"] else ())]
    return Request(slot.number, "describe_transactions", 0, {"transactional_ids": ids})


def _list_transactions(known: Knowledge, slot: Slot, args: Args) -> Request:
    """Asked of the sequence's own producers: other sequences have theirs."""
    own = [each.producer[0] for each in known.slots if each.producer[0] >= 0] or [NOBODYS_SESSION]
    fields = {
        "producer_id_filters": own,
        "state_filters": args["states"],
        "duration_filter": args["duration"],
        "transactional_id_pattern": args["pattern"],
    }
    return Request(slot.number, "list_transactions", args["version"], fields)


def _create_topics(known: Knowledge, slot: Slot, args: Args) -> Request:
    configs = [{"name": name, "value": value} for name, value in args.get("configs", ())]
    topics = [
        {
            "name": known.own.get(name, name),
            "num_partitions": args["partitions"],
            "replication_factor": args["replication"],
            "assignments": [],
            "configs": configs,
        }
        for name in args["names"]
    ]
    fields = {"topics": topics, "validate_only": args["validate_only"]}
    return Request(slot.number, "create_topics", args["version"], fields)


def _delete_topics(known: Knowledge, slot: Slot, args: Args) -> Request:
    by_id = args["by_id"] and args["version"] >= 6
    names = [known.own.get(name, name) for name in args["names"]]
    topics: list[dict[str, Any]] = [{"name": name, "topic_id": None} for name in names]
    if by_id:
        topics = [{"name": None, "topic_id": known.own_id(name)} for name in args["names"]]
    return Request(slot.number, "delete_topics", args["version"], {"topics": topics, "topic_names": names})


def _create_partitions(known: Knowledge, slot: Slot, args: Args) -> Request:
    name = known.own.get(args["topic"], args["topic"])
    topics = [{"name": name, "count": args["count"], "assignments": None}]
    fields = {"topics": topics, "timeout": 10_000, "validate_only": args["validate_only"]}
    return Request(slot.number, "create_partitions", args["version"], fields)


def _resource(known: Knowledge, args: Args, **fields: Any) -> dict[str, Any]:
    name = known.own.get(args["name"], args["name"])
    return {"resource_type": args["type"], "resource_name": name, **fields}


def _describe_configs_of(known: Knowledge, slot: Slot, args: Args) -> Request:
    resources = [_resource(known, args, configuration_keys=args["names"])]
    fields = {"resources": resources, "include_synonyms": args["synonyms"]}
    return Request(slot.number, "describe_configs", args["version"], fields)


def _change_configs(known: Knowledge, slot: Slot, args: Args) -> Request:
    configs = [
        {"name": name, "config_operation": way, "value": value} for name, way, value in args["changes"]
    ]
    fields = {"resources": [_resource(known, args, configs=configs)], "validate_only": args["validate_only"]}
    return Request(slot.number, "incremental_alter_configs", args["version"], fields)


def _replace_configs(known: Knowledge, slot: Slot, args: Args) -> Request:
    configs = [{"name": name, "value": value} for name, _, value in args["changes"]]
    fields = {"resources": [_resource(known, args, configs=configs)], "validate_only": args["validate_only"]}
    return Request(slot.number, "alter_configs", args["version"], fields)


def _elect(known: Knowledge, slot: Slot, args: Args) -> Request:
    topics = _numbered(known, args, "topic", "partitions")
    fields = {"election_type": args["election"], "topic_partitions": topics, "timeout": 10_000}
    return Request(slot.number, "elect_leaders", args["version"], fields)


def _describe_quotas(known: Knowledge, slot: Slot, args: Args) -> Request:
    components = [
        {"entity_type": kind, "match_type": match_type, "match": match}
        for kind, match_type, match in args["components"]
    ]
    fields = {"components": components, "strict": args["strict"]}
    return Request(slot.number, "describe_client_quotas", args["version"], fields)


def _change_quotas(known: Knowledge, slot: Slot, args: Args) -> Request:
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in who],
            "ops": [
                {"key": key, "value": value or 0.0, "remove": value is None} for key, value in operations
            ],
        }
        for who, operations in args["entries"]
    ]
    fields = {"entries": entries, "validate_only": True}
    return Request(slot.number, "alter_client_quotas", args["version"], fields)


def _update_features(known: Knowledge, slot: Slot, args: Args) -> Request:
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": way}
        for name, level, way in args["updates"]
    ]
    fields = {"feature_updates": updates, "timeout": 10_000, "validate_only": True}
    return Request(slot.number, "update_features", args["version"], fields)


def _telemetry(known: Knowledge, slot: Slot, args: Args) -> Request:
    return Request(slot.number, "get_telemetry_subscriptions", 0, {"client_instance_id": None})


def _describe_cluster(known: Knowledge, slot: Slot, args: Args) -> Request:
    fields = {"endpoint_type": args["endpoint"], "include_fenced_brokers": args["fenced"]}
    return Request(slot.number, "describe_cluster", args["version"], fields)


def _offsets_topic(known: Knowledge, slot: Slot, args: Args) -> Request:
    named = {"name": OFFSETS_TOPIC}
    topic_id = known.topics.get(OFFSETS_TOPIC, NOBODYS_TOPIC)
    place = {"partition_index": args["partition"]}
    listed = {**place, "timestamp": args["timestamp"], "current_leader_epoch": NO_LEADER_EPOCH}
    produced = {"index": args["partition"], "records": batch(b"v")}
    fetched = {
        "partition": args["partition"],
        "fetch_offset": 2**62,
        "partition_max_bytes": BYTES_MAX,
        "current_leader_epoch": NO_LEADER_EPOCH,
    }
    fields: dict[str, dict[str, Any]] = {
        "list_offsets": {"replica_id": -1, "topics": [{**named, "partitions": [listed]}]},
        "delete_records": {"topics": [{**named, "partitions": [{**place, "offset": 0}]}]},
        "produce": {"topic_data": [{**named, "topic_id": topic_id, "partition_data": [produced]}]},
        "fetch": {
            "topics": [{"topic": OFFSETS_TOPIC, "topic_id": topic_id, "partitions": [fetched]}],
            "replica_id": -1,
            "max_wait": 0,
            "max_bytes": BYTES_MAX,
            "session_epoch": -1,
            "forgotten_topics_data": [],
        },
    }
    return Request(slot.number, args["what"], args["version"], fields[args["what"]])


ASKING_DATA: Mapping[str, Callable[[Knowledge, Slot, Args], Request]] = {
    "produce": _produce,
    "produce_as_producer": _produce_as_producer,
    "be_producer": _be_producer,
    "fetch_records": _fetch,
    "list_offsets": _list_offsets,
    "end_of_epoch": _end_of_epoch,
    "delete_records": _delete_records,
    "describe_producers": _describe_producers,
    "log_dirs": _log_dirs,
    "metadata": _metadata,
    "pages": _pages,
    "add_partitions": _add_partitions,
    "describe_transactions": _describe_transactions,
    "list_transactions": _list_transactions,
    "create_topics": _create_topics,
    "delete_topics": _delete_topics,
    "create_partitions": _create_partitions,
    "describe_configs_of": _describe_configs_of,
    "change_configs": _change_configs,
    "replace_configs": _replace_configs,
    "elect": _elect,
    "describe_quotas": _describe_quotas,
    "change_quotas": _change_quotas,
    "update_features": _update_features,
    "telemetry": _telemetry,
    "describe_cluster": _describe_cluster,
    "offsets_topic": _offsets_topic,
}
