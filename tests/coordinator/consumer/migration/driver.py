"""A shard with members of both protocols: their requests, and what they own, by partition number."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.ground import partitions
from actors.ground.records import TopicPartitions
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    read_assignment,
    write_assignment,
    write_subscription,
)
from actors.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.coordinator.driver import Driver, topic_id
from tests.coordinator.unpacked import to_lists

GROUP = "orders"
TOPIC = "t"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
AT_ONCE = GroupSettings(
    group_initial_rebalance_delay_ms=0,
    group_consumer_assignment_interval_ms=0,
    group_rebalance_batch_max_ms=0,
)


def subscribed(
    *topics: str, owned: tuple[int, ...] = (), version: int = 1, rack_id: str | None = None
) -> bytes:
    """Make a subscription to `topics` (to the one topic if none is named) that owns partitions of the
    topic."""
    topic_numbers = ((TOPIC, owned),) if owned else ()
    return write_subscription(Subscription(topics or (TOPIC,), None, topic_numbers, -1, rack_id), version)


def assigned(*numbers: int, version: int = 1, topic: str = TOPIC, user_data: bytes | None = None) -> bytes:
    topics = ((topic, numbers),) if numbers else ()
    return write_assignment(Assignment(topics, user_data), version)


def numbers_of(assignment: TopicPartitions | None) -> tuple[int, ...]:
    """The partition numbers of the one topic."""
    return to_lists(assignment or ()).get(topic_id(1), ())


class Both(Driver):
    """The group, its topic of six partitions, and requests of members of either protocol."""

    def __init__(self, settings: GroupSettings = AT_ONCE) -> None:
        super().__init__(settings=settings, t=6, other=2)

    # The classic protocol.

    def start_join(
        self,
        member_id: str = "",
        metadata: bytes | None = None,
        *,
        names: tuple[str, ...] = ("range",),
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        version: int = 9,
    ) -> int:
        """Send JoinGroup. Returns its token."""
        bytes_of = subscribed() if metadata is None else metadata
        offered = tuple((name, bytes_of) for name in names)
        body = JoinGroupRequest(
            GROUP, SESSION_MS, REBALANCE_MS, member_id, instance_id, protocol_type, offered
        )
        return self.send(api_keys.JOIN_GROUP, body, version)

    def join(
        self,
        member_id: str = "",
        metadata: bytes | None = None,
        *,
        names: tuple[str, ...] = ("range",),
        instance_id: str | None = None,
        version: int = 9,
    ) -> JoinGroupResponse:
        """Join in one step: if a member id is given out, the request is sent again with it."""
        more = {"names": names, "version": version}
        token = self.start_join(member_id, metadata, instance_id=instance_id, **more)  # type: ignore[arg-type]
        answer: JoinGroupResponse = self.replies[token]
        if answer.error_code == ErrorCode.member_id_required:
            answer = self.replies[self.start_join(answer.member_id, metadata, **more)]  # type: ignore[arg-type]
        return answer

    def sync(
        self,
        joined: JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
    ) -> SyncGroupResponse:
        token = self.start_sync(joined, assignments, instance_id=instance_id)
        answer: SyncGroupResponse = self.replies[token]
        return answer

    def start_sync(
        self,
        joined: JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
    ) -> int:
        body = SyncGroupRequest(
            GROUP,
            joined.generation_id,
            joined.member_id,
            instance_id,
            joined.protocol_type,
            joined.protocol_name,
            tuple((assignments or {}).items()),
        )
        return self.send(api_keys.SYNC_GROUP, body, 5)

    def rejoin(self, member_id: str, *owned: int) -> tuple[JoinGroupResponse, tuple[int, ...]]:
        """Let a member rejoin by JoinGroup and SyncGroup. Returns what it owns then."""
        joined = self.join(member_id, subscribed(owned=owned))
        assert joined.error_code == ErrorCode.none
        synced = self.sync(joined)
        assert synced.error_code == ErrorCode.none
        return joined, owned_in(synced)

    def alive(self, generation: int, member_id: str, instance_id: str | None = None) -> ErrorCode:
        """Send a classic heartbeat. Returns its error."""
        body = HeartbeatRequest(GROUP, generation, member_id, instance_id)
        return ErrorCode(self.ask(api_keys.HEARTBEAT, body, 4).error_code)

    def let_leave(self, *members: LeavingMember) -> tuple[LeftMember, ...]:
        left: tuple[LeftMember, ...] = self.ask(
            api_keys.LEAVE_GROUP, LeaveGroupRequest(GROUP, members), 5
        ).members
        return left

    def classic_group(
        self, *instance_ids: str | None, metadata: bytes | None = None
    ) -> list[JoinGroupResponse]:
        """Make a Stable classic group whose partitions are assigned evenly in order. The leader comes
        first."""
        tokens: list[int] = []
        first = self.join(instance_id=instance_ids[0], metadata=metadata)
        self.sync(first, {first.member_id: assigned(*range(6))}, instance_id=instance_ids[0])
        for instance_id in instance_ids[1:]:
            member_id = ""
            if instance_id is None:
                member_id = self.replies[self.start_join(metadata=metadata)].member_id
            tokens.append(self.start_join(member_id, metadata, instance_id=instance_id))
        if not tokens:
            return [first]
        tokens.insert(0, self.start_join(first.member_id, metadata, instance_id=instance_ids[0]))
        answers = [self.replies[token] for token in tokens]
        share = 6 // len(answers)
        assignments = {
            answer.member_id: assigned(*range(place * share, (place + 1) * share))
            for place, answer in enumerate(answers)
        }
        syncs = [
            self.start_sync(answer, assignments if place == 0 else None, instance_id=instance_ids[place])
            for place, answer in enumerate(answers)
        ]
        assert all(self.replies[token].error_code == ErrorCode.none for token in syncs)
        return answers

    # The consumer protocol.

    def beat_in(
        self, member_id: str = "new", *topics: str, instance_id: str | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        answer: ConsumerGroupHeartbeatResponse = self.ask(
            api_keys.CONSUMER_GROUP_HEARTBEAT,
            ConsumerGroupHeartbeatRequest(
                GROUP,
                member_id,
                0,
                instance_id,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=topics or (TOPIC,),
                topic_partitions=(),
            ),
            1,
        )
        return answer

    def beat(
        self,
        epoch: int,
        member_id: str = "new",
        *,
        owned: tuple[int, ...] | None = None,
        instance_id: str | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        holds = None if owned is None else partitions.from_lists({topic_id(1): owned})
        answer: ConsumerGroupHeartbeatResponse = self.ask(
            api_keys.CONSUMER_GROUP_HEARTBEAT,
            ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch, instance_id, topic_partitions=holds),
            1,
        )
        return answer

    # The state of the group, as clients and records show it.

    def described(self) -> DescribedConsumerGroup:
        body = ConsumerGroupDescribeRequest((GROUP,))
        [group] = self.ask(api_keys.CONSUMER_GROUP_DESCRIBE, body, 1).groups
        assert isinstance(group, DescribedConsumerGroup)
        return group

    def kinds(self) -> set[int]:
        """The kinds of the records that there are."""
        return {key[0] for key in self.records()}


def owned_in(synced: SyncGroupResponse) -> tuple[int, ...]:
    """The partition numbers of the one topic in an answer to SyncGroup."""
    return dict(read_assignment(synced.assignment).partitions).get(TOPIC, ())
