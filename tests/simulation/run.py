"""The run of one seed: a time of faults, and then a time in which the world is well and must recover."""

from __future__ import annotations

from tests.simulation.faults import Faults
from tests.simulation.world import PRODUCTION, Code, Trace, Violation, World

__all__ = ["FAULTS_S", "HEAL_S", "PRODUCTION", "Code", "Trace", "Violation", "World", "run"]

FAULTS_S = 3.0
RETURNS = 0.3
"""The share of runs in which a follower is cut off once more, for CUT_OFF_S."""
CUT_OFF_S = 1.1
HEARD_S = 0.07
"""The time within which a leader is heard of: somewhat more than a heartbeat interval."""
HEAL_S = 9.0
"""Simulated time within which a healed world has to be well."""


def run(
    seed: int,
    *,
    replicas: int | None = None,
    code: Code = PRODUCTION,
    trace: Trace | None = None,
    until: float | None = None,
) -> World:
    """Run one seed. `replicas` None: the seed decides; `until`: no fault begins later, in simulated seconds.

    Raises Violation, whose text begins with the name of the checker, or what the code under test raised.
    """
    world = World(seed, replicas=replicas, code=code, trace=trace)
    play(world, until)
    if world.chance.random() < RETURNS:
        _return_unnoticed(world)
    world.finish()
    return world


def play(world: World, until: float | None = None) -> None:
    """Play a world's faults, and wait until it has recovered from them. Raises as `run`."""
    Faults(world).schedule(FAULTS_S)
    world.start()
    world.run_until(FAULTS_S if until is None else min(until, FAULTS_S))
    world.note("faults", "end")
    world.heal()
    until_well(world, "the last fault")


def until_well(world: World, what: str) -> None:
    """Go on until the world has no complaint about the time since `what`. Raises Violation."""
    began_at = world.now
    while (complaint := world.complaint(began_at)) is not None:
        if world.now > began_at + HEAL_S:
            raise Violation(f"progress: seed {world.seed} is not well {HEAL_S} s after {what}: {complaint}")
        world.run_until(world.now + 0.1)


def _return_unnoticed(world: World) -> None:
    """A follower that was cut off and comes back deposes nobody (Raft dissertation, section 9.6)."""
    leader = world.leader()
    followers = [process for process in world.members() if process is not leader]
    if leader is None or len(followers) < 2:
        return
    if any(peer["heard_s_ago"] > HEARD_S for peer in leader.raft.status()["peers"].values()):
        return  # a link that was clogged before is not there again: with one more gone two would be missed
    term, follower = leader.raft.term, world.chance.choice(followers)
    before = world.members()
    world.note("faults", f"{follower.name} is cut off from the others")
    for other in world.members():
        if other is not follower:
            world.links.block(follower.number, other.number, CUT_OFF_S)
            world.links.block(other.number, follower.number, CUT_OFF_S)
            world.links.cut(follower.number, other.number)
    world.run_until(world.now + CUT_OFF_S + 0.7)
    if world.members() != before:
        return  # a disk that failed earlier made one more start anew, and two are missed
    if (leader.raft.is_leader, leader.raft.term) != (True, term):
        raise Violation(
            f"elections: {leader.name} led term {term} until {follower.name} came back; nobody needed term "
            f"{follower.raft.term}"
        )
