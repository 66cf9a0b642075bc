"""Rules of a drain, looked at in the moment in which a leader of a group takes a step.

copies      a replica gets its vote when it has caught up; whoever is to go and answers stays until all that
            should come vote; nobody is ended who still belongs to the group
leadership  the controller does not have leadership go to a node that it drains (tier.py's complaint says the
            rest: in the end such a node has no vote, and so no leadership)
"""

from __future__ import annotations

from storage.raft.leader import CAUGHT_UP_ENTRIES
from storage.raft.members import Members, replica_of
from tests.simulation.checkers import Violation
from tests.simulation.drain.tier import Group
from tests.simulation.parts import Process
from tests.simulation.rules import Rules


class DrainRules(Rules):
    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._group = group

    def set_members(self, process: Process, members: Members) -> None:
        before = self._members.get(process)
        super().set_members(process, members)
        if before is None or not process.raft.is_leader:
            return
        then, now = ({each.member_id for each in all_ if each.votes} for all_ in (before[1], members))
        for newcomer in now - then:
            self._check_caught_up(process, newcomer)
        for gone in then - now:
            self._check_last(process, gone, now)

    def _check_caught_up(self, process: Process, newcomer: str) -> None:
        its = self._group.hosts[replica_of(newcomer)].process
        if its is None or its.member_id != newcomer:
            return  # it has just gone
        lag = process.journal.last_index - its.journal.last_index
        if lag > CAUGHT_UP_ENTRIES + 1:
            raise Violation(f"copies: {process.name} gives {newcomer} a vote, which misses {lag} entries")

    def _check_last(self, process: Process, gone: str, voters: set[str]) -> None:
        peers = process.raft.status()["peers"]
        answers = gone in peers and peers[gone]["online"]
        is_heard = answers and peers[gone]["heard_s_ago"] <= process.world.config.election_max_s
        wanted = len(self._group.tier.placed(self._group.name).copies)
        if is_heard and len(voters) < wanted:
            raise Violation(
                f"copies: {process.name} lets {gone} go, which answers, and {sorted(voters)} are left to "
                f"vote, {wanted} should"
            )


def check_ended(group: Group, number: int) -> None:
    """Check that a replica that is ended for good does not belong to its group. One that refuses to start may
    be a member still: it begins anew. Raises Violation."""
    host = group.hosts[number]
    members = [member.member_id for member in group.checks.members]
    if host.refused is None and host.member_id in members:
        raise Violation(f"copies: {host.name} of {group.name} is ended and is a member: {members}")
