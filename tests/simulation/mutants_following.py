"""Mistakes of a follower: what it takes, what it keeps, what it acknowledges."""

from __future__ import annotations

from storage.raft.core import Core
from storage.raft.follower import Follower
from storage.raft.messages import Append, AppendAnswer, Chunk
from storage.raft.skeleton import Node


class AcknowledgesBeforeDurable(Follower):
    """A follower acknowledges entries only when its disk has them."""

    def _answer(self, sent_at: float, success: bool, previous_index: int) -> AppendAnswer:
        answer = super()._answer(sent_at, success, previous_index)
        return answer._replace(match_index=self._core.verified_index)


class TrustsWhatAnotherLeaderVerified(Core):
    """What the leader of one term has verified says nothing about the log of the next one's."""

    def set_term(self, term: int, vote: str | None) -> None:
        verified = self.verified_index
        super().set_term(term, vote)
        self.verified_index = verified


class CommitsWhatWasNotCompared(Follower):
    """The commit index follows the leader's only as far as the log is verified."""

    def on_append(self, node: Node, message: Append) -> None:
        super().on_append(node, message)
        core = self._core
        if message.term == core.term:
            core.commit_index = max(core.commit_index, min(message.commit_index, core.journal.last_index))


class CommitsOnChunks(Follower):
    """A piece of a snapshot commits nothing."""

    def on_chunk(self, node: Node, message: Chunk) -> None:
        core = self._core
        if message.term >= core.term:
            held = min(message.snapshot_index, core.journal.last_index)
            core.commit_index = max(core.commit_index, held)
        super().on_chunk(node, message)


class InstallsStaleSnapshots(Follower):
    """A snapshot of an older term, or one that ends below the commit index, is ignored."""

    def on_chunk(self, node: Node, message: Chunk) -> None:
        core = self._core
        commit_index, core.commit_index = core.commit_index, -1
        super().on_chunk(node, message._replace(term=max(message.term, core.term)))
        if core.commit_index == -1:
            core.commit_index = commit_index


class TakesTheFirstChunkForTheWhole(Follower):
    """A snapshot is installed when all of it is there and its checksum is right."""

    def on_chunk(self, node: Node, message: Chunk) -> None:
        super().on_chunk(node, message._replace(size=len(message.data)))


class CutsWhatAgrees(Follower):
    """The log is cut where it differs from the leader's; what agrees stays."""

    def _take(self, message: Append) -> None:
        journal = self._core.journal
        index = max(message.previous_index, journal.base_index)
        if index < journal.last_index:
            journal.truncate_after(index)
        super()._take(message)


class KeepsWhatConflicts(Follower):
    """An entry of another term makes way for the leader's."""

    def _take(self, message: Append) -> None:
        journal = self._core.journal
        if all(journal.term_at(index) in (None, term) for _, index, term in message.entries):
            super()._take(message)


class SkipsTheComparison(Follower):
    """Entries are taken only if the entry before them is the leader's (Raft paper, section 5.3)."""

    def on_append(self, node: Node, message: Append) -> None:
        term = self._core.journal.term_at(message.previous_index)
        super().on_append(node, message if term is None else message._replace(previous_term=term))


class FollowsLeadersOfOldTerms(Follower):
    """A message of a lower term is answered with the current one and otherwise ignored."""

    def on_append(self, node: Node, message: Append) -> None:
        super().on_append(node, message._replace(term=max(message.term, self._core.term)))


class EchoesToTheNextLeader(Follower):
    """What is owed to one leader, its send time included, is forgotten when another one is heard."""

    def _owe_nothing(self) -> None:
        pass
