"""What a leader concludes has to follow from what it was told: from the answers that came to it in its term.

commits   a majority of voters, itself included, said that the entry is on their disks
leases    a majority of voters got a message of this term that the leader sent no longer ago than a lease
          lasts, and said so over the present connection; once it has handed over there is none in its term
"""

from __future__ import annotations

from typing import Any

from storage.raft.leader import LEASE_FRACTION
from storage.raft.members import Members
from storage.raft.messages import APPEND_ANSWER, CHUNK_ANSWER, TIMEOUT_NOW
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process

ROUNDING_S = 1e-6


class _Told:
    """What one leader told about its followers in one term."""

    def __init__(self, members: Members) -> None:
        self.matched: dict[str, int] = {}
        self.echoed: dict[str, float] = {}
        self.has_handed_over = False
        self.commit_index = -1
        self.members = members
        """The members as of the leader's last turn."""


class Evidence:
    def __init__(self) -> None:
        self._told: dict[Process, tuple[int, _Told]] = {}
        """The term that each process is in, and what it told as the leader of that term."""

    def _of(self, process: Process) -> _Told:
        term = process.raft.term
        known = self._told.get(process)
        if known is None or known[0] != term:
            known = self._told[process] = term, _Told(process.members)
        return known[1]

    def sent(self, process: Process, message: tuple[Any, ...]) -> None:
        if message[0] == TIMEOUT_NOW:
            self._of(process).has_handed_over = True

    def received(self, process: Process, sender_id: str, message: tuple[Any, ...]) -> None:
        if message[0] not in (APPEND_ANSWER, CHUNK_ANSWER) or message[1] != process.raft.term:
            return
        told = self._of(process)
        told.echoed[sender_id] = max(message[2], told.echoed.get(sender_id, message[2]))
        if message[0] == APPEND_ANSWER and message[3]:
            told.matched[sender_id] = max(message[5], told.matched.get(sender_id, 0))

    def disconnected(self, process: Process, peer_id: str) -> None:
        known = self._told.get(process)
        if known is not None:
            known[1].echoed.pop(peer_id, None)

    def ended(self, process: Process) -> None:
        self._told.pop(process, None)

    def turned(self, process: Process) -> None:
        """Members may have changed after the commit: those of the last turn will do as well."""
        raft = process.raft
        if not raft.is_leader:
            return
        told, commit_index = self._of(process), raft.commit_index
        if raft.holds_lease:
            self._check_lease(process, told)
        if told.commit_index < commit_index and told.commit_index >= 0:
            holders = {peer for peer, index in told.matched.items() if index >= commit_index}
            if process.journal.durable_index >= commit_index:
                holders.add(process.member_id)
            if not any(_is_majority(holders, members) for members in (process.members, told.members)):
                raise Violation(
                    f"commits: {process.name} commits entry {commit_index}; it only knows that "
                    f"{sorted(holders)} of {_voters(process.members)} hold it"
                )
        told.commit_index, told.members = commit_index, process.members

    def _check_lease(self, process: Process, told: _Told) -> None:
        config = process.world.config
        since = process.host.clock() - LEASE_FRACTION * config.election_min_s - ROUNDING_S
        witnesses = {peer for peer, sent_at in told.echoed.items() if sent_at >= since}
        witnesses.add(process.member_id)
        if told.has_handed_over or not _is_majority(witnesses, process.members):
            why = (
                "after it handed over"
                if told.has_handed_over
                else f"by the word of {sorted(witnesses)} alone"
            )
            raise Violation(f"leases: {process.name} holds one {why}; it leads term {process.raft.term}")


def _voters(members: Members) -> list[str]:
    return [member.member_id for member in members if member.votes]


def _is_majority(some: set[str], members: Members) -> bool:
    voters = _voters(members)
    return 2 * len(some.intersection(voters)) > len(voters)
