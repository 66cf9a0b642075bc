"""What a member does with its partitions: it finds where to go on, "processes", commits rising offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.member.answers import commit_errors, fetched
from bench.member.member import Member
from bench.member.reactions import COMMIT_LATER
from bench.member.requests import (
    offset_commit,
    offset_fetch,
)
from bench.swarm.members.asking import Asker, NotYet
from bench.swarm.members.polling import Polling
from bench.swarm.planning.plan import MemberPlan
from bench.swarm.records.fetcher import Fetcher
from bench.swarm.rows.shared import Shared
from storage.history.calls import Call, Offset, Partitions

STEP_MAX: Final = 100
"""How many records a member at most says it has processed between two commits of a partition."""


class Processor(Asker):
    """A member that owns partitions and knows its position in each."""

    def __init__(self, plan: MemberPlan, life: int, shared: Shared, member: Member) -> None:
        super().__init__(plan, life, shared, member)
        self.owned: dict[str, tuple[int, ...]] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._commit_from = 0
        self._committed: dict[tuple[str, int], int] = {}
        self._polling = self._reading()

    def _reading(self) -> Polling | None:
        plan = self.plan.records
        if plan is None:
            return None
        fetcher = Fetcher(self.client, self.software, self.shared, self.wake)
        return Polling(plan, fetcher, self._positions, self.chance)

    def wake(self) -> None:
        """Called when records were fetched."""

    def take(self, assigned: Mapping[str, tuple[int, ...]]) -> Partitions:
        """Own these partitions from now on. Returns those that the member did not own before."""
        before = {(topic, number) for topic, numbers in self.owned.items() for number in numbers}
        self.owned = dict(assigned)
        now = {(topic, number) for topic, numbers in assigned.items() for number in numbers}
        for key in before - now:
            self._positions.pop(key, None)
        if self._polling is not None:
            self._polling.lose(before - now)
        return grouped(now - before)

    def find_positions(self, partitions: Partitions) -> None:
        """Set the positions of partitions to their committed offsets, else to the beginning."""
        if not partitions or self.plan.commit_interval_ms <= 0:
            return

        def read(answer: bytes, call: Call) -> tuple[Call, int]:
            error_code, offsets = fetched(answer)
            first = next((each.error_code for each in offsets if each.error_code), 0)
            for topic, partition, offset, wrong in offsets if not error_code else ():
                if not wrong:
                    self._positions[topic, partition] = max(offset, 0)
                    self._committed[topic, partition] = max(offset, 0)
            return call._replace(error_code=error_code or first, offsets=offsets), error_code or first

        request = offset_fetch(self.identity(), 9 if self.is_consumer else 8, partitions)
        error_code = self.ask(request, self.call(), read)
        if error_code not in COMMIT_LATER:
            self.check(error_code)

    def commit(self, partitions: list[tuple[str, int]]) -> None:
        """Commit what was processed meanwhile. Nothing is committed after the end of the run's record: nobody
        could judge a commit that is not in it."""
        if not self.shared.recorder.is_open:
            return
        offsets: dict[str, dict[int, int]] = {}
        for topic, number in partitions:
            if self._polling is None:
                self._positions[topic, number] += self.chance.randint(1, STEP_MAX)
            if self._positions[topic, number] > self._committed.get((topic, number), -1):
                offsets.setdefault(topic, {})[number] = self._positions[topic, number]
        if not offsets:
            return

        def read(answer: bytes, call: Call) -> tuple[Call, int]:
            errors = commit_errors(answer)
            rows = tuple(row._replace(error_code=errors.get(row[:2], 0)) for row in call.offsets)
            first = next((row.error_code for row in rows if row.error_code), 0)
            self._committed |= {row[:2]: row.offset for row in rows if not row.error_code}
            return call._replace(offsets=rows, error_code=first), first

        said = tuple(Offset(topic, *row) for topic, rows in offsets.items() for row in rows.items())
        request = offset_commit(self.identity(), 9 if self.is_consumer else 8, offsets)
        error_code = self.ask(request, self.call()._replace(offsets=said), read)
        if error_code not in COMMIT_LATER:
            self.check(error_code)

    def commit_all(self) -> None:
        """Commit before partitions are given up: the first `commit_partitions_max` whose positions are known.
        If the commit is lost, the next owner reads those records again."""
        if self.plan.commit_interval_ms > 0:
            try:
                self.commit(self._known()[: self.plan.commit_partitions_max])
            except NotYet:
                return

    def _known(self) -> list[tuple[str, int]]:
        return [
            (topic, number)
            for topic, numbers in self.owned.items()
            for number in numbers
            if (topic, number) in self._positions
        ]

    def _next_part(self) -> list[tuple[str, int]]:
        """The partitions of the next commit: those that do not fit into one have their turn in later ones."""
        known = self._known()
        if len(known) < sum(map(len, self.owned.values())):
            missing = {(t, n) for t, numbers in self.owned.items() for n in numbers} - set(known)
            self.find_positions(grouped(missing))
            known = self._known()
        first = self._commit_from if self._commit_from < len(known) else 0
        self._commit_from = first + self.plan.commit_partitions_max
        return known[first : self._commit_from]


def grouped(partitions: set[tuple[str, int]]) -> Partitions:
    """The numbers of the partitions by topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return tuple((topic, tuple(numbers)) for topic, numbers in topics.items())


def plain(owned: Mapping[str, tuple[int, ...]]) -> Partitions:
    """The owned partitions as a run's record has them: topics and numbers in order."""
    return tuple((topic, tuple(sorted(numbers))) for topic, numbers in sorted(owned.items()))
