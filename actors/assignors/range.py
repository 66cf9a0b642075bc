"""The range assignor (M10), which gives each topic for itself, in ranges, to its subscribers in their order.

Static members come first, by instance id, then dynamic ones by member id; the first have one partition more
if a topic does not divide. So topics with the same number of partitions and the same subscribers are assigned
alike, and joins find equal partitions with one member. As in Kafka, what members have so far does not count:
a member that comes or goes moves the ranges of all behind it. With racks, every member has as many partitions
of each topic as without, and as many of them as then can be are in their member's rack; topics that were
assigned alike still are, so a partition counts as in a rack if it is so in all of these.
"""

from __future__ import annotations

from actors.assignors.group import Group
from actors.assignors.kernels import Ints
from actors.assignors.targets import Targets
from actors.assignors.topic_sets import NO_RACK, Equals, RacksOf


def assign(group: Group, racks_of: RacksOf | None = None) -> Targets:
    """Assign the group. `racks_of` gives the racks of a topic's partitions; without it racks do not count."""
    kernels = group.kernels
    owner = group.scratch("owner")
    sizes = kernels.full(len(group.members), 0)
    racks = None if racks_of is None else group.racks(racks_of)
    subscribed = [
        (topics, members)
        for topic_set, members in zip(group.topic_sets, group.subscribers(), strict=True)
        for topics in topic_set.equals
    ]
    for topics, members in subscribed:
        kernels.ranges(owner, topics.begins, topics.partitions, members, sizes)
        if racks is not None:
            _match_racks(group, owner, topics, members, racks)
    targets = Targets(group, owner, sizes)
    if racks is None and group.is_simple:
        for topics, members in subscribed:
            targets.sort_ranges(topics.topics, topics.partitions, members)
    else:
        targets.sort()
    targets.compare(group.before())
    return targets


def _match_racks(
    group: Group, owner: Ints, topics: Equals, members: Ints, racks: tuple[Ints, Ints, int]
) -> None:
    """Assign co-partitioned topics alike, by their racks. owner: i4[P], in and out."""
    rack, member_rack, count = racks
    kernels, slots, size = group.kernels, len(group.members), topics.partitions
    common = kernels.full(size, NO_RACK)
    kernels.common_racks(rack, topics.begins, common)
    begins = kernels.listed(topics.begins)
    one = owner[begins[0] : begins[0] + size]
    whole = kernels.full(1, 0), kernels.full(1, size), members
    kept, room = kernels.full(slots, 0), kernels.full(slots, 0)
    if kernels.match_racks(one, *whole, common, member_rack, kept, room, kernels.full(count, 0)):
        kernels.give_loose(one, one, *whole, kept, room)
    for begin in begins:
        owner[begin : begin + size] = one
