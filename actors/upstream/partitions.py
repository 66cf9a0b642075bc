"""The part of the upstream's metadata that decides about leaders, with the names of Kafka's records."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class PartitionState(Protocol):
    """A partition, as PartitionRecord and PartitionChangeRecord leave it."""

    @property
    def replicas(self) -> tuple[int, ...]: ...
    @property
    def isr(self) -> tuple[int, ...]: ...
    @property
    def removing_replicas(self) -> tuple[int, ...]: ...
    @property
    def adding_replicas(self) -> tuple[int, ...]: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...


class BrokerState(Protocol):
    """A broker, as RegisterBrokerRecord and BrokerRegistrationChangeRecord leave it."""

    @property
    def broker_epoch(self) -> int: ...
    @property
    def fenced(self) -> bool: ...
    @property
    def in_controlled_shutdown(self) -> bool: ...
    @property
    def log_dirs(self) -> tuple[bytes, ...]: ...
    @property
    def cordoned_log_dirs(self) -> tuple[bytes, ...]: ...


class RaftLeader(NamedTuple):
    """Who leads an offsets partition of ours, and the brokers on which its replicas are."""

    broker_id: int
    term: int
    replicas: tuple[int, ...]
    """The broker ids of the nodes that have a replica, the leader's among them."""


class Stray(NamedTuple):
    """A partition of a topic that is not ours, some replicas of which are on nodes of the tier."""

    topic: str
    topic_id: bytes
    partition_index: int
    state: PartitionState


class Facts(NamedTuple):
    """What is known at one moment."""

    metadata_offset: int
    """The last offset of the upstream's metadata that was read: all states here are those of that offset."""
    topic: str
    """The topic whose partitions are ours: __consumer_offsets."""
    topic_id: bytes
    partitions: Mapping[int, PartitionState]
    leaders: Mapping[int, RaftLeader]
    """Our leaders, of those partitions that the tier coordinates; others are left alone."""
    brokers: Mapping[int, BrokerState]
    """All registered brokers by id."""
    tier: frozenset[int]
    """The broker ids of the tier's nodes."""
    dead: frozenset[int] = frozenset()
    """The tier's nodes that are known to be dead: not those that are only slow to answer."""
    strays: tuple[Stray, ...] = ()
    can_cordon: bool = False
    """Whether log directories can be cordoned (`controller.may_cordon`)."""
    refuses_cordoned: bool = False
    """Whether assignments by hand to cordoned brokers are refused (`levels.refuses_cordoned`)."""
    uncordoned: frozenset[int] = frozenset()
    """The tier's nodes that are to be uncordoned for as long as partitions are moved to them."""


def live_brokers(brokers: Mapping[int, BrokerState]) -> frozenset[int]:
    """Return the brokers that can lead."""
    return frozenset(
        broker_id
        for broker_id, broker in brokers.items()
        if not broker.fenced and not broker.in_controlled_shutdown
    )
