"""Members of groups, as the Java client behaves: of the classic protocol (eager) and of KIP-848.

Both commit for what they own, give up what they have to before they say so, leave now and then and come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from actors.coordinator.ground import partitions
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from tests.simulation.answers import Ask
from tests.simulation.clients import Client, Script, Step, commit_ask, fetch_ask
from tests.simulation.machines import PARTITIONS, REBALANCE_MS, SESSION_MS, TOPIC

if TYPE_CHECKING:
    from tests.simulation.world import World

JOIN_TIMEOUT_S = 1.4
"""The rebalance timeout and some more, as the Java client waits for a join."""
INTERVAL_S = 0.1
CONSUMER_REBALANCE_MS = 60_000
"""Longer than a run: nobody is fenced for being slow to give up partitions."""
HANG_UP_S = 0.03
HANGING_UP = 0.05
"""How often, and how soon, a client closes the connection on which its heartbeat may be held."""
LEAVING = 0.06
"""How often a member that is well leaves."""


class Member(Client):
    def __init__(self, world: World, name: str, group_id: str) -> None:
        super().__init__(world, name)
        self.group_id = group_id
        self.member_id = ""
        self.epoch = -1
        """Generation, or member epoch."""
        self.owned: tuple[int, ...] = ()
        self.is_settled = False
        self._serial = 0

    def _commit(self) -> Step:
        """For all that is owned; a refusal says what to do next, and so will the next heartbeat."""
        if self.owned:
            self._serial += 1
            offsets = dict.fromkeys(self.owned, (self._serial, f"{self.name}-{self._serial}"))
            yield from self.once(commit_ask(self.group_id, offsets, self.epoch, self.member_id))

    def _beat(self, api_key: int, version: int, body: Any) -> Ask:
        world = self.world
        ask = Ask(api_key, version, body)
        hangs_up = not world.is_healed and world.chance.random() < HANGING_UP
        return ask._replace(timeout_s=HANG_UP_S) if hangs_up else ask

    @property
    def _wants_to_leave(self) -> bool:
        world = self.world
        return not world.is_healed and world.chance.random() < LEAVING


class ClassicMember(Member):
    """Join, sync, heartbeat; whatever happens it gives all up and joins again."""

    def script(self) -> Script:
        while True:
            self.owned, self.is_settled = (), False
            joined = yield from self._join()
            if joined is None:
                continue
            self.epoch = joined.generation_id
            if (yield from self._sync(joined)):
                yield from self._stay()

    def _join(self) -> Step:
        body = JoinGroupRequest(
            self.group_id,
            SESSION_MS,
            REBALANCE_MS,
            self.member_id,
            None,
            "consumer",
            (("range", b"\0\0"),),
        )
        answer = yield from self.once(Ask(api_keys.JOIN_GROUP, 9, body, JOIN_TIMEOUT_S))
        if answer is None:
            return None
        if answer.error_code == ErrorCode.none:
            self.member_id = answer.member_id
            return answer
        if answer.error_code == ErrorCode.member_id_required:
            self.member_id = answer.member_id
            return None
        if answer.error_code == ErrorCode.unknown_member_id:
            self.member_id = ""
        yield INTERVAL_S / 2
        return None

    def _sync(self, joined: JoinGroupResponse) -> Step:
        assignments: dict[str, bytes] = {}
        if joined.leader == self.member_id:
            names = sorted(member_id for member_id, _, _ in joined.members)
            for place, name in enumerate(names):
                assignments[name] = partitions.pack(range(place, PARTITIONS, len(names)))
        body = SyncGroupRequest(
            self.group_id,
            self.epoch,
            self.member_id,
            None,
            joined.protocol_type,
            joined.protocol_name,
            tuple(assignments.items()),
        )
        answer = yield from self.once(Ask(api_keys.SYNC_GROUP, 5, body, JOIN_TIMEOUT_S))
        if answer is None:
            return False
        if answer.error_code == ErrorCode.none:
            self.owned = partitions.unpack(answer.assignment)
            self.is_settled = True
            return True
        self._take_error(answer.error_code)
        return False

    def _stay(self) -> Step:
        """Until the group has to be joined again."""
        if self.owned:
            yield from self.once(fetch_ask(self.group_id, self.owned))
        while True:
            yield INTERVAL_S
            if self._wants_to_leave:
                leaving = LeaveGroupRequest(self.group_id, (LeavingMember(self.member_id),))
                self.owned = ()
                yield from self.once(Ask(api_keys.LEAVE_GROUP, 5, leaving))
                self.member_id = ""
                yield 0.2
                return
            began_at = self.world.now
            body = HeartbeatRequest(self.group_id, self.epoch, self.member_id)
            answer = yield from self.once(self._beat(api_keys.HEARTBEAT, 4, body))
            if answer is None:
                continue
            if answer.error_code != ErrorCode.none:
                if answer.error_code == ErrorCode.rebalance_in_progress:
                    yield from self._commit()
                self._take_error(answer.error_code)
                return
            self.well_at = began_at
            if self.world.chance.random() < 0.5:
                yield from self._commit()

    def _take_error(self, code: Any) -> None:
        self.owned, self.is_settled = (), False
        if code == ErrorCode.unknown_member_id:
            self.member_id = ""


class ConsumerMember(Member):
    """KIP-848: one heartbeat does it all. What is taken away is given up before the next one says so."""

    def __init__(self, world: World, name: str, group_id: str, assignor: str | None) -> None:
        super().__init__(world, name, group_id)
        self.assignor = assignor
        self.member_id = f"member-{name}"
        self.epoch = 0
        self._reported: tuple[int, ...] | None = None
        """What the coordinator is known to have heard; None: everything is sent again."""
        self._topic_id = b""

    def script(self) -> Script:
        while True:
            began_at = self.world.now
            answer = yield from self.once(self._heartbeat())
            if answer is None:
                self._reported = None
                continue
            if answer.error_code != ErrorCode.none:
                self._fenced()
                yield INTERVAL_S / 2
                continue
            self.epoch, self._reported = answer.member_epoch, self.owned
            self.is_settled = answer.assignment is None
            if answer.assignment is not None:
                yield from self._take(answer.assignment)
            self.well_at = began_at
            if self._wants_to_leave:
                yield from self._leave()
                continue
            if self.world.chance.random() < 0.4:
                yield from self._commit()
            yield answer.heartbeat_interval_ms / 1_000

    def _heartbeat(self) -> Ask:
        self.world.answers.histories.keeps(self.group_id, self.member_id, set(self.owned))
        fields: dict[str, Any] = {}
        if self._reported is None or self.epoch == 0:
            fields = {
                "rebalance_timeout_ms": CONSUMER_REBALANCE_MS,
                "subscribed_topic_names": (TOPIC,),
                "server_assignor": self.assignor,
            }
        if self.owned != self._reported or self.epoch == 0:
            held = {self._topic_id: self.owned} if self.owned else {}
            fields["topic_partitions"] = partitions.from_lists(held)
        body = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch, **fields)
        return self._beat(api_keys.CONSUMER_GROUP_HEARTBEAT, 1, body)

    def _take(self, assignment: Any) -> Step:
        """Commit for what has to go and give it up; have the new at once if nothing had to go."""
        told: tuple[int, ...] = ()
        for topic_id, packed in assignment:
            self._topic_id, told = topic_id, partitions.unpack(packed)
        if set(self.owned) - set(told):
            yield from self._commit()
            self.owned = tuple(sorted(set(self.owned) & set(told)))
        self.owned = told

    def _fenced(self) -> None:
        self.epoch, self.owned, self._reported, self.is_settled = 0, (), None, False

    def _leave(self) -> Step:
        self._fenced()
        self.world.answers.histories.keeps(self.group_id, self.member_id, set())
        body = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, -1)
        yield from self.once(Ask(api_keys.CONSUMER_GROUP_HEARTBEAT, 1, body))
        self.member_id = f"member-{self.name}-{self.world.new_id()}"  # another instance, as after a restart
        yield 0.2


def is_stable(members: list[Member]) -> bool:
    """All of a group's members have their share, and together everything; save what one was given in answer
    to a request that it had given up, and that was late: it is not told again (M18), by Kafka neither."""
    shares = [partition for member in members for partition in member.owned]
    missed = any(member.name in member.world.answers.missed for member in members)
    is_whole = len(set(shares)) == len(shares) if missed else sorted(shares) == list(range(PARTITIONS))
    return is_whole and all(member.is_settled for member in members)
