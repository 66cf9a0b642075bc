"""Raft with one mistake each: the world and its checkers are only worth something if they see them.

Not here: committing entries of older terms by counting. The schedule that it takes (figure 8 of the Raft
paper) did not come in 6,700 seeds of this world; tests/storage/test_raft_rules.py plays it out by hand.
"""

from __future__ import annotations

from typing import Any

from storage.core import NEVER
from storage.messages import Append, AppendAnswer, Chunk
from storage.raft import Raft
from storage.skeleton import LEADER, Node


class AcknowledgesBeforeDurable(Raft):
    def _answer(self, sent_at: float, success: bool, previous_index: int) -> AppendAnswer:
        answer = super()._answer(sent_at, success, previous_index)
        return answer._replace(match_index=self._verified_index)


class CountsItsUnsyncedEntries(Raft):
    def _advance_commit(self) -> None:
        matches = [progress.match_index for progress in self._progress.values()]
        index = sorted([*matches, self._journal.last_index], reverse=True)[self._majority - 1]
        if index > self._commit_index and self._journal.term_at(index) == self._term:
            self._commit_index = index


class TrustsWhatAnotherLeaderVerified(Raft):
    def _set_term(self, term: int, vote: str | None) -> None:
        verified = self._verified_index
        super()._set_term(term, vote)
        self._verified_index = verified


class CommitsWhatWasNotCompared(Raft):
    def _on_append(self, node: Node, message: Append) -> None:
        super()._on_append(node, message)
        if message.term == self._term:
            self._commit_index = max(self._commit_index, min(message.commit_index, self._journal.last_index))


class CommitsOnChunks(Raft):
    def _on_chunk(self, node: Node, message: Chunk) -> None:
        if message.term >= self._term:
            held = min(message.snapshot_index, self._journal.last_index)
            self._commit_index = max(self._commit_index, held)
        super()._on_chunk(node, message)


class LeasesAfterTransfer(Raft):
    def has_lease(self) -> bool:
        return self._serving and (not self._peers or self._clock() < self._lease_until)

    def _leader_timers(self, now: float) -> None:
        lease = self._lease_until
        super()._leader_timers(now)
        self._lease_until = max(self._lease_until, lease)


class LeasesFromReceiving(Raft):
    def _heard(self, progress: Any, sent_at: float) -> None:
        super()._heard(progress, sent_at)
        progress.echoed_at = self._clock()
        self._renew_lease()


class LeasesBeforeTheFirstCommit(Raft):
    def has_lease(self) -> bool:
        return self._role == LEADER and not self._transfer_sent and self._clock() < self._lease_until


class LeasesFromPeersItHungUpOn(Raft):
    def _link_down(self, peer_id: str) -> None:
        if self._role == LEADER:
            echoed_at = self._progress[peer_id].echoed_at
            super()._link_down(peer_id)
            self._progress[peer_id].echoed_at = echoed_at
            self._renew_lease()


class BreaksPromises(Raft):
    def _promised(self, now: float) -> bool:
        return self._role == LEADER


class ForgetsPromisesWhenRestarted(Raft):
    def _promised(self, now: float) -> bool:
        self._restart_hold_until = NEVER
        return super()._promised(now)


class VotesTwice(Raft):
    def _on_vote(self, node: Node, message: Any) -> None:
        self._voted_for = None
        super()._on_vote(node, message)


MUTANTS: tuple[type[Raft], ...] = (
    AcknowledgesBeforeDurable,
    CountsItsUnsyncedEntries,
    TrustsWhatAnotherLeaderVerified,
    CommitsWhatWasNotCompared,
    CommitsOnChunks,
    LeasesAfterTransfer,
    LeasesFromReceiving,
    LeasesBeforeTheFirstCommit,
    LeasesFromPeersItHungUpOn,
    BreaksPromises,
    ForgetsPromisesWhenRestarted,
    VotesTwice,
)
