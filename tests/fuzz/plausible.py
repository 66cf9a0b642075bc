"""Requests that get somewhere: random entities whose ids are mostly those of groups, members and topics that
are there, so that what is broken in them breaks deep inside."""

from __future__ import annotations

import dataclasses
import random
import struct
import uuid
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from actors.protocol.entities import request_class
from actors.protocol.entity_schema import shapes
from tests.fuzz.stack import Stack
from tests.protocol.random_entities import kio_bytes, random_entity, request_head
from tests.topics.batches import batch

GROUPS = tuple(f"group-{number}" for number in range(14))
TOPICS = ("t0", "t1", "t2")
SUBSCRIPTION = b"\0\3" + struct.pack(">i", 2) + b"\0\2t0\0\2t1" + b"\xff\xff\xff\xff" + bytes(4) + b"\xff" * 6
ASSIGNMENT = b"\0\0" + struct.pack(">i", 1) + b"\0\2t0" + struct.pack(">ii", 1, 0) + b"\xff\xff\xff\xff"
PLAUSIBLE_SHARE = 0.85
LONGEST = "l" * 32_767
LONGEST_SHARE = 0.005
"""Share of single strings that are as long as Kafka allows."""
MEMBERS_KNOWN_MAX = 64
SESSIONS_KNOWN_MAX = 4
"""So few that sessions are gone on with: each has its own next epoch."""


@dataclasses.dataclass
class Member:
    """What a member knows from the last answer that it got."""

    group_id: str
    member_id: str
    epoch: int


class Known:
    """What somebody knows who listens to all answers."""

    def __init__(self, rng: random.Random, stack: Stack) -> None:
        self._rng = rng
        self._stack = stack
        self._members: dict[tuple[str, str], Member] = {}
        self._member = Member("", "", 0)
        self._fetch_sessions: deque[int] = deque([0], maxlen=SESSIONS_KNOWN_MAX)
        self._batches = [
            batch(b"one", b"two"),
            batch(b"x" * 200),
            batch(b"y", producer_id=3, epoch=0, sequence=0),
        ]
        self._values: dict[str, Callable[[], Any]] = {
            "session_timeout": self._session_timeout,
            "rebalance_timeout": self._session_timeout,
            "member_id": lambda: self._member.member_id,
            "generation_id": lambda: self._member.epoch,
            "generation_id_or_member_epoch": lambda: self._member.epoch,
            "member_epoch": lambda: rng.choice((self._member.epoch, self._member.epoch, 0, 0, -1, -2)),
            "group_id": lambda: self._member.group_id,
            "group_instance_id": lambda: rng.choice((None, None, "i1", "i2")),
            "instance_id": lambda: rng.choice((None, None, "i1", "i2")),
            "protocol_type": lambda: rng.choice(("consumer", "consumer", "connect")),
            "protocol_name": lambda: "range",
            "metadata": lambda: SUBSCRIPTION,
            "assignment": lambda: ASSIGNMENT,
            "subscribed_topic_names": lambda: tuple(rng.sample(TOPICS, rng.randint(0, 3))),
            "subscribed_topic_regex": lambda: rng.choice((None, None, "", "t.*", "(", "t[0-1]")),
            "server_assignor": lambda: rng.choice((None, "uniform", "range", "nobody")),
            "topic_id": self._topic_id,
            "partition_index": lambda: rng.randrange(4),
            "partition": lambda: rng.randrange(4),
            "partitions": lambda: (0, 1),
            "partition_indexes": lambda: (0, 1),
            "num_partitions": lambda: rng.choice((-1, 0, 1, 3)),
            "count": lambda: rng.randrange(6),
            "replication_factor": lambda: rng.choice((-1, 1)),
            "records": lambda: rng.choice(self._batches),
            "fetch_offset": lambda: rng.randrange(3),
            "session_id": lambda: rng.choice(self._fetch_sessions),
            "session_epoch": lambda: rng.choice((-1, 0, 0, 1, 1, 2, 3)),
            "current_leader_epoch": lambda: rng.choice((-1, -1, 0, 1)),
            "leader_epoch": lambda: rng.choice((-1, 0, 0, 1)),
            "timestamp": lambda: rng.choice((*range(-7, 0), 0, 1_001)),
            "isolation_level": lambda: rng.choice((0, 1)),
            "max_wait_ms": lambda: rng.choice((0, 0, 500)),
            "max_wait": lambda: timedelta(milliseconds=rng.choice((0, 0, 500))),
            "timeout": lambda: timedelta(milliseconds=rng.choice((0, 500))),
            "key": lambda: rng.choice(GROUPS),
            "key_type": lambda: rng.randrange(3),
            "transactional_id": lambda: rng.choice((None, "tx-1", "tx-2")),
            "producer_id": lambda: rng.randrange(4),
            "producer_epoch": lambda: rng.randrange(2),
            "resource_type": lambda: rng.choice((2, 4, 32)),
            "resource_name": lambda: rng.choice((*TOPICS, *GROUPS, "1", "")),
        }

    def learn(self, request: Any, answer: Any) -> None:
        """Member ids and epochs in the answer to a join or a heartbeat (of the consumer protocol); fetch
        sessions."""
        if getattr(answer, "session_id", 0):
            self._fetch_sessions.append(answer.session_id)
        group_id, member_id = getattr(request, "group_id", None), getattr(answer, "member_id", None)
        epoch = getattr(answer, "generation_id", getattr(answer, "member_epoch", None))
        if group_id and member_id and epoch is not None:
            self._members[group_id, member_id] = Member(group_id, member_id, max(epoch, 0))
            while len(self._members) > MEMBERS_KNOWN_MAX:
                del self._members[next(iter(self._members))]

    def frame(self, api_key: int, api_version: int, correlation_id: int) -> tuple[Any, bytes]:
        """A request and its frame, without the length prefix."""
        rng = self._rng
        self._member = Member(rng.choice(GROUPS), rng.choice(("", "m-1", "m-2")), 0)
        if self._members and rng.random() < 0.8:
            self._member = self._members[rng.choice(list(self._members))]
        entity = self._plausible(random_entity(rng, request_class(api_key, api_version)))
        return entity, request_head(api_key, api_version, correlation_id) + kio_bytes(entity)

    def _plausible(self, entity: Any) -> Any:
        changes: dict[str, Any] = {}
        for shape in shapes(type(entity)):
            value = getattr(entity, shape.name)
            if shape.entity is not None:
                parts = value if shape.is_array else (value,)
                if value is not None:
                    nested = tuple(None if part is None else self._plausible(part) for part in parts)
                    changes[shape.name] = nested if shape.is_array else nested[0]
            elif self._rng.random() < PLAUSIBLE_SHARE:
                changes |= self._better(type(entity).__name__, shape)
        return dataclasses.replace(entity, **changes)

    def _better(self, owner: str, shape: Any) -> dict[str, Any]:
        """A plausible value for a field, if there is one for its name and it fits its type."""
        rng = self._rng
        if shape.kafka_type == "string" and not shape.is_array and rng.random() < LONGEST_SHARE:
            return {shape.name: LONGEST}
        if shape.name in ("name", "topic", "topics", "topic_names") and shape.kafka_type == "string":
            names = ("range", "roundrobin") if "Protocol" in owner else TOPICS
            return {shape.name: (rng.choice(names),) if shape.is_array else rng.choice(names)}
        if shape.name in ("groups", "groups_names", "group_ids", "coordinator_keys"):
            return {shape.name: tuple(rng.sample(GROUPS, rng.randint(0, 4)))}
        make = self._values.get(shape.name)
        if make is None:
            return {}
        value = make()
        fits = isinstance(value, tuple) == shape.is_array and (value is not None or shape.nullable)
        is_time = isinstance(value, timedelta)
        return {shape.name: value} if fits and is_time == shape.kafka_type.startswith("timedelta") else {}

    def _session_timeout(self) -> timedelta:
        return timedelta(milliseconds=self._rng.choice((6_000, 10_000, 30_000, 1_800_000)))

    def _topic_id(self) -> Any:
        topics = [topic for topic in self._stack.broker._apis.image.topics.values() if topic.name in TOPICS]
        return uuid.UUID(bytes=self._rng.choice(topics).topic_id) if topics else None
