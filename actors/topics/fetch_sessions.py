"""Fetch sessions (KIP-227): a consumer names its partitions once, and is told afterwards only of those that
have news.

A session belongs to nobody: whoever knows its id and its next epoch goes on with it. It ends when its client
ends it, when it follows nothing any more, or when another one takes its slot. A slot is given up by the
session that was idle for longer than EVICTION_MS, or else by the smallest that is older than that, to one
that follows more partitions. Who finds no slot fetches without a session, which every client can.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.limits import FETCH_SESSIONS_BYTES_MAX
from actors.topics.errors import LogError

Topic = str | uuid.UUID | None
"""What a request calls a topic: its name, or in later versions its id, of which None is the zero id."""
Place = tuple[Topic, int]
"""A partition as requests name it."""

NO_SESSION = 0
FIRST_EPOCH = 0
"""The epoch of a request that begins a session."""
LAST_EPOCH = -1
"""The epoch of a request that ends its session, if it has one, and wants no other."""
EVICTION_MS = 120_000
_EPOCH_MAX = 2**31 - 1
_FOLLOWED_BYTES = 400
"""About how much memory a partition of a session takes, besides its topic's name."""
_NOTHING_TOLD = -1


class Wanted(NamedTuple):
    """What a request asks of one partition."""

    fetch_offset: int
    bytes_max: int
    leader_epoch: int = -1
    """The current leader epoch that the client knows; -1: none."""
    last_fetched_epoch: int = -1


class Told(NamedTuple):
    """What an answer says of one partition, as far as a session cares."""

    high_watermark: int
    log_start_offset: int
    size_bytes: int
    """The size of the records."""
    failed: bool
    """Whether the client has to do something about the partition, which it is told until it has done it."""


class Followed:
    """One partition of a session, and what its client knows of it."""

    __slots__ = ("_high_watermark", "_log_start_offset", "name", "place", "wanted")

    def __init__(self, place: Place, name: str | None, wanted: Wanted) -> None:
        self.place = place
        self.name = name
        """The topic's name, which a session remembers; None until there is a topic of that id."""
        self.wanted = wanted
        self._high_watermark = _NOTHING_TOLD
        self._log_start_offset = _NOTHING_TOLD

    def is_news(self, told: Told) -> bool:
        """Return whether the client is to be told this, and note that it is."""
        offsets = (told.high_watermark, told.log_start_offset)
        known = (self._high_watermark, self._log_start_offset)
        self._high_watermark, self._log_start_offset = offsets
        if told.failed:
            # Once all is well again, the client is told so.
            self._high_watermark = _NOTHING_TOLD
        return told.failed or told.size_bytes > 0 or offsets != known


class FetchSession:
    """One session. `partitions` are in the order in which they are read: one that gave records goes behind
    the others, so that none starves if an answer has no room for all."""

    def __init__(self, session_id: int, by_id: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        """Whether its requests have topic ids instead of names."""
        self.epoch = _after(FIRST_EPOCH)
        """The epoch that its next request must have."""
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.partitions: OrderedDict[Place, Followed] = OrderedDict()
        self.size_bytes = 0

    def follow(self, followed: Iterable[Followed]) -> None:
        """Follow more partitions; of those that are followed already, only what is wanted changes."""
        for each in followed:
            known = self.partitions.get(each.place)
            if known is not None:
                known.wanted = each.wanted
                continue
            self.partitions[each.place] = each
            self.size_bytes += _size_bytes(each.place)

    def forget(self, places: Iterable[Place]) -> None:
        """Follow these partitions no longer; one that is not followed is no mistake."""
        for place in places:
            if self.partitions.pop(place, None) is not None:
                self.size_bytes -= _size_bytes(place)

    def news(self, answered: Sequence[tuple[Followed, Told]]) -> list[int]:
        """Return the indexes of what the client is to be told, and note that it is."""
        news = [index for index, (followed, told) in enumerate(answered) if followed.is_news(told)]
        for followed, told in answered:
            if told.size_bytes and followed.place in self.partitions:
                self.partitions.move_to_end(followed.place)
        return news


class FetchSessions:
    """The sessions of one broker: at most `slots_max` (max.incremental.fetch.session.cache.slots), none of
    which may make all together larger than `bytes_max`. `new_id` gives a random id above 0."""

    def __init__(
        self, slots_max: int, new_id: Callable[[], int], *, bytes_max: int = FETCH_SESSIONS_BYTES_MAX
    ) -> None:
        self._slots_max = slots_max
        self._new_id = new_id
        self._bytes_max = bytes_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """The sessions by id; the one that was used longest ago is the first."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, answered: Sequence[tuple[Followed, Told]], *, by_id: bool, now_ms: int) -> int:
        """Begin a session with these partitions, of which the client is told everything now. Return its id,
        or NO_SESSION if there is no room for it."""
        size_bytes = sum(_size_bytes(followed.place) for followed, _ in answered)
        if not self._make_room(len(answered), size_bytes, now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now_ms)
        session.follow(followed for followed, _ in answered)
        for each, told in answered:
            each.is_news(told)
        self.size_bytes += session.size_bytes
        return session_id

    def go_on(self, session_id: int, epoch: int, *, by_id: bool, now_ms: int) -> FetchSession:
        """Return the session that a request with this epoch goes on with; the next request must have the
        next epoch.

        Raises LogError with FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise LogError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise LogError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise LogError(ErrorCode.fetch_session_topic_id_error)
        session.epoch = _after(epoch)
        session.used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def change(self, session: FetchSession, followed: Iterable[Followed], forgotten: Iterable[Place]) -> None:
        """Follow more partitions and forget others. A session that follows none any more ends.

        Raises LogError with FETCH_SESSION_ID_NOT_FOUND if the session has grown too large and was ended: its
        client begins another one.
        """
        before = session.size_bytes
        session.follow(followed)
        session.forget(forgotten)
        self.size_bytes += session.size_bytes - before
        if not session.partitions:
            self.end(session.session_id)
        elif self.size_bytes > self._bytes_max and session.size_bytes > before:
            self.end(session.session_id)
            raise LogError(ErrorCode.fetch_session_id_not_found)

    def end(self, session_id: int) -> None:
        """End a session, if there is one of this id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.size_bytes -= session.size_bytes

    def _make_room(self, partition_count: int, size_bytes: int, now_ms: int) -> bool:
        if self.size_bytes + size_bytes > self._bytes_max:
            return False
        if len(self._sessions) < self._slots_max:
            return True
        evicted = self._evictable(partition_count, now_ms)
        if evicted is None:
            return False
        self.end(evicted.session_id)
        return True

    def _evictable(self, partition_count: int, now_ms: int) -> FetchSession | None:
        """Return the session that gives up its slot to one with so many partitions; None if none does."""
        idle = next(iter(self._sessions.values()), None)
        if idle is None or now_ms - idle.used_ms > EVICTION_MS:
            return idle
        old = (each for each in self._sessions.values() if each.used_ms - each.created_ms > EVICTION_MS)
        smallest = min(old, key=lambda each: len(each.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= partition_count:
            return None
        return smallest


def _after(epoch: int) -> int:
    """Return the epoch behind this one; the highest is followed by the first that is no beginning."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def _size_bytes(place: Place) -> int:
    topic = place[0]
    # A string takes up to four bytes for a character.
    return _FOLLOWED_BYTES + (4 * len(topic) if isinstance(topic, str) else 0)
