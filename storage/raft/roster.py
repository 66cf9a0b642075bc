"""The members that the links of one replica know: those of its group, and those it saw being replaced."""

from __future__ import annotations

from typing import Final

from storage.raft.members import Member, Members, replica_of

FORMER_MAX: Final = 64
REPLACED_REFUSED_S: Final = 10.0
"""How long, in seconds, a replaced member is refused, from its first call on.

It is not refused for good: incarnations have no order, so it may be a rightful member again by an entry which
this replica has not got yet, and it may even be the leader from whom that entry has to come. A member that
still calls after this time gets its link; what it may do, Raft decides.
"""


class Roster:
    """The callers of one replica, and which of them to refuse. `now` is in seconds, from any fixed point."""

    def __init__(self, self_id: str) -> None:
        self.peers: dict[str, Member] = {}
        """Member id -> member, for all members but this replica, in the order of their ids. This replica as
        it was before it lost its directory is left out, too: its address is our own."""
        self._self_id = self_id
        self._ids: frozenset[str] = frozenset()
        self._former: dict[str, float | None] = {}
        """Id of a member that left while this process ran -> when it first called since; None: it has not."""

    def set_members(self, members: Members) -> frozenset[str]:
        """Take these for the members. Return the ids of those that belong no more."""
        self.peers = {
            member.member_id: member
            for member in sorted(members)
            if replica_of(member.member_id) != replica_of(self._self_id)
        }
        ids = frozenset(member.member_id for member in members)
        left = self._ids - ids
        self._ids = ids
        self._former = {former: at for former, at in self._former.items() if former not in ids}
        self._former.update(dict.fromkeys(sorted(left)))
        while len(self._former) > FORMER_MAX:
            del self._former[next(iter(self._former))]
        return left - {self._self_id}

    def successor(self, caller_id: str, now: float) -> str | None:
        """Return the member in whose favour the caller is to be refused, if any: the caller left, and its
        replica is run by another incarnation."""
        if caller_id not in self._former:
            return None
        replica = replica_of(caller_id)
        found = min((member for member in self._ids if replica_of(member) == replica), default=None)
        if found is None:
            return None
        first_call = self._former[caller_id]
        if first_call is None:
            first_call = self._former[caller_id] = now
        return found if now - first_call < REPLACED_REFUSED_S else None
