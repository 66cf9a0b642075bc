"""Drives a coordinator's consumer groups: it sends heartbeats, advances time, and fails over.

`Client` is one consumer that does as Java's client: it reports what it owns when that has changed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.assignors.registry import AssignorError, PlugIn, named
from actors.coordinator.consumer import views
from actors.coordinator.consumer.assignment_jobs import ASSIGNED, AssignedRequest, AssignmentAsked
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground import partitions
from actors.coordinator.ground.state import ShardState
from actors.coordinator.ground.timers import SLOT_MS
from actors.ground.contract import Record, Request
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import TopicPartitions
from actors.ground.settings import GroupSettings
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    CommittedPartition,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
)
from tests.coordinator.host import Host
from tests.coordinator.unpacked import to_lists

NEVER_MS = 10**9
START_MS = 1_700_000_000_000
GROUP = "orders"


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"-")


def make_image(version: int, /, **topics: int) -> MetadataImage:
    """Make an image with topics by name and their number of partitions."""
    images = tuple(TopicImage(topic_id(name), name, (0,) * number) for name, number in topics.items())
    return MetadataImage(version=version, topics=images)


def owned(**topics: Iterable[int]) -> TopicPartitions:
    return partitions.from_lists({topic_id(name): numbers for name, numbers in topics.items()})


def as_pairs(assignment: TopicPartitions | None) -> set[tuple[bytes, int]]:
    listed = to_lists(assignment or ())
    return {(topic, number) for topic, numbers in listed.items() for number in numbers}


def outcome(asked: AssignmentAsked, settings: GroupSettings) -> AssignedRequest:
    """Run the plug-in that is asked. Returns its outcome."""
    plug_in = named(settings.group_consumer_assignors)[asked.assignor]
    assert isinstance(plug_in, PlugIn)
    try:
        assignment, error = plug_in.assign(asked.spec), ""
    except AssignorError as failure:
        assignment, error = None, str(failure)
    return AssignedRequest(asked.group_id, asked.group_epoch, asked.assignor, assignment, error)


AS_KAFKA = GroupSettings(group_rebalance_batch_max_ms=0)
"""Settings by which a target does not wait for further members."""


class Driver(Host):
    """A coordinator's consumer groups; after `failover` they are the next leader's."""

    def __init__(self, *, settings: GroupSettings | None = None, image: MetadataImage | None = None) -> None:
        settings = settings or GroupSettings(group_consumer_assignment_interval_ms=0)
        settings = settings._replace(offsets_retention_check_interval_ms=NEVER_MS)
        super().__init__(settings, image or make_image(1, orders=4), START_MS, "made-{}")

    @property
    def last_records(self) -> list[Record]:
        """The records that the last decision wrote."""
        return list(self.last.records)

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        return consumer_groups(self.state)[group_id]

    def resolve(self) -> None:
        """Resolve the regular expressions that are due."""
        self.advance(2 * SLOT_MS)

    def heartbeat(
        self,
        body: ConsumerGroupHeartbeatRequest,
        *,
        api_version: int = 1,
        client_id: str = "client",
        client_host: str = "/127.0.0.1",
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat. Returns the answer. Raises GroupError if it has an error."""
        request = Request(
            self.new_token(), CONSUMER_GROUP_HEARTBEAT, api_version, client_id, client_host, body
        )
        answer = self.replies[self.submit(request)]
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error_code is not ErrorCode.none:
            raise GroupError(answer.error_code, answer.error_message)
        return answer

    def asked(self) -> list[AssignmentAsked]:
        """The assignments that plug-ins are asked for since the last call."""
        found = [event for event in self.events if isinstance(event, AssignmentAsked)]
        self.events = [event for event in self.events if not isinstance(event, AssignmentAsked)]
        return found

    def assigned(self, body: AssignedRequest) -> bool:
        """Submit a plug-in's assignment. Returns whether it was taken."""
        is_taken: bool = self.ask(ASSIGNED, body, 0).taken
        return is_taken

    def run_plug_ins(self) -> list[bool]:
        """Run the plug-ins at once, in the host's place. Returns for each that was asked whether its
        assignment was taken."""
        return [self.assigned(outcome(asked, self.settings)) for asked in self.asked()]

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        version = fields.pop("api_version", 1)
        group_id = fields.pop("group_id", GROUP)
        return self.heartbeat(
            ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **fields), api_version=version
        )

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        defaults: dict[str, Any] = {
            "rebalance_timeout_ms": 300_000,
            "subscribed_topic_names": topics or ("orders",),
            "topic_partitions": (),
        }
        return self.beat(member_id, 0, **{**defaults, **fields})

    def refused(self, code: ErrorCode, member_id: str, epoch: int, **fields: Any) -> str | None:
        """Check that a heartbeat is refused with `code` and changes nothing."""
        before = snapshot(self.state)
        with pytest.raises(GroupError) as refusal:
            self.beat(member_id, epoch, **fields)
        assert refusal.value.error_code is code
        assert snapshot(self.state) == before
        return refusal.value.message

    def refused_join(self, code: ErrorCode, member_id: str, **fields: Any) -> None:
        with pytest.raises(GroupError) as refusal:
            self.join(member_id, **fields)
        assert refusal.value.error_code is code

    def failover(self, rng: random.Random | None = None, records: Iterable[Record] | None = None) -> None:
        """Let a new leader take over, built from these records, or from all there are, in any order."""
        left = list(self.shard.records() if records is None else records)
        if rng is not None:
            rng.shuffle(left)
        self.commit()
        self.fall()
        if records is None:
            assert snapshot(self.restored(left).state) == snapshot(self.state)
        self.begin_with(left)

    def check_commit(
        self, member_id: str, epoch: int, api_version: int = 9, group_id: str = GROUP, **topics: Iterable[int]
    ) -> None:
        """Ask whether the member may commit these partitions. Raises GroupError."""
        asked = tuple(
            (name, tuple(CommittedPartition(number, 1) for number in numbers))
            for name, numbers in topics.items()
        )
        body = OffsetCommitRequest(group_id, epoch, member_id, None, -1, asked)
        request = Request(0, OFFSET_COMMIT, api_version, "client", "/127.0.0.1", body)
        views.validate_commit(self.state, request, self.now_ms)


def snapshot(state: ShardState) -> dict[str, Any]:
    """All that is replicated or derived, in a form that can be compared."""
    return {
        group_id: {
            "metadata": group.metadata,
            "target_metadata": group.target_metadata,
            "epochs": (group.group_epoch, group.assignment_epoch),
            "members": {i: (m.metadata, m.current, m.target) for i, m in group.members.items()},
            "regexes": dict(group.regexes),
            "regex_counts": dict(group.regex_counts),
            "size": group.size,
            "subscriptions": {key: s.member_count for key, s in group.subscriptions.items()},
            "topic_counts": dict(group.topic_counts),
            "static_ids": dict(group.static_ids),
            "votes": dict(group.votes),
            "client_assignors": dict(group.client_assignors),
            "client_assignments": dict(group.client_assignments),
            "settled": group.reconciled_count,
            "holders": {
                topic: {p: number for p, number in enumerate(h.counts) if number}
                for topic, h in group.holders.items()
            },
            "state": group.state_name,
        }
        for group_id, group in consumer_groups(state).items()
    }


class Client:
    """A consumer: it takes assignments, gives up what it must, and reports what it owns when that has
    changed."""

    def __init__(self, driver: Driver, member_id: str, *topics: str, **fields: Any) -> None:
        self.driver = driver
        self.member_id = member_id
        self.topics = topics or ("orders",)
        self.fields = fields
        self.epoch = 0
        self.owned: TopicPartitions = ()
        self.interval_ms = 0
        self._reported: TopicPartitions | None = ()
        """What the server is known to have heard; None after a lost answer, when everything is sent again."""
        self._told: TopicPartitions = ()

    @property
    def partitions(self) -> set[tuple[bytes, int]]:
        return as_pairs(self.owned)

    @property
    def settled(self) -> bool:
        return self.owned == self._told

    def join(self) -> Client:
        self.epoch, self.owned, self._told, self._reported = 0, (), (), ()
        self._take(self.driver.join(self.member_id, *self.topics, **self.fields))
        return self

    def beat(self, *, lost: bool = False, **fields: Any) -> Client:
        """Send a heartbeat. Partitions that the last answer took away are given up before it, and reported.
        If the answer is `lost`, the next heartbeat is a full request."""
        self.let_go()
        sent: dict[str, Any] = {"instance_id": self.fields.get("instance_id")}
        if self.owned != self._reported:
            sent["topic_partitions"] = self.owned
        if self._reported is None:
            sent |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": self.topics}
        if "subscribed_topic_names" in fields:
            self.topics = fields["subscribed_topic_names"]
        answer = self.driver.beat(self.member_id, self.epoch, **{**sent, **fields})
        self._reported = None if lost else self.owned
        if not lost:
            self._take(answer)
        return self

    def leave(self, epoch: int = -1) -> None:
        self.driver.beat(self.member_id, epoch, instance_id=self.fields.get("instance_id"))
        self.owned, self._told, self.epoch = (), (), epoch

    def let_go(self) -> None:
        self.owned = partitions.intersection(self.owned, self._told)

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.error_code is ErrorCode.none
        assert answer.member_epoch >= self.epoch
        self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self._told = answer.assignment
            # New partitions are taken at once; others are given up before the next heartbeat.
            self.owned = partitions.union(self.owned, answer.assignment)


def settle(*clients: Client, rounds: int = 12) -> None:
    """Send heartbeats of all clients in turn until the group is Stable and each has its assignment."""
    group = clients[0].driver.group()
    for _ in range(rounds):
        for client in clients:
            client.beat()
        if group.state_name == "Stable" and all(c.settled for c in clients):
            return
    raise AssertionError("the group does not settle")
