"""A driver of `CoordinatorShard` for stories: the duties of a host without a log.

It applies records at once and remembers how to undo them, keeps replies by token, fires due timers as time
passes, and can start over on another replica from the records alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import msgpack

from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Key, Record, Request, Result, Token, Value
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import RECORD_TYPES
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
from tests.coordinator.shards import new_shard, numbered

START_MS = 1_700_000_000_000
RANGE = (("range", b""),)
AT_ONCE = GroupSettings(group_rebalance_batch_max_ms=0)
"""Nobody waits for others who may come."""


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def image_of(version: int = 1, /, **partitions: int) -> MetadataImage:
    """An image with topics `name=partition count`. The id follows from the name's place."""
    topics = tuple(
        TopicImage(topic_id(number), name, (0,) * partition_count)
        for number, (name, partition_count) in enumerate(partitions.items(), start=1)
    )
    return MetadataImage(version=version, topics=topics)


class Driver:
    """One shard that leads, its clock, and what it has answered."""

    def __init__(
        self, image: MetadataImage | None = None, settings: GroupSettings | None = None, **topics: int
    ) -> None:
        self.settings = settings or AT_ONCE
        self.image = image or image_of(1, **topics)
        self.now_ms = START_MS
        self.replies: dict[Token, Any] = {}
        self.events: list[Any] = []
        self.last = Result()
        """What the last decision asked for."""
        self._new_id = numbered("00000000-0000-0000-0000-{:012}")
        self._tokens = count(1)
        self.committed: dict[Key, Value] = {}
        """Every live record when `commit` was last called."""
        self._undo: list[tuple[Key, Value | None]] = []
        self._open: dict[Token, Request] = {}
        self.shard = self._new_shard()
        self._take(self.shard.on_elected(self.now_ms))

    # Requests.

    def send(self, api_key: int, body: Any, version: int, client_id: str = "client") -> Token:
        """Submit a request; its answer, now or later, will be in `replies`."""
        request = Request(next(self._tokens), api_key, version, client_id, "/127.0.0.1", body)
        self._open[request.token] = request
        self._take(self.shard.handle(request, self.now_ms))
        return request.token

    def ask(self, api_key: int, body: Any, version: int, client_id: str = "client") -> Any:
        """Submit a request that is answered at once."""
        token = self.send(api_key, body, version, client_id)
        assert token in self.replies, f"no answer yet to {body}"
        return self.replies[token]

    @property
    def parked(self) -> int:
        return len(self._open)

    # Time and faults.

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing each timer when it is due."""
        until_ms = self.now_ms + by_ms
        while True:
            deadline_ms = self.shard.next_deadline_ms
            if deadline_ms is None or deadline_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self._take(self.shard.expire(self.now_ms))
        self.now_ms = until_ms

    def commit(self) -> None:
        """What was decided so far is committed: it cannot be undone any more."""
        self._undo.clear()
        self.committed = self.records()

    def fall(self) -> None:
        """Lose leadership: undo what is not committed, newest first, and forget whoever waits."""
        for key, value in reversed(self._undo):
            self.shard.apply(key, value)
        self._undo.clear()
        assert self.records() == self.committed, "undoing did not restore what was committed"
        for token, request in self._open.items():
            self.replies[token] = self.shard.refusal(request, 16)
        self._open.clear()
        self.shard.on_resigned()

    def fail_over(self) -> None:
        """Another replica, which has the committed records and nothing else, takes over."""
        self.fall()
        self.shard = self.restored()
        self._take(self.shard.on_elected(self.now_ms))

    def set_image(self, image: MetadataImage) -> None:
        self.image = image
        self._take(self.shard.on_metadata(image, self.now_ms))

    # State.

    def records(self) -> dict[Key, Value]:
        """Every live record by its key."""
        live: dict[Key, Value] = {}
        for key, value in self.shard.records():
            assert key not in live, f"{key} is in the snapshot twice"
            assert value is not None, f"{key}: a tombstone in the snapshot"
            live[key] = value
        return live

    def restored(self, records: Iterable[Record] | None = None) -> CoordinatorShard:
        """A fresh shard that was given the records as they travel: packed, unpacked, typed again."""
        shard = self._new_shard()
        for record in self.shard.records() if records is None else records:
            key, value = msgpack.unpackb(msgpack.packb(record), use_list=False)
            key_class, value_class = RECORD_TYPES[key[0]]
            shard.apply(key_class(*key), None if value is None else value_class(*value))
        return shard

    def check_snapshot(self) -> None:
        """A shard restored from the snapshot holds the same records."""
        assert dict(self.restored().records()) == self.records()

    def _new_shard(self) -> CoordinatorShard:
        return new_shard(self.settings, self.image, new_id=self._new_id)

    def _take(self, result: Result) -> None:
        self.last = result
        for key, value in result.records:
            self._undo.append((key, self.shard.apply(key, value)))
        for reply in result.replies:
            assert reply.token not in self.replies, f"answered twice: {reply}"
            assert self._open.pop(reply.token, None) is not None, f"answered nobody: {reply}"
            self.replies[reply.token] = reply.body
        self.events.extend(result.events)

    # The requests that most stories make, with what they seldom vary filled in.

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
        """OffsetCommit of one topic. Returns the error of each partition."""
        partitions = tuple(CommittedPartition(p, offset) for p, offset in (offsets or {0: 1}).items())
        body = OffsetCommitRequest(group_id, generation, member_id, None, -1, ((topic, partitions),))
        [(_, errors)] = self.ask(api_keys.OFFSET_COMMIT, body, version).topics
        return {partition: int(error) for partition, error in errors}

    def fetch_group(self, group: OffsetFetchGroup, version: int = 9) -> FetchedGroup:
        [fetched] = self.ask(api_keys.OFFSET_FETCH, OffsetFetchRequest((group,)), version).groups
        assert isinstance(fetched, FetchedGroup)
        return fetched

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """All committed offsets of a group, by OffsetFetch."""
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
