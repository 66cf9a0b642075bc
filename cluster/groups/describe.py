"""A group as `groupd groups describe` shows it: state, members with what they own, offsets with lag (B10).

ConsumerGroupDescribe is asked first, and DescribeGroups about what is no consumer group, as Kafka's own tools
do (A12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.protocol.consumer_protocol import read_assignment
from actors.protocol.errors import MalformedRequest
from cluster.groups.connection import Kafka, NoSuchGroup, Unsupported, refused
from cluster.groups.requests import (
    LATEST,
    Committed,
    TopicPartition,
    by_topic,
    committed_offsets,
    log_offsets,
)

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
PUSH: Final = "Push"
MEMBER_TYPE_CLASSIC: Final = 0
INACTIVE: Final = frozenset({"Empty", "Dead"})
NOT_OF_69: Final = frozenset({ErrorCode.group_id_not_found, ErrorCode.unsupported_version})


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group. A field is None if the group's kind or the Kafka does not tell."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    member_epoch: int | None = None
    target: tuple[TopicPartition, ...] = ()
    is_upgraded: bool | None = None
    """Whether a consumer group's member speaks the consumer protocol; None in a classic group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    group: str
    type: str
    protocol: str
    state: str
    assignor: str
    coordinator: str
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """A partition that is owned or committed. A field is None for what is missing."""

    topic: str
    partition: int
    leader_epoch: int | None
    committed: int | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else self.end - self.committed


async def describe_group(kafka: Kafka, group_id: str) -> Group:
    """Return what a Kafka says about a group. Raises TierError, also if there is no such group."""
    try:
        answer = await kafka.of_group(
            group_id,
            "consumer_group_describe",
            _group_error,
            group_ids=[group_id],
            include_authorized_operations=False,
        )
    except Unsupported:
        return await _describe_classic(kafka, group_id)
    (row,) = answer["groups"]
    if row["error_code"] in NOT_OF_69:
        return await _describe_classic(kafka, group_id)
    if row["error_code"]:
        raise refused(group_id, row["error_code"])
    return Group(
        group=group_id,
        type=CONSUMER,
        protocol="consumer",
        state=row["group_state"],
        assignor=row["assignor_name"],
        coordinator=await _coordinator(kafka, group_id),
        group_epoch=row["group_epoch"],
        assignment_epoch=row["assignment_epoch"],
        members=tuple(_consumer_member(member) for member in row["members"]),
    )


async def typed(kafka: Kafka, groups: Sequence[Group]) -> list[Group]:
    """Return the groups with the types that only ListGroups tells: a group whose coordinator pushes is
    described as a classic one. Each coordinator is asked once."""
    pushed: set[str] = set()
    asked = {await kafka.coordinator(group.group) for group in groups if group.type == CLASSIC}
    for broker in sorted(asked):
        answer = await kafka.call(broker, "list_groups", states_filter=[], types_filter=[PUSH])
        pushed |= {row["group_id"] for row in answer["groups"] if row.get("group_type", "").title() == PUSH}
    return [replace(group, type=PUSH) if group.group in pushed else group for group in groups]


async def _describe_classic(kafka: Kafka, group_id: str) -> Group:
    answer = await kafka.of_group(
        group_id,
        "describe_groups",
        _group_error,
        groups=[group_id],
        include_authorized_operations=False,
    )
    (row,) = answer["groups"]
    if row["error_code"] == ErrorCode.group_id_not_found or row["group_state"] == "Dead":
        # Before version 6, a group that does not exist is described as Dead.
        raise NoSuchGroup(f"{group_id}: there is no such group")
    if row["error_code"]:
        raise refused(group_id, row["error_code"])
    return Group(
        group=group_id,
        type=CLASSIC,
        protocol=row["protocol_type"],
        state=row["group_state"],
        assignor=row["protocol_data"],
        coordinator=await _coordinator(kafka, group_id),
        members=tuple(_classic_member(member, row["protocol_type"]) for member in row["members"]),
    )


def _group_error(answer: Mapping[str, Any]) -> ErrorCode:
    error_code: ErrorCode = answer["groups"][0]["error_code"]
    return error_code


async def _coordinator(kafka: Kafka, group_id: str) -> str:
    """Return a group's coordinator as Kafka's tool prints it: host:port (node id)."""
    host, port = await kafka.coordinator(group_id)
    brokers = await kafka.any(
        "metadata",
        topics=[],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    for broker in brokers["brokers"]:
        if (broker["host"], broker["port"]) == (host, port):
            return f"{host}:{port} ({broker['node_id']})"
    return f"{host}:{port}"


def _consumer_member(row: Mapping[str, Any]) -> Member:
    member_type = row.get("member_type", -1)
    return Member(
        member_id=row["member_id"],
        instance_id=row["instance_id"],
        client_id=row["client_id"],
        host=row["client_host"],
        assignment=_partitions(row["assignment"]),
        member_epoch=row["member_epoch"],
        target=_partitions(row["target_assignment"]),
        is_upgraded=None if member_type < 0 else member_type != MEMBER_TYPE_CLASSIC,
    )


def _partitions(assignment: Mapping[str, Any]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic["topic_name"], partition)
            for topic in assignment["topic_partitions"]
            for partition in topic["partitions"]
        )
    )


def _classic_member(row: Mapping[str, Any], protocol_type: str) -> Member:
    assignment = row["member_assignment"]
    return Member(
        member_id=row["member_id"],
        instance_id=row["group_instance_id"],
        client_id=row["client_id"],
        host=row["client_host"],
        assignment=_parsed(assignment) if protocol_type == "consumer" else (),
    )


def _parsed(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions that clients of the consumer protocol write; none if the assignment cannot be
    read: it is opaque (C29)."""
    try:
        topics = read_assignment(assignment).partitions
    except MalformedRequest:
        return ()
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))


async def offset_rows(kafka: Kafka, group: Group) -> list[OffsetRow]:
    """Return the partitions of members, first of the member that owns most, then the committed ones that
    nobody owns."""
    committed = await committed_offsets(kafka, group.group)
    owners = sorted(group.members, key=lambda member: -len(member.assignment))
    owned = {place for member in owners for place in member.assignment}
    places: list[tuple[TopicPartition, Member | None]] = [
        (place, member) for member in owners for place in member.assignment
    ]
    places += [(place, None) for place in committed if place not in owned]
    ends = await log_offsets(kafka, {place for place, _ in places}, LATEST)
    return [_offset_row(place, member, committed.get(place), ends.get(place)) for place, member in places]


def _offset_row(
    place: TopicPartition, member: Member | None, committed: Committed | None, end: int | None
) -> OffsetRow:
    epoch = -1 if committed is None else committed.leader_epoch
    return OffsetRow(
        topic=place.topic,
        partition=place.partition,
        leader_epoch=epoch if epoch >= 0 else None,
        committed=None if committed is None else committed.offset,
        end=end,
        member=member,
    )


def assignment_text(places: Iterable[TopicPartition]) -> str:
    """Return partitions as Kafka's tool prints them: "a:0,1;b:2", or "-" for none."""
    topics = [
        f"{topic}:{','.join(str(place.partition) for place in found)}"
        for topic, found in by_topic(places).items()
    ]
    return ";".join(topics) or "-"
