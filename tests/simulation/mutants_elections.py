"""Mistakes of voters and candidates."""

from __future__ import annotations

from storage.raft.contract import NEVER
from storage.raft.core import Core
from storage.raft.messages import Vote, VoteAnswer
from storage.raft.skeleton import LEADER, Node
from storage.raft.votes import Votes


class BreaksPromises(Votes):
    """Nobody votes for another within one minimum election timeout of hearing a leader."""

    def _has_promised(self, now: float) -> bool:
        return self._core.role == LEADER


class ForgetsPromisesWhenRestarted(Votes):
    """A promise outlives the process that made it."""

    def _has_promised(self, now: float) -> bool:
        self._core.restart_hold_until = NEVER
        return super()._has_promised(now)


class CampaignsWithoutAsking(Votes):
    """A candidate asks who would vote for it before it raises the term (pre-vote)."""

    def campaign(self, now: float) -> None:
        if self._core.group.has_vote:
            self._stand(now, transfer=False)


class VotesTwice(Votes):
    """One vote a term."""

    def on_vote(self, node: Node, message: Vote) -> None:
        self._core.voted_for = None
        super().on_vote(node, message)


class ForgetsItsVote(Core):
    """A vote is written down before it is given."""

    def set_term(self, term: int, vote: str | None) -> None:
        super().set_term(term, None)
        self.voted_for = vote


class VotesForShorterLogs(Votes):
    """Whoever lacks what may be committed is not elected (Raft paper, section 5.4.1)."""

    def _is_up_to_date(self, last_index: int, last_term: int) -> bool:
        return True


class ComparesLogsByLengthOnly(Votes):
    """The later term makes a log newer, however long another is."""

    def _is_up_to_date(self, last_index: int, last_term: int) -> bool:
        return last_index >= self._core.journal.last_index


class CountsRefusals(Votes):
    """A refused vote is none."""

    def on_vote_answer(self, node: Node, message: VoteAnswer) -> None:
        super().on_vote_answer(node, message._replace(granted=True))
