"""What is done next about one partition that the tier is to take over from the brokers, or is to give back
before it has. PURE.

A step is decided by the upstream's metadata and what the leader of our partition says, by nothing else: so
whoever leads the controller next goes on where the last one was.

Acknowledged commits decide about the order of things. A broker that leads a partition acknowledges a commit
when all of its ISR have it: as long as one of our nodes is among the replicas, it may be in the ISR, and is
fetched for; what was fetched is removed when none is any more, and served when one of them leads. A broker
that is in the ISR could get leadership back, at once and without what was committed here: so nothing is
served before all brokers are out of it. From then on not even a reassignment that is cancelled brings them
back. If a broker leads all the same, because somebody had one elected that has not everything, the partition
is taken over again on top of what is here (`orders.RETAKE`), whatever is wanted: only the tier has both.
"""

from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from actors.upstream.image import NO_LEADER
from actors.upstream.moves import Cancel, Move, ToIsr, ToReplicas, goal
from actors.upstream.orders import (
    DROP,
    DROPPING,
    FOLLOW,
    LOOK,
    NOTHING,
    RETAKEN,
    SEALED,
    SERVE,
    SERVED,
    Standing,
)
from actors.upstream.partitions import PartitionState, RaftLeader

WAITING: Final = "waiting"
"""Brokers have it, and nothing is done about it now."""
JOINING: Final = "joining"
"""Our nodes fetch it, and are to be its only replicas."""
TAKING: Final = "taking over"
"""One of our nodes leads it upstream, and its groups are not served yet."""
ATTACHED: Final = "served"
"""The tier serves its groups."""
GIVING_BACK: Final = "giving back"
"""Our nodes are to be no replicas of it any more, and what was fetched is to be removed."""
ELSEWHERE: Final = "led by a broker"
"""The tier serves its groups, and a broker outside leads it upstream: it is taken over again."""


class Step(NamedTuple):
    """What the leader of our partition is told, and what is asked of the upstream's controller."""

    phase: str
    order: str
    move: Move | None = None


def is_ours(state: PartitionState, tier: AbstractSet[int]) -> bool:
    """Return whether what was committed in a partition is to be had from the tier alone."""
    if state.leader == NO_LEADER:
        return set(state.replicas).issubset(tier)
    return state.leader in tier


def ours_in(state: PartitionState, tier: AbstractSet[int]) -> tuple[int, ...]:
    """Return the nodes of the tier that are replicas of a partition, or are to be."""
    return tuple(each for each in state.replicas if each in tier)


def is_moved_by_others(state: PartitionState, tier: AbstractSet[int]) -> bool:
    """Return whether somebody moves a partition from brokers to brokers."""
    is_moving = bool(state.adding_replicas or state.removing_replicas)
    return is_moving and not ours_in(state, tier)


def target_of(leader: RaftLeader, live: AbstractSet[int]) -> tuple[int, ...]:
    """Return the replicas that a partition is to have, Raft's leader first; () if that one is not there."""
    if leader.broker_id not in live:
        return ()
    return (
        leader.broker_id,
        *(each for each in leader.replicas if each != leader.broker_id and each in live),
    )


class Wanted(NamedTuple):
    """What shall become of a partition. If it is neither to be taken over nor to be given back, one that is
    under way is left as it is."""

    target: tuple[int, ...]
    """The replicas that it would have here; () if it cannot have any now."""
    takes: bool = False
    """Whether it is to be taken over now."""
    gives_back: bool = False
    """Whether it is not to be, and what was begun is undone."""


def step(
    state: PartitionState,
    standing: Standing,
    wanted: Wanted,
    tier: AbstractSet[int],
    live: AbstractSet[int],
) -> Step:
    """Return the next step of one partition. `live` are the nodes of the tier that can lead."""
    target, takes, gives_back = wanted
    assert standing.phase not in (SERVED, SEALED), "leaving.step decides about these"
    if is_ours(state, tier):
        if set(state.isr) - tier:
            return Step(TAKING, LOOK, ToIsr(tuple(each for each in state.isr if each in tier)))
        return Step(TAKING, DROP if standing.phase == DROPPING else SERVE)
    if ours_in(state, tier):
        order = LOOK if standing.phase == DROPPING else FOLLOW
        if gives_back:
            return Step(GIVING_BACK, order, _away(state, tier))
        return Step(JOINING, order, _joined(state, target, tier, live) if takes else None)
    if standing.phase == DROPPING or (gives_back and standing.phase not in (NOTHING, RETAKEN)):
        return Step(GIVING_BACK, DROP)
    if takes and target and state.leader != NO_LEADER and not is_moved_by_others(state, tier):
        return Step(JOINING, FOLLOW, ToReplicas(target))
    return Step(WAITING, LOOK)


def _joined(
    state: PartitionState, target: tuple[int, ...], tier: AbstractSet[int], live: AbstractSet[int]
) -> Move | None:
    """Return what is missing so that only our nodes will be the replicas of a partition that has some of
    them; None: it is a matter of time."""
    if not set(state.adding_replicas).issubset(live | _outside(state, tier)):
        # It cannot end while one of them is away. A new reassignment would keep waiting for it.
        return Cancel()
    if not target or state.leader == NO_LEADER:
        return None
    if set(state.adding_replicas) & set(goal(state)) and set(goal(state)).issubset(_outside(state, tier)):
        # Brokers were to be its only replicas, and an unclean election has left that undone. Another target
        # would wait for them for ever: so the controller is asked to end that first.
        return ToReplicas(goal(state))
    if set(goal(state)).issubset(tier):
        # One that had been a replica before is waited for, too, if the replicas become fewer.
        return None if set(goal(state)).issubset(live) else ToReplicas(target)
    return ToReplicas(target)


def _away(state: PartitionState, tier: AbstractSet[int]) -> Move | None:
    """Return what has our nodes be no replicas of a partition any more."""
    if set(state.adding_replicas) & tier:
        return Cancel()
    brokers = tuple(each for each in goal(state) if each not in tier)
    if not brokers or brokers == goal(state):
        return None
    return ToReplicas(brokers)


def _outside(state: PartitionState, tier: AbstractSet[int]) -> frozenset[int]:
    return frozenset(state.replicas) - tier
