"""Follows one group through its calls, in the order of their sending: its members and its rebalances.
PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from bench.swarm.counted.life import OUT, REBALANCING, SETTLED, GroupLife, Loss, Move, Rebalance, member_of
from bench.swarm.counted.start import QUIET_US, are_all_owned, stable_us
from storage.history.calls import NEVER, Call, Partitions
from storage.history.judge.findings import FENCED
from storage.history.judge.holds import flat, owner_of

_REJOIN: Final = frozenset({int(ErrorCode.rebalance_in_progress), int(ErrorCode.illegal_generation)})


class _Member:
    """One client of the group."""

    __slots__ = ("assigned", "epoch", "is_late", "sign_us", "state")

    def __init__(self) -> None:
        self.state = OUT
        self.epoch = NEVER
        """The epoch that the client was told last."""
        self.sign_us = NEVER
        """The time at which the client learned that the next rebalance has begun; NEVER: it has not."""
        self.assigned: Partitions | None = None
        self.is_late = False
        """Whether the client joined a rebalance that was over: it is a static member that is back
        (KIP-345)."""


class _Rebalance:
    __slots__ = ("began_us", "settled_us", "told_us")

    def __init__(self, told_us: int) -> None:
        self.began_us = self.told_us = told_us
        self.settled_us = NEVER


class OneGroup:
    """What is known of one group so far. `sizes` are the topics' partition counts now; `losses` and `moves`
    are those of all groups."""

    def __init__(self, first: Call, sizes: Mapping[str, int], losses: list[Loss], moves: list[Move]) -> None:
        self._group_id = first.group_id
        self._protocol = first.protocol
        self._sizes = sizes
        self._losses = losses
        self._moves = moves
        self._members: dict[str, _Member] = {}
        self._topics: set[str] = set()
        self._inside = 0
        self._settled = 0
        """How many members have settled; the others that are in the group are in a rebalance."""
        self._rests_us: list[int] = []
        self._rebalances: dict[int, _Rebalance] = {}
        self._latest: _Rebalance | None = None
        self._left_us = NEVER
        """When a member left, until another one learns of it."""
        self._joined_us = NEVER
        self._settled_us = NEVER
        self._after_rest: set[int] = set()
        """The epochs before which the group was whole for long enough."""
        self._disturbed_us = NEVER
        """When something was first done to the group while it was at rest."""
        self._owners: dict[tuple[str, int], tuple[str, int]] = {}
        """The last owner of each partition, and the epoch at which it was told so."""
        self._moved_us: list[int] = []

    def take(self, call: Call) -> None:
        member = self._members.get(call.client)
        if member is None:
            member = self._members[call.client] = _Member()
        self._topics.update(call.subscribed)
        HANDLERS[call.api](self, call, member)
        if call.error_code in FENCED and call.is_answered and member.epoch != NEVER:
            self._losses.append(Loss(self._group_id, call.client, call.ended_us, call.error_code))
            self._asked_to_rejoin(call, member)
            member.epoch, member.assigned = NEVER, None

    def ends(self, client: str, at_us: int) -> None:
        """Note that a client crashed: the group hears of it when its session has ended."""
        self.is_disturbed(at_us)
        self._becomes(self._members[client], OUT, at_us)

    def is_disturbed(self, at_us: int) -> None:
        """Note a disturbance: a member leaves or crashes, a topic grows, or there is a fault."""
        if self._disturbed_us == NEVER and self._is_at_rest():
            self._disturbed_us = at_us

    def _is_at_rest(self) -> bool:
        return all(member.state in (OUT, SETTLED) for member in self._members.values()) and self._is_whole()

    def _is_whole(self) -> bool:
        """Whether all members that were told an epoch are at the same one, and together own all
        partitions."""
        inside = [m for m in self._members.values() if m.state != OUT and m.epoch != NEVER]
        return len({member.epoch for member in inside}) == 1 and are_all_owned(
            (member.assigned or () for member in inside), self._topics, self._sizes
        )

    def _becomes(self, member: _Member, state: int, at_us: int) -> None:
        if state == member.state:
            return
        self._inside += (state != OUT) - (member.state != OUT)
        self._settled += (state == SETTLED) - (member.state == SETTLED)
        if (self._settled == self._inside > 0) != len(self._rests_us) % 2:
            self._rests_us.append(max([at_us, *self._rests_us[-1:]]))
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
        """Note a call that a client makes as a member: a heartbeat or a commit."""
        if call.error_code in _REJOIN and call.is_answered:
            self._asked_to_rejoin(call, member)

    def leave(self, call: Call, member: _Member) -> None:
        self.is_disturbed(call.sent_us)
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
                self._asked_to_rejoin(
                    call, member
                )  # the member keeps its epoch until it has given the partitions up
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
            if call.ended_us - self._settled_us >= QUIET_US and self._is_whole():
                self._after_rest.add(epoch)
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
            self._settled_us = max(self._settled_us, call.ended_us)
        member.sign_us = NEVER
        self._becomes(member, SETTLED, call.ended_us)

    def _owns(self, call: Call, member: _Member, epoch: int) -> None:
        if call.assigned is None:
            return
        owner = owner_of(call)
        for partition in flat(call.assigned):
            before = self._owners.get(partition)
            if before is not None and before[1] > epoch:
                continue  # a later answer to an earlier request has told of it
            if before is not None and before[0] != owner:
                self._moved_us.append(call.ended_us)
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
            len({member_of(client) for client in self._members}),
            len(self._members),
            rebalances,
            stable_us(self._joined_us, rebalances, self._after_rest, self._disturbed_us),
            self._moved_us,
            self._rests_us,
        )


HANDLERS: Final = {
    "JoinGroup": OneGroup.join_group,
    "SyncGroup": OneGroup.sync_group,
    "Heartbeat": OneGroup.as_member,
    "OffsetCommit": OneGroup.as_member,
    "LeaveGroup": OneGroup.leave,
    "ConsumerGroupHeartbeat": OneGroup.consumer_heartbeat,
}
