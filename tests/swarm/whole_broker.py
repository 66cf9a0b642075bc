"""A broker on which a whole swarm runs: topics that are made and deleted, and a coordinator of groups of one
member each. What it does late or wrong is set by the test."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from kio.schema.errors import ErrorCode

from actors.network.wire import from_plain, message_class
from actors.protocol.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_TOPICS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from actors.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedClassicGroup,
    DescribedClassicMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeftMember,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.swarm.broker import ScriptedBroker

OFFERS: Final = (
    (METADATA, 0, 12),
    (OFFSET_COMMIT, 2, 9),
    (OFFSET_FETCH, 1, 9),
    (FIND_COORDINATOR, 0, 6),
    (JOIN_GROUP, 0, 9),
    (HEARTBEAT, 0, 4),
    (LEAVE_GROUP, 0, 5),
    (SYNC_GROUP, 0, 5),
    (CREATE_TOPICS, 2, 7),
    (DELETE_TOPICS, 1, 6),
    (DELETE_GROUPS, 0, 2),
    (DESCRIBE_GROUPS, 0, 5),
    (CONSUMER_GROUP_HEARTBEAT, 0, 1),
)


class Whole:
    """A broker that answers all that a swarm asks: `with whole.serving() as broker: ...`"""

    def __init__(self, *, creates_in_s: float = 0.0) -> None:
        self.creates_in_s = creates_in_s
        self.looks_without_leaders = 0
        """How many answers to Metadata name no leader before one does."""
        self.loading: list[int] = []
        """Errors of OffsetFetch, each once, before it is answered well."""
        self.members_left_over: dict[str, str] = {}
        """The member that is still in each group when the group is to be deleted."""
        self.deleted_groups: list[str] = []
        self.topics: dict[str, int] = {}
        self.ids: dict[str, Any] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.deleted_topics: list[str] = []
        self._assigned: dict[str, bytes] = {}
        self._bootstrap = ""

    def serving(self, offers: Sequence[tuple[int, int, int]] = OFFERS) -> ScriptedBroker:
        broker = ScriptedBroker(self, offers)
        self._bootstrap = broker.bootstrap
        return broker

    def __call__(self, request: Any) -> Any:
        match request:
            case JoinGroupRequest():
                member_id = request.member_id or f"member-{uuid4().hex[:8]}"
                chosen = request.protocols[0]
                members = ((member_id, request.group_instance_id, chosen[1]),)
                return JoinGroupResponse(
                    ErrorCode.none, 1, "consumer", chosen[0], member_id, False, member_id, members
                )
            case SyncGroupRequest():
                self._assigned |= {name: raw for name, raw in request.assignments if raw}
                return SyncGroupResponse(
                    ErrorCode.none, assignment=self._assigned.get(request.member_id, b"")
                )
            case HeartbeatRequest():
                return HeartbeatResponse(ErrorCode.none)
            case LeaveGroupRequest():
                left = [LeftMember(m.member_id, m.group_instance_id, ErrorCode.none) for m in request.members]
                self.members_left_over.pop(request.group_id, None)
                return LeaveGroupResponse(ErrorCode.none, tuple(left))
            case OffsetFetchRequest():
                return OffsetFetchResponse(tuple(map(self._fetched, request.groups)))
            case OffsetCommitRequest():
                return self._committed(request)
            case DescribeGroupsRequest():
                return DescribeGroupsResponse(tuple(map(self._described, request.groups)))
            case DeleteGroupsRequest():
                return DeleteGroupsResponse(tuple(map(self._deleted, request.groups_names)))
        return self._of_topics(type(request).__name__, request)

    def _described(self, group_id: str) -> DescribedClassicGroup:
        member = DescribedClassicMember(self.members_left_over[group_id], None, "", "", b"", b"")
        return DescribedClassicGroup(ErrorCode.none, group_id, "Stable", "consumer", "range", (member,))

    def _deleted(self, group_id: str) -> tuple[str, ErrorCode]:
        if group_id in self.members_left_over:
            return group_id, ErrorCode.non_empty_group
        self.deleted_groups.append(group_id)
        return group_id, ErrorCode.none

    def _fetched(self, group: Any) -> FetchedGroup:
        def row(topic: str, number: int) -> tuple[int, int, int, str, ErrorCode]:
            offset = self.offsets.get((group.group_id, topic, number), -1)
            return number, offset, -1, "", ErrorCode.none

        topics = ((topic, tuple(row(topic, n) for n in numbers)) for topic, numbers in group.topics or ())
        error = ErrorCode(self.loading.pop(0)) if self.loading else ErrorCode.none
        return FetchedGroup(group.group_id, tuple(topics), error)

    def _committed(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        answers = []
        for topic, rows in request.topics:
            for number, offset, *_ in rows:
                self.offsets[request.group_id, topic, number] = offset
            answers.append((topic, tuple((row[0], ErrorCode.none) for row in rows)))
        return OffsetCommitResponse(tuple(answers))

    def _of_topics(self, kind: str, request: Any) -> Any:
        if kind == "CreateTopicsRequest":
            threading.Event().wait(self.creates_in_s)  # as a controller that has much to do
            for topic in request.topics:
                self.topics[topic.name] = topic.num_partitions
                self.ids[topic.name] = uuid4()
            return self._created([topic.name for topic in request.topics])
        if kind == "DeleteTopicsRequest":
            return self._deleted_topics([topic.name for topic in request.topics])
        if kind == "MetadataRequest":
            return self._metadata([topic.name for topic in request.topics or ()])
        raise AssertionError(request)

    def _deleted_topics(self, names: list[str]) -> Any:
        self.deleted_topics += names
        row = {"error_code": ErrorCode.none, "error_message": None}
        rows = [{"name": name, "topic_id": self.ids[name], **row} for name in names]
        answer = message_class("delete_topics", 6, "response")
        return from_plain(answer, {"throttle_time": 0, "responses": rows})

    def _created(self, names: list[str]) -> Any:
        rows = [
            {
                "name": name,
                "topic_id": self.ids[name],
                "topic_config_error_code": ErrorCode.none,
                "error_code": ErrorCode.none,
                "error_message": None,
                "num_partitions": self.topics[name],
                "replication_factor": 1,
                "configs": None,
            }
            for name in names
        ]
        answer = message_class("create_topics", 7, "response")
        return from_plain(answer, {"throttle_time": 0, "topics": rows})

    def _metadata(self, names: list[str]) -> Any:
        host, port = self._bootstrap.split(":")
        leader_id = -1 if self.looks_without_leaders > 0 else 0
        self.looks_without_leaders -= 1
        topics = [
            {
                "error_code": ErrorCode.none,
                "name": name,
                "topic_id": self.ids[name],
                "is_internal": False,
                "partitions": [_partition(number, leader_id) for number in range(self.topics[name])],
            }
            for name in names
            if name in self.topics
        ]
        broker = {"node_id": 0, "host": host, "port": int(port), "rack": None}
        fields = {"throttle_time": 0, "brokers": [broker], "cluster_id": "c", "controller_id": 0}
        return from_plain(message_class("metadata", 12, "response"), {**fields, "topics": topics})


def _partition(number: int, leader_id: int) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "partition_index": number,
        "leader_id": leader_id,
        "leader_epoch": 0,
        "replica_nodes": [0],
        "isr_nodes": [0],
        "offline_replicas": [],
    }
