"""The thread that writes a leader's events to segments, off the loop that serves clients.

The loop puts events into a bounded queue, and never waits. An event that finds no room there, or cannot be
written, is counted, and told by an event of its own (`events_dropped`) once that can be written. A disk that
is full, or a store that is away, stops the thread from writing for a while; it is logged once, and once more
when the thread goes on. pyarrow and fsspec are imported by the thread when it needs them: followers do
without.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.ground.spec import HistorySettings
from storage.history.schema import Stretch
from storage.history.segments.retention import expired

if TYPE_CHECKING:
    from storage.history.segments import writer
    from storage.history.segments.folder import Folder
    from storage.history.segments.names import Found, Segment

log = logging.getLogger("groupd.history")

GATHER_S: Final = 0.1
"""How long, in seconds, events may wait in the queue: taking each at once would wake the thread for each."""
LOADED_AFTER_S: Final = 2.0
"""How long, in seconds, the first events of all wait. Their writer has to be loaded, which holds the
interpreter for a quarter of a second; and the first event is that this replica was elected, when a dead
leader's clients all come at once."""
REST_S: Final = 0.0005
"""How long, in seconds, the thread gives up the interpreter between two pieces of work: the loop then gets it
for certain."""
AT_ONCE_MAX: Final = 500
"""How many events the thread takes from the queue as one piece."""
RETRY_S: Final = 30.0
"""How long, in seconds, events are dropped after a failure before a segment is tried again."""
HOUSEKEEPING_S: Final = 600.0
FIRST_HOUSEKEEPING_S: Final = 60.0
REPLACED_KEPT_S: Final = 3_600.0
"""How long, in seconds, segments stay that are replaced: a reader may be under way, with a list of names."""
CLOSE_TIMEOUT_S: Final = 5.0
QUEUE_FULL: Final = "queue full"
NOT_WRITTEN: Final = "not written"


class EventsDropped(NamedTuple):
    """The event that events could not be written, with their number and why."""

    at_ms: int
    cause: str
    count: int  # type: ignore[assignment]  # the column's name, and a tuple's method

    @property
    def kind(self) -> str:
        return "events_dropped"


class HistoryWriter:
    """The writer of one replica's history. Its loop calls `keep` and `newly_dropped`; what takes time happens
    in the thread."""

    def __init__(
        self, settings: HistorySettings, data_dir: str, tier_id: str, offsets_partition: int, node_id: int
    ) -> None:
        self._settings = settings
        self._folder_url = settings.history_dir or f"{data_dir}/history"
        self._tier_id = tier_id
        self._partition = offsets_partition
        self._node_id = node_id
        # These fields belong to the loop. Each counter has one thread that writes it, so that none needs a
        # lock.
        self._refused = 0
        self._put = 0
        self._told = dict.fromkeys((QUEUE_FULL, NOT_WRITTEN), 0)
        # These fields belong to the thread.
        self._lost = 0
        self._taken = 0
        self._folder: Folder | None = None
        self._writer: writer.SegmentWriter | None = None
        self._publish_at = float("inf")
        self._retry_at: float | None = None
        self._keep_house_at = time.monotonic() + FIRST_HOUSEKEEPING_S
        self._replaced_at: dict[Segment, float] = {}
        self._damaged: set[Segment] = set()
        # These fields are shared by both.
        self._queue: deque[Stretch] = deque()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        """Begin to write, if `history.enable` is set."""
        if self._settings.history_enable:
            self._thread.start()

    def keep(self, stretch: Stretch) -> None:
        """Put events into the queue, to be written; those that find no room are counted as dropped."""
        if not self._settings.history_enable:
            return
        room = self._settings.history_queue_max_events - (self._put - self._taken)
        if len(stretch.events) > room:
            self._refused += len(stretch.events) - room
            stretch = stretch._replace(events=stretch.events[:room])
        if not stretch.events:
            return
        self._put += len(stretch.events)
        self._queue.append(stretch)
        if not self._wake.is_set():
            self._wake.set()

    def newly_dropped(self, now_ms: int) -> Iterator[EventsDropped]:
        """Yield an event for what was dropped and is not told yet, once there is hope that it will be
        written."""
        if self._retry_at is None:
            for cause, dropped in ((QUEUE_FULL, self._refused), (NOT_WRITTEN, self._lost)):
                newly = dropped - self._told[cause]
                if newly:
                    self._told[cause] = dropped
                    yield EventsDropped(now_ms, cause, newly)

    @property
    def dropped(self) -> int:
        """Return how many events are in no segment and will be in none."""
        return self._refused + self._lost

    def close(self) -> None:
        """Write what is in the queue and end the thread. Blocks, for a few seconds at most."""
        if not self._thread.is_alive():
            return
        self._closing.set()
        self._wake.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        untold = self.dropped - sum(self._told.values()) + self._put - self._taken
        if untold:
            log.warning(
                "history of partition %d lacks %d events and does not say so", self._partition, untold
            )

    # The thread.

    def _run(self) -> None:
        while True:
            is_last = self._closing.is_set()
            try:
                self._turn(is_last)
            except Exception as error:  # history must never end the coordinator beside it
                self._fail(f"{type(error).__name__}: {error}", exc_info=True)
            if is_last:
                return
            due_at = min(self._publish_at, self._keep_house_at)
            self._wake.wait(max(due_at - time.monotonic(), GATHER_S))
            self._wake.clear()
            self._closing.wait(LOADED_AFTER_S if self._writer is None else GATHER_S)

    def _turn(self, is_last: bool) -> None:
        self._drain()
        if is_last or time.monotonic() >= self._publish_at:
            self._publish()
        if not is_last and time.monotonic() >= self._keep_house_at:
            self._keep_house_at = time.monotonic() + HOUSEKEEPING_S
            self._keep_house()

    def _drain(self) -> None:
        """Take what is in the queue, in pieces, and publish what is large enough."""
        while piece := self._piece():
            if self._retry_at is not None and time.monotonic() < self._retry_at:
                self._lose(piece)
                continue
            try:
                segments = self._made_writer()
            except Exception:  # the file system of the folder cannot be opened
                self._lose(piece)
                raise
            if segments.term not in (None, piece[0].term):
                self._publish()
            if not segments.rows:
                self._publish_at = time.monotonic() + self._settings.history_segment_ms / 1000
            self._lost += segments.add(piece)
            if segments.size_bytes >= self._settings.history_segment_bytes:
                self._publish()

    def _piece(self) -> list[Stretch]:
        """Take the next few events of one term from the queue."""
        queue = self._queue
        piece: list[Stretch] = []
        room = AT_ONCE_MAX
        while room and queue and queue[0].term == (piece or queue)[0].term:
            term, first_sequence, events = queue.popleft()
            if len(events) > room:
                queue.appendleft(Stretch(term, first_sequence + room, events[room:]))
                events = events[:room]
            piece.append(Stretch(term, first_sequence, events))
            room -= len(events)
        self._taken += AT_ONCE_MAX - room
        return piece

    def _made_writer(self) -> writer.SegmentWriter:
        if self._writer is None:
            module = importlib.import_module("storage.history.segments.writer")
            self._writer = module.SegmentWriter(
                self._opened(), self._tier_id, self._partition, self._node_id, _rest
            )
        assert self._writer is not None
        return self._writer

    def _opened(self) -> Folder:
        if self._folder is None:
            module = importlib.import_module("storage.history.segments.folder")
            self._folder = module.Folder(self._folder_url)
        assert self._folder is not None
        return self._folder

    def _publish(self) -> None:
        self._publish_at = float("inf")
        if self._writer is None or not self._writer.rows:
            return
        written = self._writer.publish()
        if written.error is not None:
            self._fail(str(written.error))
        self._lost += written.lost
        if written.error is None and written.segments and self._retry_at is not None:
            self._retry_at = None
            log.warning("history is written again; %d events were dropped so far", self.dropped)

    def _fail(self, why: str, *, exc_info: bool = False) -> None:
        """Drop the events that come, for a while. Only the first of several failures in a row is logged."""
        if self._retry_at is None:
            log.error(
                "history is not written to %s, its events are dropped: %s",
                self._folder_url,
                why,
                exc_info=exc_info,
            )
        self._retry_at = time.monotonic() + RETRY_S

    def _lose(self, piece: Iterable[Stretch]) -> None:
        """Count the events of a piece as lost. A lost `events_dropped` counts as the events that it told of,
        so that they are told anew."""
        for event in chain.from_iterable(each.events for each in piece):
            self._lost += event.count if isinstance(event, EventsDropped) else 1

    # Housekeeping.

    def _keep_house(self) -> None:
        """Remove this partition's expired and replaced segments and merge its small ones, whoever wrote
        them."""
        try:
            folder = self._opened()
            folder.remove_left_behind(self._partition)
            found = folder.segments(self._partition).found
            gone = expired(
                found,
                time.time_ns() // 1_000_000,
                retention_ms=self._settings.history_retention_ms,
                retention_bytes=self._settings.history_retention_bytes,
            )
            folder.remove(gone)
            if self._writer is not None:  # only a leader, or one that has led, has a writer
                self._compact(folder, [each for each in found if each.segment not in set(gone)])
        except OSError as error:
            log.warning("history of partition %d cannot be put in order: %s", self._partition, error)

    def _compact(self, folder: Folder, found: list[Found]) -> None:
        compaction = importlib.import_module("storage.history.segments.compaction")
        plan = compaction.plan(found, time.time_ns() // 1_000_000, self._damaged)
        now = time.monotonic()
        self._replaced_at = {each: self._replaced_at.get(each, now) for each in plan.replaced}
        folder.remove(_older(self._replaced_at, now - REPLACED_KEPT_S))
        for parts in plan.merges:
            try:
                compaction.merge(folder, parts, plan.replaced, self._between)
            except compaction.DamagedPart as error:
                self._damaged.add(error.segment)
                log.warning("history: %s; it is left as it is", error)
        if plan.merges:
            importlib.import_module("storage.history.segments.parquet").give_back()

    def _between(self) -> None:
        """Take new events from the queue between two steps of a merge."""
        _rest()
        self._drain()


def _rest() -> None:
    time.sleep(REST_S)


def _older(since: dict[Segment, float], than: float) -> Iterator[Segment]:
    return (segment for segment, at in since.items() if at <= than)
