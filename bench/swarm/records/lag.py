"""How far groups were behind what was produced, second by second, by the rows of a history alone.

PURE. A group's lag is what was written to its topics and acknowledged, less what it has committed: as Kafka's
own tools count it. What is committed before a partition was written to counts as nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from bench.swarm.records.requests import Partition
from storage.history.calls import PRODUCE, Call, History

SECOND_US: Final = 1_000_000
STEPS_MAX: Final = 7_200
_Place = Callable[[int], int]
"""The step of a time."""


class GroupLag(NamedTuple):
    """How far one group was behind; the list has one entry a step."""

    group_id: str
    lag: list[int]
    """How many records the group was behind at the end of each step."""
    processed: int
    """How many records the group committed."""

    @property
    def most(self) -> int:
        return max(self.lag, default=0)

    @property
    def last(self) -> int:
        return self.lag[-1] if self.lag else 0


class Lags(NamedTuple):
    """How far the groups of a run were behind the records that its producers wrote."""

    step_s: int
    produced_s: list[float]
    """Records a second that were acknowledged."""
    processed_s: list[float]
    """Records a second that were committed, by all groups."""
    groups: list[GroupLag]
    """The one that was farthest behind at the end comes first."""

    @property
    def total(self) -> list[int]:
        """Records that all groups together were behind, at the end of each step."""
        return [sum(lags) for lags in zip(*(group.lag for group in self.groups), strict=True)]

    @property
    def produced(self) -> int:
        return round(sum(self.produced_s) * self.step_s)


def lags_of(history: History, began_us: int, ended_us: int, steps_max: int = STEPS_MAX) -> Lags | None:
    """Count how far groups were behind; None: no producer wrote anything."""
    if not any(call.api == PRODUCE for call in history.calls):
        return None
    steps = max(1, math.ceil((ended_us - began_us) / SECOND_US))
    step_s = max(1, math.ceil(steps / steps_max))
    steps = math.ceil(steps / step_s)

    def place(at_us: int) -> int:
        return min(steps - 1, max(0, (at_us - began_us) // (step_s * SECOND_US)))

    produced = _rises((call for call in history.calls if call.api == PRODUCE), place)
    topics, commits = _of_groups(history.calls)
    written_to = {topic for topic, _ in produced}
    groups, processed = [], [0] * steps
    for group_id in sorted(topics):
        read = topics[group_id] & written_to
        if not read:
            continue
        committed = _rises(commits[group_id], place)
        rises, count = [0] * steps, 0
        for partition, of_partition in produced.items():
            if partition[0] in read:
                _add(rises, of_partition, 1)
        for partition in committed.keys() & produced.keys():
            _add(rises, committed[partition], -1)
            _add(processed, committed[partition], 1)
            count += sum(committed[partition].values())
        groups.append(GroupLag(group_id, _summed(rises), count))
    written = [0] * steps
    for of_partition in produced.values():
        _add(written, of_partition, 1)
    groups.sort(key=lambda group: (-group.last, -group.most, group.group_id))
    return Lags(step_s, _rate(written, step_s), _rate(processed, step_s), groups)


def _of_groups(calls: Iterable[Call]) -> tuple[dict[str, set[str]], dict[str, list[Call]]]:
    """The topics that each group's members read, and each group's commits. A group that commits nothing has
    topics too: it is behind."""
    topics: dict[str, set[str]] = defaultdict(set)
    commits: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        topics[call.group_id].update(call.subscribed)
        if call.api == "OffsetCommit":
            topics[call.group_id].update(row.topic for row in call.offsets)
            commits[call.group_id].append(call)
    topics.pop("", None)
    return topics, commits


def _rises(calls: Iterable[Call], place: _Place) -> dict[Partition, dict[int, int]]:
    """How much a partition's end, or its committed offset, rose in each step, by partition and step."""
    rows = sorted(
        (call.ended_us, row.topic, row.partition, row.offset)
        for call in calls
        if call.is_answered
        for row in call.offsets
        if not row.error_code
    )
    reached: dict[Partition, int] = {}
    rises: dict[Partition, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for ended_us, topic, partition, offset in rows:
        before = reached.get((topic, partition), 0)
        if offset > before:
            rises[topic, partition][place(ended_us)] += offset - before
            reached[topic, partition] = offset
    return rises


def _add(into: list[int], rises: dict[int, int], sign: int) -> None:
    for step, count in rises.items():
        into[step] += sign * count


def _summed(rises: list[int]) -> list[int]:
    total, summed = 0, []
    for rise in rises:
        total += rise
        summed.append(max(0, total))
    return summed


def _rate(counts: list[int], step_s: int) -> list[float]:
    return [round(count / step_s, 3) for count in counts]
