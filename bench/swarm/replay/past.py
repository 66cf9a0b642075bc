"""Finds the life of each recorded group: who was in it from when to when, what it read, how often it
committed.

PURE. History tells of members that come and go, not of those that are simply there: a member that came before
the first event that is kept shows only when it goes, or in the number of members that an event tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bench.swarm.replay.told import Committed, Recording, Told
from storage.history.schema import GONE, MOVES_MAX

STABLE: Final = "Stable"
"""The state in which a consumer group's rebalance ends that the next one does not cut short."""
LEFT: Final = "left"
EXPIRED: Final = "expired"
RETURNED: Final = "returned"
"""The end of a static member whose next life took its place (KIP-345); when this life had ended is not
known."""
REPLACED: Final = "replaced"
"""The end of a member that the coordinator removed for another reason than a timeout."""
UNRECORDED: Final = "unrecorded"
"""The end of a member of which no event tells, though the group was empty or gone afterwards."""


class Life(NamedTuple):
    """One member from its coming to its going."""

    key: str
    """Says whose life it is: that of a static instance, or of a client on a host, which may have several at a
    time."""
    instance_id: str | None
    software: str | None
    """The name and version of the client's library."""
    began_ms: int | None
    """When it began; None: before the first event that is kept."""
    ended_ms: int | None = None
    """When it ended; None: it was there at the span's end."""
    ending: str = ""
    session_timeout_ms: int | None = None
    """How long its session lasts; None: its join is not kept, or an older release recorded it."""

    @property
    def is_named(self) -> bool:
        """Whether any event names the member."""
        return bool(self.key)


class Width(NamedTuple):
    """A topic has at least so many partitions, as was seen at a moment."""

    at_ms: int
    topic: str
    partitions: int
    is_growth: bool
    """Whether the group was assigned more partitions than before: the topic had not been so wide all
    along."""


class Handovers(NamedTuple):
    """What rebalances within the span mean for the commits of a swarm's members."""

    commits: int
    """How many commits are made because partitions are given up."""
    waits: tuple[tuple[int, int], ...]
    """How many members cannot commit, and for how many milliseconds."""


class GroupPast(NamedTuple):
    """The life of one group."""

    group_id: str
    is_consumer: bool
    assignor: str | None
    """The protocol that the members of a classic group chose; None: it was never told."""
    lives: tuple[Life, ...]
    """The lives of which the span has a part, by their beginning."""
    widths: tuple[Width, ...]
    """The group's widths in the order of time."""
    partitions: int
    """The most partitions that were assigned at a time."""
    committed: Committed
    handovers: Handovers


def pasts(recording: Recording) -> list[GroupPast]:
    """All groups that had a member within the span, by name."""
    found = (_past(recording, group_id, events) for group_id, events in sorted(recording.groups.items()))
    return [each for each in found if each.lives]


def without_members(recording: Recording) -> list[str]:
    """The groups that committed, and of whose members nothing is known."""
    known = {past.group_id for past in pasts(recording)}
    return sorted(recording.commits.keys() - known)


def _past(recording: Recording, group_id: str, events: Sequence[Told]) -> GroupPast:
    types = [each.group_type for each in events if each.group_type]
    assignors = [each.assignor for each in events if each.assignor]
    is_consumer = types[-1:] == ["consumer"]
    return GroupPast(
        group_id,
        is_consumer,
        assignors[-1] if assignors else None,
        tuple(_within(recording, lives_of(events))),
        tuple(_widths(events, recording.sampled.get(group_id, {}).items())),
        max((each.partitions for each in events if each.partitions), default=0),
        recording.commits.get(group_id, Committed()),
        _handovers(recording, events, is_consumer=is_consumer),
    )


def _within(recording: Recording, lives: Iterable[Life]) -> list[Life]:
    since_ms = recording.span.since_ms
    there = [life for life in lives if life.ended_ms is None or life.ended_ms > since_ms]
    return sorted(there, key=lambda life: life.began_ms or 0)


def lives_of(events: Sequence[Told]) -> list[Life]:
    """The lives of one group's members, in the order in which they are known to have begun."""
    members = _Members()
    for event in events:
        members.take(event)
    return members.lives()


class _Members:
    """The members of one group, as its events tell of them."""

    def __init__(self) -> None:
        self._there: dict[str, Life] = {}
        """The lives of members that are there, by member id."""
        self._over: list[Life] = []
        self._is_counted = False
        self._unnamed: list[str] = []
        """The members that are there and that no event has named yet."""

    def lives(self) -> list[Life]:
        return [*self._over, *self._there.values()]

    def take(self, event: Told) -> None:
        if event.kind == "member_joined":
            self._joins(event)
        elif event.kind in GONE:
            self._goes(event)
        # The next life of a fenced static member is counted already.
        if event.members is not None and not self._is_counted and event.kind != "member_fenced":
            self._count(event)
        is_empty = event.kind == "rebalance_ended" and event.members == 0
        if is_empty or event.kind == "group_deleted":
            for member_id in list(self._there):
                self._end(member_id, event.at_ms, UNRECORDED)

    def _joins(self, event: Told) -> None:
        member_id = event.member_id or ""
        if member_id not in self._there:
            self._there[member_id] = _life(event, event.at_ms)

    def _goes(self, event: Told) -> None:
        member_id = event.member_id or ""
        if member_id not in self._there:
            if event.client_id is None:
                return  # a member id that was handed out and never used
            if self._unnamed:
                del self._there[self._unnamed.pop()]
            self._there[member_id] = _life(event, None)
        returns = event.kind == "member_fenced" and event.group_instance_id is not None
        ending = {"member_left": LEFT, "member_expired": EXPIRED}.get(event.kind)
        self._end(member_id, event.at_ms, ending or (RETURNED if returns else REPLACED))

    def _end(self, member_id: str, at_ms: int, ending: str) -> None:
        if member_id in self._unnamed:
            self._unnamed.remove(member_id)
        self._over.append(self._there.pop(member_id)._replace(ended_ms=at_ms, ending=ending))

    def _count(self, event: Told) -> None:
        """Take the number of members in an event: the group's first one tells how many were there before
        anything was kept of it."""
        self._is_counted = True
        for place in range((event.members or 0) - len(self._there)):
            self._unnamed.append(f"unnamed {place}")
            self._there[self._unnamed[-1]] = Life("", None, None, None)


def _life(event: Told, began_ms: int | None) -> Life:
    key = event.group_instance_id or f"{event.client_id}@{event.client_host}"
    return Life(
        key,
        event.group_instance_id,
        event.client_software,
        began_ms,
        session_timeout_ms=event.session_timeout_ms,
    )


def _widths(events: Sequence[Told], sampled: Iterable[tuple[str, int]]) -> Iterable[Width]:
    widest: dict[str, int] = {}
    assigned = 0
    for event in events:
        has_more = event.partitions is not None and assigned and event.partitions > assigned
        for topic, partitions in event.widths:
            before = widest.get(topic, 0)
            if partitions > before:
                widest[topic] = partitions
                began_ms = event.at_ms - (event.duration_ms or 0)
                yield Width(began_ms, topic, partitions, bool(has_more and before))
        assigned = max(assigned, event.partitions or 0)
    for topic, partitions in sampled:
        if partitions > widest.get(topic, 0):
            yield Width(0, topic, partitions, is_growth=False)


def _handovers(recording: Recording, events: Sequence[Told], *, is_consumer: bool) -> Handovers:
    """Find what rebalances mean for commits. A classic member commits when it hears of a rebalance, at once
    since its heartbeat is held, joins, and waits for the end. One of a KIP-848 group goes on, and commits
    before it gives partitions up. A newcomer waits until it is given any."""
    commits, waits = 0, Counter[int]()
    joined_ms: dict[str, int] = {}
    newcomers: dict[str, int] = {}
    for event in events:
        is_within = event.at_ms >= recording.span.since_ms
        member_id = event.member_id or ""
        if event.kind == "member_joined":
            joined_ms[member_id] = newcomers[member_id] = event.at_ms
        elif event.kind in GONE:
            joined_ms.pop(member_id, None)
            newcomers.pop(member_id, None)
        elif event.kind == "assigned" and is_consumer and is_within:
            commits += sum(giver in joined_ms for giver in event.givers)
        elif event.kind == "rebalance_ended":
            served = _served(event, newcomers, is_consumer=is_consumer)
            if is_within:
                waits.update(event.at_ms - newcomers[each] for each in served)
            if is_within and not is_consumer:
                stayed = (event.members or 0) - len(newcomers)
                owners = max(0, stayed if event.partitions is None else min(stayed, event.partitions))
                commits += owners
                waits[event.duration_ms or 0] += owners
            for each in served:
                del newcomers[each]
    return Handovers(commits, tuple(sorted(waits.items())))


def _served(event: Told, newcomers: Iterable[str], *, is_consumer: bool) -> list[str]:
    """The newcomers that have partitions when a rebalance has ended. A cooperative group gives them some only
    with the rebalance after the one in which others give these up; what is unknown is taken for given."""
    if is_consumer:
        return [*newcomers] if event.state == STABLE else []
    if event.moved is None or event.moved > MOVES_MAX:
        return [*newcomers]
    return [each for each in newcomers if each in event.takers]
