"""An operation as a request of one side: with that side's member ids, generations, epochs and assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.oracle.generator.asking_data import ASKING_DATA, producing
from tests.oracle.generator.knowledge import Knowledge, Request
from tests.oracle.generator.operation import Operation
from tests.oracle.generator.slots import JOINED, OUT, PENDING, REBALANCING, SETTLED, Slot
from tests.oracle.kits import assignment, protocols, subscription

METADATA_MAX = 4_096
GROUP_RESOURCE = 32
EPOCHS = {"zero": 0, "far": 1_000, "minus three": -3, "leave": -1, "leave static": -2}


def request(known: Knowledge, operation: Operation) -> Request:
    """Return the request of an operation. Raises KeyError for an operation that is not known here."""
    return _ASKING[operation.what](known, known.slots[operation.slot], operation.args)


def _join(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    topics = args.get("topics", ("t",))
    names = args.get("protocols", ("range", "sticky"))
    fields = {
        "group_id": known.group,
        "member_id": known.member(slot, args),
        "group_instance_id": known.instance(slot, args),
        "protocols": protocols(*names, metadata=subscription(topics)),
        "protocol_type": args.get("protocol_type", "consumer"),
        "session_timeout": args.get("session_timeout", known.session_timeout_ms),
        "rebalance_timeout": known.session_timeout_ms,
    }
    version = args.get("version", 9)
    if slot.instance is not None and "instance" not in args:
        version = max(version, 5)  # older ones have no instance: its member would not be static
    return Request(slot.number, "join_group", version, fields)


def _sync(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    given: list[dict[str, Any]] = []
    if slot.is_leader:
        share = 12 // max(len(slot.others), 1)
        for index, member_id in enumerate(slot.others):
            numbers = range(index * share, (index + 1) * share)
            given.append({"member_id": member_id, "assignment": assignment({"t": list(numbers)})})
    fields = {
        "group_id": known.group,
        "generation_id": slot.generation + args.get("off", 0),
        "member_id": known.member(slot, args),
        "group_instance_id": known.instance(slot, args),
        "protocol_type": "consumer",
        "protocol_name": args.get("protocol", slot.protocol),
        "assignments": given,
    }
    return Request(slot.number, "sync_group", args.get("version", 5), fields)


def _heartbeat(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    fields = {
        "group_id": known.group,
        "generation_id": slot.generation + args.get("off", 0),
        "member_id": known.member(slot, args),
        "group_instance_id": known.instance(slot, args),
    }
    return Request(slot.number, "heartbeat", args.get("version", 4), fields)


def _leave(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    member_id = known.member(slot, args)
    first: dict[str, Any] = {"member_id": member_id, "group_instance_id": None, "reason": "r"}
    if args["by"] != "id":
        first["group_instance_id"] = slot.instance
    if args["by"] == "instance":
        first["member_id"] = ""
    members = [first]
    if args.get("also") == "same":
        members.append(first)
    elif args.get("also"):
        other = known.member(slot, {"member": args["also"]})
        members.append({"member_id": other, "group_instance_id": None})
    fields = {"group_id": known.group, "member_id": member_id, "members": members}
    return Request(slot.number, "leave_group", args["version"], fields)


def _commit(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    epoch = max(slot.epoch, slot.generation)
    if slot.state in (OUT, PENDING):
        epoch = -1
    fields = {
        "group_id": known.group,
        "generation_id_or_member_epoch": args.get("simple", epoch + args.get("off", 0)),
        "member_id": known.member(slot, args),
        "group_instance_id": known.instance(slot, args) if "simple" not in args else None,
        "retention_time": -1,
        "topics": [_topic(known, args["topic"], partitions=_all_committed(known, slot, args))],
    }
    if "also" in args:
        also = {**args, "topic": args["also"], "metadata": ""}
        fields["topics"].append(_topic(known, args["also"], partitions=_all_committed(known, slot, also)))
    return Request(slot.number, "offset_commit", args["version"], fields)


def _topic(known: Knowledge, name: str, **partitions: Any) -> dict[str, Any]:
    """A topic by name and by id: each version has one of them."""
    return {"name": name, "topic_id": known.topic_id(name), **partitions}


def _all_committed(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the partitions of a commit: one with too long a text gets one beside it that is fine. Of a
    commit of which nothing is kept, Kafka keeps a group that no record tells of, until it is restarted."""
    first = _committed(known, slot, args)
    if len(first["committed_metadata"] or "") <= METADATA_MAX:
        return [first]
    return [first, {**first, "partition_index": 10, "committed_metadata": ""}]


def _committed(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> dict[str, Any]:
    partition, topic_id = args["partition"], known.topics.get(args["topic"])
    if partition == "owned" or (topic_id, partition) in slot.owned_here_only:
        partition = _agreed(slot, topic_id)
    return {
        "partition_index": partition,
        "committed_offset": args["offset"],
        "committed_leader_epoch": args["offset"] % 3 - 1,
        "committed_metadata": args.get("metadata", ""),
    }


def _agreed(slot: Slot, topic_id: Any) -> int:
    """A partition that the member owns on both sides; if there is none, one that it owns on neither."""
    both = slot.owned() - slot.owned_here_only
    owned = sorted(number for topic, number in both if topic == topic_id)
    free = (number for number in range(13) if (topic_id, number) not in slot.owned_here_only)
    return owned[0] if owned else next(free)


def _fetch(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    version = args["version"]
    asked: list[dict[str, Any]] | None = [
        _topic(known, "t", partition_indexes=[0, 1, 2, 12]),
        _topic(known, args["unknown"], partition_indexes=[0]),
    ]
    if args["all"] and version >= 2:
        asked = None
    if version < 8:
        fields = {"group_id": known.group, "topics": asked, "require_stable": args["stable"]}
        return Request(slot.number, "offset_fetch", version, fields)
    member: dict[str, Any] = {"member_id": None, "member_epoch": -1}
    if args.get("as_member"):
        epoch = max(slot.epoch, slot.generation) + args.get("off", 0)
        member = {"member_id": known.member(slot, args), "member_epoch": epoch}
    groups = [{"group_id": known.group, "topics": asked, **member}]
    return Request(slot.number, "offset_fetch", version, {"groups": groups, "require_stable": args["stable"]})


def _beat(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    version = args.get("version", 1)
    epoch = slot.epoch
    if args.get("epoch") in ("previous", "next"):
        epoch += -1 if args["epoch"] == "previous" else 1
    elif "epoch" in args:
        epoch = EPOCHS[args["epoch"]]
    strays = _without_a_second_instance(known, args) if epoch == 0 else args
    member_id = known.member(slot, strays)
    if not member_id and "member" not in strays and version >= 1:
        member_id = f"m{slot.number}"
    full = epoch == 0 or args.get("full", False)
    fields: dict[str, Any] = {
        "group_id": known.group,
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": known.instance(slot, strays),
        "rack_id": args.get("rack"),
        "rebalance_timeout": args.get("rebalance_timeout", 30_000 if full else -1),
        "subscribed_topic_names": args.get("topics", ("t",) if full and "regex" not in args else None),
        "subscribed_topic_regex": args.get("regex"),
        "server_assignor": args.get("assignor"),
        "topic_partitions": _owned(known, slot, args, epoch),
    }
    return Request(slot.number, "consumer_group_heartbeat", version, fields)


def _without_a_second_instance(known: Knowledge, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """KAFKA-20747: a member id that joins under two instances stays in Kafka's map under the first."""
    if any(slot.instance is not None for slot in known.slots):
        return {name: value for name, value in args.items() if name not in ("member", "instance")}
    return {name: value for name, value in args.items() if name != "instance"}


def _owned(known: Knowledge, slot: Slot, args: Mapping[str, Any], epoch: int) -> list[dict[str, Any]] | None:
    which = args.get("owned", "assigned" if slot.must_tell else "null")
    if epoch == 0 and which == "null":
        which = "none"
    if which == "null":
        return None
    if which == "none" or (epoch == 0 and which != "foreign"):
        return []
    if which == "foreign":
        return [{"topic_id": known.topics["u"], "partitions": [11]}]
    slot.must_tell = slot.must_tell and which == "some"
    owned = [{"topic_id": topic, "partitions": list(numbers)} for topic, numbers in slot.assigned]
    if which == "some":
        return [{**part, "partitions": part["partitions"][:1]} for part in owned]
    return owned


def _describe(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    field = "groups" if args["api"] == "describe_groups" else "group_ids"
    return Request(slot.number, args["api"], args["version"], {field: [known.group]})


def _alter_configs(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    configs = [
        {"name": name, "config_operation": operation, "value": value}
        for name, operation, value in args["changes"]
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": known.group, "configs": configs}
    fields = {"resources": [resource], "validate_only": args["validate_only"]}
    return Request(slot.number, "incremental_alter_configs", args["version"], fields)


def _describe_configs(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    resource = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": known.group,
        "configuration_keys": args["names"],
    }
    fields = {"resources": [resource], "include_synonyms": args["synonyms"]}
    return Request(slot.number, "describe_configs", args["version"], fields)


def _list_groups(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    fields = {"states_filter": args["states"], "types_filter": args["types"]}
    return Request(slot.number, "list_groups", args["version"], fields)


def _delete(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    names = [known.group] * (2 if args["twice"] else 1)
    return Request(slot.number, "delete_groups", args["version"], {"groups_names": names})


def _delete_offsets(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    partitions = [{"partition_index": args["partition"]}]
    topics = [{"name": name, "partitions": partitions} for name in args["topics"]]
    return Request(slot.number, "offset_delete", 0, {"group_id": known.group, "topics": topics})


def _find(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    fields = {"key": known.group, "coordinator_keys": [known.group], "key_type": 0}
    return Request(slot.number, "find_coordinator", args["version"], fields)


def _natural_classic(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    if slot.state in (OUT, PENDING, REBALANCING):
        return _join(known, slot, {})
    return (_sync if slot.state == JOINED else _heartbeat)(known, slot, {})


def _natural_consumer(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    return _beat(known, slot, {} if slot.state == SETTLED else {"epoch": "zero", "owned": "none"})


def _natural_transaction(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    if slot.producer[0] < 0:
        return _init_producer(known, slot, args)
    what = (_add_offsets, _txn_commit, _txn_commit, _end_txn, _end_txn)[args["turn"]]
    return what(known, slot, {"commits": args["turn"] == 3, "offset": args["turn"]})


def _init_producer(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    fields = {
        "transactional_id": known.transactional_ids[slot.number],
        "producer_id": -1,
        "producer_epoch": -1,
    }
    return Request(slot.number, "init_producer_id", 4, fields)


def _add_offsets(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    fields = {**producing(known, slot, args), "group_id": known.group}
    return Request(slot.number, "add_offsets_to_txn", args.get("version", 3), fields)


def _txn_commit(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    part = {
        "partition_index": args["offset"] % 3,
        "committed_offset": args["offset"],
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    fields = {
        **producing(known, slot, args),
        "group_id": known.group,
        "generation_id": -1,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "t", "topic_id": known.topic_id("t"), "partitions": [part]}],
    }
    by_id = args.get("by_id", False)
    return Request(slot.number, "txn_offset_commit", 6 if by_id else args.get("version", 3), fields)


def _end_txn(known: Knowledge, slot: Slot, args: Mapping[str, Any]) -> Request:
    fields = {**producing(known, slot, args), "committed": args["commits"]}
    return Request(slot.number, "end_txn", args.get("version", 3), fields)


_ASKING: Mapping[str, Callable[[Knowledge, Slot, Mapping[str, Any]], Request]] = {
    **ASKING_DATA,
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "commit": _commit,
    "fetch": _fetch,
    "beat": _beat,
    "describe": _describe,
    "list_groups": _list_groups,
    "alter_configs": _alter_configs,
    "describe_configs": _describe_configs,
    "delete": _delete,
    "delete_offsets": _delete_offsets,
    "find": _find,
    "natural_classic": _natural_classic,
    "natural_consumer": _natural_consumer,
    "natural_transaction": _natural_transaction,
    "init_producer": _init_producer,
    "add_offsets": _add_offsets,
    "txn_commit": _txn_commit,
    "end_txn": _end_txn,
}
