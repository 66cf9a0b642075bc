"""Pass on what an offsets partition holds and commits, to the broker of the node that makes
`__consumer_offsets` and `__transaction_state` of it.

Nothing is done for it while nobody reads. While somebody does, the leader keeps the bytes of each committed
entry until the broker takes them: they become Kafka's records in the broker's process, so that members of
groups do not wait for that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from actors.coordinator.shard import CoordinatorShard
from actors.ground.limits import FEED_ANSWER_BYTES_MAX, FEED_PENDING_BYTES_MAX
from actors.ground.snapshot_build import SnapshotBuild
from actors.network.channel import Answer
from actors.protocol.offsets_feed import (
    NO_FEED,
    NOT_KNOWN,
    TERM_OFFSETS_BITS,
    Fed,
    Piece,
    Question,
    pack_fed,
)
from actors.replica.replica import Replica

IDLE_S = 30.0
"""How long, in seconds, a feed goes on that nobody asks."""
SKIPPED_OFFSETS = 1 << 24
"""How many offsets are skipped if a broker is gone and with it the knowledge of what it gave out last: more
than the records of one answer, which is a few tens of MiB at most."""
STATE_RECORDS_PER_ANSWER = 500
"""How many records of the state an answer has at most, which is about a millisecond of work."""


class _Pieces:
    """What a feed still has to give."""

    def __init__(self, state: SnapshotBuild) -> None:
        self._before: deque[bytes] = deque()
        """The entries that were committed before the state was begun."""
        self._state: SnapshotBuild | None = state
        self._behind: deque[bytes] = deque()
        """The entries that were committed since then."""
        self.committed_bytes = 0

    def begin_again(self, state: SnapshotBuild) -> None:
        """Give the whole state once more, as of now."""
        if self._state is not None:
            self._state.close()
        self._before += self._behind
        self._behind.clear()
        self._state = state

    def add(self, command: bytes) -> None:
        self._behind.append(command)
        self.committed_bytes += len(command)

    def take(self) -> list[tuple[int, bytes]]:
        """Return the next pieces, as many as an answer has."""
        pieces: list[tuple[int, bytes]] = []
        self._take_committed(self._before, pieces)
        if self._before:
            return pieces
        if self._state is not None:
            part = self._state.take(STATE_RECORDS_PER_ANSWER)
            if part is not None:
                pieces.append((Piece.STATE, part))
                return pieces
            self._state = None
            pieces.append((Piece.STATE_END, b""))
        self._take_committed(self._behind, pieces)
        return pieces

    def _take_committed(self, queue: deque[bytes], pieces: list[tuple[int, bytes]]) -> None:
        size_bytes = 0
        while queue and size_bytes < FEED_ANSWER_BYTES_MAX:
            command = queue.popleft()
            self.committed_bytes -= len(command)
            size_bytes += len(command)
            pieces.append((Piece.COMMITTED, command))

    def close(self) -> None:
        if self._state is not None:
            self._state.close()


class OffsetsFeed:
    """The feed of one internal topic, for the broker of the replica's node (replica.neighbours.Feed)."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._last_number = NO_FEED
        self._pieces: _Pieces | None = None
        self._start_offset = 0
        self._end_offset = 0
        """The highest offset that a broker has told, or that a feed began at."""
        self._waiting: Answer | None = None
        """Whoever waits for the next piece."""
        self._timer: asyncio.TimerHandle | None = None
        """The end of the wait, or of an idle feed."""

    def ask(self, question: Question, answer: Answer) -> None:
        """Answer a question, at once or later. The answer is None if this replica does not lead."""
        self._release()
        if not self._replica.serving:
            answer(None)
            return
        if question.feed == NO_FEED:
            self._begin(question.end_offset)
        elif self._pieces is None or question.feed != self._last_number:
            answer(pack_fed(Fed(NO_FEED, 0)))
            return
        else:
            self._end_offset = max(self._end_offset, question.end_offset)
            if question.again:
                self._pieces.begin_again(self._replica.begin_fed(may_have_rows=True))
        self._waiting = answer
        self._set_timer(question.wait_ms / 1_000, self._release)
        self._give()

    def committed(self, command: bytes) -> None:
        """Take an entry that was committed. If too much waits for a broker, the feed ends."""
        assert self._pieces is not None
        self._pieces.add(command)
        if self._pieces.committed_bytes > FEED_PENDING_BYTES_MAX:
            self.end()
        elif self._waiting is not None:
            asyncio.get_running_loop().call_soon(self._give)

    def end(self) -> None:
        """Stop, because nobody asks any more or this replica leads no more."""
        if self._pieces is not None:
            self._pieces.close()
            self._replica.feeds = tuple(each for each in self._replica.feeds if each is not self)
        self._pieces = None
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting(pack_fed(Fed(NO_FEED, 0)))

    def _begin(self, end_offset: int) -> None:
        self.end()
        log = self._replica.log
        assert log is not None
        known = self._end_offset
        if known != NOT_KNOWN and end_offset == NOT_KNOWN:
            known += SKIPPED_OFFSETS
        first = first_offset(log.term, _end_of_kafkas_log(self._replica))
        self._start_offset = self._end_offset = max(first, known, end_offset)
        self._last_number += 1
        self._pieces = _Pieces(self._replica.begin_fed(may_have_rows=True))
        self._replica.feeds += (self,)

    def _give(self) -> None:
        """Give what there is to whoever waits, if there is something."""
        if self._waiting is None or self._pieces is None:
            return
        pieces = self._pieces.take()
        if pieces:
            self._answer(pieces)

    def _release(self) -> None:
        """Have whoever waits go on without a piece."""
        if self._waiting is not None:
            self._answer([])

    def _answer(self, pieces: list[tuple[int, bytes]]) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        self._set_timer(IDLE_S, self.end)
        waiting(pack_fed(Fed(self._last_number, self._start_offset, pieces)))

    def _set_timer(self, delay_s: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, then)


def first_offset(term: int, taken: int) -> int:
    """Return the offset from which on a leadership gives out offsets, above what it took over of Kafka's log:
    that may have had this tier's own in it, from the last time that brokers were given them."""
    terms_before = -(-taken >> TERM_OFFSETS_BITS)
    return (terms_before + term) << TERM_OFFSETS_BITS


def _end_of_kafkas_log(replica: Replica) -> int:
    """Return where Kafka's log ended that was taken over; 0 if none was."""
    shard = replica.shard
    taken = shard.state.from_kafka.log if isinstance(shard, CoordinatorShard) else None
    return 0 if taken is None else taken.next_offset
