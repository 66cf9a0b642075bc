"""The assignors' inner loops: free functions on int32 arrays, written in what numba can compile.

They are plain Python here, and take lists as well as arrays; `actors.assignors.compiled` compiles them when
a group is big enough to be worth numba's memory and import time. The result is the same either way.

Members are numbers below M, partitions numbers below P; `owner[p]` is the member that has partition p, or
-1. Most kernels work on all topics with the same subscribers at once: `members` are the subscribers in the
group's order, at least one, and begins[i] to ends[i] are spans of partitions, which together are the topics'.
"""

from __future__ import annotations

from typing import Any

Ints = Any
"""An array of i4, or a list of int."""
FREE = -1


def run_end(numbers: Ints, first: int, end: int) -> int:
    """Return where the run of equal numbers ends that begins at `first`, at the latest at `end`."""
    at = first + 1
    while at < end and numbers[at] == numbers[first]:
        at += 1
    return at


def run_end_by_blocks(numbers: Ints, first: int, end: int) -> int:
    """Return what `run_end` does. Compiled kernels call it instead: most runs of a big group are long, and a
    processor compares many numbers at once if it may compare some in vain."""
    number = numbers[first]
    at = first + 1
    while at + 16 <= end:
        block = numbers[at : at + 16]
        differ = 0
        for i in range(16):
            differ |= block[i] ^ number
        if differ != 0:
            break
        at += 16
    while at < end and numbers[at] == number:
        at += 1
    return at


def count_kept(
    owner: Ints, begins: Ints, ends: Ints, members: Ints, number: int, mark: Ints, kept: Ints
) -> int:
    """Take partitions from members that do not subscribe to them, and count what each subscriber has. Returns
    how many are free.

    owner: i4[P], in and out. number: another one for each set of topics; mark: i4[M], in and out, gets it
    for each subscriber. kept: i4[M], out for the subscribers.
    """
    for m in members:
        mark[m] = number
        kept[m] = 0
    free = 0
    for i in range(len(begins)):
        p = begins[i]
        end = ends[i]
        while p < end:
            m = owner[p]
            q = run_end(owner, p, end)
            if m >= 0 and mark[m] == number:
                kept[m] += q - p
            else:
                free += q - p
                if m >= 0:
                    for k in range(p, q):
                        owner[k] = -1
            p = q
    return free


def add_kept(members: Ints, kept: Ints, load: Ints) -> None:
    """Add what subscribers keep to their loads. load: i4[M], in and out; kept: i4[M]."""
    for m in members:
        load[m] += kept[m]


def allow(members: Ints, partitions: int, kept: Ints, load: Ints, room: Ints) -> int:
    """Say how many of the topics' partitions each subscriber is to have, so that loads get as even as can be.

    kept: i4[M]. load: i4[M], `kept` included. room: i4[M], out for the subscribers, with `partitions` as its
    sum. Rooms are like water that fills a vessel: a member that has more than the level by other topics gets
    nothing, the others come up to it. Members that are above it by these topics are first to have one more,
    so nothing moves in vain; then the members that come first. Returns 0 if every member is to have as many
    as now, 2 if any is to have less, else 1.
    """
    level = -1
    total = partitions
    for m in members:
        total += load[m] - kept[m]
    size = len(members)
    while total // size != level:
        level = total // size
        total = partitions
        size = 0
        for m in members:
            if load[m] - kept[m] <= level:
                total += load[m] - kept[m]
                size += 1
    extra = total - level * size
    change = 0
    for m in members:
        base = load[m] - kept[m]
        room[m] = max(level - base, 0)
        if kept[m] > room[m] and base <= level and extra > 0:
            room[m] += 1
            extra -= 1
        if room[m] < kept[m]:
            change = 2
        elif room[m] > kept[m] and change == 0:
            change = 1
    for m in members:
        if extra == 0:
            break
        if room[m] == level - load[m] + kept[m]:
            room[m] += 1
            extra -= 1
            change = max(change, 1)
    return change


def book(members: Ints, kept: Ints, load: Ints, room: Ints) -> int:
    """Book every subscriber's room as its load. load: in and out, becomes what it will be once every room is
    just filled. Returns how many partitions are free once nobody has more than its room."""
    free = 0
    for m in members:
        load[m] += room[m] - kept[m]
        free += max(room[m] - kept[m], 0)
    return free


def release(
    owner: Ints, before: Ints, begins: Ints, ends: Ints, members: Ints, kept: Ints, room: Ints, moved: int
) -> None:
    """Free what members have beyond their room: first what they did not have before, then the highest
    numbers.

    owner, kept: in and out. before: i4[P], the assignment to stick to. moved: 0 if no member has anything
    else yet.
    """
    for m in members:
        kept[m] = 0
    passes = 1
    for sticky in range(2):
        if sticky >= passes:
            break
        for i in range(len(begins)):
            p = begins[i]
            end = ends[i]
            while p < end:
                m = owner[p]
                had = before[p] == m or moved == 0
                q = run_end(owner, p, end)
                if moved != 0:
                    last = q
                    q = p + 1
                    while q < last and (before[q] == m) == had:
                        q += 1
                if m >= 0 and had == (sticky == 0):
                    taken = min(q - p, room[m] - kept[m])
                    kept[m] += taken
                    for k in range(p + taken, q):
                        owner[k] = -1
                elif m >= 0:
                    passes = 2
                p = q


def give_back(
    owner: Ints,
    before: Ints,
    begins: Ints,
    ends: Ints,
    number: int,
    mark: Ints,
    kept: Ints,
    room: Ints,
) -> int:
    """Give free partitions to the members that had them before and have room. owner, kept: in and out.
    Returns how many were given."""
    given = 0
    for i in range(len(begins)):
        for p in range(begins[i], ends[i]):
            m = before[p]
            if owner[p] < 0 and m >= 0 and mark[m] == number and kept[m] < room[m]:
                owner[p] = m
                kept[m] += 1
                given += 1
    return given


def fill(owner: Ints, begins: Ints, ends: Ints, members: Ints, kept: Ints, room: Ints, free: int) -> None:
    """Give the `free` partitions to members with room, in runs, as Kafka does: a member then has few topics
    and its record is small. owner: in and out; rooms suffice."""
    at = -1
    m = 0
    left = 0
    for i in range(len(begins)):
        p = begins[i]
        end = ends[i]
        while free > 0 and p < end:
            if owner[p] >= 0:
                p = run_end(owner, p, end)
                continue
            while left == 0:
                at += 1
                m = members[at]
                left = room[m] - kept[m]
            q = run_end(owner, p, min(p + left, end))
            for k in range(p, q):
                owner[k] = m
            left -= q - p
            free -= q - p
            p = q


def ranges(owner: Ints, begins: Ints, count: int, members: Ints, sizes: Ints) -> None:
    """Give topics of `count` partitions each to the members in ranges; the first members have one more if it
    does not divide. begins: where a topic's partitions begin. owner: i4[P], out. sizes: i4[M], how many
    partitions each has, in and out."""
    quota = count // len(members)
    extra = count - quota * len(members)
    begin = begins[0]
    p = begin
    for j in range(min(count, len(members))):
        m = members[j]
        size = quota
        if j < extra:
            size += 1
        for k in range(p, p + size):
            owner[k] = m
        p += size
        sizes[m] += size * len(begins)
    for i in range(1, len(begins)):
        owner[begins[i] : begins[i] + count] = owner[begin : begin + count]


def common_racks(rack: Ints, begins: Ints, common: Ints) -> None:
    """Find the racks that topics have in common. The topics have as many partitions as `common` (out) is
    long: it gets the rack of each partition if that is the same in all of them, or -1. rack: i4[P]."""
    for k in range(len(common)):
        common[k] = rack[begins[0] + k]
    for i in range(1, len(begins)):
        for k in range(len(common)):
            if rack[begins[i] + k] != common[k]:
                common[k] = -1


def match_racks(
    owner: Ints,
    begins: Ints,
    ends: Ints,
    members: Ints,
    rack: Ints,
    member_rack: Ints,
    kept: Ints,
    room: Ints,
    cursor: Ints,
) -> int:
    """Give partitions to members of their rack, as far as every member goes on having as many.

    owner: in and out, complete. rack: i4[P], member_rack: i4[M], a number below R, or -1. kept, room: i4[M],
    out. cursor: i4[R], scratch. A member that has a partition of its own rack keeps it. Every other partition
    becomes loose (owner -2 - m); a loose one goes to the first member of its rack that has room because of
    loose ones of its own. No more can match while every member has as many as now. Returns the number of
    loose partitions that are left.
    """
    for m in members:
        kept[m] = 0
        room[m] = 0
    for r in range(len(cursor)):
        cursor[r] = 0
    loose = 0
    for i in range(len(begins)):
        for p in range(begins[i], ends[i]):
            m = owner[p]
            room[m] += 1
            if rack[p] >= 0 and rack[p] == member_rack[m]:
                kept[m] += 1
            else:
                owner[p] = -2 - m
                loose += 1
    for i in range(len(begins)):
        for p in range(begins[i], ends[i]):
            r = rack[p]
            if owner[p] >= 0 or r < 0:
                continue
            at = cursor[r]
            while at < len(members) and (
                member_rack[members[at]] != r or kept[members[at]] >= room[members[at]]
            ):
                at += 1
            cursor[r] = at
            if at < len(members):
                owner[p] = members[at]
                kept[members[at]] += 1
                loose -= 1
    return loose


def give_loose(
    owner: Ints, before: Ints, begins: Ints, ends: Ints, members: Ints, kept: Ints, room: Ints
) -> None:
    """Give the loose partitions of `match_racks` to members: each goes back to the one that had it before,
    then to the one that had it a moment ago, while there is room; the rest, whose owners gave their room to
    matches, go in order to members with room."""
    for sticky in range(2):
        for i in range(len(begins)):
            for p in range(begins[i], ends[i]):
                m = -2 - owner[p]
                if m >= 0 and (sticky == 1 or before[p] == m) and kept[m] < room[m]:
                    owner[p] = m
                    kept[m] += 1
    at = 0
    for i in range(len(begins)):
        for p in range(begins[i], ends[i]):
            if owner[p] < 0:
                while kept[members[at]] >= room[members[at]]:
                    at += 1
                owner[p] = members[at]
                kept[members[at]] += 1


def compare(owner: Ints, before: Ints, changed: Ints) -> None:
    """Find the members that have other partitions than before. owner, before: i4[P]. changed: i4[M], in and
    out, gets 1 for them."""
    for p in range(len(owner)):
        if owner[p] != before[p]:
            changed[owner[p]] = 1
            if before[p] >= 0:
                changed[before[p]] = 1


def add_up(sizes: Ints, begins: Ints, ends: Ints) -> None:
    """Add up sizes. sizes: i4[M], how many partitions each has. begins: i4[M + 1], out, where a member's
    partitions begin among those of all members. ends: i4[M], out, where its segments do: see
    `sort_by_member`."""
    total = 0
    for m in range(len(sizes)):
        begins[m] = total
        ends[m] = 2 * total
        total += sizes[m]
    begins[len(sizes)] = total


def sort_by_member(
    owner: Ints, starts: Ints, at: Ints, last: Ints, ends: Ints, segments: Ints, numbers: Ints
) -> None:
    """Sort partitions by member, topic, and number within it, by counting; a member gets a segment for each
    of its topics.

    owner: i4[P], complete. starts: i4[T + 1], where a topic's partitions begin. at: i4[M], where a member's
    numbers begin, in and out. last: i4[M] of -1, scratch. segments: i4[2P], out: from twice where its numbers
    begin, for each topic of the member the topic and where in `numbers` it begins. ends: i4[M], in where a
    member's segments begin, out where they end. numbers: i4[P], out, partitions' numbers within their topics.
    """
    for t in range(len(starts) - 1):
        mine = owner[starts[t] : starts[t + 1]]
        p = 0
        while p < len(mine):
            m = mine[p]
            # The number is never below 0, but a compiler that knows is twice as fast: so it is with `max`
            # below.
            i = max(at[m], 0)
            if last[m] != t:
                last[m] = t
                segments[ends[m]] = t
                segments[ends[m] + 1] = i
                ends[m] += 2
            q = run_end(mine, p, len(mine))
            for k in range(q - p):
                numbers[i + k] = p + k
            at[m] = i + q - p
            p = q


def sort_ranges(
    topics: Ints, count: int, members: Ints, begins: Ints, ends: Ints, segments: Ints, numbers: Ints
) -> None:
    """Make of `ranges` what `sort_by_member` would, if the members have nothing but these topics of `count`
    partitions each: without looking anything up, and all of a member's at once."""
    quota = max(count // len(members), 0)
    extra = count - quota * len(members)
    first = 0
    for j in range(min(count, len(members))):
        m = members[j]
        size = quota
        if j < extra:
            size += 1
        i = max(begins[m], 0)
        for k in range(len(topics)):
            at = i + k * size
            segments[2 * (i + k)] = topics[k]
            segments[2 * (i + k) + 1] = at
            for number in range(size):
                numbers[at + number] = first + number
        ends[m] = 2 * (i + len(topics))
        first += size
