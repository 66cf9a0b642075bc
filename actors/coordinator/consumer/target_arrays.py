"""A consumer group as the assignors take it: a small one made anew as lists for each target, a big one as
arrays, made at a leader's first target of it, then kept up to date.

Appliers only note whose record they touched (so an undo is exact: what is noted is looked at again). The
next target brings the arrays up to what the group's members are by then, and to what the request in hand
makes of its member; that member is noted too, for the request may yet be refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.assignors.compiled import WARMING
from actors.assignors.group import Group
from actors.assignors.lists import GroupLists
from actors.assignors.spec import MemberSpec
from actors.coordinator.consumer.decision import Decision
from actors.coordinator.consumer.model.group import NO_IMAGE_VERSION, ConsumerGroup
from actors.coordinator.consumer.model.member import ConsumerMember
from actors.coordinator.consumer.model.metadata import RegexTopics, subscribed_topic_ids
from actors.coordinator.ground import partitions
from actors.ground.image import MetadataImage

ARRAYS_FROM = 10_000
"""The number of elements of a group (`GroupArrays.elements`) from which it is kept as arrays: so many are
assigned as lists in some 5 ms (3 members of 10 partitions in 30 us), and what numpy and numba need is 75 MB a
process."""

_Key = tuple[tuple[str, ...], str]


class TargetArrays:
    """The arrays of one group, and what they are of."""

    __slots__ = ("_image_version", "_noted", "_regex_topics", "_topic_ids", "arrays")

    def __init__(self, group: ConsumerGroup) -> None:
        # Here, because it imports numpy.
        from actors.assignors.arrays import GroupArrays

        self.arrays = GroupArrays()
        self._noted = set(group.members)
        self._image_version = NO_IMAGE_VERSION
        self._regex_topics: RegexTopics = {}
        self._topic_ids: dict[_Key, frozenset[bytes]] = {}

    def note(self, member_id: str) -> bool:
        """Note that the member's record has changed. False: so many have that the arrays are better made
        anew."""
        self._noted.add(member_id)
        return len(self._noted) <= 2 * len(self.arrays.slots) + ARRAYS_FROM

    def bring_up_to_date(self, group: ConsumerGroup, regex_topics: RegexTopics, image: MetadataImage) -> None:
        """Make the arrays those of the group's members as they are now."""
        if image.version != self._image_version or regex_topics != self._regex_topics:
            self._regex_topics = dict(regex_topics)
            self._note_resubscribed(group, image)
        noted, self._noted = self._noted, set()
        for member_id in sorted(noted):
            self._look_at(group, member_id, image)
        self._lay_out(image)

    def foresee(self, decision: Decision) -> None:
        """Put in the member that the decision is about, as it is to be. To be called after
        `bring_up_to_date`."""
        if decision.replaced_id is not None:
            self.arrays.drop(decision.replaced_id)
            self._noted.add(decision.replaced_id)
        self._put_subject(decision)
        self._lay_out(decision.state.image)

    def _lay_out(self, image: MetadataImage) -> None:
        if image.version != self._image_version or not self.arrays.is_laid_out:
            self.arrays.lay_out(lambda topic_id: image.topics_by_id[topic_id].partition_count)
            self._image_version = image.version

    def _note_resubscribed(self, group: ConsumerGroup, image: MetadataImage) -> None:
        """Note members whose subscription has come to mean other topics."""
        known, self._topic_ids = self._topic_ids, {}
        for key in group.subscriptions:
            found = self._topic_ids_of(group, key, image)
            if key in known and found == known[key]:
                self._topic_ids[key] = known[key]
        changed = {key for key, found in self._topic_ids.items() if found is not known.get(key)}
        for member_id, member in group.members.items() if changed else ():
            if member.subscription is not None and member.subscription.key in changed:
                self._noted.add(member_id)

    def _topic_ids_of(self, group: ConsumerGroup, key: _Key, image: MetadataImage) -> frozenset[bytes]:
        found = self._topic_ids.get(key)
        if found is None:
            subscription = group.subscription(key)
            assert subscription is not None
            found = subscribed_topic_ids(subscription, self._regex_topics, image)
            self._topic_ids[key] = found
        return found

    def _look_at(self, group: ConsumerGroup, member_id: str, image: MetadataImage) -> None:
        member = group.member(member_id)
        if member is None:
            self.arrays.drop(member_id)
            return
        subscription = member.subscription
        assert subscription is not None
        topic_ids = self._topic_ids_of(group, subscription.key, image)
        self.arrays.put(_spec(member_id, member, topic_ids), told=member.target is not None)

    def _put_subject(self, decision: Decision) -> None:
        key = decision.metadata.subscribed_topic_names, decision.metadata.subscribed_topic_regex
        known = self._topic_ids.get(key)
        subject = _subject(decision)
        if known is not None and known == decision.topic_ids:
            subject = subject._replace(topic_ids=known)
        self.arrays.put(subject, told=decision.target is not None)
        self._noted.add(decision.member_id)


def group_of(decision: Decision) -> Group:
    """The group's members, the one that the decision is about as it will be. Good until the group changes."""
    kept = decision.group.target_arrays
    if not isinstance(kept, TargetArrays):
        members = [*_others(decision), _subject(decision)]
        if WARMING.is_under_way or _elements(members, decision.state.image) < ARRAYS_FROM:
            return _lists(decision, members)
        kept = TargetArrays(decision.group)
    kept.bring_up_to_date(decision.group, decision.regex_topics, decision.state.image)
    kept.foresee(decision)
    decision.group.target_arrays = kept if kept.arrays.elements >= ARRAYS_FROM else None
    return kept.arrays


def _lists(decision: Decision, members: list[MemberSpec]) -> GroupLists:
    topics = decision.state.image.topics_by_id
    untold = {member_id for member_id, member in decision.group.members.items() if member.target is None}
    (untold.add if decision.target is None else untold.discard)(decision.member_id)
    return GroupLists(members, lambda topic_id: topics[topic_id].partition_count, untold)


def _elements(members: list[MemberSpec], image: MetadataImage) -> int:
    """The size of a group, counted as `GroupArrays.elements` counts it."""
    subscriptions = {member.topic_ids for member in members}
    topic_ids = frozenset[bytes]().union(*subscriptions)
    partition_count = sum(image.topics_by_id[topic_id].partition_count for topic_id in topic_ids)
    return len(members) + partition_count + sum(map(len, subscriptions))


def _others(decision: Decision) -> Iterator[MemberSpec]:
    """All members but the one that the decision is about, and the one that it replaces."""
    group, image = decision.group, decision.state.image
    for member_id, member in group.members.items():
        if member.terms is not None and member_id not in (decision.member_id, decision.replaced_id):
            assert member.subscription is not None
            yield _spec(
                member_id, member, subscribed_topic_ids(member.subscription, decision.regex_topics, image)
            )


def _spec(member_id: str, member: ConsumerMember, topic_ids: frozenset[bytes]) -> MemberSpec:
    assert member.terms is not None
    target = partitions.EMPTY if member.target is None else member.target
    return MemberSpec(member_id, member.instance_id, topic_ids, target, member.terms.rack_id)


def _subject(decision: Decision) -> MemberSpec:
    target = partitions.EMPTY if decision.target is None else decision.target
    return MemberSpec(
        decision.member_id,
        decision.metadata.instance_id,
        decision.topic_ids,
        target,
        decision.metadata.rack_id,
    )


def partition_racks(image: MetadataImage, topic_id: bytes) -> list[str | None]:
    """The rack of each partition of a topic, which is that of whoever leads it."""
    return [image.rack_of(leader) for leader in image.topics_by_id[topic_id].partition_leaders]
