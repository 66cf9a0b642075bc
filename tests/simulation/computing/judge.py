"""What is promised to members that compute (A9 to A11), against what leaders answer and tell.

asked      an assignment is taken from who was asked by this leader, and handed out the group, alone
fits       what is taken is exactly of what was handed out, and that is taken, though the group has gone on
commits    what was taken is the committed target, of the epoch that was handed out
epochs     neither the group's epoch nor its target's goes back
next       when the group was an epoch further, the next heartbeat begins the next computation
waiting    nobody is waited for longer than the time limit
told       the server's assignor runs after the leader has told why
leavings   nobody's assignors are kept longer than the member
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from actors.coordinator.told.consumer_events import AssignmentComputed, AssignmentRefused
from actors.ground.records import (
    CLIENT_ASSIGNMENT,
    CLIENT_ASSIGNORS,
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
)
from actors.protocol.client_assignor_messages import (
    INVALID_ASSIGNMENT,
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    PrepareAssignmentResponse,
)
from actors.protocol.messages import ConsumerGroupHeartbeatResponse
from tests.coordinator.unpacked import to_lists
from tests.simulation.asked import Asked
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process, World

HANDED_MAX: Final = 5
SLACK_S: Final = 0.2
"""How much longer than the limit somebody may be waited for: clocks differ, and a turn takes its time."""


class _Leader:
    """What one process has told while it led once."""

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}
        """Member id -> since when it is asked. Answers come when they are committed, events at once."""
        self.were_asked: set[str] = set()
        """Who has been asked since the last assignment was taken."""
        self.failed: set[str] = set()
        """Who has been asked in vain."""
        self.handed: dict[str, PrepareAssignmentResponse] = {}
        self.awaited: dict[str, int] = {}
        """Member id -> the epoch that it was handed out, as long as a result of that epoch is to be taken."""
        self.told_at = -1.0
        """When something was told last that ends a computation."""
        self.fallbacks: set[int] = set()
        """The group epochs at which the server's assignor is to run."""
        self.due: float | None = None
        """The time from which the next computation is due; it is None if none is."""
        self.came = 0.0
        """When the result came after which it is due."""
        self.asked_at = -1.0
        """When somebody was asked last."""


class _Came(NamedTuple):
    group_epoch: int
    has_failed: bool
    """Whether who sent it had been given up."""
    is_awaited: bool
    """Whether it is of the epoch that its sender was handed out, and whose result is waited for."""


class Judge:
    def __init__(self, world: World, group_id: str) -> None:
        self._world = world
        self._group_id = group_id
        self._leaders: dict[tuple[Process, int], _Leader] = {}
        self._came: dict[int, _Came] = {}
        """What was so when an install came, by its token: a replica decides it then."""
        self._epochs: dict[int, int] = {}
        """Kind of record -> the last epoch that was seen."""
        self.handed: list[PrepareAssignmentResponse] = []
        """What members have heard that were handed out the group; the last."""
        self.taken = self.refused = self.fallbacks = self.interrupted = self.at_next = 0

    @property
    def limit_s(self) -> float:
        limit_ms: int = self._world.group_settings.group_consumer_client_assignor_timeout_ms
        return limit_ms / 1_000

    def _of(self, process: Process) -> _Leader:
        return self._leaders.setdefault((process, process.raft.term), _Leader())

    def heard(self, body: Any) -> None:
        if isinstance(body, PrepareAssignmentResponse) and not body.error_code:
            self.handed = [*self.handed, body][-HANDED_MAX:]

    # -- answers ------------------------------------------------------------------------------------

    def arrived(self, asked: Asked) -> None:
        body = asked.request.body
        if isinstance(body, InstallAssignmentRequest):
            leader = self._of(asked.process)
            self._came[asked.request.token] = _Came(
                self._epoch_of(CONSUMER_GROUP_METADATA, 0),
                body.member_id in leader.failed,
                leader.awaited.get(body.member_id) == body.group_epoch,
            )

    def _epoch_of(self, kind: int, before: int) -> int:
        value = self._world.state.live.get((kind, self._group_id))
        return before if value is None else int(value[0])

    def given(self, process: Process, asked: Asked, body: Any) -> None:
        """Take an answer that leaves a replica. Raises Violation."""
        if isinstance(body, ConsumerGroupHeartbeatResponse):
            self._heartbeat(process, asked, body)
        elif isinstance(body, PrepareAssignmentResponse) and not body.error_code:
            self._handed_out(process, asked, body)
        elif isinstance(body, InstallAssignmentResponse):
            self._installed(process, asked, body)

    def _heartbeat(self, process: Process, asked: Asked, body: ConsumerGroupHeartbeatResponse) -> None:
        if body.error_code or body.member_epoch < 1:
            return
        leader, now = self._of(process), self._world.now
        if body.client is None or not body.client.should_compute:
            leader.asked.pop(body.member_id, None)
        else:
            leader.were_asked.add(body.member_id)
            since = leader.asked.setdefault(body.member_id, now)
            leader.asked_at = now
            waited_s = now - max(since, process.host.paused_until)
            if waited_s > self.limit_s + SLACK_S:
                raise Violation(f"waiting: {process.name} has waited {waited_s:.3f} s for {body.member_id}")
        if leader.due is None:
            return
        if leader.asked_at >= leader.came:
            leader.due = None
        elif asked.arrived_at > leader.due:
            raise Violation(
                f"next: {process.name} asks nobody at {now:.3f}, the group is an epoch further since "
                f"{leader.due:.3f}"
            )

    def _handed_out(self, process: Process, asked: Asked, body: PrepareAssignmentResponse) -> None:
        member_id, leader = asked.request.body.member_id, self._of(process)
        if member_id not in leader.were_asked:
            raise Violation(f"asked: {process.name} hands the group out to {member_id}, which was not asked")
        written = self._world.state.writes((CONSUMER_GROUP_METADATA, self._group_id))
        if not any(value is not None and value[0] == body.group_epoch for _, value in written):
            raise Violation(f"commits: {process.name} hands out epoch {body.group_epoch}, never committed")
        leader.handed[member_id] = body
        if asked.arrived_at > leader.told_at:
            leader.awaited[member_id] = body.group_epoch

    def _installed(self, process: Process, asked: Asked, body: InstallAssignmentResponse) -> None:
        install, leader = asked.request.body, self._of(process)
        came, handed = self._came[asked.request.token], leader.handed.get(install.member_id)
        if body.error_code or install.error:
            self.refused += 1
            fits = handed is not None and _misfit(handed, install) is None
            if came.is_awaited and fits and body.error_code == INVALID_ASSIGNMENT:
                raise Violation(f"fits: {process.name} refuses what fits: {body.error_message}")
            return
        member_id, epoch = install.member_id, install.group_epoch
        is_asked = member_id in leader.were_asked and not came.has_failed
        if not is_asked or handed is None or handed.group_epoch != epoch:
            raise Violation(f"asked: {process.name} takes epoch {epoch} from {member_id}, unasked for it")
        misfit = _misfit(handed, install)
        if misfit is not None:
            raise Violation(f"fits: {process.name} takes {misfit}")
        self._is_committed(install)
        self.taken += 1
        leader.asked.clear()
        leader.were_asked.clear()
        leader.handed.clear()
        if came.group_epoch > epoch:
            self.at_next += 1
            leader.due = self._world.now
            leader.came = asked.arrived_at

    def _is_committed(self, install: InstallAssignmentRequest) -> None:
        state, group_id = self._world.state, self._group_id
        written = state.writes((TARGET_ASSIGNMENT_METADATA, group_id))
        if not any(value is not None and value[0] == install.group_epoch for _, value in written):
            raise Violation(f"commits: the target of epoch {install.group_epoch} is taken, never committed")
        for each in install.members:
            targets = state.writes((TARGET_ASSIGNMENT_MEMBER, group_id, each.member_id))
            given = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in each.topic_partitions}
            is_gone = state.live.get((CONSUMER_MEMBER_METADATA, group_id, each.member_id)) is None
            found = [to_lists(value[0]) if value is not None else {} for _, value in targets] or [{}]
            if not is_gone and given not in found:
                raise Violation(f"commits: {each.member_id} was given {given}, never committed")

    # -- events -------------------------------------------------------------------------------------

    def told(self, process: Process, event: Any) -> None:
        """Take an event of a leader. Raises Violation."""
        if isinstance(event, AssignmentRefused):
            leader = self._of(process)
            if event.member_id is None:
                self.fallbacks += 1
                leader.fallbacks.add(event.group_epoch)
                leader.due = None
            else:
                leader.asked.pop(event.member_id, None)
                leader.failed.add(event.member_id)
            self._ends(leader)
        elif isinstance(event, AssignmentComputed) and event.group_id == self._group_id:
            leader = self._of(process)
            is_told = event.assignment_epoch in leader.fallbacks
            leader.failed.clear()
            self._ends(leader)
            if event.member_id is None and event.members and not is_told:
                raise Violation(
                    f"told: the server's assignor runs at {process.name} for epoch {event.assignment_epoch}, "
                    "and nothing was told of it"
                )

    def _ends(self, leader: _Leader) -> None:
        leader.awaited.clear()
        leader.told_at = self._world.now

    def ended(self, process: Process) -> None:
        """Note that a process has fallen or is gone: whom it had asked the next leader has to ask."""
        self.interrupted += any(
            leader.asked for (owner, _), leader in self._leaders.items() if owner is process
        )
        self._leaders = {key: leader for key, leader in self._leaders.items() if key[0] is not process}

    # -- at any time --------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that no epoch has gone back. Raises Violation."""
        for kind in (CONSUMER_GROUP_METADATA, TARGET_ASSIGNMENT_METADATA):
            before = self._epochs.get(kind, 0)
            now = self._epochs[kind] = self._epoch_of(kind, before)
            if now < before:
                raise Violation(f"epochs: the epoch of record {kind} goes from {before} back to {now}")

    def at_the_end(self) -> None:
        """Check that nothing is left of members that are gone. Raises Violation."""
        for kind, *ids in self._world.state.live:
            if kind in (CLIENT_ASSIGNORS, CLIENT_ASSIGNMENT):
                member = (CONSUMER_MEMBER_METADATA, *ids)
                if member not in self._world.state.live:
                    raise Violation(f"leavings: a record of kind {kind} of {ids}, which is gone")


def _misfit(handed: PrepareAssignmentResponse, install: InstallAssignmentRequest) -> str | None:
    """Return what does not fit what was handed out; None: everything fits."""
    counts = {topic.topic_id: topic.partition_count for topic in handed.topics}
    members = {each.member_id: each for each in handed.members}
    names = [each.member_id for each in install.members]
    if len(set(names)) < len(names) or not members.keys() >= set(names):
        return f"an assignment of {names}, who are not {sorted(members)}"
    taken: set[tuple[bytes, int]] = set()
    for each in install.members:
        for topic_id, numbers in each.topic_partitions:
            for number in numbers:
                is_subscribed = topic_id in members[each.member_id].topic_ids
                if not is_subscribed or not 0 <= number < counts[topic_id] or (topic_id, number) in taken:
                    return f"partition {number} of {each.member_id}"
                taken.add((topic_id, number))
    return None
