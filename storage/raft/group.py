"""The members of a replica's Raft group that count now: its peers, the voters among them, the majority."""

from __future__ import annotations

from storage.raft.members import Members
from storage.raft.skeleton import Node


class Group:
    """The newest membership in the log, in the form in which the parts of Raft read it."""

    def __init__(self, self_id: str) -> None:
        self.self_id = self_id
        self.own_node = Node(self_id)
        self.peers: tuple[Node, ...] = ()
        """All members but this replica, sorted: the order of messages must not depend on the hash of ids (a
        simulation replays by seed)."""
        self.voters: frozenset[str] = frozenset()
        self.voting_peers: tuple[Node, ...] = ()
        self.has_vote = False
        """Whether this replica is a voter."""
        self.majority = 1
        self.online: set[str] = set()
        """The ids of the replicas that a link connects with this one, members or not."""
        self._nodes = {self_id: self.own_node}
        """Each node that was asked for, by its id."""

    def count(self, members: Members) -> None:
        """Make `members` those that count."""
        others = [member for member in members if member.member_id != self.self_id]
        self.peers = tuple(self.node(member.member_id) for member in others)
        self.voters = frozenset(member.member_id for member in members if member.votes)
        self.voting_peers = tuple(peer for peer in self.peers if peer.id in self.voters)
        self.has_vote = self.self_id in self.voters
        self.majority = len(self.voters) // 2 + 1

    def node(self, member_id: str) -> Node:
        """Return the one node of this id: nodes are compared by identity."""
        node = self._nodes.get(member_id)
        if node is None:  # every message asks for its node, and to make one is dear
            node = self._nodes[member_id] = Node(member_id)
        return node

    def has_majority(self, voters: set[str]) -> bool:
        return len(voters & self.voters) >= self.majority
