"""The changes of a replica's role: it leads, it follows a higher term, it falls."""

from __future__ import annotations

from storage.raft.core import Core
from storage.raft.errors import RaftFatal
from storage.raft.leader import Leader
from storage.raft.skeleton import FOLLOWER, LEADER


class Roles:
    """The role of one replica: `core.role`, `core.leader` and the leadership are kept in step."""

    def __init__(self, core: Core, leader: type[Leader]) -> None:
        self.leading: Leader | None = None
        """This replica's leadership, exactly while its role is LEADER."""
        self._core = core
        self._leader = leader

    def lead(self) -> None:
        """Begin a leadership, to which this replica was elected."""
        core = self._core
        core.role = LEADER
        core.leader = core.group.own_node
        core.pre_votes = None
        self.leading = self._leader(core)
        self.leading.begin()

    def adopt_term(self, term: int, vote: str | None = None) -> None:
        """Follow a higher term, without a leader so far. Raises JournalFailed."""
        self._follow_nobody()
        self._core.pre_votes = None
        self._core.set_term(term, vote)

    def resign(self) -> None:
        """Stop leading, if this replica leads."""
        if self.leading is None:
            return
        core = self._core
        self.leading = None
        core.role = FOLLOWER
        core.leader = None
        core.postpone_election(core.clock())
        try:
            core.machine.on_fallen()
        except Exception as error:
            raise RaftFatal(f"on_fallen raised {error!r}") from error

    def end_if_failed(self) -> bool:
        """Take no more part if a write or sync has failed, because this replica could not keep its promises.
        Return whether it has failed."""
        core = self._core
        if core.journal.failed is not None:
            core.fail(core.journal.failed)
        if core.failure is None:
            return False
        self._follow_nobody()
        return True

    def _follow_nobody(self) -> None:
        self.resign()
        self._core.role = FOLLOWER
        self._core.leader = None
