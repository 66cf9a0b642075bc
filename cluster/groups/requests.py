"""What the group commands ask a Kafka, each as plain values. Every function raises TierError."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from cluster.groups.connection import Address, Kafka, refused
from cluster.tier_file import TierError

EARLIEST: Final = -2
LATEST: Final = -1
"""The timestamp for which ListOffsets gives a log's end, as EARLIEST is for its beginning."""
GROUP_RESOURCE: Final = 32
SET: Final = 0
DELETE: Final = 1
DYNAMIC_GROUP_CONFIG: Final = 8


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Committed(NamedTuple):
    """A committed offset; leader_epoch is -1 if it is not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ListedGroup(NamedTuple):
    group: str
    type: str
    protocol: str
    state: str


class Config(NamedTuple):
    name: str
    value: str | None
    is_dynamic: bool


# Groups.


async def list_groups(
    kafka: Kafka, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """Return the groups of all brokers, by name; with states or types only those (W9)."""
    brokers = [(broker["host"], broker["port"]) for broker in (await _metadata(kafka, []))["brokers"]]
    filters = {"states_filter": list(states), "types_filter": list(types)}
    answers = await asyncio.gather(*(kafka.call(broker, "list_groups", **filters) for broker in brokers))
    found = {}
    for broker, answer in zip(brokers, answers, strict=True):
        if answer["error_code"]:
            raise refused(f"{broker[0]}:{broker[1]} cannot list its groups", answer["error_code"])
        for row in answer["groups"]:
            found[row["group_id"]] = ListedGroup(
                row["group_id"], row.get("group_type", "").title(), row["protocol_type"], row["group_state"]
            )
    return [found[group_id] for group_id in sorted(found)]


async def delete_groups(kafka: Kafka, group_ids: Iterable[str]) -> dict[str, TierError | None]:
    """Delete groups. Return what became of each."""
    outcome: dict[str, TierError | None] = {}
    for group_id in group_ids:
        answer = await kafka.of_group(
            group_id,
            "delete_groups",
            lambda answer: answer["results"][0]["error_code"],
            groups_names=[group_id],
        )
        error_code = answer["results"][0]["error_code"]
        outcome[group_id] = refused(group_id, error_code) if error_code else None
    return outcome


async def remove_members(
    kafka: Kafka, group_id: str, members: Iterable[tuple[str, str | None]], reason: str
) -> dict[str, TierError | None]:
    """Remove members, named by (member id, instance id), as if they had left (C23). Return what became of
    each."""
    asked = [
        {"member_id": member_id, "group_instance_id": instance_id, "reason": reason}
        for member_id, instance_id in members
    ]
    answer = await kafka.of_group(
        group_id, "leave_group", lambda answer: answer["error_code"], group_id=group_id, members=asked
    )
    if answer["error_code"]:
        raise refused(group_id, answer["error_code"])
    outcome: dict[str, TierError | None] = {}
    for member in answer["members"]:
        name = member["group_instance_id"] or member["member_id"]
        outcome[name] = refused(name, member["error_code"]) if member["error_code"] else None
    return outcome


# Committed offsets.


async def committed_offsets(kafka: Kafka, group_id: str) -> dict[TopicPartition, Committed]:
    """Return all committed offsets of a group, stable or not (O9)."""
    answer = await kafka.of_group(
        group_id,
        "offset_fetch",
        lambda answer: answer["groups"][0]["error_code"],
        groups=[{"group_id": group_id, "topics": None}],
        require_stable=False,
    )
    (group,) = answer["groups"]
    if group["error_code"]:
        raise refused(group_id, group["error_code"])
    found = {}
    for topic in group["topics"]:
        for row in topic["partitions"]:
            place = TopicPartition(topic["name"], row["partition_index"])
            if row["error_code"]:
                raise refused(f"{group_id}, {place}", row["error_code"])
            if row["committed_offset"] >= 0:
                found[place] = Committed(
                    row["committed_offset"], row["committed_leader_epoch"], row["metadata"] or ""
                )
    return dict(sorted(found.items()))


async def commit(kafka: Kafka, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Commit offsets for a group without members (O1)."""
    if not offsets:
        return
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": place.partition,
                    "committed_offset": offsets[place].offset,
                    "committed_leader_epoch": offsets[place].leader_epoch,
                    "committed_metadata": offsets[place].metadata,
                }
                for place in places
            ],
        }
        for topic, places in by_topic(offsets).items()
    ]
    answer = await kafka.of_group(
        group_id,
        "offset_commit",
        _first_error,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=topics,
    )
    _raise_refusals(f"group {group_id}", answer)


async def delete_offsets(
    kafka: Kafka, group_id: str, places: Iterable[TopicPartition]
) -> dict[TopicPartition, TierError | None]:
    """Delete committed offsets. Return what became of each (O12)."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": place.partition} for place in found]}
        for topic, found in by_topic(places).items()
    ]
    answer = await kafka.of_group(
        group_id, "offset_delete", lambda answer: answer["error_code"], group_id=group_id, topics=topics
    )
    if answer["error_code"]:
        raise refused(group_id, answer["error_code"])
    outcome: dict[TopicPartition, TierError | None] = {}
    for topic in answer["topics"]:
        for row in topic["partitions"]:
            place = TopicPartition(topic["name"], row["partition_index"])
            outcome[place] = refused(str(place), row["error_code"]) if row["error_code"] else None
    return dict(sorted(outcome.items()))


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for place in sorted(places):
        found.setdefault(place.topic, []).append(place)
    return found


def _errors(answer: Mapping[str, Any]) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic["name"], row["partition_index"]): row["error_code"]
        for topic in answer["topics"]
        for row in topic["partitions"]
        if row["error_code"]
    }


def _first_error(answer: Mapping[str, Any]) -> ErrorCode:
    return next(iter(_errors(answer).values()), ErrorCode.none)


def _raise_refusals(what: str, answer: Mapping[str, Any]) -> None:
    for place, error_code in _errors(answer).items():
        raise refused(f"{what}, {place}", error_code)


# Topics.


async def partitions_of(kafka: Kafka, topics: Iterable[str]) -> dict[str, dict[int, Address | None]]:
    """Return topic -> partition -> its leader's address (None: nobody leads), without topics that do not
    exist."""
    names = sorted(set(topics))
    if not names:
        return {}
    answer = await _metadata(kafka, names)
    nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in answer["brokers"]}
    found: dict[str, dict[int, Address | None]] = {}
    for topic in answer["topics"]:
        if topic["error_code"] == ErrorCode.topic_authorization_failed:
            raise refused(f"topic {topic['name']}", topic["error_code"])
        if topic["partitions"]:
            found[topic["name"]] = {
                row["partition_index"]: nodes.get(row["leader_id"])
                for row in sorted(topic["partitions"], key=lambda row: int(row["partition_index"]))
            }
    return found


async def log_offsets(
    kafka: Kafka, places: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int | None]:
    """Return the first offset at or after a time, or at EARLIEST or LATEST, of partitions that exist and are
    led; -1 if there is none so late; None if the leader cannot say."""
    wanted = list(places)
    topics = await partitions_of(kafka, (place.topic for place in wanted))
    of_leader: dict[Address, list[TopicPartition]] = {}
    for place in wanted:
        leader = topics.get(place.topic, {}).get(place.partition)
        if leader is not None:
            of_leader.setdefault(leader, []).append(place)
    found: dict[TopicPartition, int | None] = dict.fromkeys(wanted)
    asked = (_log_offsets(kafka, leader, own, timestamp_ms) for leader, own in of_leader.items())
    for answer in await asyncio.gather(*asked):
        found |= answer
    return found


async def _log_offsets(
    kafka: Kafka, leader: Address, places: list[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int | None]:
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": place.partition, "current_leader_epoch": -1, "timestamp": timestamp_ms}
                for place in found
            ],
        }
        for topic, found in by_topic(places).items()
    ]
    answer = await kafka.call(leader, "list_offsets", replica_id=-1, isolation_level=0, topics=topics)
    return {
        TopicPartition(topic["name"], row["partition_index"]): None if row["error_code"] else row["offset"]
        for topic in answer["topics"]
        for row in topic["partitions"]
    }


async def _metadata(kafka: Kafka, topics: list[str]) -> dict[str, Any]:
    return await kafka.any(
        "metadata",
        topics=[{"name": name} for name in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


# The dynamic configs of a group (A19).


async def group_configs(kafka: Kafka, group_id: str) -> list[Config]:
    """Return all configs that a group can have, with the values that hold."""
    asked = {"resource_type": GROUP_RESOURCE, "resource_name": group_id, "configuration_keys": None}
    answer = await kafka.any("describe_configs", resources=[asked], include_synonyms=False)
    (result,) = answer["results"]
    if result["error_code"]:
        raise refused(group_id, result["error_code"], result["error_message"])
    configs = [
        Config(row["name"], row["value"], row["config_source"] == DYNAMIC_GROUP_CONFIG)
        for row in result["configs"]
    ]
    return sorted(configs)


async def alter_group_configs(
    kafka: Kafka, group_id: str, assigned: Mapping[str, str], deleted: Iterable[str]
) -> None:
    changes: list[tuple[str, int, str | None]] = [(name, SET, value) for name, value in assigned.items()]
    changes += [(name, DELETE, None) for name in deleted]
    configs = [
        {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group_id, "configs": configs}
    answer = await kafka.any("incremental_alter_configs", resources=[resource], validate_only=False)
    (result,) = answer["responses"]
    if result["error_code"]:
        raise refused(group_id, result["error_code"], result["error_message"])
