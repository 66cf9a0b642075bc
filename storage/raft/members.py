"""Who belongs to a Raft group, and the next step towards who should (Raft dissertation, chapter 4).

A member is named "<replica>.<incarnation>". The incarnation is drawn when a replica's directory is made and
never again: whoever lost its directory is somebody else from then on and cannot vote under its old name.
This module is pure: it has no clock, no file and no link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgpack

FOUNDING_INCARNATION: Final = 1
"""The incarnation of a group's first replicas: they have to know each other before they have met."""
MEMBERS_MAX: Final = 15


class Member(NamedTuple):
    """One replica of a group. A learner gets the log and counts for nothing."""

    member_id: str
    node_id: int
    votes: bool


Members = tuple[Member, ...]
"""All members of a group, sorted by id."""


class Genesis(NamedTuple):
    """What is written into a replica's directory when it is made, and never changes."""

    incarnation: int
    founders: Members


FOUNDING: Final = Genesis(FOUNDING_INCARNATION, ())


def member_id(replica: int, incarnation: int) -> str:
    return f"{replica}.{incarnation}"


def replica_of(member: str) -> int:
    """Return the replica's number in "<replica>.<incarnation>"."""
    return int(member.partition(".")[0])


def incarnation_of(member: str) -> int:
    return int(member.partition(".")[2])


def founders(nodes: Mapping[int, int]) -> Members:
    """Return the first members of a group, all voters; `nodes` maps replica numbers to node ids."""
    voters = (Member(member_id(number, FOUNDING_INCARNATION), node, True) for number, node in nodes.items())
    return tuple(sorted(voters))


def pack(members: Members) -> bytes:
    packed: bytes = msgpack.packb(members)
    return packed


def unpack(packed: bytes) -> Members:
    """Return the members that `pack` wrote. Raises ValueError."""
    return check(msgpack.unpackb(packed, use_list=False))


def check(fields: Any) -> Members:
    """Make members of plain tuples. Raises ValueError."""
    if not isinstance(fields, tuple) or len(fields) > MEMBERS_MAX:
        raise ValueError(f"a group has at most {MEMBERS_MAX} members")
    for each in fields:
        if not isinstance(each, tuple) or tuple(map(type, each)) != (str, int, bool):
            raise ValueError("a member is (id, node id, votes)")
    return tuple(Member(*each) for each in fields)


class Memberships:
    """The memberships that the log holds, newest last. The newest counts from the moment it is in the log,
    committed or not; if its entry is taken back, the one before counts again."""

    def __init__(self, index: int, members: Members) -> None:
        self._held: list[tuple[int, Members]] = [(index, members)]

    @property
    def current(self) -> Members:
        return self._held[-1][1]

    @property
    def index(self) -> int:
        """Return the index of the entry that brought the current membership."""
        return self._held[-1][0]

    def at(self, index: int) -> Members:
        """Return the membership after the entry at `index`."""
        return next(members for since, members in reversed(self._held) if since <= index)

    def add(self, index: int, members: Members) -> None:
        assert index > self.index, "entries are added in order"
        self._held.append((index, members))

    def truncate_after(self, index: int) -> bool:
        """Take back what entries above `index` brought. Return whether another membership counts now."""
        before = self.index
        while len(self._held) > 1 and self.index > index:
            self._held.pop()
        return self.index != before

    def forget_before(self, index: int) -> None:
        """Drop the memberships that were replaced by `index`: everything up to there is committed."""
        while len(self._held) > 1 and self._held[1][0] <= index:
            del self._held[0]


class View(NamedTuple):
    """What a leader knows when it takes the next step."""

    self_id: str
    has_caught_up: Callable[[str], bool]
    """A function that says whether the member misses next to nothing, and is connected."""
    is_online: Callable[[str], bool]


def next_step(now: Members, target: Mapping[str, int], view: View) -> Members | str | None:
    """Return the next membership on the way to `target` (member id -> node id), differing in one member; or
    the id of the voter to hand leadership to first; or None if nothing can or need be done now.

    Newcomers learn first. A voter that should go and does not answer goes before a newcomer gets its vote:
    while it counts it can only be missed. A voter that should go and answers goes after that.
    """
    known = {member.member_id: member for member in now}
    for newcomer in sorted(target.keys() - known.keys()):
        if len(now) < MEMBERS_MAX:
            return _with(now, Member(newcomer, target[newcomer], False))
    learners = [member for member in now if not member.votes]
    for learner in learners:
        if learner.member_id not in target:
            return _without(now, learner.member_id)
    ready = [member for member in learners if view.has_caught_up(member.member_id)]
    if len(ready) < len(learners):
        return None
    leaving = [member.member_id for member in now if member.votes and member.member_id not in target]
    for gone in leaving:
        if gone != view.self_id and not view.is_online(gone):
            return _without(now, gone)
    for learner in ready:
        return _with(_without(now, learner.member_id), learner._replace(votes=True))
    for present in leaving:
        if present != view.self_id:
            return _without(now, present)
    heirs = [member.member_id for member in now if member.votes and member.member_id in target]
    return next(filter(view.is_online, heirs), None) if leaving else None


def _with(members: Members, member: Member) -> Members:
    return tuple(sorted((*members, member)))


def _without(members: Members, gone: str) -> Members:
    return tuple(member for member in members if member.member_id != gone)
