"""Plain-Python twins of the assignors, on dicts and lists, and the properties every assignment must have."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

from actors.assignors.arrays import GroupArrays
from actors.assignors.lists import GroupLists
from actors.assignors.registry import OWN
from actors.assignors.spec import Assignment, AssignmentSpec, MemberSpec
from actors.coordinator.ground import partitions
from tests.coordinator.unpacked import to_lists

Partition = tuple[bytes, int]
Racks = Mapping[Partition, str | None]


def tid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def member(name: str, topics: list[int], target: list[tuple[int, int]] = (), **more: str) -> MemberSpec:
    lists: dict[bytes, list[int]] = {}
    for topic, number in target:
        lists.setdefault(tid(topic), []).append(number)
    target = partitions.from_lists(lists)
    return MemberSpec(name, more.get("instance"), frozenset(map(tid, topics)), target, more.get("rack"))


def spec_of(members: list[MemberSpec], counts: list[int]) -> AssignmentSpec:
    named = {topic for one in members for topic in one.topic_ids}
    return AssignmentSpec(
        tuple(members), {tid(t): number for t, number in enumerate(counts) if tid(t) in named}
    )


def assigned(name: str, spec: AssignmentSpec, racks: Racks | None = None) -> Assignment:
    """Return what the named assignor gives each member; it must be the same for lists and for arrays."""
    by_lists, by_arrays = (
        OWN[name].assign(group, racks_of(spec, racks or {})).assignment()
        for group in (GroupLists.of(spec), GroupArrays.of(spec))
    )
    assert by_lists == by_arrays
    return by_lists


def racks_of(spec: AssignmentSpec, racks: Racks) -> Callable[[bytes], list[str | None]]:
    return lambda topic: [racks.get((topic, p)) for p in range(spec.partition_counts[topic])]


def with_targets(spec: AssignmentSpec, assignment: Assignment) -> AssignmentSpec:
    """Return the same group with the assignment as its members' target."""
    members = tuple(one._replace(target=assignment.get(one.member_id, ())) for one in spec.members)
    return spec._replace(members=members)


def pairs(target: partitions.TopicPartitions) -> list[Partition]:
    return [(topic, p) for topic, packed in target for p in partitions.unpack(packed)]


def ordered(spec: AssignmentSpec) -> list[MemberSpec]:
    having = [one for one in spec.members if one.topic_ids]
    return sorted(having, key=lambda one: (one.instance_id is None, one.instance_id or "", one.member_id))


def present_owners(spec: AssignmentSpec) -> dict[Partition, str]:
    owners: dict[Partition, str] = {}
    for one in ordered(spec):
        for topic, p in pairs(one.target):
            if topic in one.topic_ids and p < spec.partition_counts[topic]:
                owners.setdefault((topic, p), one.member_id)
    return owners


def collect(spec: AssignmentSpec, owners: dict[Partition, str]) -> Assignment:
    lists: dict[str, dict[bytes, list[int]]] = {one.member_id: {} for one in spec.members}
    for (topic, p), name in owners.items():
        lists[name].setdefault(topic, []).append(p)
    return {name: partitions.from_lists(topics) for name, topics in lists.items()}


def topic_sets(spec: AssignmentSpec) -> list[tuple[list[str], list[bytes]]]:
    """Topics that have the same subscribers, and those, in the order in which uniform fills them."""
    sets: dict[tuple[str, ...], list[bytes]] = {}
    for topic in sorted(topic for topic, count in spec.partition_counts.items() if count):
        names = tuple(one.member_id for one in ordered(spec) if topic in one.topic_ids)
        sets.setdefault(names, []).append(topic)
    weight = {names: sum(map(spec.partition_counts.__getitem__, topics)) for names, topics in sets.items()}
    first = sorted(sets, key=lambda names: sets[names][0])
    return [
        (list(names), sets[names])
        for names in sorted(first, key=lambda names: (-weight[names] / len(names), len(names)))
    ]


def fair_rooms(names: list[str], base: Counter[str], kept: Counter[str], slots: int) -> Counter[str]:
    """Return how many partitions each member gets: one after another goes to the member with least."""
    rooms: Counter[str] = Counter()
    for _ in range(slots):
        rooms[min(names, key=lambda name: base[name] + rooms[name])] += 1
    level = min(base[name] + rooms[name] for name in names)
    extra = 0
    for name in names:
        if rooms[name] and base[name] + rooms[name] > level:
            rooms[name] -= 1
            extra += 1
    for wants in (True, False):
        for name in names:
            if extra and base[name] + rooms[name] == level and (kept[name] > rooms[name]) == wants:
                rooms[name] += 1
                extra -= 1
    return rooms


def uniform_twin(spec: AssignmentSpec) -> Assignment:
    """Assign as uniform does: free partitions first, then one set of topics after another."""
    before = present_owners(spec)
    owners = dict(before)
    for names, topics in topic_sets(spec) if len(topic_sets(spec)) > 1 else ():
        slots = [(topic, p) for topic in topics for p in range(spec.partition_counts[topic])]
        free = [slot for slot in slots if slot not in owners]
        given = fair_rooms(names, Counter(owners.values()), Counter(), len(free))
        owners.update(zip(free, (name for name in names for _ in range(given[name])), strict=True))
    moved = True
    rounds = 0
    while moved and rounds < 100:
        moved = False
        for names, topics in topic_sets(spec):
            slots = [(topic, p) for topic in topics for p in range(spec.partition_counts[topic])]
            kept = Counter(owners[slot] for slot in slots if slot in owners)
            load = Counter(owners.values())
            rooms = fair_rooms(names, Counter({n: load[n] - kept[n] for n in names}), kept, len(slots))
            if rooms == +kept:
                continue
            moved = True
            refill(slots, owners, before, rooms, names)
        rounds += 1
    return collect(spec, owners)


def refill(
    slots: list[Partition],
    owners: dict[Partition, str],
    before: dict[Partition, str],
    rooms: Counter[str],
    names: list[str],
) -> None:
    """Everybody keeps up to the room, rather what it had before; the rest goes back, and then in order."""
    room, free = Counter(rooms), []
    for sticky in (True, False):
        for slot in slots:
            name = owners.get(slot)
            if name is None:
                free += [slot] if sticky else []
            elif (before.get(slot) == name) == sticky:
                if room[name]:
                    room[name] -= 1
                else:
                    free.append(slot)
    for slot in free:
        owners.pop(slot, None)
    for slot in sorted(free):
        name = before.get(slot)
        if name in names and room[name]:
            owners[slot] = name
            room[name] -= 1
            free.remove(slot)
    rooms_left = (name for name in names for _ in range(room[name]))
    owners.update(zip(sorted(free), rooms_left, strict=True))


def range_twin(spec: AssignmentSpec) -> Assignment:
    owners: dict[Partition, str] = {}
    for topic, count in spec.partition_counts.items():
        names = [one.member_id for one in ordered(spec) if topic in one.topic_ids]
        numbers = iter(range(count))
        for place, name in enumerate(names):
            for _ in range(count // len(names) + (place < count % len(names))):
                owners[topic, next(numbers)] = name
    return collect(spec, owners)


def check_valid(spec: AssignmentSpec, assignment: Assignment) -> None:
    """Complete, nobody gets what it did not subscribe to, well formed."""
    assert set(assignment) == {one.member_id for one in spec.members}
    owners = Counter(pair for target in assignment.values() for pair in pairs(target))
    assert owners == {(topic, p): 1 for topic, count in spec.partition_counts.items() for p in range(count)}
    for one in spec.members:
        target = assignment[one.member_id]
        assert {topic for topic, _ in target} <= one.topic_ids
        assert target == partitions.from_lists(to_lists(target))


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
    """The fewest moves of a homogeneous group: what is owned beyond the quota has to move, and nothing
    else."""
    names = [one.member_id for one in ordered(spec)]
    owned = Counter(present_owners(spec).values())
    quota, extra = divmod(sum(spec.partition_counts.values()), len(names))
    over = sorted((owned[name] - quota for name in names if owned[name] > quota), reverse=True)
    return sum(over) - min(extra, len(over))


def matches(spec: AssignmentSpec, assignment: Assignment, racks: Racks) -> int:
    """Partitions that are with a member of their rack."""
    rack = {one.member_id: one.rack_id for one in spec.members}
    owners = {pair: name for name, target in assignment.items() for pair in pairs(target)}
    return sum(rack[name] is not None and rack[name] == racks.get(pair) for pair, name in owners.items())


def most_matches(spec: AssignmentSpec, assignment: Assignment, racks: Racks) -> int:
    """The most matches that there can be while everybody has as many partitions of each set of topics as
    now: every member of a rack can take every partition of it."""
    rack = {one.member_id: one.rack_id for one in spec.members}
    most = 0
    for _, topics in topic_sets(spec):
        room: Counter[str | None] = Counter()
        for name, target in assignment.items():
            room[rack[name]] += sum(topic in topics for topic, _ in pairs(target))
        slots = [(topic, p) for topic in topics for p in range(spec.partition_counts[topic])]
        there = Counter(racks.get(slot) for slot in slots)
        most += sum(min(room[each], there[each]) for each in there if each is not None)
    return most


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
