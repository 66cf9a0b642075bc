"""A consumer group as replicated: members, epochs, target and current assignments, and what follows.

Only the appliers of `consumer_apply` call the `set_...` methods. Each is total, gives back the value it
replaced, and keeps the derived indexes exact, so that putting the replaced values back newest first
restores the group: who holds a partition (M12), subscriptions and their topics (M6, M10), assignor votes
(M7), static instances (M21), members settled per epoch (M23).
"""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TypeVar

from actors.coordinator.partitions import EMPTY, unpack
from actors.coordinator.records import (
    ConsumerGroupValue,
    ConsumerMemberValue,
    CurrentAssignmentValue,
    RegularExpressionValue,
    TargetMemberValue,
    TargetMetadataValue,
    TopicPartitions,
)
from actors.protocol.messages import ConsumerGroupHeartbeatResponse

_K = TypeVar("_K")

STABLE = 0
UNREVOKED_PARTITIONS = 1
UNRELEASED_PARTITIONS = 2

LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

SESSION_TIMER = "consumer-session"
REBALANCE_TIMER = "consumer-rebalance"

NOT_JOINED = CurrentAssignmentValue(0, 0, STABLE, EMPTY, EMPTY)
"""The current assignment of a member that has no record of one."""
NO_IMAGE_VERSION = -1

PARTITION_NUMBER_MAX = 1_000_000
"""Holders of partitions beyond are not counted: no topic is that wide, and a record must not make the
counter's array arbitrarily large."""


class Subscription:
    """One distinct (names, regex) pair and how many members have it. Groups of like members share one."""

    __slots__ = ("key", "member_count", "resolved")

    def __init__(self, key: tuple[tuple[str, ...], str]) -> None:
        self.key = key
        self.member_count = 0
        self.resolved: tuple[int, tuple[str, ...], frozenset[bytes]] | None = None
        """Volatile: (image version, topics of the regex, topic ids) of the last resolution."""


class ConsumerMember:
    """What the records say of one member id. `metadata` None: it is no member (yet, or any more)."""

    __slots__ = (
        "current",
        "metadata",
        "rebalance_key",
        "session_key",
        "steady_answer",
        "subscription",
        "target",
    )

    def __init__(self, group_id: str, member_id: str) -> None:
        self.metadata: ConsumerMemberValue | None = None
        self.current: CurrentAssignmentValue | None = None
        self.target: TopicPartitions | None = None
        self.subscription: Subscription | None = None
        self.session_key = (SESSION_TIMER, group_id, member_id)
        self.rebalance_key = (REBALANCE_TIMER, group_id, member_id)
        self.steady_answer: ConsumerGroupHeartbeatResponse | None = None
        """Volatile: the last answer to a steady heartbeat, most often also the next."""


class Holders:
    """How many members hold each partition of one topic, assigned or still to be revoked."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = array("i")
        self.total = 0

    def add(self, packed: bytes, change: int) -> None:
        counts = self.counts
        for partition in unpack(packed):
            if not 0 <= partition <= PARTITION_NUMBER_MAX:
                continue
            if partition >= len(counts):
                counts.frombytes(bytes((partition + 1 - len(counts)) * counts.itemsize))
            counts[partition] += change
            self.total += change

    def of(self, partition: int) -> int:
        return self.counts[partition] if 0 <= partition < len(self.counts) else 0


class ConsumerGroup:
    """One KIP-848 group. See the module's docstring for who may change it."""

    __slots__ = (
        "assignment_epoch",
        "checked_image_version",
        "group_epoch",
        "group_id",
        "holders",
        "members",
        "metadata",
        "rebalance_epochs",
        "regexes",
        "settled",
        "size",
        "static_ids",
        "subscriptions",
        "target_metadata",
        "topic_counts",
        "votes",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.metadata: ConsumerGroupValue | None = None
        self.target_metadata: TargetMetadataValue | None = None
        self.members: dict[str, ConsumerMember] = {}
        self.regexes: dict[str, RegularExpressionValue] = {}

        # Derived from the above, inside apply.
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.size = 0
        """Members that have metadata."""
        self.subscriptions: dict[tuple[tuple[str, ...], str], Subscription] = {}
        self.topic_counts: dict[str, int] = {}
        """Distinct subscriptions that name the topic."""
        self.static_ids: dict[str, tuple[str, ...]] = {}
        """Member ids by instance id, sorted; one save in the middle of a replacement."""
        self.votes: dict[str, int] = {}
        self.settled: dict[int, int] = {}
        """Members that are STABLE, by member epoch."""
        self.holders: dict[bytes, Holders] = {}

        # Volatile.
        self.checked_image_version = NO_IMAGE_VERSION
        """Image version against which metadata hash and regexes were last checked (M6, A21)."""
        self.rebalance_epochs: dict[str, int] = {}
        """Member epoch for which the rebalance timer runs (M16)."""

    def drop_volatile(self) -> None:
        self.checked_image_version = NO_IMAGE_VERSION
        self.rebalance_epochs.clear()
        for subscription in self.subscriptions.values():
            subscription.resolved = None
        for member in self.members.values():
            member.steady_answer = None

    @property
    def blank(self) -> bool:
        """No record is left."""
        return not (self.members or self.regexes or self.metadata or self.target_metadata)

    @property
    def state_name(self) -> str:
        """M23, in O(1)."""
        if self.size == 0:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if self.settled.get(self.assignment_epoch, 0) < self.size:
            return "Reconciling"
        return "Stable"

    def member(self, member_id: str) -> ConsumerMember | None:
        found = self.members.get(member_id)
        return found if found is not None and found.metadata is not None else None

    def static_member_id(self, instance_id: str) -> str | None:
        ids = self.static_ids.get(instance_id)
        return ids[0] if ids else None

    def is_held(self, topic_id: bytes, partition: int) -> bool:
        """M12: a member was given the partition and has not let go of it."""
        holders = self.holders.get(topic_id)
        return holders is not None and holders.of(partition) > 0

    # Appliers' methods.

    def set_metadata(self, value: ConsumerGroupValue | None) -> ConsumerGroupValue | None:
        replaced, self.metadata = self.metadata, value
        self.group_epoch = 0 if value is None else value.group_epoch
        return replaced

    def set_target_metadata(self, value: TargetMetadataValue | None) -> TargetMetadataValue | None:
        replaced, self.target_metadata = self.target_metadata, value
        self.assignment_epoch = 0 if value is None else value.assignment_epoch
        return replaced

    def set_regex(self, regex: str, value: RegularExpressionValue | None) -> RegularExpressionValue | None:
        replaced = self.regexes.pop(regex, None)
        if value is not None:
            self.regexes[regex] = value
        return replaced

    def set_member(self, member_id: str, value: ConsumerMemberValue | None) -> ConsumerMemberValue | None:
        member = self._slot(member_id)
        replaced = member.metadata
        self._settle(member, -1)
        if replaced is not None:
            self._unlink(member_id, member, replaced)
        member.metadata = value
        if value is not None:
            self._link(member_id, member, value)
        self._settle(member, 1)
        self._drop_if_blank(member_id, member)
        return replaced

    def set_target(self, member_id: str, value: TargetMemberValue | None) -> TargetMemberValue | None:
        member = self._slot(member_id)
        replaced = None if member.target is None else TargetMemberValue(member.target)
        member.target = None if value is None else value.topic_partitions
        self._drop_if_blank(member_id, member)
        return replaced

    def set_current(
        self, member_id: str, value: CurrentAssignmentValue | None
    ) -> CurrentAssignmentValue | None:
        member = self._slot(member_id)
        replaced = member.current
        self._settle(member, -1)
        old, new = replaced or NOT_JOINED, value or NOT_JOINED
        if old.assigned != new.assigned or old.pending_revocation != new.pending_revocation:
            self._hold(old, -1)
            self._hold(new, 1)
        member.current = value
        self._settle(member, 1)
        self._drop_if_blank(member_id, member)
        return replaced

    def _slot(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ConsumerMember(self.group_id, member_id)
        return member

    def _drop_if_blank(self, member_id: str, member: ConsumerMember) -> None:
        if member.metadata is None and member.current is None and member.target is None:
            del self.members[member_id]

    def _settle(self, member: ConsumerMember, change: int) -> None:
        current = member.current
        if member.metadata is not None and current is not None and current.state == STABLE:
            _count(self.settled, current.member_epoch, change)

    def _hold(self, value: CurrentAssignmentValue, change: int) -> None:
        for topic_id, packed in chain(value.assigned, value.pending_revocation):
            holders = self.holders.get(topic_id)
            if holders is None:
                holders = self.holders[topic_id] = Holders()
            holders.add(packed, change)
            if holders.total == 0:
                del self.holders[topic_id]

    def _link(self, member_id: str, member: ConsumerMember, value: ConsumerMemberValue) -> None:
        self.size += 1
        key = (value.subscribed_topic_names, value.subscribed_topic_regex)
        subscription = self.subscriptions.get(key)
        if subscription is None:
            subscription = self.subscriptions[key] = Subscription(key)
            for name in key[0]:
                _count(self.topic_counts, name, 1)
        subscription.member_count += 1
        member.subscription = subscription
        if value.server_assignor is not None:
            _count(self.votes, value.server_assignor, 1)
        if value.instance_id is not None:
            ids = self.static_ids.get(value.instance_id, ())
            self.static_ids[value.instance_id] = tuple(sorted({*ids, member_id}))

    def _unlink(self, member_id: str, member: ConsumerMember, value: ConsumerMemberValue) -> None:
        self.size -= 1
        subscription = member.subscription
        assert subscription is not None, (self.group_id, member_id)
        subscription.member_count -= 1
        member.subscription = None
        if subscription.member_count == 0:
            del self.subscriptions[subscription.key]
            for name in subscription.key[0]:
                _count(self.topic_counts, name, -1)
        if value.server_assignor is not None:
            _count(self.votes, value.server_assignor, -1)
        if value.instance_id is not None:
            ids = tuple(i for i in self.static_ids.get(value.instance_id, ()) if i != member_id)
            if ids:
                self.static_ids[value.instance_id] = ids
            else:
                self.static_ids.pop(value.instance_id, None)


def _count(counts: dict[_K, int], key: _K, change: int) -> None:
    number = counts.get(key, 0) + change
    if number:
        counts[key] = number
    else:
        counts.pop(key, None)
