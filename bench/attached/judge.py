"""What consumers wrote down, judged: no record unseen, no acknowledged commit lost, no group that needed a
hand. PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

Event = Mapping[str, Any]
Offsets = Mapping[str, int]
"""Partition, as topic-number -> an offset, or how many records it has."""
SHOWN_MAX: Final = 5
STABLE: Final = "stable"


class Step(NamedTuple):
    """Something that was done to the cluster or the tier."""

    name: str
    began_ms: float
    ended_ms: float
    produced: Offsets
    """How many records were acknowledged when it had ended."""

    @property
    def took_s(self) -> float:
        """How long it took."""
        return (self.ended_ms - self.began_ms) / 1_000


class Standing(NamedTuple):
    """What the cluster says of a group when all is over."""

    state: str
    committed: Offsets


class Evidence(NamedTuple):
    """All that is judged."""

    produced: Offsets
    told: Mapping[str, Sequence[Event]]
    """Group -> what its members wrote down, in the order of time."""
    standing: Mapping[str, Standing]
    steps: Sequence[Step]
    copied: Mapping[str, Mapping[str, int]]
    """Group that copies in transactions -> "partition:offset" of a record -> how often its copy is there."""
    deadline_s: float
    """How soon after a step every group has to have committed all that was there when it ended."""


def findings(evidence: Evidence) -> list[str]:
    """Return what is wrong, in words; nothing if every promise was kept."""
    return [
        *_unjudged(evidence),
        *(
            f"{group}: {words}"
            for group, told in evidence.told.items()
            for words in _of_group(evidence, group, told)
        ),
        *_copies(evidence),
    ]


def _unjudged(evidence: Evidence) -> Iterator[str]:
    """Yield what is not there to be judged: a story in which nothing happened keeps every promise."""
    if not any(evidence.produced.values()):
        yield "no record was acknowledged: there is nothing to judge"
    if not evidence.told:
        yield "no group took part"
    if not evidence.steps:
        yield "nothing was done to the cluster or the tier"


def _of_group(evidence: Evidence, group: str, told: Sequence[Event]) -> Iterator[str]:
    yield from _unseen(evidence.produced, told)
    yield from taken_back(told)
    yield from _standing(evidence, group, told)
    for step in evidence.steps:
        took_s = caught_up_s(step, told)
        if took_s is None or took_s > evidence.deadline_s:
            when = "never" if took_s is None else f"{took_s:.0f} s later"
            yield f"had committed all that was there after {step.name!r} {when}: it needed a hand"
    for event in told:
        if event["event"] == "failed":
            yield f"member {event.get('member')} ended by itself: {event.get('error')}"


def _unseen(produced: Offsets, told: Sequence[Event]) -> Iterator[str]:
    seen: dict[str, set[int]] = {}
    for event in told:
        if event["event"] == "records":
            seen.setdefault(event["partition"], set()).update(event["offsets"])
    missing = [
        f"{partition} at {offset}"
        for partition, count in produced.items()
        for offset in sorted(set(range(count)) - seen.get(partition, set()))
    ]
    if missing:
        yield f"{len(missing)} records were seen by nobody: {_some(missing)}"


def taken_back(told: Sequence[Event]) -> Iterator[str]:
    """Yield each time that a member was given records below a commit that was acknowledged before: its
    group's offset had gone back."""
    highest: dict[str, int] = {}
    for event in told:
        if event["event"] == "committed":
            for partition, offset in event["offsets"].items():
                highest[partition] = max(offset, highest.get(partition, 0))
        elif event["event"] == "records":
            least, partition = min(event["offsets"]), event["partition"]
            if least < highest.get(partition, 0):
                yield (
                    f"{partition} was read from {least} on after {highest[partition]} was acknowledged"
                    f" as committed (at {event['at']:.0f})"
                )


def acknowledged(told: Iterable[Event]) -> dict[str, int]:
    """Return the highest offset of each partition that was acknowledged as committed."""
    found: dict[str, int] = {}
    for event in told:
        if event["event"] == "committed":
            for partition, offset in event["offsets"].items():
                found[partition] = max(offset, found.get(partition, 0))
    return found


def _standing(evidence: Evidence, group: str, told: Sequence[Event]) -> Iterator[str]:
    standing = evidence.standing.get(group)
    if standing is None:
        yield "the cluster does not know it"
        return
    if standing.state.lower() != STABLE:
        yield f"it is {standing.state} in the end, and not stable"
    highest = acknowledged(told)
    wrong = [
        f"{partition}: {standing.committed.get(partition)}, and {highest.get(partition)} was acknowledged"
        for partition, count in evidence.produced.items()
        if count and standing.committed.get(partition) != highest.get(partition)
    ]
    if wrong:
        yield f"{len(wrong)} committed offsets are not the acknowledged ones: {_some(wrong)}"


def caught_up_s(step: Step, told: Sequence[Event]) -> float | None:
    """Return how many seconds after the end of a step the group had committed all that was there by then;
    0 if it had before, None if it never did."""
    behind = {partition: count for partition, count in step.produced.items() if count}
    for event in told:
        if event["event"] == "committed":
            for partition, offset in event["offsets"].items():
                if offset >= behind.get(partition, offset + 1):
                    del behind[partition]
        if not behind:
            return max(0.0, (float(event["at"]) - step.ended_ms) / 1_000)
    return None if behind else 0.0


def longest_gap_s(told: Sequence[Event], began_ms: float, ended_ms: float) -> float:
    """Return the longest time without an acknowledged commit of the group, between two moments."""
    times = [event["at"] for event in told if event["event"] == "committed"]
    return longest_gap(times, began_ms, ended_ms) / 1_000


def longest_gap(times: Iterable[float], began: float, ended: float) -> float:
    """Return the longest time without any of these moments, which are in order, between two others."""
    within = [at for at in times if began <= at <= ended]
    return max(after - before for before, after in pairwise([began, *within, ended]))


def _copies(evidence: Evidence) -> Iterator[str]:
    records = {
        f"{partition.rpartition('-')[2]}:{offset}"
        for partition, count in evidence.produced.items()
        for offset in range(count)
    }
    for group, copied in evidence.copied.items():
        counted = Counter(copied)
        if absent := sorted(records - set(counted)):
            yield f"{group}: {len(absent)} records were copied by no transaction: {_some(absent)}"
        if twice := sorted(record for record, times in counted.items() if times > 1):
            yield f"{group}: {len(twice)} records were copied more than once: {_some(twice)}"


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:SHOWN_MAX]) + (", ..." if len(words) > SHOWN_MAX else "")
