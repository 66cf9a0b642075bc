"""A consumer group as replicated: members, epochs, target and current assignments, and what follows.

Only the appliers of `consumer_apply` call the `set_...` methods. Each is total, gives back the value it
replaced, and keeps the derived indexes exact, so that putting the replaced values back newest first
restores the group: who holds a partition (M12), subscriptions and their topics (M6, M10), assignor votes
(M7), static instances (M21), reconciled members (M23).

Most groups are small, idle and plain: what few of them need is `NONE` in the others (`sparse`), and who holds
what is counted only while it matters.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple, Protocol

from actors.coordinator.consumer.model.member import (
    STABLE,
    ConsumerMember,
    Subscribed,
    Subscription,
)
from actors.coordinator.ground.alike import shared
from actors.coordinator.ground.batching import Storm
from actors.coordinator.ground.partitions import EMPTY, unpack
from actors.coordinator.ground.sparse import NONE, count, put
from actors.ground.records import (
    ClientAssignmentValue,
    ClientAssignor,
    ClientAssignorsValue,
    ConsumerGroupValue,
    ConsumerMemberValue,
    CurrentAssignmentValue,
    RegularExpressionValue,
    TargetMemberValue,
    TargetMetadataValue,
)

LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

REGEX_TIMER = "consumer-regex"

NOT_JOINED = CurrentAssignmentValue(0, 0, STABLE, EMPTY, EMPTY)
"""The current assignment of a member that has no record of one."""
FIRST_EPOCH = 1
"""The epoch of a group whose first member brings no subscription (M2 and M5)."""
NEVER_MS = 0
"""The time of a target that nobody computed: it is long ago, so that the next one is not delayed (M8)."""
NO_IMAGE_VERSION = -1
NO_TOPICS_HASH = 0

PARTITION_NUMBER_MAX = 1_000_000
"""Holders of partitions beyond are not counted: no topic is that wide, and a record must not make the
counter's array arbitrarily large."""


class EffectiveGroupSettings(NamedTuple):
    """What is in force for one group (A19)."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


NO_SETTINGS = EffectiveGroupSettings(0, 0, 0)


class TargetArrays(Protocol):
    """The group as the assignors take it (`consumer.target_arrays`), as far as the group has to know."""

    def note(self, member_id: str) -> bool:
        """The member's record has changed. False: the arrays are of no use any more."""


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
        "_holders",
        "_storm",
        "_subscriptions",
        "_target_ms",
        "assignment_epoch",
        "checked_image_version",
        "client_assignments",
        "client_assignors",
        "group_epoch",
        "group_id",
        "members",
        "metadata",
        "rebalance_epochs",
        "reconciled_count",
        "regex_counts",
        "regexes",
        "settings",
        "size",
        "static_ids",
        "target_arrays",
        "topic_counts",
        "votes",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.metadata: ConsumerGroupValue | None = None
        self._target_ms: int | None = None
        """When the target was computed, None if there is no record of one; `assignment_epoch` is its
        epoch."""
        self.members: dict[str, ConsumerMember] = {}
        self.regexes: Mapping[str, RegularExpressionValue] = NONE
        self.client_assignors: Mapping[str, tuple[ClientAssignor, ...]] = NONE
        """Member id -> the assignors that it brings, of members that bring any (A4)."""
        self.client_assignments: Mapping[str, ClientAssignmentValue] = NONE
        """Member id -> what such an assignor has for the member beside partitions (A7)."""

        # Derived from the above, inside apply.
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.size = 0
        """Members that have metadata."""
        self._subscriptions: Subscription | dict[Subscribed, Subscription] | None = None
        """What members subscribe to; most groups have one subscription, for which a dict is too large."""
        self.topic_counts: Mapping[str, int] = NONE
        """Distinct subscriptions that name the topic; not counted while there is only one."""
        self.static_ids: Mapping[str, tuple[str, ...]] = NONE
        """Member ids by instance id, sorted; one save in the middle of a replacement."""
        self.regex_counts: Mapping[str, int] = NONE
        """How many distinct subscriptions have each regular expression."""
        self.votes: Mapping[str, int] = NONE
        self.reconciled_count = 0
        """How many members are STABLE at the assignment epoch."""
        self._holders: dict[bytes, Holders] | None = None
        """The holders of partitions; None if nobody has asked since all members were last reconciled."""

        # Volatile.
        self.checked_image_version = NO_IMAGE_VERSION
        """Image version against which metadata hash and regexes were last checked (M6, A21)."""
        self.rebalance_epochs: Mapping[str, int] = NONE
        """Member epoch for which the rebalance timer runs (M16)."""
        self.settings = NO_SETTINGS
        """What was in force at `checked_image_version`."""
        self.target_arrays: TargetArrays | None = None
        """The members as the assignors take them, once a target of a big group was computed here."""
        self._storm: Storm | None = None

    def drop_volatile(self) -> None:
        self._storm = None
        self._holders = None
        self.checked_image_version = NO_IMAGE_VERSION
        self.rebalance_epochs = NONE
        self.target_arrays = None
        for subscription in self.subscriptions.values():
            subscription.resolved = None

    @property
    def target_metadata(self) -> TargetMetadataValue | None:
        at_ms = self._target_ms
        return None if at_ms is None else TargetMetadataValue(self.assignment_epoch, at_ms)

    @property
    def subscriptions(self) -> Mapping[Subscribed, Subscription]:
        """The distinct subscriptions of its members. Whoever asks for one of them asks `subscription`."""
        kept = self._subscriptions
        if isinstance(kept, dict):
            return kept
        return NONE if kept is None else {kept.key: kept}

    def subscription(self, key: Subscribed) -> Subscription | None:
        """The subscription to these topics, None if no member has it."""
        kept = self._subscriptions
        if isinstance(kept, dict):
            return kept.get(key)
        return kept if kept is not None and kept.key == key else None

    @property
    def topic_names(self) -> Iterable[str]:
        """Names of topics that members name in their subscriptions, each once."""
        kept = self._subscriptions
        return dict.fromkeys(kept.key[0]) if isinstance(kept, Subscription) else self.topic_counts

    @property
    def storm(self) -> Storm:
        """The recent targets; each counts as a rebalance that is over as soon as it begins."""
        if self._storm is None:
            self._storm = Storm()
        return self._storm

    @property
    def holders(self) -> Mapping[bytes, Holders]:
        """Topic id -> how many members hold each partition."""
        if self._holders is None:
            self._holders = {}
            for member in self.members.values():
                self._hold(self._holders, member.current or NOT_JOINED, 1)
        return self._holders

    def start_revoking(self, member_id: str, member_epoch: int) -> None:
        """The member's rebalance timer starts to run (M16)."""
        self.rebalance_epochs = put(self.rebalance_epochs, member_id, member_epoch)

    def stop_revoking(self, member_id: str) -> int | None:
        """Returns the epoch for which the member's rebalance timer ran, None if it did not."""
        epoch = self.rebalance_epochs.get(member_id)
        if epoch is not None:
            self.rebalance_epochs = put(self.rebalance_epochs, member_id, None)
        return epoch

    @property
    def blank(self) -> bool:
        """Whether no record of the group is left."""
        has_own = self.client_assignors or self.client_assignments
        return not (self.members or self.regexes or self.metadata or self.target_metadata or has_own)

    @property
    def state_name(self) -> str:
        """Kafka's name of the state (M23), in O(1)."""
        if self.size == 0:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if self.reconciled_count < self.size:
            return "Reconciling"
        return "Stable"

    @property
    def metadata_hash(self) -> int:
        """The hash of the subscribed topics when the group epoch was last looked at (M6)."""
        return NO_TOPICS_HASH if self.metadata is None else self.metadata.metadata_hash

    def member(self, member_id: str) -> ConsumerMember | None:
        found = self.members.get(member_id)
        return found if found is not None and found.terms is not None else None

    def static_member_id(self, instance_id: str) -> str | None:
        ids = self.static_ids.get(instance_id)
        return ids[0] if ids else None

    def is_held(self, topic_id: bytes, partition: int) -> bool:
        """M12: a member was given the partition and has not let go of it."""
        holders = self.holders.get(topic_id)
        return holders is not None and holders.of(partition) > 0

    # Appliers' methods.

    def set_metadata(self, value: ConsumerGroupValue | None) -> ConsumerGroupValue | None:
        replaced, self.metadata = self.metadata, None if value is None else shared(value)
        self.group_epoch = 0 if value is None else value.group_epoch
        return replaced

    def set_target_metadata(self, value: TargetMetadataValue | None) -> TargetMetadataValue | None:
        replaced = self.target_metadata
        epoch, self._target_ms = (0, None) if value is None else value
        if epoch != self.assignment_epoch:
            self.assignment_epoch, self.reconciled_count = epoch, 0
            for member in self.members.values():
                self._count_reconciled(member, 1)
        return replaced

    def set_regex(self, regex: str, value: RegularExpressionValue | None) -> RegularExpressionValue | None:
        replaced = self.regexes.get(regex)
        # A regex that is there already moves to the end: the order is that of the last resolution.
        self.regexes = put(put(self.regexes, regex, None), regex, value)
        return replaced

    def set_client_assignors(
        self, member_id: str, value: ClientAssignorsValue | None
    ) -> ClientAssignorsValue | None:
        replaced = self.client_assignors.get(member_id)
        brought = None if value is None else tuple(ClientAssignor(*each) for each in value.assignors)
        self.client_assignors = put(self.client_assignors, member_id, brought or None)
        return None if replaced is None else ClientAssignorsValue(replaced)

    def set_client_assignment(
        self, member_id: str, value: ClientAssignmentValue | None
    ) -> ClientAssignmentValue | None:
        replaced = self.client_assignments.get(member_id)
        self.client_assignments = put(self.client_assignments, member_id, value)
        return replaced

    def set_member(self, member_id: str, value: ConsumerMemberValue | None) -> ConsumerMemberValue | None:
        other = next(reversed(self.members.values()), None)
        member = self._slot(member_id)
        self._note_changed(member_id)
        replaced = member.metadata
        subscribed = ((), "") if value is None else value[4:6]
        known = self.subscription(subscribed)
        self._count_reconciled(member, -1)
        if replaced is not None:
            self._unlink(member_id, member, replaced)
        member.put_metadata(value, subscribed if known is None else known.key, other)
        if value is not None:
            self._link(member_id, member, value)
        self._count_reconciled(member, 1)
        self._drop_if_blank(member_id, member)
        return replaced

    def set_target(self, member_id: str, value: TargetMemberValue | None) -> TargetMemberValue | None:
        member = self._slot(member_id)
        self._note_changed(member_id)
        replaced = None if member.target is None else TargetMemberValue(member.target)
        member.put_target(None if value is None else value.topic_partitions)
        self._drop_if_blank(member_id, member)
        return replaced

    def set_current(
        self, member_id: str, value: CurrentAssignmentValue | None
    ) -> CurrentAssignmentValue | None:
        member = self._slot(member_id)
        replaced = member.current
        self._count_reconciled(member, -1)
        old, new = replaced or NOT_JOINED, value or NOT_JOINED
        if self._holders is not None and old[3:5] != new[3:5]:
            self._hold(self._holders, old, -1)
            self._hold(self._holders, new, 1)
        member.put_current(value)
        self._count_reconciled(member, 1)
        if self.reconciled_count == self.size and self.assignment_epoch == self.group_epoch:
            self._holders = None
        self._drop_if_blank(member_id, member)
        return replaced

    def _note_changed(self, member_id: str) -> None:
        if self.target_arrays is not None and not self.target_arrays.note(member_id):
            self.target_arrays = None

    def _slot(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ConsumerMember()
        return member

    def _drop_if_blank(self, member_id: str, member: ConsumerMember) -> None:
        if member.is_blank:
            del self.members[member_id]

    def _count_reconciled(self, member: ConsumerMember, change: int) -> None:
        standing = member.standing
        if (
            member.terms is not None
            and standing is not None
            and standing.state == STABLE
            and standing.member_epoch == self.assignment_epoch
        ):
            self.reconciled_count += change

    @staticmethod
    def _hold(by_topic: dict[bytes, Holders], value: CurrentAssignmentValue, change: int) -> None:
        for topic_id, packed in chain(value.assigned, value.pending_revocation):
            holders = by_topic.get(topic_id)
            if holders is None:
                holders = by_topic[topic_id] = Holders()
            holders.add(packed, change)
            if holders.total == 0:
                del by_topic[topic_id]

    def _link(self, member_id: str, member: ConsumerMember, value: ConsumerMemberValue) -> None:
        self.size += 1
        assert member.terms is not None
        key = member.terms.subscribed
        subscription = self.subscription(key)
        if subscription is None:
            subscription = self._subscribe(key)
        subscription.member_count += 1
        member.subscription = subscription
        if value.server_assignor is not None:
            self.votes = count(self.votes, value.server_assignor, 1)
        if value.instance_id is not None:
            ids = self.static_ids.get(value.instance_id, ())
            self.static_ids = put(self.static_ids, value.instance_id, tuple(sorted({*ids, member_id})))

    def _unlink(self, member_id: str, member: ConsumerMember, value: ConsumerMemberValue) -> None:
        self.size -= 1
        subscription = member.subscription
        assert subscription is not None, (self.group_id, member_id)
        subscription.member_count -= 1
        member.subscription = None
        if subscription.member_count == 0:
            self._unsubscribe(subscription.key)
        if value.server_assignor is not None:
            self.votes = count(self.votes, value.server_assignor, -1)
        if value.instance_id is not None:
            ids = tuple(i for i in self.static_ids.get(value.instance_id, ()) if i != member_id)
            self.static_ids = put(self.static_ids, value.instance_id, ids or None)

    def _subscribe(self, key: Subscribed) -> Subscription:
        """Take in a subscription that no member had."""
        added, kept = Subscription(key), self._subscriptions
        if kept is None:
            self._subscriptions = added
        else:
            if isinstance(kept, Subscription):
                self._count_topics(kept.key, 1)
                kept = self._subscriptions = {kept.key: kept}
            kept[key] = added
            self._count_topics(key, 1)
        if key[1]:
            self.regex_counts = count(self.regex_counts, key[1], 1)
        return added

    def _unsubscribe(self, key: Subscribed) -> None:
        """Drop a subscription that no member has any more."""
        kept = self._subscriptions
        if isinstance(kept, dict):
            del kept[key]
            self._count_topics(key, -1)
            if len(kept) == 1:
                self._subscriptions, self.topic_counts = next(iter(kept.values())), NONE
        else:
            self._subscriptions = None
        if key[1]:
            self.regex_counts = count(self.regex_counts, key[1], -1)

    def _count_topics(self, key: Subscribed, change: int) -> None:
        for name in key[0]:
            self.topic_counts = count(self.topic_counts, name, change)
