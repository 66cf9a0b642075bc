"""What is to be changed next of one partition upstream, so that its leader is the one that Raft elected.

Each move is one request to the controller, and leads closer whatever the state was before. The order of the
replicas follows Raft's leader, because Kafka gives leadership back to the first replica of itself
(auto.leader.rebalance.enable). A move is decided by the state alone: nothing has to be remembered.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from actors.upstream.image import NO_LEADER
from actors.upstream.partitions import PartitionState, RaftLeader
from actors.upstream.requests import PREFERRED, UNCLEAN


class ToReplicas(NamedTuple):
    """Reassign the partition to these replicas, the one that is to lead first."""

    replicas: tuple[int, ...]


class Cancel(NamedTuple):
    """Take back the reassignment that is under way."""


class ToIsr(NamedTuple):
    """Have the partition's leader say that its ISR is this one."""

    isr: tuple[int, ...]


class Elect(NamedTuple):
    """Elect a leader."""

    election_type: int


Move = ToReplicas | Cancel | ToIsr | Elect


def goal(state: PartitionState) -> tuple[int, ...]:
    """Return the replicas that the partition will have when nothing moves any more."""
    return tuple(each for each in state.replicas if each not in state.removing_replicas)


def is_led(state: PartitionState, wanted: RaftLeader) -> bool:
    """Return whether the partition is led as Raft says, and stays so: nobody of the ISR is preferred to its
    leader."""
    preferred = next((each for each in goal(state) if each in state.isr), None)
    return state.leader == preferred == wanted.broker_id


def is_led_outside(state: PartitionState, tier: AbstractSet[int]) -> bool:
    """Return whether a broker that is not of the tier leads a partition: what it has taken as leader would be
    lost if it was made to give it up."""
    return state.leader != NO_LEADER and state.leader not in tier


def next_move(state: PartitionState, wanted: RaftLeader, live: AbstractSet[int]) -> Move | None:
    """Return the next move of a partition of ours that no broker outside leads; None if all is well, or if
    nothing can be done before Raft's leader is unfenced. `live` are the nodes of the tier that can lead."""
    leader = wanted.broker_id
    if leader not in live:
        return None
    replicas = (leader, *(each for each in wanted.replicas if each != leader and each in live))
    away = set(wanted.replicas) - live
    if state.leader == NO_LEADER:
        # Nobody of the ISR can lead, but our replica has everything: Raft says so.
        first = next((each for each in state.replicas if each not in away), None)
        return Elect(UNCLEAN) if first == leader else ToReplicas(replicas)
    # A replica that is away may stay, it is waited for; unless it never arrived.
    waited_for = away.difference((*state.adding_replicas, state.leader))
    aimed = tuple(each for each in goal(state) if each not in waited_for)
    if state.leader != leader:
        return _swap(state, replicas, aimed)
    if _are_the_same(aimed, replicas) and not set(replicas).issubset(state.isr):
        return ToIsr(replicas)
    is_done = _are_the_same(aimed, replicas) and not _is_moving(state)
    return None if is_done else _moved(state, replicas, replicas)


def _swap(state: PartitionState, replicas: tuple[int, ...], aimed: tuple[int, ...]) -> Move | None:
    """Return what brings leadership to the first of these replicas.

    Without its leader among the replicas the controller elects their first one in the same step, if all of
    them are in the ISR: so only those that are stay, and the others come back afterwards."""
    leader = replicas[0]
    if leader in state.isr and state.replicas[0] == leader and not _is_moving(state):
        return Elect(PREFERRED)
    target = (leader, *(each for each in replicas[1:] if each in state.isr and each != state.leader))
    if leader in state.replicas and (leader not in state.isr or _are_the_same(aimed, target)):
        isr = (state.leader, *(each for each in replicas if each in state.replicas and each != state.leader))
        if not set(isr).issubset(state.isr):
            return ToIsr(isr)
    return _moved(state, target, replicas)


def _moved(state: PartitionState, replicas: tuple[int, ...], live: tuple[int, ...]) -> Move | None:
    """Return the move of a partition of ours to other replicas. What has only new replicas in its ISR cannot
    be cancelled: then all that are there have to be in it first, and one that is away is waited for."""
    move = _reassign(state, replicas)
    if move != Cancel() or not set(state.isr).issubset(state.adding_replicas):
        return move
    isr = {state.leader, *state.isr, *live}.intersection(state.replicas)
    return _first(state, replicas[0]) if isr.issubset(state.isr) else ToIsr(tuple(sorted(isr)))


def _first(state: PartitionState, leader: int) -> Move | None:
    """Return what makes one of the ISR the leader, of a partition that goes on waiting for those that are
    away."""
    if leader == state.leader or leader not in state.isr:
        return None
    if state.replicas[0] == leader:
        return Elect(PREFERRED)
    return ToReplicas((leader, *(each for each in goal(state) if each != leader)))


def _reassign(state: PartitionState, replicas: tuple[int, ...]) -> Move:
    """Return the move to other replicas. The controller goes on to wait for replicas that were being added
    unless others are added now, and to remove those that were being removed unless others are: then it is
    cancelled first."""
    adds = set(replicas).difference(state.replicas)
    removes = set(state.replicas).difference(replicas)
    waits = not adds and set(state.adding_replicas).difference(replicas)
    loses = not removes and set(state.removing_replicas).intersection(replicas)
    return Cancel() if waits or loses else ToReplicas(replicas)


def _is_moving(state: PartitionState) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)


def _are_the_same(aimed: tuple[int, ...], replicas: tuple[int, ...]) -> bool:
    return aimed[:1] == replicas[:1] and set(aimed) == set(replicas)


def stray_move(
    state: PartitionState, partition_index: int, tier: AbstractSet[int], outside: Sequence[int]
) -> Move | None:
    """Return the next move of a partition that has replicas in the tier and is not ours. `outside` are the
    live brokers that are not of the tier."""
    if not set(state.adding_replicas).isdisjoint({*tier, *state.removing_replicas}):
        return Cancel()  # somebody moves it here, or has asked for what cannot end: it stays where it was
    brokers = tuple(each for each in goal(state) if each not in tier)
    if is_led_outside(state, tier):
        return None if brokers == goal(state) or not brokers else _reassign(state, brokers)
    if not state.isr and not set(brokers).issubset(state.adding_replicas):
        return None  # the last ones that had everything are waited for (KIP-966)
    having = tuple(each for each in state.replicas if each in state.isr and each not in tier)
    if having:
        # Nobody fetches from us, so leadership goes to those who have what there is.
        return None if having == goal(state) else _reassign(state, having)
    living = tuple(each for each in brokers if each in outside)
    if not living:
        return _to_anybody(state, brokers, partition_index, outside)
    if goal(state) != living:
        return _reassign(state, living)
    return Elect(UNCLEAN) if state.leader == NO_LEADER else ToIsr((state.leader, *living))


def _to_anybody(
    state: PartitionState, brokers: tuple[int, ...], partition_index: int, outside: Sequence[int]
) -> Move | None:
    """Return the move of a stray that only nodes of the tier have, so that there is nothing of it."""
    if brokers and set(brokers).issubset(state.adding_replicas):
        return Cancel()  # they were given it, and are down
    if brokers or not outside:
        return None  # one that is down may have what there is
    return _reassign(state, (outside[partition_index % len(outside)],))
