"""What is done next about one partition whose groups the tier serves, and that is to go back to the brokers.
PURE.

A step is decided by what is to be seen alone, as in `joining`:

1. The partition is reassigned to brokers, and to them only: they begin to fetch as followers.
2. When they have nearly all, the partition is sealed: nothing of its groups changes any more.
3. When they have all of it, that is noted here, with the epoch in which our node leads.
4. The leader upstream, which is ours, says that they are in sync. With that the reassignment ends, and the
   controller elects the first of them: so no broker is ever in sync while commits are acknowledged that it
   does not have.
5. A broker leads in the next epoch, and what is here is removed. A broker that leads without the note, or in
   a later epoch, may have been elected though it lacks something: it is taken over again.

If it does not get on, the reassignment is cancelled, and then the seal is taken back. Never the other way
round: as long as brokers are among the replicas, an AlterPartition that is under way may make one lead. And
what is said of seal and followers counts only if it was asked for when the reassignment was seen.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from actors.upstream.given import GivenLog
from actors.upstream.joining import ATTACHED, ELSEWHERE, Step
from actors.upstream.moves import ToIsr, ToReplicas, goal, is_led_outside
from actors.upstream.orders import DROP, LOOK, RELEASE, RETAKE, SEAL, SEALED, SERVED, UNSEAL, Standing
from actors.upstream.partitions import PartitionState, RaftLeader

LEAVING: Final = "leaving"
"""Brokers fetch it, and are to be its only replicas."""
SEALING: Final = "changing hands"
"""Nobody serves its groups: brokers fetch the end of the log, and lead then."""
GIVEN_BACK: Final = "given back"
"""A broker leads it, and what is here is to be removed."""
STAYING: Final = "staying"
"""Brokers are to be no replicas of it any more, and then its groups are served again."""
UNDER_WAY: Final = frozenset({LEAVING, SEALING, GIVEN_BACK})
"""The phases in which nobody else may move the partition, or take it for one that the tier has lost."""

LAG_MAX: Final = 1_000
"""How many records brokers may lack when a partition is sealed: far less than a second's."""
FACTOR_MAX: Final = 3


class Watched(NamedTuple):
    """What is known of a partition that leaves."""

    leader: RaftLeader | None
    targets: tuple[int, ...]
    """The brokers that are to have it, the one that is to lead first; () if there are none."""
    epochs: Mapping[int, int]
    """The brokers that are up, with the epochs in which they are registered."""
    given: GivenLog | None
    """The log that brokers fetch, as the node of our leader has told; None if it has not."""
    is_fresh: bool
    """Whether `given`, and how the partition stands, were asked for when its present state was known."""


def targets_of(index: int, outside: Sequence[int]) -> tuple[int, ...]:
    """Return the brokers that a partition goes to, spread over those that there are."""
    if not outside:
        return ()
    first = index % len(outside)
    return (*outside[first:], *outside[:first])[:FACTOR_MAX]


def brokers_in(state: PartitionState, tier: AbstractSet[int]) -> tuple[int, ...]:
    """Return the brokers that are replicas of a partition, or are to be."""
    return tuple(each for each in state.replicas if each not in tier)


def step(
    state: PartitionState, standing: Standing, watched: Watched, tier: AbstractSet[int], *, leaves: bool
) -> Step:
    """Return the next step of a partition that is served, or sealed. `leaves`: it is to go now."""
    assert standing.phase in (SERVED, SEALED), standing
    is_sealed, brokers = standing.phase == SEALED, brokers_in(state, tier)
    if is_led_outside(state, tier):
        was_given = is_sealed and standing.released_epoch == state.leader_epoch - 1
        return Step(GIVEN_BACK, DROP) if was_given else Step(ELSEWHERE, RETAKE)
    is_led = watched.leader is not None and state.leader == watched.leader.broker_id
    # What was moved by somebody else, or has a broker that is away, cannot end well.
    is_good = set(goal(state)) == set(brokers) <= set(watched.epochs) if brokers else bool(watched.targets)
    if not (leaves and is_led and is_good):
        return _stays(brokers, is_sealed=is_sealed)
    if not brokers:
        return Step(LEAVING, LOOK, ToReplicas(watched.targets))
    if not is_sealed:
        return Step(LEAVING, SEAL if _are_near(brokers, watched) else LOOK)
    if not _have_all(brokers, watched):
        return Step(SEALING, SEAL)
    if standing.released_epoch != state.leader_epoch:
        return Step(SEALING, RELEASE)
    isr = (state.leader, *(each for each in state.isr if each != state.leader), *brokers)
    return Step(SEALING, SEAL, ToIsr(tuple(dict.fromkeys(isr))))


def _stays(brokers: tuple[int, ...], *, is_sealed: bool) -> Step:
    """Return the step of a partition that is not to go, or not now. Brokers leave its replicas by
    `actors/upstream/leadership.py`, which has it led as Raft says."""
    if not is_sealed:
        return Step(ATTACHED, LOOK)
    return Step(STAYING, LOOK if brokers else UNSEAL)


def _have_all(brokers: tuple[int, ...], watched: Watched) -> bool:
    """Return whether all brokers have a log that has ended."""
    given = watched.given
    return (
        watched.is_fresh
        and given is not None
        and given.is_sealed
        and all(_is_same(watched, each) and given.at_end(each) for each in brokers)
    )


def _are_near(brokers: tuple[int, ...], watched: Watched) -> bool:
    given = watched.given
    if given is None or not watched.is_fresh:
        return False
    lags = [given.lag(each) for each in brokers]
    return all(lag is not None and lag <= LAG_MAX for lag in lags)


def _is_same(watched: Watched, broker_id: int) -> bool:
    """Return whether the broker that has fetched is the one that is registered: one that has started anew may
    have lost what it had."""
    assert watched.given is not None
    epoch = watched.given.fetchers.get(broker_id, (-1, -1))[0]
    return epoch in (-1, watched.epochs.get(broker_id))
