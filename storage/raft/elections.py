"""Elections: pre-vote, votes, promises, and the ways a campaign begins.

Nobody votes against a leader within one minimum election timeout of hearing it, nor for as long after its
own restart (it may have promised before); leases rest on that. Two exceptions. The leader's host closed our
connection: its process is gone, or it hung up on us and took us out of its lease before it did; the hold
after a restart stays, because it may stand for another leader. Or a leader asked for the election itself: it
has given up its lease, and that it led at all means that every older lease has ended.
"""

from __future__ import annotations

from typing import Final

from storage.raft.core import NEVER
from storage.raft.leading import Leading
from storage.raft.messages import (
    PRE_VOTE,
    PRE_VOTE_ANSWER,
    VOTE,
    VOTE_ANSWER,
    PreVote,
    PreVoteAnswer,
    TimeoutNow,
    Vote,
    VoteAnswer,
)
from storage.raft.skeleton import CANDIDATE, FOLLOWER, LEADER, Node

LOST_LEADER_DELAY_S: Final = 0.02
"""A follower whose leader is gone campaigns within this: spread, so that one is first."""


class Elections(Leading):
    _votes: set[str]

    def _promised(self, now: float) -> bool:
        """Whether voting for another now could break somebody's lease."""
        return (
            self._role == LEADER
            or now < self._restart_hold_until
            or now - self._heard_leader_at < self._config.election_min_s
        )

    @property
    def _knows_the_group(self) -> bool:
        """A newcomer's log is empty: its vote could elect a leader that lacks what was acknowledged. Later it
        votes for whoever the log favours, member or not: its own membership may be an older one."""
        return bool(self._history.current)

    def _up_to_date(self, last_index: int, last_term: int) -> bool:
        return (last_term, last_index) >= (self._journal.last_term, self._journal.last_index)

    # -- campaigning --------------------------------------------------------------------------------

    def _campaign(self, now: float) -> None:
        """Ask who would vote for us before raising the term: a replica that comes back from behind a
        partition must not depose a healthy leader (pre-vote, Raft dissertation section 9.6)."""
        self._postpone_election(now)
        if not self._is_voter:
            return
        self._role = FOLLOWER
        self._leader = None
        self._pre_votes = {self._self_id}
        if len(self._pre_votes) >= self._majority:
            self._stand(now, transfer=False)
            return
        for peer in self._voting_peers:
            self._send(peer, PreVote(PRE_VOTE, self._term, self._journal.last_index, self._journal.last_term))

    def _stand(self, now: float, *, transfer: bool) -> None:
        """Ask for votes in a new term. Our own vote is on disk before anybody is asked."""
        self._postpone_election(now)
        self._pre_votes = None
        self._role = CANDIDATE
        self._leader = None
        self._set_term(self._term + 1, self._self_id)
        self._votes = {self._self_id}
        if len(self._votes) >= self._majority:
            self._become_leader()
            return
        message = Vote(VOTE, self._term, self._journal.last_index, self._journal.last_term, transfer)
        for peer in self._voting_peers:
            self._send(peer, message)

    def _leader_lost(self, peer_id: str) -> None:
        if self._role != FOLLOWER or self._leader is None or self._leader.id != peer_id:
            return
        now = self._clock()
        self._heard_leader_at = NEVER
        delay = self._random.uniform(0, LOST_LEADER_DELAY_S)
        self._election_deadline = max(now + delay, self._restart_hold_until)

    # -- handlers -----------------------------------------------------------------------------------

    def _on_pre_vote(self, node: Node, message: PreVote) -> None:
        granted = (
            message.term >= self._term
            and self._knows_the_group
            and not self._promised(self._clock())
            and self._up_to_date(message.last_index, message.last_term)
        )
        self._send(node, PreVoteAnswer(PRE_VOTE_ANSWER, self._term, message.term + 1, granted))

    def _on_pre_vote_answer(self, node: Node, message: PreVoteAnswer) -> None:
        if message.term > self._term:
            self._adopt_term(message.term)
        elif message.granted and self._pre_votes is not None and message.asked_term == self._term + 1:
            self._pre_votes.add(node.id)
            if len(self._pre_votes & self._voters) >= self._majority:
                self._stand(self._clock(), transfer=False)

    def _on_vote(self, node: Node, message: Vote) -> None:
        now = self._clock()
        refused = not self._knows_the_group or (self._promised(now) and not message.transfer)
        if message.term < self._term or refused:
            # A promise keeps: not even the term is taken over, or the leader would be deposed after all.
            self._send(node, VoteAnswer(VOTE_ANSWER, self._term, False))
            return
        up_to_date = self._up_to_date(message.last_index, message.last_term)
        if message.term > self._term:
            self._adopt_term(message.term, node.id if up_to_date else None)
            granted = up_to_date
        else:
            granted = up_to_date and self._role != LEADER and self._voted_for in (None, node.id)
            if granted:
                self._set_term(self._term, node.id)
        if granted:
            self._postpone_election(now)
        self._send(node, VoteAnswer(VOTE_ANSWER, self._term, granted))

    def _on_vote_answer(self, node: Node, message: VoteAnswer) -> None:
        if message.term > self._term:
            self._adopt_term(message.term)
        elif self._role == CANDIDATE and message.granted and message.term == self._term:
            self._votes.add(node.id)
            if len(self._votes & self._voters) >= self._majority:
                self._become_leader()

    def _on_timeout_now(self, node: Node, message: TimeoutNow) -> None:
        wanted = message.term == self._term and self._leader is node and self._role == FOLLOWER
        if wanted and self._is_voter:
            self._stand(self._clock(), transfer=True)
