"""Requests that get somewhere: random entities whose ids are mostly those of groups, members and topics that
are there, so that what is broken in them breaks deep inside."""

from __future__ import annotations

import dataclasses
import random
import struct
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from actors.catalog.table import is_flexible
from actors.protocol import api_keys
from actors.protocol.entities import request_class
from actors.protocol.entity_schema import shapes
from actors.protocol.schema_classes import EXTENDED, made_classes
from tests.fuzz.distortions import LONGEST, Distortion, distorted
from tests.protocol.random_entities import kio_bytes, random_entity, request_head
from tests.topics.batches import batch, with_field

GROUPS = tuple(f"group-{number}" for number in range(14))
TOPICS = ("t0", "t1", "t2")
ATTRIBUTES_AT, TRANSACTIONAL = 21, 0x10
"""Where a batch says what it is, and the bit that says that it belongs to a transaction."""
SUBSCRIPTION = b"\0\3" + struct.pack(">i", 2) + b"\0\2t0\0\2t1" + b"\xff\xff\xff\xff" + bytes(4) + b"\xff" * 6
ASSIGNMENT = b"\0\0" + struct.pack(">i", 1) + b"\0\2t0" + struct.pack(">ii", 1, 0) + b"\xff\xff\xff\xff"
CONFIGS = ("retention.ms", "cleanup.policy", "consumer.session.timeout.ms", "message.max.bytes", "no.such")
FEATURES = ("group.version", "metadata.version", "transaction.version", "no.such")
NAMES: Mapping[str, tuple[str, ...]] = {
    "Protocol": ("range", "roundrobin"),
    "Config": CONFIGS,
    "User": ("u", "v"),
    "Scram": ("u", "v"),
}
"""What a `name` is, by a part of its entity's name; the others are names of topics."""
VALUES: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "OpData": {"key": ("producer_byte_rate", "request_percentage"), "value": (1_000.0, 0.5)},
    "AlterableConfig": {"value": ("1", "100000", "delete", "30000")},
    "CreatableTopicConfig": {"value": ("1", "100000", "delete")},
    "SaslHandshakeRequest": {"mechanism": ("PLAIN", "SCRAM-SHA-512")},
    "ScramCredentialUpsertion": {
        "mechanism": (2,),
        "salt": (b"salt" * 4,),
        "salted_password": (b"password" * 8,),
    },
    "ScramCredentialDeletion": {"mechanism": (1, 2)},
    "ClientAssignor": {
        "name": ("sticky", "sticky", "weighted"),
        "minimum_version": (0,),
        "maximum_version": (0, 1),
        "metadata_version": (0,),
        "reason": (0, 0, 1),
    },
}
"""Values of single entities' fields."""
PLAUSIBLE_SHARE = 0.85
LONGEST_SHARE = 0.005
"""Share of single strings that are as long as Kafka allows."""
MEMBERS_KNOWN_MAX = 64
PRODUCERS_KNOWN_MAX = 4
SESSIONS_KNOWN_MAX = 4
"""So few that sessions are gone on with: each has its own next epoch."""


def tagged_class(api_key: int, api_version: int) -> Any:
    """Return the class of a request, with the tagged fields of our own if it has any."""
    name = api_keys.NAMES[api_key]
    if name not in EXTENDED:
        return request_class(api_key, api_version)
    made = made_classes(name, api_version, "request")
    return getattr(made, f"{api_keys.SCHEMA_NAMES[api_key]}Request")


@dataclasses.dataclass
class Member:
    """What a member knows from the last answer that it got."""

    group_id: str
    member_id: str
    epoch: int


class Producer(NamedTuple):
    """A producer as InitProducerId made it, or EndTxn."""

    producer_id: int
    epoch: int
    transactional_id: str | None


class Known:
    """What somebody knows who listens to all answers."""

    def __init__(self, rng: random.Random, topic_ids: Callable[[], Sequence[uuid.UUID]]) -> None:
        self._rng = rng
        self._topic_ids = topic_ids
        self._members: dict[tuple[str, str], Member] = {}
        self._member = Member("", "", 0)
        self._fetch_sessions: deque[int] = deque([0], maxlen=SESSIONS_KNOWN_MAX)
        self._producers: deque[Producer] = deque([Producer(3, 0, None)], maxlen=PRODUCERS_KNOWN_MAX)
        self._producer = self._producers[0]
        self._values: dict[str, Callable[[], Any]] = {
            **self._of_groups(),
            **self._of_logs(),
            **self._of_transactions(),
            **self._of_administrators(),
        }

    def _of_groups(self) -> dict[str, Callable[[], Any]]:
        """Return how to draw the fields that belong to groups and their members."""
        rng = self._rng
        return {
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
            "consumer_id": lambda: rng.choice(("c1", "c2", "c3")),
            "streams": lambda: rng.choice((1, 1, 2, 0)),
            "auto_offset_reset": lambda: rng.choice(("smallest", "largest", "earliest")),
        }

    def _of_logs(self) -> dict[str, Callable[[], Any]]:
        """Return how to draw the fields that belong to topics and their logs."""
        rng = self._rng
        return {
            "topic_id": self._topic_id,
            "partition_index": lambda: rng.randrange(4),
            "partition": lambda: rng.randrange(4),
            "partitions": lambda: (0, 1),
            "partition_indexes": lambda: (0, 1),
            "num_partitions": lambda: rng.choice((-1, 0, 1, 3)),
            "count": lambda: rng.randrange(6),
            "replication_factor": lambda: rng.choice((-1, 1)),
            "index": lambda: rng.randrange(4),
            "broker_ids": lambda: (1,),
            "records": self._records,
            "acks": lambda: rng.choice((-1, -1, 1, 0)),
            "offset": lambda: rng.choice((-1, 0, 1)),
            "partition_max_bytes": lambda: 100_000,
            "last_fetched_epoch": lambda: rng.choice((-1, 0)),
            "replica_id": lambda: -1,
            "response_partition_limit": lambda: rng.choice((1, 2, 2_000)),
            "topic_name": lambda: rng.choice(TOPICS),
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
        }

    def _of_transactions(self) -> dict[str, Callable[[], Any]]:
        """Return how to draw the fields that belong to transactions, and filters of lists."""
        rng = self._rng
        return {
            "transactional_id": lambda: rng.choice(
                (None, "tx-1", "tx-2", *[self._producer.transactional_id] * 3)
            ),
            "producer_id": lambda: self._producer.producer_id,
            "producer_epoch": lambda: self._producer.epoch,
            "transaction_timeout": lambda: timedelta(milliseconds=rng.choice((1_000, 60_000))),
            "transactional_ids": lambda: rng.choice(((), ("tx-1",), ("tx-1", "tx-2"))),
            "transactional_id_pattern": lambda: rng.choice((None, "", "tx.*", "(")),
            "producer_id_filters": lambda: rng.choice(((), (self._producer.producer_id,))),
            "duration_filter": lambda: rng.choice((-1, 0, 1_000)),
            "state_filters": lambda: rng.choice(((), ("Ongoing",), ("Empty", "nothing"))),
            "states_filter": lambda: rng.choice(((), ("Stable",), ("Empty", "nothing"))),
            "types_filter": lambda: rng.choice(((), ("classic",), ("Consumer", "nothing"))),
        }

    def _of_administrators(self) -> dict[str, Callable[[], Any]]:
        """Return how to draw the fields that belong to what administrators ask."""
        rng = self._rng
        return {
            "feature": lambda: rng.choice(FEATURES),
            "max_version_level": lambda: rng.choice((0, 1, 1, 2, 33)),
            "upgrade_type": lambda: rng.choice((1, 1, 2, 3)),
            "election_type": lambda: rng.randrange(2),
            "entity_type": lambda: rng.choice(("user", "client-id", "ip")),
            "entity_name": lambda: rng.choice((None, "u", "127.0.0.1")),
            "match_type": lambda: rng.randrange(3),
            "match": lambda: rng.choice((None, "u")),
            "config_operation": lambda: rng.choice((0, 0, 1, 2, 3)),
            "configuration_keys": lambda: rng.choice((None, (), CONFIGS[:2], CONFIGS[-2:])),
            "resource_types": lambda: rng.choice(((), (2,), (2, 4, 16, 32))),
            "endpoint_type": lambda: 1,
            "resource_type_filter": lambda: rng.choice((1, 2, 3)),
            "pattern_type_filter": lambda: rng.choice((1, 2, 3)),
            "resource_pattern_type": lambda: rng.choice((3, 4)),
            "operation": lambda: rng.choice((2, 3, 8)),
            "permission_type": lambda: rng.choice((2, 3)),
            "principal": lambda: "User:u",
            "host": lambda: "*",
            "iterations": lambda: 4_096,
            "client_software_name": lambda: "fuzz",
            "client_software_version": lambda: "1",
            "cluster_id": lambda: None,
            "resource_type": lambda: rng.choice((2, 4, 32)),
            "resource_name": lambda: rng.choice((*TOPICS, *GROUPS, "1", "")),
        }

    def learn(self, request: Any, answer: Any) -> None:
        """Member ids and epochs in the answer to a join or a heartbeat (of the consumer protocol); fetch
        sessions."""
        if getattr(answer, "session_id", 0):
            self._fetch_sessions.append(answer.session_id)
        if getattr(answer, "producer_id", -1) >= 0:
            named = getattr(request, "transactional_id", self._producer.transactional_id)
            self._producers.append(Producer(answer.producer_id, answer.producer_epoch, named))
        group_id, member_id = getattr(request, "group_id", None), getattr(answer, "member_id", None)
        epoch = getattr(answer, "generation_id", getattr(answer, "member_epoch", None))
        if group_id and member_id and epoch is not None:
            self._members[group_id, member_id] = Member(group_id, member_id, max(epoch, 0))
            while len(self._members) > MEMBERS_KNOWN_MAX:
                del self._members[next(iter(self._members))]

    def frame(self, api_key: int, api_version: int, correlation_id: int) -> tuple[Any, bytes]:
        """A request and its frame, without the length prefix."""
        entity = self.entity(api_key, api_version)
        return entity, request_head(api_key, api_version, correlation_id) + kio_bytes(entity)

    def entity(self, api_key: int, api_version: int) -> Any:
        """A request of a member and a producer that are there, most often."""
        rng = self._rng
        self._member = Member(rng.choice(GROUPS), rng.choice(("", "m-1", "m-2")), 0)
        self._producer = rng.choice(self._producers)
        if self._members and rng.random() < 0.8:
            self._member = self._members[rng.choice(list(self._members))]
        return self._plausible(random_entity(rng, tagged_class(api_key, api_version)))

    def distorted_frame(
        self, api_key: int, api_version: int, correlation_id: int, distortion: Distortion
    ) -> tuple[Any, bytes]:
        """The same with one field made wrong."""
        flexible = is_flexible(api_key, api_version)
        right = self.entity(api_key, api_version)
        entity, body = distorted(self._rng, right, distortion, flexible)
        return entity, request_head(api_key, api_version, correlation_id) + body

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
            names = next((names for part, names in NAMES.items() if part in owner), TOPICS)
            return {shape.name: (rng.choice(names),) if shape.is_array else rng.choice(names)}
        if shape.name in ("groups", "groups_names", "group_ids", "coordinator_keys"):
            return {shape.name: tuple(rng.sample(GROUPS, rng.randint(0, 4)))}
        if owner in VALUES and shape.name in VALUES[owner]:
            return {shape.name: rng.choice(VALUES[owner][shape.name])}
        make = self._values.get(shape.name.removeprefix("v3_and_below_"))
        if make is None:
            return {}
        value = make()
        fits = isinstance(value, tuple) == shape.is_array and (value is not None or shape.nullable)
        is_time = isinstance(value, timedelta)
        return {shape.name: value} if fits and is_time == shape.kafka_type.startswith("timedelta") else {}

    def _records(self) -> bytes:
        """A batch: of nobody, of the producer, or of its transaction."""
        producer_id, epoch, _ = self._producer
        sequence = self._rng.choice((0, 0, 1, 2))
        own = batch(b"y", producer_id=producer_id, epoch=epoch, sequence=sequence)
        transactional = with_field(own, ATTRIBUTES_AT, ">h", TRANSACTIONAL)
        return self._rng.choice((batch(b"one", b"two"), batch(b"x" * 200), own, transactional))

    def _session_timeout(self) -> timedelta:
        return timedelta(milliseconds=self._rng.choice((6_000, 10_000, 30_000, 1_800_000)))

    def _topic_id(self) -> uuid.UUID | None:
        topic_ids = self._topic_ids()
        return self._rng.choice(topic_ids) if topic_ids else None
