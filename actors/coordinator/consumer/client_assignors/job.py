"""A computation that a member is asked for: volatile, for a new leader asks again at the epoch that it finds
(A11)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from actors.coordinator.consumer.model.group import LEAVE_STATIC_EPOCH, NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.state import kept
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import AssignmentRefused
from actors.coordinator.told.events import CONSUMER

COMPUTATION_TIMER: Final = "consumer-computation"
TRIES_MAX: Final = 10
"""How many members are asked one after the other at most, however many there are."""


class HandedMember(NamedTuple):
    instance_id: str | None
    topic_ids: frozenset[bytes]


class Handed(NamedTuple):
    """What a member was given to compute from, as far as its result is checked against that."""

    group_epoch: int
    members: Mapping[str, HandedMember]
    partition_counts: Mapping[bytes, int]


class Computation:
    """The computation of one group's next target, by one member after the other until a target stands."""

    __slots__ = ("assignor", "began_ms", "handed", "is_too_large", "member_id", "tried")

    def __init__(self) -> None:
        self.assignor = ""
        self.member_id = ""
        """The member that is asked; "" while nobody is."""
        self.began_ms = 0
        self.handed: Handed | None = None
        """What the member was given; None: it has not asked for it yet."""
        self.tried: dict[str, str] = {}
        """Member id -> why it brought no target."""
        self.is_too_large = False
        """Whether the group is too large to be handed out, so that the server's assignor is to run."""


def begin(state: ShardState, group_id: str, member_id: str, assignor: str, now_ms: int) -> None:
    """Ask a member to compute, within the time limit."""
    computation = kept(state).computations[group_id]
    computation.member_id, computation.assignor, computation.handed = member_id, assignor, None
    computation.began_ms = now_ms
    limit_ms = state.settings.group_consumer_client_assignor_timeout_ms
    state.timers.schedule((COMPUTATION_TIMER, group_id), now_ms + limit_ms)


def end(state: ShardState, group_id: str) -> None:
    """Forget the group's computation: a target stands, or the server's assignor is to run."""
    if kept(state).computations.pop(group_id, None) is not None:
        state.timers.cancel((COMPUTATION_TIMER, group_id))


def fail(state: ShardState, group: ConsumerGroup, why: str, now_ms: int) -> AssignmentRefused:
    """Note that the member that is asked brings no target, so that the next one is asked."""
    computation = kept(state).computations[group.group_id]
    member_id, computation.member_id = computation.member_id, ""
    computation.tried[member_id] = why
    computation.handed = None
    state.timers.cancel((COMPUTATION_TIMER, group.group_id))
    return AssignmentRefused(
        now_ms,
        group.group_id,
        CONSUMER,
        group.group_epoch,
        member_id,
        why,
        "A11",
        computation.assignor,
        now_ms - computation.began_ms,
    )


def have_all_failed(computation: Computation, group: ConsumerGroup) -> bool:
    """Whether nobody is left who could be asked. A static member that is away cannot."""
    if len(computation.tried) >= TRIES_MAX:
        return True
    return all(
        member_id in computation.tried
        or member.terms is None
        or (member.current or NOT_JOINED).member_epoch == LEAVE_STATIC_EPOCH
        for member_id, member in group.members.items()
    )
