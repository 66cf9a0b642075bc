"""Mistakes of a follower: what it takes, what it keeps, what it acknowledges."""

from __future__ import annotations

from storage.raft.messages import Append, AppendAnswer, Chunk
from storage.raft.raft import Raft
from storage.raft.skeleton import Node


class AcknowledgesBeforeDurable(Raft):
    """A follower acknowledges entries only when its disk has them."""

    def _answer(self, sent_at: float, success: bool, previous_index: int) -> AppendAnswer:
        answer = super()._answer(sent_at, success, previous_index)
        return answer._replace(match_index=self._verified_index)


class TrustsWhatAnotherLeaderVerified(Raft):
    """What the leader of one term has verified says nothing about the log of the next one's."""

    def _set_term(self, term: int, vote: str | None) -> None:
        verified = self._verified_index
        super()._set_term(term, vote)
        self._verified_index = verified


class CommitsWhatWasNotCompared(Raft):
    """The commit index follows the leader's only as far as the log is verified."""

    def _on_append(self, node: Node, message: Append) -> None:
        super()._on_append(node, message)
        if message.term == self._term:
            self._commit_index = max(self._commit_index, min(message.commit_index, self._journal.last_index))


class CommitsOnChunks(Raft):
    """A piece of a snapshot commits nothing."""

    def _on_chunk(self, node: Node, message: Chunk) -> None:
        if message.term >= self._term:
            held = min(message.snapshot_index, self._journal.last_index)
            self._commit_index = max(self._commit_index, held)
        super()._on_chunk(node, message)


class InstallsStaleSnapshots(Raft):
    """A snapshot of an older term, or one that ends below the commit index, is ignored."""

    def _on_chunk(self, node: Node, message: Chunk) -> None:
        commit_index, self._commit_index = self._commit_index, -1
        super()._on_chunk(node, message._replace(term=max(message.term, self._term)))
        if self._commit_index == -1:
            self._commit_index = commit_index


class TakesTheFirstChunkForTheWhole(Raft):
    """A snapshot is installed when all of it is there and its checksum is right."""

    def _on_chunk(self, node: Node, message: Chunk) -> None:
        super()._on_chunk(node, message._replace(size=len(message.data)))


class CutsWhatAgrees(Raft):
    """The log is cut where it differs from the leader's; what agrees stays."""

    def _take(self, message: Append) -> None:
        index = max(message.previous_index, self._journal.base_index)
        if index < self._journal.last_index:
            self._journal.truncate_after(index)
        super()._take(message)


class KeepsWhatConflicts(Raft):
    """An entry of another term makes way for the leader's."""

    def _take(self, message: Append) -> None:
        journal = self._journal
        if all(journal.term_at(index) in (None, term) for _, index, term in message.entries):
            super()._take(message)


class SkipsTheComparison(Raft):
    """Entries are taken only if the entry before them is the leader's (Raft paper, section 5.3)."""

    def _on_append(self, node: Node, message: Append) -> None:
        term = self._journal.term_at(message.previous_index)
        super()._on_append(node, message if term is None else message._replace(previous_term=term))


class FollowsLeadersOfOldTerms(Raft):
    """A message of a lower term is answered with the current one and otherwise ignored."""

    def _on_append(self, node: Node, message: Append) -> None:
        super()._on_append(node, message._replace(term=max(message.term, self._term)))


class EchoesToTheNextLeader(Raft):
    """What is owed to one leader, its send time included, is forgotten when another one is heard."""

    def _owe_nothing(self) -> None:
        pass
