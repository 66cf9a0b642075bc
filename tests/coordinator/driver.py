"""Drives a coordinator as its clients do, with what most tests ask of groups and their offsets."""

from __future__ import annotations

from typing import Any

from actors.ground.contract import Token
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FetchedGroup,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    ListedGroup,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.coordinator.host import Host

START_MS = 1_700_000_000_000
RANGE = (("range", b""),)
AT_ONCE = GroupSettings(group_rebalance_batch_max_ms=0)
"""Settings by which a group's rebalance does not wait for further members."""


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def image_of(version: int = 1, /, **partitions: int) -> MetadataImage:
    """Make an image with topics `name=partition count`. A topic's id follows from the place of its name."""
    topics = tuple(
        TopicImage(topic_id(number), name, (0,) * partition_count)
        for number, (name, partition_count) in enumerate(partitions.items(), start=1)
    )
    return MetadataImage(version=version, topics=topics)


class Driver(Host):
    """A coordinator of groups of every kind, with the requests that most tests make."""

    def __init__(
        self, image: MetadataImage | None = None, settings: GroupSettings | None = None, **topics: int
    ) -> None:
        ids = "00000000-0000-0000-0000-{:012}"
        super().__init__(settings or AT_ONCE, image or image_of(1, **topics), START_MS, ids)

    # Requests, with those fields filled in that tests seldom vary.

    def commit_offsets(
        self,
        group_id: str,
        topic: str = "t",
        offsets: dict[int, int] | None = None,
        *,
        generation: int = -1,
        member_id: str = "",
        version: int = 9,
    ) -> dict[int, int]:
        """Commit offsets of one topic. Returns the error of each partition."""
        partitions = tuple(CommittedPartition(p, offset) for p, offset in (offsets or {0: 1}).items())
        body = OffsetCommitRequest(group_id, generation, member_id, None, -1, ((topic, partitions),))
        [(_, errors)] = self.ask(api_keys.OFFSET_COMMIT, body, version).topics
        return {partition: int(error) for partition, error in errors}

    def fetch_group(self, group: OffsetFetchGroup, version: int = 9) -> FetchedGroup:
        [fetched] = self.ask(api_keys.OFFSET_FETCH, OffsetFetchRequest((group,)), version).groups
        assert isinstance(fetched, FetchedGroup)
        return fetched

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """All committed offsets of a group, asked for by OffsetFetch."""
        fetched = self.fetch_group(OffsetFetchGroup(group_id, None))
        assert fetched.error_code == 0
        return {(topic, row[0]): row[1] for topic, rows in fetched.topics for row in rows}

    def delete_offsets(self, group_id: str, topic: str = "t", *partitions: int) -> Any:
        body = OffsetDeleteRequest(group_id, ((topic, partitions),))
        return self.ask(api_keys.OFFSET_DELETE, body, 0)

    def delete_groups(self, *group_ids: str) -> dict[str, int]:
        results = self.ask(api_keys.DELETE_GROUPS, DeleteGroupsRequest(group_ids), 2).results
        assert len({group_id for group_id, _ in results}) == len(results)
        return {group_id: int(error) for group_id, error in results}

    def describe(self, group_id: str, version: int = 6) -> Any:
        [group] = self.ask(api_keys.DESCRIBE_GROUPS, DescribeGroupsRequest((group_id,)), version).groups
        return group

    def list_groups(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[ListedGroup]:
        answer = self.ask(api_keys.LIST_GROUPS, ListGroupsRequest(states, types), 5)
        assert answer.error_code == 0
        return sorted(answer.groups)

    def send_join(self, group_id: str, member_id: str = "", *, instance_id: str | None = None) -> Token:
        body = JoinGroupRequest(group_id, 10_000, 60_000, member_id, instance_id, "consumer", RANGE)
        return self.send(api_keys.JOIN_GROUP, body, 9)

    def heartbeat(self, group_id: str, generation: int, member_id: str) -> int:
        body = HeartbeatRequest(group_id, generation, member_id)
        return int(self.ask(api_keys.HEARTBEAT, body, 4).error_code)

    def leave(self, group_id: str, *member_ids: str) -> Any:
        members = tuple(LeavingMember(member_id) for member_id in member_ids)
        return self.ask(api_keys.LEAVE_GROUP, LeaveGroupRequest(group_id, members), 5)

    def send_sync(
        self, group_id: str, joined: JoinGroupResponse, assignments: tuple[tuple[str, bytes], ...]
    ) -> Token:
        body = SyncGroupRequest(
            group_id, joined.generation_id, joined.member_id, None, "consumer", "range", assignments
        )
        return self.send(api_keys.SYNC_GROUP, body, 5)

    def stable_group(self, group_id: str, size: int = 1) -> list[JoinGroupResponse]:
        """Bring `size` new members of the classic protocol to Stable. The leader comes first."""
        member_ids = [self.replies[self.send_join(group_id)].member_id for _ in range(size)]
        joins = [self.send_join(group_id, member_id) for member_id in member_ids]
        self.advance(self.settings.group_initial_rebalance_delay_ms * (size + 1))
        joined: list[JoinGroupResponse] = [self.replies[token] for token in joins]
        joined.sort(key=lambda answer: answer.member_id != answer.leader)
        assignments = tuple((answer.member_id, answer.member_id.encode()) for answer in joined)
        syncs = [self.send_sync(group_id, joined[0], assignments)]
        syncs += [self.send_sync(group_id, answer, ()) for answer in joined[1:]]
        answers: list[SyncGroupResponse] = [self.replies[token] for token in syncs]
        assert [answer.assignment for answer in answers] == [assignment for _, assignment in assignments]
        return joined
