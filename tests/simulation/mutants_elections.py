"""Mistakes of voters and candidates."""

from __future__ import annotations

from storage.raft.core import NEVER
from storage.raft.messages import Vote, VoteAnswer
from storage.raft.raft import Raft
from storage.raft.skeleton import LEADER, Node


class BreaksPromises(Raft):
    """Nobody votes for another within one minimum election timeout of hearing a leader."""

    def _promised(self, now: float) -> bool:
        return self._role == LEADER


class ForgetsPromisesWhenRestarted(Raft):
    """A promise outlives the process that made it."""

    def _promised(self, now: float) -> bool:
        self._restart_hold_until = NEVER
        return super()._promised(now)


class CampaignsWithoutAsking(Raft):
    """A candidate asks who would vote for it before it raises the term (pre-vote)."""

    def _campaign(self, now: float) -> None:
        if self._is_voter:
            self._stand(now, transfer=False)


class VotesTwice(Raft):
    """One vote a term."""

    def _on_vote(self, node: Node, message: Vote) -> None:
        self._voted_for = None
        super()._on_vote(node, message)


class ForgetsItsVote(Raft):
    """A vote is written down before it is given."""

    def _set_term(self, term: int, vote: str | None) -> None:
        super()._set_term(term, None)
        self._voted_for = vote


class VotesForShorterLogs(Raft):
    """Whoever lacks what may be committed is not elected (Raft paper, section 5.4.1)."""

    def _up_to_date(self, last_index: int, last_term: int) -> bool:
        return True


class ComparesLogsByLengthOnly(Raft):
    """The later term makes a log newer, however long another is."""

    def _up_to_date(self, last_index: int, last_term: int) -> bool:
        return last_index >= self._journal.last_index


class CountsRefusals(Raft):
    """A refused vote is none."""

    def _on_vote_answer(self, node: Node, message: VoteAnswer) -> None:
        super()._on_vote_answer(node, message._replace(granted=True))
