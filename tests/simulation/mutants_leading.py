"""Mistakes of a leader: what it counts as committed, and until when it believes to be the only one."""

from __future__ import annotations

from storage.raft.leader import Leader
from storage.raft.messages import AppendAnswer, ChunkAnswer
from storage.raft.progress import Progress
from storage.raft.raft import Raft
from storage.raft.skeleton import LEADER, Node


class CountsItsUnsyncedEntries(Leader):
    """The leader's own disk counts like any other: up to what is durable."""

    def advance_commit(self) -> None:
        journal = self._core.journal
        durable, journal.durable_index = journal.durable_index, journal.last_index
        super().advance_commit()
        journal.durable_index = durable


class CommitsOlderTermsByCounting(Leader):
    """Only entries of the current term commit by counting (Raft paper, section 5.4.2)."""

    def advance_commit(self) -> None:
        core = self._core
        matches = [core.journal.durable_index]
        matches += [progress.match_index for progress in self.progress.values()]
        index = sorted(matches, reverse=True)[core.group.majority - 1]
        core.commit_index = max(core.commit_index, index)


class CommitsWithoutAMajority(Leader):
    """An entry is committed when a majority has it."""

    def advance_commit(self) -> None:
        core = self._core
        index = core.journal.durable_index
        if core.journal.term_at(index) == core.term:
            core.commit_index = max(core.commit_index, index)


class CountsAnswersOfOtherTerms(Raft):
    """Acknowledgements carry a term, and count in no other."""

    def _on_answer(self, node: Node, message: AppendAnswer | ChunkAnswer) -> None:
        if isinstance(message, AppendAnswer):
            message = message._replace(term=self.term)
        super()._on_answer(node, message)


class LeasesAfterTransfer(Leader):
    """Once a transfer has been sent there is no lease for the rest of the term."""

    def has_lease(self) -> bool:
        sent, self._transfer_sent = self._transfer_sent, False
        held = super().has_lease()
        self._transfer_sent = sent
        return held

    def has_to_resign(self, now: float) -> bool:
        lease = self._lease_until
        has_to_resign = super().has_to_resign(now)
        self._lease_until = max(self._lease_until, lease)
        return has_to_resign


class LeasesFromReceiving(Leader):
    """A lease runs from the sending of what was answered, not from the answer."""

    def _heard(self, progress: Progress, sent_at: float) -> None:
        super()._heard(progress, sent_at)
        progress.echoed_at = self._core.clock()
        self._renew_lease()


class LeasesBeforeTheFirstCommit(Leader):
    """There is no lease before the first entry of the term is applied."""

    def has_lease(self) -> bool:
        core = self._core
        return core.role == LEADER and not self._transfer_sent and core.clock() < self._lease_until


class ServesBeforeTheFirstCommit(Leader):
    """A leader serves once everything that was committed before it is applied."""

    def begin(self) -> None:
        super().begin()
        self.serving = True
        self._no_op_index = -1
        self._core.machine.on_leading(self._core.term)


class LeasesFromPeersItHungUpOn(Leader):
    """A peer whose connection the leader closed may take that for the leader's end: it counts no more."""

    def link_down(self, peer_id: str) -> None:
        if peer_id in self.progress:
            echoed_at = self.progress[peer_id].echoed_at
            super().link_down(peer_id)
            self.progress[peer_id].echoed_at = echoed_at
            self._renew_lease()


class LeasesLongerThanPromises(Leader):
    """A lease is a tenth shorter than the promise it rests on: clocks differ."""

    def _renew_lease(self) -> None:
        super()._renew_lease()
        self._lease_until += 0.3 * self._settings.election_min_s


class LeasesThroughRests(Leader):
    """A lease is counted in election timeouts and not in heartbeats: a rest does not prolong it."""

    def _renew_lease(self) -> None:
        super()._renew_lease()
        self._lease_until += 2 * self._replication.rest_s
