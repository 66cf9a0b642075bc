"""What transcripts of several areas share: the consumers' own bytes, and the usual ways into a group."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.oracle.play import Client

SESSION_TIMEOUT_MS = 30_000


def subscription(
    topics: Collection[str],
    *,
    version: int = 1,
    user_data: bytes | None = None,
    owned: Mapping[str, Sequence[int]] | None = None,
    generation: int = -1,
    rack: str | None = None,
) -> bytes:
    """Return the bytes of a ConsumerProtocolSubscription of version 0 to 3."""
    parts = [struct.pack(">hi", version, len(topics)), *map(_text, topics), _bytes(user_data)]
    if version >= 1:
        parts.append(_partitions(owned or {}))
    if version >= 2:
        parts.append(struct.pack(">i", generation))
    if version >= 3:
        parts.append(_text(rack))
    return b"".join(parts)


def assignment(
    partitions: Mapping[str, Sequence[int]], *, version: int = 1, user_data: bytes | None = None
) -> bytes:
    """Return the bytes of a ConsumerProtocolAssignment."""
    return struct.pack(">h", version) + _partitions(partitions) + _bytes(user_data)


def _text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def _partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    parts = [struct.pack(">i", len(partitions))]
    for topic, numbers in partitions.items():
        parts += [_text(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


def protocols(*names: str, metadata: bytes = b"") -> list[dict[str, Any]]:
    """Return the list of protocols for JoinGroup, with the same metadata under each name."""
    return [{"name": name, "metadata": metadata or subscription(())} for name in names]


def join(client: Client, group_id: str, version: int = 9, **fields: Any) -> Any:
    """Join as a dynamic member; from version 4 on ask twice, as a client does. The first member's or a
    lone member's answer comes at once when the initial delay is 0."""
    if version >= 4 and "group_instance_id" not in fields and "member_id" not in fields:
        told = client.ask("join_group", version, group_id=group_id, **fields)
        fields["member_id"] = told.member_id
    return client.ask("join_group", version, group_id=group_id, **fields)


def start_join(client: Client, group_id: str, version: int = 9, **fields: Any) -> Any:
    """The same where the answer is parked: returns what is to be collected, and the member id."""
    told = client.ask("join_group", version, group_id=group_id, **fields)
    return client.send(
        "join_group", version, group_id=group_id, member_id=told.member_id, **fields
    ), told.member_id


def sync(
    client: Client, group_id: str, joined: Any, assignments: Mapping[str, bytes] | None = None, **fields: Any
) -> Any:
    """SyncGroup v5 of who got `joined`; the leader gives `assignments` by member id."""
    given = [{"member_id": member, "assignment": data} for member, data in (assignments or {}).items()]
    fields = {"protocol_type": joined.protocol_type, "protocol_name": joined.protocol_name, **fields}
    return client.ask(
        "sync_group",
        5,
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=given,
        **fields,
    )


def settle_alone(client: Client, group_id: str, data: bytes = b"mine", **fields: Any) -> Any:
    """A Stable classic group with one member; returns its JoinGroup answer."""
    joined = join(client, group_id, **fields)
    sync(client, group_id, joined, {joined.member_id: data}, **_instance(fields))
    return joined


def settle_two(
    a: Client, b: Client, group_id: str, *, of_b: Mapping[str, Any] | None = None, **fields: Any
) -> Any:
    """A Stable classic group of two, `a` its leader; returns both JoinGroup answers. `of_b`: what the
    second gives otherwise."""
    first = settle_alone(a, group_id, **fields)
    other = {**fields, **(of_b or {})}
    if "group_instance_id" in other:
        parked = b.send("join_group", 9, group_id=group_id, **other)
    else:
        parked, _ = start_join(b, group_id, **other)
    first = a.ask("join_group", 9, group_id=group_id, member_id=first.member_id, **fields)
    second = parked.collect()
    data = {first.member_id: b"of a", second.member_id: b"of b"}
    sync(a, group_id, first, data, **_instance(fields))
    sync(b, group_id, second, **_instance(other))
    return first, second


def _instance(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in ("group_instance_id",) if name in fields}


def heartbeat(client: Client, group_id: str, joined: Any, **fields: Any) -> Any:
    """Send a classic heartbeat of version 4."""
    known = {"generation_id": joined.generation_id, "member_id": joined.member_id, **fields}
    return client.ask("heartbeat", 4, group_id=group_id, **known)


def commit(client: Client, version: int, group_id: str, offsets: Mapping[str, Any], **fields: Any) -> Any:
    """OffsetCommit by names: `{topic: {partition: offset}}`. Pass `generation_id_or_member_epoch` and
    `member_id` for a member's."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
                for partition, offset in partitions.items()
            ],
        }
        for topic, partitions in offsets.items()
    ]
    return client.ask("offset_commit", version, group_id=group_id, topics=topics, **fields)


def fetch(
    client: Client, version: int, group_id: str, topics: Mapping[str, Sequence[int]] | None, **fields: Any
) -> Any:
    """OffsetFetch by names, versions 1 to 9, of one group; `topics` None asks for all."""
    asked = None
    if topics is not None:
        asked = [{"name": topic, "partition_indexes": list(numbers)} for topic, numbers in topics.items()]
    if version < 8:
        return client.ask("offset_fetch", version, group_id=group_id, topics=asked, **fields)
    member: dict[str, Any] = {
        name: fields.pop(name) for name in ("member_id", "member_epoch") if name in fields
    }
    if version >= 9:
        member = {"member_id": None, "member_epoch": -1, **member}
    groups = [{"group_id": group_id, "topics": asked, **member}]
    return client.ask("offset_fetch", version, groups=groups, **fields)


def beat(client: Client, group_id: str, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    """ConsumerGroupHeartbeat: null or -1 where nothing is given ("unchanged")."""
    given = {"rebalance_timeout": -1, "topic_partitions": None, **fields}
    return client.ask(
        "consumer_group_heartbeat",
        version,
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        **given,
    )


def beat_in(client: Client, group_id: str, member_id: str, topics: Collection[str], **fields: Any) -> Any:
    """Send the first heartbeat of a KIP-848 member."""
    given = {"rebalance_timeout": 30_000, "topic_partitions": [], "subscribed_topic_names": topics, **fields}
    return beat(client, group_id, member_id, 0, **given)


def describe(client: Client, group_id: str, version: int = 5, **fields: Any) -> Any:
    """Describe one group by DescribeGroups."""
    return client.ask("describe_groups", version, groups=[group_id], **fields)


def consumer_describe(client: Client, group_id: str, version: int = 1, **fields: Any) -> Any:
    """Describe one group by ConsumerGroupDescribe."""
    return client.ask("consumer_group_describe", version, group_ids=[group_id], **fields)
