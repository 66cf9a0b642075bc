"""Rule 1: an acknowledged commit is never lost and never goes back.

Each partition of a group is a register. What a read shows must have been written by a commit that was sent
before the read ended, and that was not definitely overwritten: by another that began after it had ended and
that was in force (acknowledged, or seen by a read) before the read began.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from storage.history.calls import NEVER, READER, Call, History
from storage.history.judge.findings import ERRORS_OF_MOVING, Findings, Limits, Violation, story, when

NOTHING: Final = -1
ALWAYS: Final = float("inf")
Key = tuple[str, str, int]
"""Group, topic, partition."""


class _Write(NamedTuple):
    value: int
    sent_us: float
    ended_us: float
    """ALWAYS: its outcome is unknown, it may come into force at any time."""
    call: Call | None


class _Read(NamedTuple):
    value: int
    sent_us: int
    ended_us: int
    call: Call


_INITIAL: Final = _Write(NOTHING, -ALWAYS, -ALWAYS, None)


def judge_commits(history: History, limits: Limits) -> Findings:
    """Judge every offset that was read. Only those commits count as judged that a later read covers: the
    others may have been thrown away."""
    writes, reads = _registers(history.calls)
    violations = [
        violation
        for key, of_key in reads.items()
        for violation in _Register(key, writes.get(key, []), history.is_whole).judge(of_key)
    ]
    covered = _covered(history, writes, reads)
    return Findings(
        violations,
        {"commits": covered.commits, "reads": sum(len(of_key) for of_key in reads.values())},
        seen=covered.told,
        unseen=covered.unseen(limits),
        is_required=covered.acknowledged > 0,
    )


class _Covered(NamedTuple):
    """The acknowledged commits, partition by partition, and which of them a later read covers."""

    commits: int
    acknowledged: int
    """How many were acknowledged, without those on topics that are gone."""
    gone: int
    """How many were on topics that were deleted, and their offsets with them."""
    unread: tuple[str, ...]
    """Groups of which the final reader, if there was one, has not read all."""
    why: str
    """Why the last reading of offsets failed."""

    @property
    def told(self) -> str:
        gone = f"; {self.gone:,} more on deleted topics" if self.gone else ""
        share = f"{self.commits:,} of {self.acknowledged:,}"
        return f"{share} acknowledged commits are covered by a later read{gone}"

    def unseen(self, limits: Limits) -> str:
        if not self.acknowledged:
            return "no commit was acknowledged"
        if self.unread:
            groups = f"{len(self.unread):,} groups could not be read at the end, as {self.unread[0]}"
            return f"{self.told}; {groups}: {self.why}"
        if not self.commits or self.commits < limits.least_answered * self.acknowledged:
            return f"{self.told}; at least {limits.least_answered:.0%} is asked for"
        return ""


def _covered(
    history: History, writes: Mapping[Key, list[_Write]], reads: Mapping[Key, list[_Read]]
) -> _Covered:
    gone = {row.topic for row in history.topics if not row.partitions}
    of_reader = [call for call in history.calls if call.client == READER]
    failed = {call.group_id: call for call in of_reader if not call.is_fine}
    acknowledged = covered = of_gone = 0
    unread: set[str] = set()
    for key, of_key in writes.items():
        read_us = max((read.sent_us for read in reads.get(key, ())), default=NEVER)
        for write in of_key:
            if write.ended_us == ALWAYS or write.call is None or write.call.api != "OffsetCommit":
                continue
            is_covered = write.ended_us < read_us
            of_gone += key[1] in gone and not is_covered
            if key[1] in gone and not is_covered:
                continue
            acknowledged += 1
            covered += is_covered
            if not is_covered and of_reader:
                unread.add(key[0])
    groups = tuple(sorted(unread, key=lambda group_id: (group_id not in failed, group_id)))
    last = failed.get(groups[0] if groups else "") or failed.get("")
    return _Covered(covered, acknowledged, of_gone, groups, story(last) if last else "time was up")


def _registers(calls: Sequence[Call]) -> tuple[dict[Key, list[_Write]], dict[Key, list[_Read]]]:
    writes: dict[Key, list[_Write]] = defaultdict(list)
    reads: dict[Key, list[_Read]] = defaultdict(list)
    deletions: list[Call] = []
    for call in calls:
        match call.api:
            case "OffsetCommit" | "OffsetDelete":
                for topic, partition, offset, error_code in call.offsets:
                    ended_us = _in_force(call, error_code)
                    if ended_us is not None:
                        key = call.group_id, topic, partition
                        writes[key].append(_Write(offset, call.sent_us, ended_us, call))
            case "OffsetFetch" if call.is_fine:
                for topic, partition, offset, error_code in call.offsets:
                    if error_code == 0:
                        key = call.group_id, topic, partition
                        reads[key].append(_Read(offset, call.sent_us, call.ended_us, call))
            case "DeleteGroups":
                deletions.append(call)
    for call in deletions:
        ended_us = _in_force(call, call.error_code)
        for key in writes:
            if ended_us is not None and key[0] == call.group_id:
                writes[key].append(_Write(NOTHING, call.sent_us, ended_us, call))
    return writes, reads


def _in_force(call: Call, error_code: int) -> float | None:
    """The moment by which a commit has been carried out, at the latest; None: it was refused."""
    if not call.is_answered or error_code in ERRORS_OF_MOVING:
        return ALWAYS
    return call.ended_us if error_code == 0 else None


class _Register:
    def __init__(self, key: Key, writes: list[_Write], is_whole: bool) -> None:
        self._key = key
        self._is_whole = is_whole
        self._by_value: dict[int, list[_Write]] = defaultdict(list)
        for write in (_INITIAL, *writes):
            self._by_value[write.value].append(write)
        self._evidence = [
            (write.ended_us, write.sent_us, number)
            for number, write in enumerate(writes)
            if write.ended_us < ALWAYS
        ]
        """When something was known to be in force, and since when at the earliest; acknowledgements and,
        as they are judged, reads."""
        heapq.heapify(self._evidence)
        self._writes = writes

    def judge(self, reads: list[_Read]) -> Iterator[Violation]:
        floor = -ALWAYS
        """Writes that ended before this are overwritten."""
        by = -1
        for read in sorted(reads, key=lambda read: read.sent_us):
            while self._evidence and self._evidence[0][0] < read.sent_us:
                _, since, number = heapq.heappop(self._evidence)
                if since > floor:
                    floor, by = since, number
            candidates = [w for w in self._by_value.get(read.value, []) if w.sent_us <= read.ended_us]
            possible = [write for write in candidates if write.ended_us >= floor]
            if possible:
                self._seen(read, possible)
            elif candidates:
                name = "commit lost" if read.value == NOTHING else "commit went back"
                yield self._violation(name, read, self._overwritten(by))
            elif self._is_whole:
                yield self._violation("commit invented", read, "nobody had committed that")

    def _seen(self, read: _Read, possible: list[_Write]) -> None:
        """Note that one of these writes was in force when the read ended."""
        since = min(write.sent_us for write in possible)
        if since > -ALWAYS:
            heapq.heappush(self._evidence, (read.ended_us, since, -1))
        if len(possible) == 1 and possible[0].ended_us == ALWAYS:
            of_value = self._by_value[read.value]
            of_value[of_value.index(possible[0])] = possible[0]._replace(ended_us=read.ended_us)

    def _overwritten(self, by: int) -> str:
        call = self._writes[by].call if by >= 0 else None
        return "a read before showed a later one" if call is None else f"overwritten by {story(call)}"

    def _violation(self, rule: str, read: _Read, why: str) -> Violation:
        group_id, topic, partition = self._key
        return Violation(
            rule,
            group_id,
            f"{topic}-{partition} shows {read.value} in {story(read.call)}: {why} "
            f"(read {when(read.sent_us)} to {when(read.ended_us)})",
        )
