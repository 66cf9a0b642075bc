"""A leading replica with held heartbeats, its clients' connections, and a clock that stands still until a
test moves it.

The replica's log has one copy: a turn commits what was decided before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from actors.coordinator.ground import partitions
from actors.ground.contract import Request
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.leader.held_heartbeats import HeldHeartbeats, HoldEnd
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from tests.coordinator.alone import commit, lead, new_replica
from tests.coordinator.shards import new_shard, numbered

JAVA = ("apache-kafka-java", "4.3.1")
GROUP = "orders"
TOPIC_ID = b"orders".rjust(16, b"-")
INTERVAL_MS = 5_000
SPACING_MS = 3_000
"""The time between two heartbeats of a classic client."""
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=0, group_rebalance_batch_max_ms=0, group_min_session_timeout_ms=1_000
)


def image(version: int, partition_count: int, **changes: Any) -> MetadataImage:
    topic = TopicImage(TOPIC_ID, "orders", (0,) * partition_count)
    return MetadataImage(version=version, topics=(topic,), **changes)


class Leader:
    def __init__(self, settings: GroupSettings = SETTINGS, partition_count: int = 6) -> None:
        new_id, self.tokens = numbered(), itertools.count(1)
        self.now_ms = 1_700_000_000_000
        self.answers: dict[int, Any] = {}
        self.events: list[Any] = []
        self.turns: list[int] = []
        """How many answers the timers of each turn gave."""
        first = image(1, partition_count)
        self.replica = new_replica(
            lambda: new_shard(settings, first, new_id=new_id),
            lambda token, body: self.held.keeps(token, body) or self.release(token, body),
            clock_ms=lambda: self.now_ms,
            on_events=self.events.extend,
        )
        clients = settings.group_heartbeat_hold_clients
        self.held = HeldHeartbeats(self.replica, self.release, lambda: self.now_ms, clients)
        self.replica.watcher = self.held
        lead(self.replica)
        self.replica.on_metadata(first, self.now_ms)
        self.connections: dict[int, Connection] = {}

    @property
    def ended(self) -> dict[str, int]:
        """How many holds have ended, by cause."""
        return {cause.value: count for cause, count in self.held.counts.ended.items() if count}

    def release(self, token: int, body: Any) -> None:
        assert token not in self.answers, "answered twice"
        self.answers[token] = body
        self.connections[token].answered(body)

    def turn(self) -> None:
        """Take turns as the replica's loop does, until nothing is due at this moment."""
        while True:
            before = len(self.answers)
            self.replica.run_timers(self.now_ms)
            self.turns.append(len(self.answers) - before)
            commit(self.replica)
            due_ms = self.replica.next_deadline_ms
            if due_ms is None or due_ms > self.now_ms:
                return

    def advance(self, milliseconds: int) -> None:
        """Let time pass from deadline to deadline."""
        until_ms = self.now_ms + milliseconds
        self.turn()
        while (due_ms := self.replica.next_deadline_ms) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.turn()
        self.now_ms = until_ms
        self.turn()

    def set_image(self, new: MetadataImage) -> None:
        self.replica.on_metadata(new, self.now_ms)
        self.turn()

    def connect(self, software: tuple[str, str] = JAVA) -> Connection:
        return Connection(self, software)


class Connection:
    """One client's connection: one request at a time, and a further one frees the held answer."""

    def __init__(self, leader: Leader, software: tuple[str, str]) -> None:
        self.leader = leader
        self.holding = leader.held.of_client(*software)
        self.last_token = 0

    def send(self, api_key: int, version: int, body: Any) -> None:
        leader = self.leader
        if self.holding is not None:
            leader.held.end(self.holding, HoldEnd.REQUEST)
            leader.turn()
        request = self.request(api_key, version, body)
        submit = leader.replica.submit
        if self.holding is not None and api_key in self.holding.apis:
            submit = self.holding.submit
        answer = submit(request, leader.now_ms)
        if answer is not None:
            leader.release(request.token, answer)
        leader.turn()

    def request(self, api_key: int, version: int, body: Any) -> Request:
        """The connection's next request."""
        token = self.last_token = next(self.leader.tokens)
        self.leader.connections[token] = self
        return Request(token, api_key, version, "client", "/127.0.0.1", body)

    def answered(self, body: Any) -> None:
        if self.holding is not None and isinstance(body, ConsumerGroupHeartbeatResponse):
            self.holding.note(body)

    def close(self) -> None:
        if self.holding is not None:
            self.leader.held.forget(self.holding)

    @property
    def answer(self) -> Any | None:
        """The answer to the last request; None while it is owed."""
        return self.leader.answers.get(self.last_token)


class Member(Connection):
    """A KIP-848 member that acknowledges its partitions as soon as it is assigned them."""

    def __init__(self, leader: Leader, member_id: str, software: tuple[str, str] = JAVA) -> None:
        super().__init__(leader, software)
        self.member_id = member_id
        self.epoch = 0
        self.interval_ms = 0
        self.assigned: Any = None
        self.group_id = GROUP

    def join(self, instance_id: str | None = None) -> Any:
        return self.beat(
            0,
            instance_id=instance_id,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        )

    def beat(self, epoch: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat. Returns the answer; None while it is held."""
        epoch = self.epoch if epoch is None else epoch
        body = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, epoch, **fields)
        self.send(CONSUMER_GROUP_HEARTBEAT, 1, body)
        return self.answer

    def acknowledge(self) -> Any:
        return self.beat(topic_partitions=self.assigned)

    def answered(self, body: Any) -> None:
        super().answered(body)
        if not isinstance(body, ConsumerGroupHeartbeatResponse):
            return
        self.epoch, self.interval_ms = body.member_epoch, body.heartbeat_interval_ms
        if body.assignment is not None:
            self.assigned = body.assignment

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the partitions that the member was assigned."""
        return partitions.unpack(dict(self.assigned).get(TOPIC_ID, b""))


class ClassicMember(Connection):
    """A member of a classic group that sends nothing unless a test says so."""

    def __init__(
        self,
        leader: Leader,
        member_id: str,
        software: tuple[str, str] = JAVA,
        *,
        session_ms: int = 45_000,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(leader, software)
        self.member_id = member_id
        self.instance_id = instance_id
        self.session_ms = session_ms
        self.generation = -1

    def join(self) -> None:
        self.send(JOIN_GROUP, 3 if self.instance_id is None else 5, self.joining())

    def joining(self) -> JoinGroupRequest:
        protocols = (("range", b""),)
        return JoinGroupRequest(
            GROUP, self.session_ms, 60_000, self.member_id, self.instance_id, "consumer", protocols
        )

    def sync(self) -> None:
        body = SyncGroupRequest(GROUP, self.generation, self.member_id, self.instance_id, None, None, ())
        self.send(SYNC_GROUP, 3, body)

    def beat(self) -> Any:
        """Send a heartbeat. Returns the answer; None while it is held."""
        body = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id)
        self.send(HEARTBEAT, 3, body)
        return self.answer

    def answered(self, body: Any) -> None:
        self.generation = getattr(body, "generation_id", self.generation)
        self.member_id = getattr(body, "member_id", None) or self.member_id


def settle(leader: Leader, size: int, software: tuple[str, str] = JAVA) -> list[Member]:
    """Make a consumer group whose members know their interval and have all their partitions."""
    members = [Member(leader, f"m{number}", software) for number in range(size)]
    for member in members:
        member.join()
        leader.advance(1_000)  # the assignment interval is over: nobody waits for the next target
    return rest(leader, members)


def rest(leader: Leader, members: Iterable[Member]) -> list[Member]:
    """Exchange heartbeats until all members have acknowledged their partitions and all are answered."""
    listed = list(members)
    for _ in range(4):
        for member in listed:
            member.acknowledge()
        leader.advance(INTERVAL_MS)
    assert all(member.answer is not None for member in listed)
    return listed


def settle_classic(leader: Leader, size: int, software: tuple[str, str] = JAVA, **terms: Any) -> Any:
    """Make a Stable classic group whose members have sent one heartbeat each since, SPACING_MS ago."""
    members = [ClassicMember(leader, "", software, **terms) for _ in range(size)]
    rejoin(leader, members)
    for member in members:
        assert member.beat() is not None
    leader.advance(SPACING_MS)
    return members


def rejoin(leader: Leader, members: list[ClassicMember]) -> None:
    """Let all members join until they are of one generation, and sync."""
    for _ in range(3):
        for member in members:
            if member.answer is not None or not member.last_token:
                member.join()
        if all(member.answer is not None for member in members) and _is_one(members):
            break
    for member in reversed(members):
        member.sync()


def _is_one(members: list[ClassicMember]) -> bool:
    return len({member.generation for member in members}) == 1
