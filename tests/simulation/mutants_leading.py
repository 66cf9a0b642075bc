"""Mistakes of a leader: what it counts as committed, and until when it believes to be the only one."""

from __future__ import annotations

from storage.raft.leading import Progress
from storage.raft.messages import AppendAnswer
from storage.raft.raft import Raft
from storage.raft.skeleton import LEADER, Node


class CountsItsUnsyncedEntries(Raft):
    """The leader's own disk counts like any other: up to what is durable."""

    def _advance_commit(self) -> None:
        durable, self._journal.durable_index = self._journal.durable_index, self._journal.last_index
        super()._advance_commit()
        self._journal.durable_index = durable


class CommitsOlderTermsByCounting(Raft):
    """Only entries of the current term commit by counting (Raft paper, section 5.4.2)."""

    def _advance_commit(self) -> None:
        matches = [self._journal.durable_index]
        matches += [progress.match_index for progress in self._progress.values()]
        index = sorted(matches, reverse=True)[self._majority - 1]
        self._commit_index = max(self._commit_index, index)


class CommitsWithoutAMajority(Raft):
    """An entry is committed when a majority has it."""

    def _advance_commit(self) -> None:
        index = self._journal.durable_index
        if self._journal.term_at(index) == self._term:
            self._commit_index = max(self._commit_index, index)


class CountsAnswersOfOtherTerms(Raft):
    """Acknowledgements carry a term, and count in no other."""

    def _on_append_answer(self, node: Node, message: AppendAnswer) -> None:
        super()._on_append_answer(node, message._replace(term=self._term))


class LeasesAfterTransfer(Raft):
    """Once a transfer has been sent there is no lease for the rest of the term."""

    def has_lease(self) -> bool:
        sent, self._transfer_sent = self._transfer_sent, False
        held = super().has_lease()
        self._transfer_sent = sent
        return held

    def _leader_timers(self, now: float) -> None:
        lease = self._lease_until
        super()._leader_timers(now)
        self._lease_until = max(self._lease_until, lease)


class LeasesFromReceiving(Raft):
    """A lease runs from the sending of what was answered, not from the answer."""

    def _heard(self, progress: Progress, sent_at: float) -> None:
        super()._heard(progress, sent_at)
        progress.echoed_at = self._clock()
        self._renew_lease()


class LeasesBeforeTheFirstCommit(Raft):
    """There is no lease before the first entry of the term is applied."""

    def has_lease(self) -> bool:
        return self._role == LEADER and not self._transfer_sent and self._clock() < self._lease_until


class ServesBeforeTheFirstCommit(Raft):
    """A leader serves once everything that was committed before it is applied."""

    def _become_leader(self) -> None:
        super()._become_leader()
        self._serving = True
        self._no_op_index = -1
        self._machine.on_leading(self._term)


class LeasesFromPeersItHungUpOn(Raft):
    """A peer whose connection the leader closed may take that for the leader's end: it counts no more."""

    def _link_down(self, peer_id: str) -> None:
        if self._role == LEADER and peer_id in self._progress:
            echoed_at = self._progress[peer_id].echoed_at
            super()._link_down(peer_id)
            self._progress[peer_id].echoed_at = echoed_at
            self._renew_lease()


class LeasesLongerThanPromises(Raft):
    """A lease is a tenth shorter than the promise it rests on: clocks differ."""

    def _renew_lease(self) -> None:
        super()._renew_lease()
        self._lease_until += 0.3 * self._config.election_min_s
