"""What became of members and groups: rebalances, ownership that changed hands, memberships lost.

PURE: one pass over the calls in the order of their sending. A rebalance is a classic generation or a KIP-848
epoch that somebody learned of. It lasts from its first sign (a member that joins or leaves, or hears that it
must rejoin or of a new epoch) to the last member's settled answer: a SyncGroup; a ConsumerGroupHeartbeat that
tells the epoch or more partitions at it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from storage.history.calls import NEVER, Call, Gone, History, Partitions
from storage.history.judge.findings import FENCED
from storage.history.judge.ownership import flat, owner_of

QUIET_US: Final = 5_000_000
"""A group is stable for the first time when no rebalance begins for so long: a KIP-848 member learns of an
epoch at its next heartbeat, by default within five seconds."""
_REJOIN: Final = frozenset({int(ErrorCode.rebalance_in_progress), int(ErrorCode.illegal_generation)})
OUT, REBALANCING, SETTLED = range(3)


class Rebalance(NamedTuple):
    """One generation or epoch of one group."""

    group_id: str
    epoch: int
    began_us: int
    settled_us: int
    """NEVER: the next one came before anybody had settled."""

    @property
    def length_us(self) -> int | None:
        return None if self.settled_us == NEVER else self.settled_us - self.began_us


class Loss(NamedTuple):
    """A member heard that it is one no longer."""

    group_id: str
    client: str
    at_us: int
    error_code: int


class Move(NamedTuple):
    """A member became another `state` (OUT, REBALANCING, SETTLED)."""

    at_us: int
    before: int
    state: int


class GroupLife(NamedTuple):
    """What one group went through."""

    group_id: str
    protocol: str
    clients: int
    """Lives of members: a restarted one counts again."""
    rebalances: list[Rebalance]
    stable_us: int | None
    """From the first join to when no rebalance had begun for QUIET_US."""
    moved: int
    """Partitions that another member owned before."""


class Lives(NamedTuple):
    """Of all groups."""

    groups: list[GroupLife]
    losses: list[Loss]
    moves: list[Move]


def lives_of(history: History) -> Lives:
    """One pass; what it keeps grows with members and rebalances, not with calls."""
    groups: dict[str, _Group] = {}
    losses: list[Loss] = []
    moves: list[Move] = []
    gone = sorted(history.gone, key=lambda row: row.at_us)
    by_client: dict[str, _Group] = {}
    rows: Iterable[Call | Gone] = heapq.merge(history.calls, gone, key=_time_us)
    for row in rows:
        if isinstance(row, Gone):
            group = by_client.get(row.client)
            if group is not None:
                group.ends(row.client, row.at_us)
            continue
        if row.api not in _HANDLERS or not row.group_id:
            continue
        group = groups.get(row.group_id)
        if group is None:
            group = groups[row.group_id] = _Group(row, losses, moves)
        by_client[row.client] = group
        group.take(row)
    return Lives([group.life() for group in groups.values()], losses, moves)


def _time_us(row: Call | Gone) -> int:
    return row.sent_us if isinstance(row, Call) else row.at_us


class _Member:
    """One client."""

    __slots__ = ("assigned", "epoch", "is_late", "sign_us", "state")

    def __init__(self) -> None:
        self.state = OUT
        self.epoch = NEVER
        """The last that it was told."""
        self.sign_us = NEVER
        """Since when it knows that the next rebalance is on; NEVER: it does not."""
        self.assigned: Partitions | None = None
        self.is_late = False
        """It joined a rebalance that was over: a static member that is back, KIP-345."""


class _Rebalance:
    __slots__ = ("began_us", "settled_us", "told_us")

    def __init__(self, told_us: int) -> None:
        self.began_us = self.told_us = told_us
        self.settled_us = NEVER


class _Group:
    """What is known of one group so far."""

    def __init__(self, first: Call, losses: list[Loss], moves: list[Move]) -> None:
        self._group_id = first.group_id
        self._protocol = first.protocol
        self._losses = losses
        self._moves = moves
        self._members: dict[str, _Member] = {}
        self._inside = 0
        self._rebalances: dict[int, _Rebalance] = {}
        self._latest: _Rebalance | None = None
        self._left_us = NEVER
        """When a member left, as long as nobody learned of it."""
        self._joined_us = NEVER
        self._owners: dict[tuple[str, int], tuple[str, int]] = {}
        """By partition: the last owner, and the epoch at which it was told so."""
        self._moved = 0

    def take(self, call: Call) -> None:
        member = self._members.get(call.client)
        if member is None:
            member = self._members[call.client] = _Member()
        _HANDLERS[call.api](self, call, member)
        if call.error_code in FENCED and call.is_answered and member.epoch != NEVER:
            self._losses.append(Loss(self._group_id, call.client, call.ended_us, call.error_code))
            self._asked_to_rejoin(call, member)
            member.epoch, member.assigned = NEVER, None

    def ends(self, client: str, at_us: int) -> None:
        """It crashed: nobody hears of it before its session has ended."""
        self._becomes(self._members[client], OUT, at_us)

    def _becomes(self, member: _Member, state: int, at_us: int) -> None:
        if state == member.state:
            return
        self._inside += (state != OUT) - (member.state != OUT)
        self._moves.append(Move(at_us, member.state, state))
        member.state = state
        if not self._inside:
            self._left_us = NEVER

    def _asked_to_rejoin(self, call: Call, member: _Member) -> None:
        if member.state != OUT:
            if member.sign_us == NEVER:
                member.sign_us = call.ended_us
            self._becomes(member, REBALANCING, call.ended_us)

    def join_group(self, call: Call, member: _Member) -> None:
        self._begins_to_join(call, member)
        if call.is_fine:
            self._learns(member, call.told_epoch, call)

    def sync_group(self, call: Call, member: _Member) -> None:
        if call.is_fine:
            self._settles(member, call.epoch, call)
            self._owns(call, member, call.epoch)
        else:
            self.as_member(call, member)

    def as_member(self, call: Call, member: _Member) -> None:
        """A heartbeat or a commit."""
        if call.error_code in _REJOIN and call.is_answered:
            self._asked_to_rejoin(call, member)

    def leave(self, call: Call, member: _Member) -> None:
        latest = self._latest
        if latest is not None and latest.told_us > call.sent_us:
            latest.began_us = min(latest.began_us, call.sent_us)
        elif self._left_us == NEVER:
            self._left_us = call.sent_us
        member.epoch, member.assigned = NEVER, None
        self._becomes(member, OUT, call.sent_us)

    def consumer_heartbeat(self, call: Call, member: _Member) -> None:
        if call.epoch < 0:
            self.leave(call, member)
            return
        if call.epoch == 0:
            self._begins_to_join(call, member)
        if not call.is_fine or call.told_epoch <= 0:
            return
        is_learned = call.told_epoch != member.epoch
        if is_learned:
            self._learns(member, call.told_epoch, call)
        if call.assigned is not None and call.assigned != member.assigned:
            if set(flat(member.assigned or ())) - set(flat(call.assigned)):
                self._asked_to_rejoin(call, member)  # it keeps its epoch until it has given them up
                member.assigned = call.assigned
                return
            self._owns(call, member, call.told_epoch)
        elif not is_learned:
            self._becomes(member, SETTLED, call.ended_us)
            return
        self._settles(member, call.told_epoch, call)

    def _begins_to_join(self, call: Call, member: _Member) -> None:
        if self._joined_us == NEVER:
            self._joined_us = call.sent_us
        if member.sign_us == NEVER or member.sign_us > call.sent_us:
            member.sign_us = call.sent_us
        self._becomes(member, REBALANCING, call.sent_us)

    def _learns(self, member: _Member, epoch: int, call: Call) -> None:
        rebalance = self._rebalances.get(epoch)
        if rebalance is None:
            rebalance = self._latest = self._rebalances[epoch] = _Rebalance(call.ended_us)
            if NEVER < self._left_us < call.ended_us:
                rebalance.began_us, self._left_us = self._left_us, NEVER
        joins = call.api == "JoinGroup" or call.epoch == 0
        member.is_late = joins and call.sent_us > rebalance.told_us
        rebalance.told_us = min(rebalance.told_us, call.ended_us)
        if not member.is_late:
            sign_us = call.ended_us if member.sign_us == NEVER else member.sign_us
            rebalance.began_us = min(rebalance.began_us, sign_us)
        member.sign_us, member.epoch = NEVER, epoch

    def _settles(self, member: _Member, epoch: int, call: Call) -> None:
        rebalance = self._rebalances.get(epoch)
        if rebalance is not None and not member.is_late:
            rebalance.settled_us = max(rebalance.settled_us, call.ended_us)
        member.sign_us = NEVER
        self._becomes(member, SETTLED, call.ended_us)

    def _owns(self, call: Call, member: _Member, epoch: int) -> None:
        if call.assigned is None:
            return
        owner = owner_of(call)
        for partition in flat(call.assigned):
            before = self._owners.get(partition)
            if before is not None and before[1] > epoch:
                continue  # told of later by an answer to what was sent before
            self._moved += before is not None and before[0] != owner
            self._owners[partition] = owner, epoch
        member.assigned = call.assigned

    def life(self) -> GroupLife:
        rebalances = [
            Rebalance(self._group_id, epoch, each.began_us, each.settled_us)
            for epoch, each in self._rebalances.items()
        ]
        rebalances.sort(key=lambda each: each.began_us)
        return GroupLife(
            self._group_id,
            self._protocol,
            len(self._members),
            rebalances,
            _stable_us(self._joined_us, rebalances),
            self._moved,
        )


_HANDLERS: Final = {
    "JoinGroup": _Group.join_group,
    "SyncGroup": _Group.sync_group,
    "Heartbeat": _Group.as_member,
    "OffsetCommit": _Group.as_member,
    "LeaveGroup": _Group.leave,
    "ConsumerGroupHeartbeat": _Group.consumer_heartbeat,
}


def _stable_us(joined_us: int, rebalances: Sequence[Rebalance]) -> int | None:
    """None: it never was."""
    settled_us = NEVER
    for rebalance in rebalances:
        if settled_us != NEVER and rebalance.began_us - settled_us >= QUIET_US:
            break
        settled_us = max(settled_us, rebalance.settled_us)
    return None if NEVER in (settled_us, joined_us) else settled_us - joined_us
