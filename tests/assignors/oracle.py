"""Plain-Python twins of the assignors, on dicts and lists, and the properties every assignment must have."""

from __future__ import annotations

import random
from collections import Counter

from actors.assignors.spec import Assignment, AssignmentSpec, MemberSpec
from actors.coordinator import partitions

Partition = tuple[bytes, int]


def tid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def member(name: str, topics: list[int], target: list[tuple[int, int]] = (), **more: str) -> MemberSpec:
    lists: dict[bytes, list[int]] = {}
    for topic, number in target:
        lists.setdefault(tid(topic), []).append(number)
    return MemberSpec(name, more.get("instance"), frozenset(map(tid, topics)), partitions.from_lists(lists))


def spec_of(members: list[MemberSpec], counts: list[int]) -> AssignmentSpec:
    named = {topic for one in members for topic in one.topic_ids}
    return AssignmentSpec(
        tuple(members), {tid(t): number for t, number in enumerate(counts) if tid(t) in named}
    )


def with_targets(spec: AssignmentSpec, assignment: Assignment) -> AssignmentSpec:
    """The same group after the assignment."""
    members = tuple(one._replace(target=assignment.get(one.member_id, ())) for one in spec.members)
    return spec._replace(members=members)


def pairs(target: partitions.TopicPartitions) -> list[Partition]:
    return [(topic, p) for topic, packed in target for p in partitions.unpack(packed)]


def ordered(spec: AssignmentSpec) -> list[MemberSpec]:
    having = [one for one in spec.members if one.topic_ids]
    return sorted(having, key=lambda one: (one.instance_id or one.member_id, one.member_id))


def present_owners(spec: AssignmentSpec) -> dict[Partition, str]:
    owners: dict[Partition, str] = {}
    for one in ordered(spec):
        for topic, p in pairs(one.target):
            if topic in one.topic_ids and p < spec.partition_counts[topic]:
                owners.setdefault((topic, p), one.member_id)
    return owners


def share(slots: list[object], present: dict[object, str], names: list[str]) -> dict[object, str]:
    """Each slot to a member: keep up to the quota, the first who have more keep one more, fill the rest."""
    quota, extra = divmod(len(slots), len(names))
    had = Counter(present[slot] for slot in slots if slot in present)
    room = dict.fromkeys(names, quota)
    for want_more in (True, False):
        for name in names:
            if extra and room[name] == quota and (had[name] > quota or not want_more):
                room[name] += 1
                extra -= 1
    owners: dict[object, str] = {}
    for slot in slots:
        name = present.get(slot)
        if name is not None and room[name]:
            owners[slot] = name
            room[name] -= 1
    position = 0
    for slot in slots:
        if slot not in owners:
            while not room[names[position]]:
                position = (position + 1) % len(names)
            owners[slot] = names[position]
            room[names[position]] -= 1
    return owners


def collect(spec: AssignmentSpec, owners: dict[object, str]) -> Assignment:
    lists: dict[str, dict[bytes, list[int]]] = {one.member_id: {} for one in spec.members}
    for (topic, p), name in owners.items():
        lists[name].setdefault(topic, []).append(p)
    return {name: partitions.from_lists(topics) for name, topics in lists.items()}


def uniform_twin(spec: AssignmentSpec) -> Assignment:
    """For homogeneous groups."""
    slots = [
        (topic, p) for topic in sorted(spec.partition_counts) for p in range(spec.partition_counts[topic])
    ]
    names = [one.member_id for one in ordered(spec)]
    owners = share(list(slots), dict(present_owners(spec)), names) if slots else {}
    return collect(spec, owners)


def range_twin(spec: AssignmentSpec) -> Assignment:
    present, owners = present_owners(spec), {}
    alike: dict[tuple[int, tuple[str, ...]], list[bytes]] = {}
    for topic in sorted(spec.partition_counts):
        names = tuple(one.member_id for one in ordered(spec) if topic in one.topic_ids)
        alike.setdefault((spec.partition_counts[topic], names), []).append(topic)
    for (count, names), topics in alike.items():
        assigned = [sum((topic, p) in present for p in range(count)) for topic in topics]
        lead = topics[assigned.index(max(assigned))]
        slots = {p: present[lead, p] for p in range(count) if (lead, p) in present}
        shared = share(list(range(count)), dict(slots), list(names))
        owners.update({(topic, p): shared[p] for topic in topics for p in range(count)})
    return collect(spec, owners)


def check_valid(spec: AssignmentSpec, assignment: Assignment) -> None:
    """Complete, nobody gets what it did not subscribe to, well formed."""
    assert set(assignment) == {one.member_id for one in spec.members}
    owners = Counter(pair for target in assignment.values() for pair in pairs(target))
    assert owners == {(topic, p): 1 for topic, count in spec.partition_counts.items() for p in range(count)}
    for one in spec.members:
        target = assignment[one.member_id]
        assert {topic for topic, _ in target} <= one.topic_ids
        assert target == partitions.from_lists(partitions.to_lists(target))


def check_even(spec: AssignmentSpec, assignment: Assignment) -> None:
    """No single partition can move to make two loads more even; within one if all subscribe alike."""
    load = {name: partitions.count(target) for name, target in assignment.items()}
    for topic in spec.partition_counts:
        subscribers = [one.member_id for one in spec.members if topic in one.topic_ids]
        owners = [name for name in subscribers if any(t == topic for t, _ in assignment[name])]
        if owners:
            assert max(load[name] for name in owners) <= min(load[name] for name in subscribers) + 1


def moves(spec: AssignmentSpec, assignment: Assignment) -> int:
    """Partitions that someone subscribed had and now another has."""
    after = {pair: name for name, target in assignment.items() for pair in pairs(target)}
    return sum(after[pair] != name for pair, name in present_owners(spec).items())


def fewest_moves(spec: AssignmentSpec) -> int:
    """For homogeneous groups: what is owned beyond the quota has to move, and nothing else."""
    names = [one.member_id for one in ordered(spec)]
    owned = Counter(present_owners(spec).values())
    quota, extra = divmod(sum(spec.partition_counts.values()), len(names))
    over = sorted((owned[name] - quota for name in names if owned[name] > quota), reverse=True)
    return sum(over) - min(extra, len(over))


def random_spec(rng: random.Random, *, alike: bool, members: int = 8, counts_max: int = 12) -> AssignmentSpec:
    counts = [rng.randrange(counts_max) for _ in range(rng.randrange(1, 6))]
    every = list(range(len(counts)))
    some = rng.sample(every, rng.randrange(len(every) + 1)) or every
    owner = {(t, p): rng.randrange(members + 2) for t in every for p in range(counts[t] + 2)}
    built = []
    for number in range(rng.randrange(1, members + 1)):
        topics = some if alike else rng.sample(every, rng.randrange(len(every) + 1))
        target = [pair for pair, name in owner.items() if name == number and rng.random() < 0.8]
        more = {"instance": f"i{number}"} if rng.random() < 0.2 else {}
        built.append(member(f"m{number}", topics, target, **more))
    rng.shuffle(built)
    return spec_of(built, counts)
