"""A group whose members compute, or fail to, in every order: seeded, with leaders that fall (A11).

After every step no partition has two owners among the members, and what the coordinator would be restored
from is what it has. In the end, when all members behave, the group comes to rest with everything assigned, by
the last target that was computed.
"""

from __future__ import annotations

import random

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.model.group import NOT_JOINED
from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.protocol.client_assignor_messages import INVALID_ASSIGNMENT, PrepareAssignmentResponse
from actors.protocol.errors import GroupError
from tests.coordinator.consumer.client_assignors.computing import Computing, Shares, assignor, driver, in_turn
from tests.coordinator.consumer.driver import as_pairs, topic_id
from tests.coordinator.unpacked import to_lists

ORDERS = topic_id("orders")
PARTITIONS = 6
STEPS = 60
STRANGE = (ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch, INVALID_ASSIGNMENT, ErrorCode.none)
"""What a member may be answered whose result comes late, twice, or for another epoch."""


class Wrong(AssertionError):
    """Raised when the coordinator has broken a promise."""


class World:
    """The group, its members, and what they were handed out and have not answered yet."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tier = driver(orders=PARTITIONS)
        self.members: dict[str, Computing] = {}
        self.handed: dict[str, PrepareAssignmentResponse] = {}
        self.names = 0

    def run(self) -> None:
        self.join()
        for _ in range(STEPS):
            steps = (self.join, self.leave, self.beat, self.beat, self.prepare, self.install, self.spoil)
            rare = (self.wait, self.fall, self.ask_anew, self.come_back)
            step = self.rng.choice(rare) if self.rng.random() < 0.2 else self.rng.choice(steps)
            step()
            self.check()
        self.rest()

    def one(self) -> Computing | None:
        return self.members[self.rng.choice(sorted(self.members))] if self.members else None

    def join(self) -> None:
        if len(self.members) < 5:
            self.names += 1
            instance = f"i{self.names}" if self.rng.random() < 0.4 else None
            self._joined(Computing(self.tier, f"m{self.names}", instance_id=instance))

    def _joined(self, member: Computing) -> None:
        self.members[member.member_id] = member.join()

    def leave(self) -> None:
        member = self.one()
        if member is not None and len(self.members) > 1:
            self._gone(member)
            member.leave()

    def _gone(self, member: Computing) -> None:
        del self.members[member.member_id]
        self.handed.pop(member.member_id, None)

    def come_back(self) -> None:
        """A static member leaves for a while and comes back with another id."""
        member = self.one()
        if member is None or member.fields["instance_id"] is None:
            return
        self._gone(member)
        member.leave(-2)
        self.names += 1
        again = Computing(self.tier, f"m{self.names}", instance_id=member.fields["instance_id"])
        self._joined(again)

    def beat(self) -> None:
        member = self.one()
        if member is not None:
            self._beat(member)

    def _beat(self, member: Computing) -> None:
        try:
            member.beat()
        except GroupError as error:
            if error.error_code is not ErrorCode.unknown_member_id:
                raise
            self._gone(member)

    def prepare(self) -> None:
        member = self.one()
        if member is not None and member.is_asked:
            answer = member.prepare()
            if answer.error_code == 0:
                self.handed[member.member_id] = answer

    def install(self) -> None:
        """Somebody sends the result of what it was handed out, now or long ago."""
        if self.handed:
            name = self.rng.choice(sorted(self.handed))
            handed = self.handed[name]
            if self.rng.random() < 0.7:
                del self.handed[name]
            self._send(name, handed, in_turn(handed))

    def spoil(self) -> None:
        """Somebody sends a result that gives one partition to two, or one that does not exist."""
        if self.handed and self.rng.random() < 0.3:
            name = self.rng.choice(sorted(self.handed))
            handed = self.handed.pop(name)
            shares = {
                key: {topic: list(each) for topic, each in of.items()} for key, of in in_turn(handed).items()
            }
            for each in self.rng.sample(sorted(shares), min(2, len(shares))):
                shares[each].setdefault(ORDERS, []).append(self.rng.choice((0, PARTITIONS, -1)))
            self._send(name, handed, shares, is_wrong=True)

    def _send(
        self, name: str, handed: PrepareAssignmentResponse, shares: Shares, *, is_wrong: bool = False
    ) -> None:
        before, epoch = self.tier.group().assignment_epoch, handed.group_epoch
        answer = self.members[name].install(epoch, shares)
        if answer.error_code not in STRANGE or (is_wrong and answer.error_code == 0):
            raise Wrong(f"{name} is answered {answer}")
        after = self.tier.group().assignment_epoch
        if after != (epoch if answer.error_code == 0 else before) or after < before:
            raise Wrong(f"the target's epoch went from {before} to {after}: {answer}")
        if answer.error_code == 0:
            self._check_given(handed, shares)

    def _check_given(self, handed: PrepareAssignmentResponse, shares: Shares) -> None:
        """Each member, or who came in the place of a static one, is to have what it was given."""
        group = self.tier.group()
        for each in handed.members:
            by_instance = group.static_ids.get(each.instance_id or "", ())
            found = [group.members[key] for key in (each.member_id, *by_instance) if group.member(key)]
            given = {(topic, p) for topic, numbers in shares[each.member_id].items() for p in numbers}
            if found and as_pairs(found[0].target) != given:
                raise Wrong(f"{each.member_id} was given {given}, and is to have {found[0].target}")

    def wait(self) -> None:
        for _ in range(2):
            self.tier.advance(6_000)
            for member in list(self.members.values()):
                self._beat(member)

    def fall(self) -> None:
        self.tier.failover()

    def ask_anew(self) -> None:
        member = self.one()
        if member is not None:
            metadata = self.rng.randbytes(3)
            member.fields["client_assignors"] = (assignor(metadata=metadata),)
            member.beat(client_assignors=member.fields["client_assignors"])

    def check(self) -> None:
        held: dict[tuple[bytes, int], str] = {}
        group = self.tier.group()
        for member_id, member in group.members.items():
            current = member.current or NOT_JOINED
            for pairs in (current.assigned, current.pending_revocation):
                for topic, numbers in to_lists(pairs).items():
                    for number in numbers:
                        other = held.setdefault((topic, number), member_id)
                        if other != member_id:
                            raise Wrong(f"partition {number} has two owners, {other} and {member_id}")
        if set(group.client_assignors) - {each for each, member in group.members.items() if member.terms}:
            raise Wrong("assignors of somebody who is gone")

    def rest(self) -> None:
        """All behave: whoever is asked computes."""
        if not self.members:
            self.join()
        group = self.tier.group()
        for _ in range(40):
            for member in list(self.members.values()):
                self._beat(member)
                if member.member_id in self.members and member.is_asked:
                    self._compute(member)
            self.check()
            if group.state_name == "Stable" and all(each.settled for each in self.members.values()):
                break
            self.tier.advance(1_000)
        group = self.tier.group()
        owned = [pair for member in self.members.values() for pair in member.partitions]
        if group.state_name != "Stable" or sorted(owned) != [(ORDERS, each) for each in range(PARTITIONS)]:
            raise Wrong(f"it does not come to rest: {group.state_name}, {sorted(owned)}")
        computed = [each for each in self.tier.events if isinstance(each, AssignmentComputed)][-1]
        if computed.assignment_epoch != group.assignment_epoch:
            raise Wrong("the last target is not the one that was computed last")

    def _compute(self, member: Computing) -> None:
        prepared = member.prepare()
        if prepared.error_code:
            raise Wrong(f"{member.member_id} is asked, and then told {prepared}")
        if {each.member_id for each in prepared.members} != set(self.tier.group().members):
            raise Wrong("not all members are handed out")
        answer = member.install(prepared.group_epoch, in_turn(prepared))
        if answer.error_code:
            raise Wrong(f"{member.member_id} computed, and is told {answer}")
