"""OffsetFetch of very many offsets: made in slices, and yet what the groups had committed at one moment.

While a reading is under way, what commits and deletions replace is noted. A position that is in the notes had
then what was first replaced there, any other one has what it had. Which positions there are is walked through
too, and taken in one piece only if positions come or go meanwhile: 20 ms for a million of them.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any, NamedTuple

from actors.coordinator.ground.group_offsets import NO_OFFSETS, GroupOffsets
from actors.coordinator.ground.slices import SLICE_MAX, sliced
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets.pending import pending_of
from actors.ground.contract import NOTHING, Reply, Request, Result
from actors.ground.image import MetadataImage
from actors.ground.records import OffsetCommitValue, Position
from actors.protocol.messages import (
    FetchedGroup,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from actors.protocol.requests import TOPIC_IDS_SINCE

FETCHED_AT_ONCE_MAX = 5_000
"""How many offsets an answer has that is made in one piece."""
SORTED_MAX = 50_000
"""How many partitions a slice sorts, which is soon done."""
_PRESENT = OffsetCommitValue(0, 0, "", 0, 0, b"")
_Topic = tuple[str, bytes, Sequence[int]]
"""(name or "", id or b"", partitions)"""


class Reading:
    """What each position of a group had when the reading was made, for as long as it is in `state.readings`.
    Stands for the mapping that it is of."""

    __slots__ = ("_before", "_group_id", "_has_moved", "_offsets")

    def __init__(self, state: ShardState, group_id: str) -> None:
        self._group_id = group_id
        self._offsets = state.offsets.get(group_id, NO_OFFSETS)
        self._before: dict[Position, OffsetCommitValue | None] = {}
        self._has_moved = False
        """Whether positions have come or gone, or are kept elsewhere: a walk through them is not what it
        was."""
        state.readings.append(self)

    def note(
        self, group_id: str, position: Position, replaced: OffsetCommitValue | None, is_steady: bool
    ) -> None:
        """Take note of a change that is being applied. `is_steady`: the offset is kept where the one was that
        it replaces."""
        if group_id == self._group_id:
            self._before.setdefault(position, replaced)
            self._has_moved = self._has_moved or not is_steady

    def slices(self) -> Iterator[list[Position] | None]:
        """The positions that had an offset; None: all those so far come again."""
        walk = iter(self._offsets)
        while not self._has_moved:
            try:
                some = list(islice(walk, SLICE_MAX))
            except RuntimeError:  # some have gone
                break
            if not some:
                return
            yield some
        yield None
        gone = [each for each, value in self._before.items() if value and each not in self._offsets]
        for some in sliced([*self._offsets, *gone]):
            yield [each for each in some if self._before.get(each, _PRESENT)]

    def many(self, positions: Iterable[Position]) -> dict[Position, OffsetCommitValue]:
        """Return what there was at each of these positions, without those that had nothing."""
        before, others = {}, []
        for position in positions:
            if position not in self._before:
                others.append(position)
            elif (value := self._before[position]) is not None:
                before[position] = value
        return before | self._offsets.many(others)

    def packed(self, topic: str, partitions: Sequence[int], topic_id: bytes | None) -> bytes | None:
        """Return rows as `GroupOffsets.packed` does, unless some of them have changed since."""
        if any((topic, partition) in self._before for partition in partitions):
            return None
        return self._offsets.packed(topic, partitions, topic_id)


Refuse = Callable[[ShardState, OffsetFetchGroup, int], FetchedGroup | None]
"""(state, group, API version): the group's answer if its member may not fetch."""
Committed = GroupOffsets | Reading
Fetch = Callable[[MetadataImage, OffsetFetchGroup, Committed, Collection[Position]], FetchedGroup]
"""(image, group with its topics named, offsets, unstable ones): the group's answer."""


def offsets_asked(state: ShardState, body: OffsetFetchRequest) -> int:
    """How many offsets the answer will have, about."""
    asked = 0
    for group in body.groups:
        if group.topics is None:
            asked += len(state.offsets.get(group.group_id, NO_OFFSETS))
        else:
            for _, partitions in group.topics:
                asked += len(partitions)
    return asked


def in_slices(state: ShardState, request: Request, refuse: Refuse, fetch: Fetch) -> Iterator[Result]:
    """Answer an OffsetFetch in slices."""
    body: OffsetFetchRequest = request.body
    groups = [_begun(state, group, request, refuse) for group in body.groups]
    try:
        answered = []
        for group in groups:
            answered.append(group.refused or (yield from _fetched(state.image, group, request, fetch)))
        group_id = body.groups[0].group_id if len(body.groups) == 1 else None
        yield Result((), (Reply(request.token, OffsetFetchResponse(tuple(answered)), group_id),))
    finally:
        for group in groups:
            state.readings.remove(group.reading)


class _Group(NamedTuple):
    """One group of the request, as it is when the work begins."""

    asked: OffsetFetchGroup
    refused: FetchedGroup | None
    reading: Reading
    unstable: Collection[Position]


def _begun(state: ShardState, asked: OffsetFetchGroup, request: Request, refuse: Refuse) -> _Group:
    reading = Reading(state, asked.group_id)
    unstable = frozenset(pending_of(state, asked.group_id)) if request.body.require_stable else frozenset()
    return _Group(asked, refuse(state, asked, request.api_version), reading, unstable)


def _fetched(
    image: MetadataImage, group: _Group, request: Request, fetch: Fetch
) -> Generator[Result, None, FetchedGroup]:
    asked = group.asked
    if asked.topics is None:
        by_id = request.api_version >= TOPIC_IDS_SINCE
        topics = yield from _all_topics(group.reading, image if by_id else None)
    else:
        by_id = asked.topic_ids is not None
        ids = asked.topic_ids or repeat(b"")
        topics = [(name, topic_id, each) for (name, each), topic_id in zip(asked.topics, ids, strict=False)]
    found: list[tuple[str, Any]] = []
    for batch in _batches(topics):
        part = OffsetFetchGroup(
            asked.group_id,
            tuple((name, tuple(partitions)) for name, _, partitions, _ in batch),
            topic_ids=tuple(topic_id for _, topic_id, _, _ in batch) if by_id else None,
        )
        rows_of_each = fetch(image, part, group.reading, group.unstable).topics
        for (name, rows), (_, _, _, goes_on) in zip(rows_of_each, batch, strict=True):
            if goes_on:
                found[-1][1].extend(rows)
            else:
                found.append((name, list(rows)))
        yield NOTHING
    topic_ids = tuple(topic_id for _, topic_id, _ in topics) if by_id else None
    return FetchedGroup(asked.group_id, tuple(found), topic_ids=topic_ids)


def _all_topics(reading: Reading, image: MetadataImage | None) -> Generator[Result, None, list[_Topic]]:
    """All topics that had an offset, sorted by name; by id if there is an image, which has no id for a topic
    that is gone."""
    # Arrays, for the garbage collector looks at every element of a list.
    partitions: defaultdict[str, array[int]] = defaultdict(partial(array, "i"))
    for some in reading.slices():
        if some is None:
            partitions.clear()
        else:
            for topic, partition in some:
                partitions[topic].append(partition)
            yield NOTHING
    topics: list[_Topic] = []
    done = 0
    for name in sorted(partitions):
        numbers = array("i", sorted(partitions.pop(name)))
        if image is None:
            topics.append((name, b"", numbers))
        elif name in image.topics:
            topics.append(("", image.topics[name].topic_id, numbers))
        done += len(numbers)
        if done >= SORTED_MAX:
            done = 0
            yield NOTHING
    return topics


def _batches(topics: Iterable[_Topic]) -> Iterator[list[tuple[str, bytes, Sequence[int], bool]]]:
    """All partitions, SLICE_MAX at a time: (name, id, partitions, whether more of the topic came before)."""
    batch: list[tuple[str, bytes, Sequence[int], bool]] = []
    room = SLICE_MAX
    for name, topic_id, partitions in topics:
        done = 0
        while not done or done < len(partitions):
            some = partitions[done : done + room]
            batch.append((name, topic_id, some, done > 0))
            room -= len(some) + 1
            if room <= 0:
                yield batch
                batch, room = [], SLICE_MAX
            done += len(some) or 1
    if batch:
        yield batch
