"""Elections: pre-vote, votes, promises, and the ways a campaign begins.

Nobody votes against a leader within one minimum election timeout of hearing it, nor for as long after its own
restart (it may have promised before); leases rest on that. There are two exceptions. In one, the leader's
host closed our connection: its process is gone, or it hung up on us and took us out of its lease before it
did; the hold after a restart stays, because it may stand for another leader. In the other, a leader asked for
the election itself: it has given up its lease, and that it led at all means that every older lease has ended.
"""

from __future__ import annotations

from typing import Final

from storage.raft.contract import NEVER
from storage.raft.core import Core
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
from storage.raft.roles import Roles
from storage.raft.skeleton import CANDIDATE, FOLLOWER, LEADER, Node

LOST_LEADER_DELAY_S: Final = 0.02
"""How soon, in seconds, a follower campaigns whose leader is gone: the delays are spread, so that one is
first."""


class Votes:
    """The elections of one replica: it asks for votes and gives them."""

    def __init__(self, core: Core, roles: Roles) -> None:
        self._core = core
        self._roles = roles
        self._votes: set[str] = set()
        """The members that have voted for this replica in the term in which it is a candidate."""

    # -- asking -------------------------------------------------------------------------------------

    def campaign(self, now: float) -> None:
        """Ask who would vote for us before raising the term: a replica that comes back from behind a
        partition must not depose a healthy leader (pre-vote, Raft dissertation section 9.6)."""
        core, group = self._core, self._core.group
        core.postpone_election(now)
        if not group.has_vote:
            return
        core.role = FOLLOWER
        core.leader = None
        core.pre_votes = {group.self_id}
        if group.has_majority(core.pre_votes):
            self._stand(now, transfer=False)
            return
        journal = core.journal
        message = PreVote(
            kind=PRE_VOTE, term=core.term, last_index=journal.last_index, last_term=journal.last_term
        )
        for peer in group.voting_peers:
            core.send(peer, message)

    def _stand(self, now: float, *, transfer: bool) -> None:
        """Ask for votes in a new term. Our own vote is on disk before anybody is asked."""
        core, group = self._core, self._core.group
        core.postpone_election(now)
        core.pre_votes = None
        core.role = CANDIDATE
        core.leader = None
        core.set_term(core.term + 1, group.self_id)
        self._votes = {group.self_id}
        if group.has_majority(self._votes):
            self._roles.lead()
            return
        message = Vote(
            kind=VOTE,
            term=core.term,
            last_index=core.journal.last_index,
            last_term=core.journal.last_term,
            transfer=transfer,
        )
        for peer in group.voting_peers:
            core.send(peer, message)

    def leader_lost(self, peer_id: str) -> None:
        """Campaign soon if the peer led whose host closed its connection to us."""
        core = self._core
        if core.role != FOLLOWER or core.leader is None or core.leader.id != peer_id:
            return
        now = core.clock()
        core.heard_leader_at = NEVER
        delay = core.random.uniform(0, LOST_LEADER_DELAY_S)
        core.election_deadline = max(now + delay, core.restart_hold_until)

    def on_timeout_now(self, node: Node, message: TimeoutNow) -> None:
        """Stand at once: the leader hands its leadership to this replica."""
        core = self._core
        is_wanted = message.term == core.term and core.leader is node and core.role == FOLLOWER
        if is_wanted and core.group.has_vote:
            self._stand(core.clock(), transfer=True)

    def on_pre_vote_answer(self, node: Node, message: PreVoteAnswer) -> None:
        core = self._core
        if message.term > core.term:
            self._roles.adopt_term(message.term)
        elif message.granted and core.pre_votes is not None and message.asked_term == core.term + 1:
            core.pre_votes.add(node.id)
            if core.group.has_majority(core.pre_votes):
                self._stand(core.clock(), transfer=False)

    def on_vote_answer(self, node: Node, message: VoteAnswer) -> None:
        core = self._core
        if message.term > core.term:
            self._roles.adopt_term(message.term)
        elif core.role == CANDIDATE and message.granted and message.term == core.term:
            self._votes.add(node.id)
            if core.group.has_majority(self._votes):
                self._roles.lead()

    # -- giving -------------------------------------------------------------------------------------

    def _has_promised(self, now: float) -> bool:
        """Return whether to vote for another now could break somebody's lease."""
        core = self._core
        return (
            core.role == LEADER
            or now < core.restart_hold_until
            or now - core.heard_leader_at < core.settings.election_min_s + core.rest_s
        )

    @property
    def _knows_the_group(self) -> bool:
        """Return whether this replica has a membership. A newcomer's log is empty: its vote could elect a
        leader that lacks what was acknowledged. Later it votes for whoever the log favours, member or not:
        its own membership may be an older one."""
        return bool(self._core.memberships.current)

    def _is_up_to_date(self, last_index: int, last_term: int) -> bool:
        """Return whether a log that ends there holds all that ours may have committed."""
        journal = self._core.journal
        return (last_term, last_index) >= (journal.last_term, journal.last_index)

    def on_pre_vote(self, node: Node, message: PreVote) -> None:
        core = self._core
        granted = (
            message.term >= core.term
            and self._knows_the_group
            and not self._has_promised(core.clock())
            and self._is_up_to_date(message.last_index, message.last_term)
        )
        answer = PreVoteAnswer(
            kind=PRE_VOTE_ANSWER, term=core.term, asked_term=message.term + 1, granted=granted
        )
        core.send(node, answer)

    def on_vote(self, node: Node, message: Vote) -> None:
        core = self._core
        now = core.clock()
        is_refused = not self._knows_the_group or (self._has_promised(now) and not message.transfer)
        if message.term < core.term or is_refused:
            # The promise holds: not even the term is taken over, or the leader would be deposed after all.
            core.send(node, VoteAnswer(kind=VOTE_ANSWER, term=core.term, granted=False))
            return
        is_up_to_date = self._is_up_to_date(message.last_index, message.last_term)
        if message.term > core.term:
            self._roles.adopt_term(message.term, node.id if is_up_to_date else None)
            granted = is_up_to_date
        else:
            granted = is_up_to_date and core.role != LEADER and core.voted_for in (None, node.id)
            if granted:
                core.set_term(core.term, node.id)
        if granted:
            core.postpone_election(now)
        core.send(node, VoteAnswer(kind=VOTE_ANSWER, term=core.term, granted=granted))
