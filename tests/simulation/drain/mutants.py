"""Drains with one mistake each, for the checkers to find: in the leader of a group, or in whoever drives the
drain.

As in tests/simulation/mutants.py, the docstring of a mutant states the rule that it undoes.
"""

from __future__ import annotations

from typing import Any, Final

from actors.ground.spec import Copies, TierSpec
from actors.metadata.commands import ForgetReplica
from cluster.reconcile import Reconciler
from cluster.sight import Sight, call, end, look_at
from cluster.tier_actors import TierActor, replica_actor
from storage.raft.leader import Leader
from storage.raft.members import Members
from storage.raft.raft import Raft
from tests.simulation.world import PRODUCTION, Code


class LetsTheOldVoterGoFirst(Leader):
    """A voter that is to go and answers stays until its successor has a vote."""

    def change_members(self) -> None:
        core = self._core
        now = core.memberships.current
        if self.target is None or not self.serving or core.memberships.index > core.commit_index:
            return
        is_known = self.target.keys() <= {member.member_id for member in now}
        for member in now:
            is_gone = member.member_id not in self.target and member.member_id != core.group.self_id
            if member.votes and is_known and is_gone and self.transfer_to is None:
                self._append_members(_without(now, member.member_id))
                return
        super().change_members()


def _without(members: Members, gone: str) -> Members:
    return tuple(member for member in members if member.member_id != gone)


class VotesBeforeItHasCaughtUp(Leader):
    """A learner gets its vote once it misses next to nothing."""

    def _has_caught_up(self, peer_id: str) -> bool:
        return self._is_online(peer_id)


class LeadsOnWhileItLeaves(Leader):
    """Who leads and is to go hands leadership over first."""

    def begin_transfer(self, to: str | None) -> bool:
        return to is None and super().begin_transfer(to)


class TellsOnce(Reconciler):
    """A group's leader is told at every look whom it should have: it forgets that when it falls."""

    async def _lead_to_placement(self, group: str, sight: Sight) -> list[str]:
        told: dict[str, Copies] = vars(self).setdefault("told", {})
        if told.get(group) == sight.spec.copies(group):
            return []
        done = await super()._lead_to_placement(group, sight)
        if done:
            told[group] = sight.spec.copies(group)
        return done


class ForgetsDrainsWithItsLeader(Reconciler):
    """Which nodes are drained stands in the metadata: the next leader of the controller goes on with it."""

    async def step(self, spec: TierSpec) -> list[str]:
        begun: tuple[int, ...] = vars(self).setdefault("begun", spec.draining)
        known = tuple(node_id for node_id in spec.draining if node_id not in begun)
        return await super().step(spec._replace(draining=known))


class EndsWhoIsToGo(Reconciler):
    """A replica is ended when its group has let it go."""

    async def _dismiss(self, actor: TierActor, sight: Sight) -> list[str]:
        assert actor.group is not None
        if await end(self._spec, actor, sight):
            await self._submit(ForgetReplica(actor.group, actor.replica_id))
        return []


class OffersLeadershipToTheDrained(Reconciler):
    """Leadership does not go back to a node that is drained."""

    async def _look(self, names: set[str]) -> list[str]:
        done = await super()._look(names)
        spec = self._spec
        for partition, row in enumerate(spec.placement):
            for replica_id, node_id in row:
                if node_id in spec.draining:
                    await self._give(f"partition-{partition}", replica_id)
        return done

    async def _give(self, group: str, replica_id: int) -> None:
        actors = [replica_actor(group, *copy) for copy in self._spec.copies(group)]
        sight = await look_at(self._spec, actors)
        leader = sight.leader(group)
        if leader is not None and leader["replica"] != replica_id:
            name = replica_actor(group, leader["replica"], leader["node_id"]).name
            await call(sight.looks[name].handle, "transfer", replica_id)


LEADERS: Final = (LetsTheOldVoterGoFirst, VotesBeforeItHasCaughtUp, LeadsOnWhileItLeaves)
RECONCILERS: Final = (
    TellsOnce,
    ForgetsDrainsWithItsLeader,
    EndsWhoIsToGo,
    OffersLeadershipToTheDrained,
)


def code_with(leader: type[Leader]) -> Code:
    """Return the code under test with this leader in it."""
    parts: Any = Raft.PARTS._replace(leader=leader)
    return PRODUCTION._replace(raft=type("Raft", (Raft,), {"PARTS": parts}))
