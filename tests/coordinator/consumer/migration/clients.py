"""Consumers of either protocol as state machines: what a client library does with the answers it gets.

A classic member owns what its last SyncGroup gave it. An eager one lets go of all before it joins again, a
cooperative one of what it no longer has after it synced, and joins once more. A consumer member lets go of
what it must before it says so. So what clients own is what the group's partitions are read by.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.protocol.consumer_protocol import read_subscription
from actors.protocol.messages import JoinGroupResponse, SyncGroupResponse
from tests.coordinator.consumer.migration.driver import (
    GROUP,
    TOPIC,
    Both,
    assigned,
    numbers_of,
    owned_in,
    subscribed,
)

PARTITIONS = range(6)
AGAIN = {ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id, ErrorCode.not_coordinator}
STALE = {ErrorCode.illegal_generation, ErrorCode.rebalance_in_progress}


class Classic:
    """One consumer of the classic protocol, eager or cooperative."""

    def __init__(self, both: Both, *, cooperative: bool, instance_id: str | None = None) -> None:
        self.both = both
        self.cooperative = cooperative
        self.instance_id = instance_id
        self.member_id = ""
        self.owned: tuple[int, ...] = ()
        self.joined: JoinGroupResponse | None = None
        self.waits_for: tuple[str, int] | None = None
        """A parked request: ("join" or "sync", its token)."""

    def step(self) -> None:
        """The next thing that the client does: look for its answer, join, or heartbeat."""
        if self.waits_for is not None:
            what, token = self.waits_for
            if token not in self.both.replies:
                return
            self.waits_for = None
            answer = self.both.replies[token]
            (self._on_joined if what == "join" else self._on_synced)(answer)
        elif self.joined is None:
            self._join()
        else:
            error = self.both.alive(self.joined.generation_id, self.member_id, self.instance_id)
            if error in STALE:
                self._join(keeps=error == ErrorCode.rebalance_in_progress)
            elif error in AGAIN:
                self._start_over()

    def stop(self) -> None:
        """A static member says nothing: it will be back."""
        self.owned = ()
        if self.instance_id is None:
            self.both.leave(GROUP, self.member_id)

    def _join(self, *, keeps: bool = True) -> None:
        if not (self.cooperative and keeps):
            self.owned = ()
        self.joined = None
        metadata = subscribed(owned=self.owned)
        token = self.both.start_join(self.member_id, metadata, instance_id=self.instance_id)
        self.waits_for = ("join", token)

    def _start_over(self) -> None:
        self.member_id, self.owned, self.joined = "", (), None

    def _on_joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self.member_id = answer.member_id
        elif answer.error_code in AGAIN:
            self._start_over()
        if answer.error_code != ErrorCode.none:
            return
        self.joined = answer
        shares = self._shared_out(answer)
        self.waits_for = ("sync", self.both.start_sync(answer, shares, instance_id=self.instance_id))

    def _shared_out(self, answer: JoinGroupResponse) -> dict[str, bytes]:
        """Assign as the leader of a classic group. What another member says that it still owns is given to
        nobody: that member joins again without it."""
        owned = {
            member_id: dict(read_subscription(metadata).owned).get(TOPIC, ())
            for member_id, _, metadata in answer.members
        }
        shares = {}
        for place, member_id in enumerate(sorted(owned)):
            others = {n for other, numbers in owned.items() if other != member_id for n in numbers}
            shares[member_id] = [n for n in PARTITIONS if n % len(owned) == place and n not in others]
        return {member_id: assigned(*numbers) for member_id, numbers in shares.items()}

    def _on_synced(self, answer: SyncGroupResponse) -> None:
        if answer.error_code in AGAIN:
            self._start_over()
        elif answer.error_code in STALE:
            self.joined = None
        elif answer.error_code == ErrorCode.none:
            gave_up = set(self.owned) - set(owned_in(answer))
            self.owned = owned_in(answer)
            if gave_up:
                self._join()


class Modern:
    """One consumer of the consumer protocol."""

    def __init__(self, both: Both, member_id: str, instance_id: str | None = None) -> None:
        self.both = both
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: tuple[int, ...] = ()
        self.told: tuple[int, ...] = ()

    def step(self) -> None:
        """Let go of what is not to be kept, and heartbeat."""
        self.owned = tuple(n for n in self.owned if n in self.told)
        if self.epoch == 0:
            answer = self.both.beat_in(self.member_id, instance_id=self.instance_id)
        else:
            answer = self.both.beat(
                self.epoch, self.member_id, owned=self.owned, instance_id=self.instance_id
            )
        if answer.error_code != ErrorCode.none:
            self.epoch, self.owned, self.told = 0, (), ()
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = numbers_of(answer.assignment)
            self.owned = tuple(sorted({*self.owned, *self.told}))

    def stop(self) -> None:
        self.owned = ()
        if self.epoch:
            epoch = -1 if self.instance_id is None else -2
            self.both.beat(epoch, self.member_id, instance_id=self.instance_id)


Client = Classic | Modern
