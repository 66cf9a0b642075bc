"""A shard behind a log: propose, park replies, release on commit, roll back on a fall.

`Replica` is synchronous and does no I/O: the log (storage.raft.raft.Raft) calls it with committed entries and
changes of role, the actor calls it with requests and the time. What keeps the promises:

* a reply leaves only when every record before it that concerns its group is committed;
* records are applied when they are decided (speculation) and undone, newest first, if leadership is lost;
* a reply that needs no commit leaves only while the leader holds its lease, so nobody reads what another
  leader has already overwritten;
* an entry carries the term it was decided in; one that surfaces in any other term is ignored;
* the records of one Result are in one entry: all of them survive a crash, or none does (megabytes beyond
  what an entry holds are cut, see `actors.ground.limits`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgpack
from kio.schema.errors import ErrorCode

from actors.ground.contract import Key, Push, Record, Reply, Request, Result, Shard, Token, Value
from actors.ground.features import GROUPD_VERSION
from actors.ground.image import MetadataImage
from actors.ground.limits import RAFT_BATCH_BYTES_MAX, RAFT_ENTRY_BYTES_MAX, RAFT_PENDING_BYTES_MAX
from actors.ground.snapshot_build import SnapshotBuild, Spread
from actors.replica.entry import Batch, Entry, RecordType, array_header_bytes, layouts_of, typed
from actors.replica.log_level import LogLevel
from actors.replica.long_works import LongWorks
from actors.replica.neighbours import DecidedTogether, Feed, Log, NothingRepeats, Repeats, Watcher
from storage.raft.errors import Busy, NotLeader

ENTRIES_IN_FLIGHT_MAX = 2
"""How many entries may be in the log uncommitted before the batch grows until one of them is committed: an
entry costs the same whether it carries one commit or fifty, and what comes while disks sync could not be
synced sooner anyway."""
PACKED_AT_ONCE_MAX = 1_000
"""How many records of one Result are packed in one call."""
TIMERS_PER_TURN_MAX = 256
"""How many timers are fired in one turn, before requests are served again."""


class Replica:
    """One copy of a shard. `release(token, body)` sends an answer that was not given at once.

    `new_shard` makes an empty shard (again after a snapshot arrives). `record_types` maps a record's kind
    to its classes. `on_events` receives what `Result.events` holds. Implements
    storage.raft.raft.StateMachine.
    """

    def __init__(
        self,
        *,
        new_shard: Callable[[], Shard],
        record_types: dict[int, RecordType],
        release: Callable[[Token, Any], None],
        clock_ms: Callable[[], int],
        on_events: Callable[[Sequence[Any]], None],
    ) -> None:
        self.shard = new_shard()
        self.log: Log | None = None
        """The log, set once, right after it has been made (each needs the other)."""
        self.watcher: Watcher | None = None
        """What watches the shard, set once; None: nothing does."""
        self.repeats: Repeats = NothingRepeats()
        """What repeats answers without asking again, set once."""
        self.push: Callable[[Push], None] = _nowhere
        """What sends the requests of coordinators to their consumers, set once."""
        self.feeds: tuple[Feed, ...] = ()
        """What passes on what is committed; (): nobody reads it, which is the rule."""
        self.serving = False
        self.level = LogLevel()
        self._new_shard = new_shard
        self._layouts = layouts_of(record_types)
        self._release = release
        self._clock_ms = clock_ms
        self._on_events = on_events
        self._image: MetadataImage | None = None
        self._packer = msgpack.Packer()
        self._uncommitted: deque[Entry] = deque()
        """The uncommitted entries, oldest first: those in the log, then those that wait for it. The last one
        grows."""
        self._in_flight = 0
        """How many of the uncommitted entries are in the log."""
        self._dirty: dict[Any, Entry] = {}
        """Group id -> the newest uncommitted entry that concerns it."""
        self._open: dict[Token, Request] = {}
        """Token -> a request whose answer is still owed: parked by the shard, or waiting for a commit or the
        lease."""
        self._leaseless: list[Reply | Push] = []
        self._is_behind = False
        """Whether, at the last flush, so much waited for its commit that long work would add nothing to
        it."""
        self._is_full = False
        """Whether, at the last flush, what waited for its commit had reached its bound."""
        self._works = LongWorks()
        self._takeover: Iterator[Result] | None = None
        """The long work that comes before serving; None: there is none."""
        self._taken_over: list[Result] = []
        """What the long work before serving has given so far."""
        self._build: SnapshotBuild | None = None
        """The last snapshot that was begun."""
        self._copy: SnapshotBuild | None = None
        """The last copy that was begun."""
        self._fed: tuple[SnapshotBuild, ...] = ()
        """The states that were begun for feeds, without those that have long been walked."""

    # Requests.

    def submit(self, request: Request, now_ms: int) -> Any | None:
        """Decide one request. Return its response body if it may leave at once, else None.

        None means that `release` will be called for its token later, exactly once.
        """
        log = self.log
        assert log is not None
        if not self.serving:
            code = ErrorCode.coordinator_load_in_progress if log.is_leader else ErrorCode.not_coordinator
            return self.shard.refusal(request, code)
        if self._is_full:
            return self.shard.refusal(request, ErrorCode.coordinator_not_available)
        self.repeats.asked(request)
        result = self.shard.handle(request, now_ms)
        records, replies, events, work = result
        if not records and not events and len(replies) == 1:
            token, body, group_id = replies[0]
            if token == request[0] and self._is_clean(group_id) and log.has_lease():
                return body
        elif work is not None and not replies and self._works.is_full:
            return self.shard.refusal(request, ErrorCode.coordinator_not_available)
        self._open[request.token] = request
        self._take(result)
        return None

    def take_together(self, decide: Callable[[], DecidedTogether], batch: Batch) -> list[int] | None:
        """Take what `decide` decides and applies, records of offsets alone, and tell `batch` what becomes of
        it. Return which requests are left to be submitted; None: all are."""
        if not self.serving or self._is_full:
            return None
        decided = decide()
        if decided.undo:
            (entry := self._growing()).take(decided, batch)
            self._dirty.update(dict.fromkeys(decided.groups, entry))
            self._note(decided.undo)
        return decided.left

    def tell(self, request: Request, now_ms: int) -> None:
        """Decide what comes in and nobody waits for an answer to: a consumer's own answer, or that its
        connection has gone. It is dropped where requests would be refused."""
        if self.serving and not self._is_full:
            self._take(self.shard.handle(request, now_ms))

    def run_timers(self, now_ms: int) -> None:
        """Fire due timers, a bounded number a turn, and go on with one slice of one long work."""
        if self._takeover is not None:
            self._take_over()
        if not self.serving:
            return
        for _ in range(TIMERS_PER_TURN_MAX):
            deadline_ms = self.shard.next_deadline_ms
            if deadline_ms is None or deadline_ms > now_ms:
                break
            self._take(self.shard.expire(now_ms))
        if self._works.works or self._works.replies:
            self._works.give_more()
            result = None if self._is_behind else self._works.step()
            if result is not None:
                self._take(result)
        if self.watcher is not None:
            self.watcher.run(now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        if self._takeover is not None:
            return 0
        if not self.serving:
            return None
        if self._works.works or self._works.replies:
            return 0
        deadline_ms = self.shard.next_deadline_ms
        watcher_ms = None if self.watcher is None else self.watcher.next_deadline_ms
        if deadline_ms is None or watcher_ms is None:
            return watcher_ms if deadline_ms is None else deadline_ms
        return deadline_ms if deadline_ms < watcher_ms else watcher_ms

    def flush(self) -> None:
        """End a turn: make a Raft entry of what was decided, unless enough of them are under way, and release
        the replies that wait for the lease."""
        if self._leaseless:
            self._release_leaseless()
        uncommitted = self._uncommitted
        if self._in_flight == len(uncommitted) and not (self._is_behind or self._is_full):
            return  # nothing is new, and what is pending has only become less
        while self._in_flight < len(uncommitted) and self._in_flight < ENTRIES_IN_FLIGHT_MAX:
            if not self._propose(uncommitted[self._in_flight]):
                break
        assert self.log is not None
        pending_bytes, waiting_bytes = self.log.pending_bytes, 0
        if len(uncommitted) > self._in_flight:
            waiting_bytes = sum(entry.size_bytes for entry in islice(uncommitted, self._in_flight, None))
        self._is_behind = pending_bytes + waiting_bytes > RAFT_BATCH_BYTES_MAX
        was_full = self._is_full
        self._is_full = pending_bytes > RAFT_PENDING_BYTES_MAX // 2 or waiting_bytes > RAFT_BATCH_BYTES_MAX
        if self._is_full and not was_full:
            self.repeats.everything()

    @property
    def can_flush(self) -> bool:
        """Return whether `flush` would make an entry now."""
        return self._in_flight < ENTRIES_IN_FLIGHT_MAX and self._in_flight < len(self._uncommitted)

    @property
    def awaits_log(self) -> bool:
        """Return whether the next turn may have something to release, to propose or to go on with."""
        return self._is_behind or bool(self._leaseless) or self.can_flush or self._takeover is not None

    @property
    def is_committed(self) -> bool:
        """Return whether everything that was decided here is committed."""
        return not self._uncommitted

    @property
    def owed(self) -> int:
        """Return how many requests still wait for their answer."""
        return len(self._open) + sum(each.owed for entry in self._uncommitted for each in entry.batches)

    def on_metadata(self, image: MetadataImage, now_ms: int) -> None:
        if self._image is not None and image.version < self._image.version:
            return
        self._image = image
        self.repeats.everything()
        self.learn_level(image.features.level(GROUPD_VERSION))
        result = self.shard.on_metadata(image, now_ms)
        if self.serving:
            self._take(result)
            if self.watcher is not None:
                self.watcher.image_changed()

    def learn_level(self, level: int) -> bool:
        """Write at a level from now on that the controller has finalized. Return whether there is an entry to
        flush, which says so in the log."""
        self.level.learn(level)
        if is_due := self.serving and self.level.is_news:
            self._new_entry()
        return is_due

    def refuse(self, is_elsewhere: Callable[[Request], bool]) -> None:
        """Refuse whoever waits for something that has moved to another partition, once all is committed that
        was decided up to now. Heartbeats that are held are looked at."""
        self.repeats.everything()
        for token, request in list(self._open.items()):
            if is_elsewhere(request):
                self._park(Reply(token, self.shard.refusal(request, ErrorCode.not_coordinator)))
        if self.watcher is not None:
            self.watcher.image_changed()

    # What Raft calls (storage.raft.raft.StateMachine).

    def apply(self, index: int, term: int, command: bytes) -> None:
        """Apply a committed entry. Its records are already applied if this leader decided them."""
        if self._uncommitted and self._uncommitted[0].index == index:
            for feed in self.feeds:
                feed.committed(command)
            self._commit(self._uncommitted.popleft())
            return
        decided_in, records = self._unpack(command)
        if decided_in == term:
            self._write(records)

    def begin_snapshot(self) -> SnapshotBuild:
        """Begin a snapshot of every live record as committed now, without what is only decided. It abandons
        an unfinished one."""
        self._build = self._begin(self._build, None if self.level.has_rows else self.shard.one_by_one)
        return self._build

    def begin_copy(self) -> SnapshotBuild:
        """Begin a copy for a backup, made as a snapshot is and beside one of Raft's. It abandons an
        unfinished copy."""
        self._copy = self._begin(self._copy, self.shard.one_by_one)
        return self._copy

    def begin_fed(self, *, may_have_rows: bool) -> SnapshotBuild:
        """Begin the state that a feed gives, made as a snapshot is and beside the others. Whoever began it
        closes it. What a reader knows nothing of, as rows of offsets, comes one by one."""
        build = self._begin(None, None if may_have_rows and self.level.has_rows else self.shard.one_by_one)
        self._fed = (*(each for each in self._fed if each.is_walking), build)
        return build

    def _begin(self, unfinished: SnapshotBuild | None, spread: Spread | None) -> SnapshotBuild:
        if unfinished is not None:
            unfinished.close()
        before: dict[Key, Value | None] = {}
        for entry in reversed(self._uncommitted):
            # Newest first: of several values of a key that speculation replaced, the oldest is the committed
            # one.
            for key, value in reversed(entry.undo):
                before.update(self.shard.singles(key, value))
        return SnapshotBuild((self.level.version, 0), self.shard.records(), before, spread)

    def restore(self, data: bytes) -> None:
        for build in (self._build, self._copy, *self._fed):
            if build is not None:
                build.close()
        self.repeats.everything()
        shard = self._new_shard()
        for key, value in self._unpack(data)[1]:
            shard.apply(key, value)
        self.shard = shard
        if self._image is not None:
            shard.on_metadata(self._image, self._clock_ms())

    def on_leading(self, term: int) -> None:
        """Begin to lead: this replica is elected, and every earlier entry is applied, so the state is as the
        last leader left it. Requests are refused as long as the shard is at work on it (W4)."""
        assert self.is_committed
        result = self.shard.on_elected(self._clock_ms())
        self._takeover, self._taken_over = result.work, [result._replace(work=None)]
        if self._takeover is None:
            self._serve()

    def _take_over(self) -> None:
        """Do a slice of what the shard does before it serves."""
        assert self._takeover is not None
        result = next(self._takeover, None)
        if result is None:
            self._serve()
        else:
            self._taken_over.append(result)

    def _serve(self) -> None:
        self.serving, self._takeover = True, None
        self.repeats.everything()
        results, self._taken_over = self._taken_over, []
        if self.level.is_news:
            self._new_entry()
        for result in results:
            self._take(result)

    def on_fallen(self) -> None:
        """Stop leading: undo what was not committed, refuse whoever waits, forget what only a leader
        knows."""
        self.repeats.everything()
        self.serving, self._takeover, self._taken_over = False, None, []
        self._works.clear()
        for feed in self.feeds:
            feed.end()
        batches = [batch for entry in self._uncommitted for batch in entry.batches]
        for entry in reversed(self._uncommitted):
            self._write(reversed(entry.undo))
        self._uncommitted.clear()
        self._in_flight = 0
        self.level.logged = 1  # what was only decided may be lost; what was not says itself again
        self._dirty.clear()
        self._leaseless.clear()
        owed, self._open = self._open, {}
        self.shard.on_resigned()
        for token, request in owed.items():
            self._release(token, self.shard.refusal(request, ErrorCode.not_coordinator))
        for batch in batches:
            batch.refused()
        if self.watcher is not None:
            self.watcher.refuse_all()

    # Parts of the above.

    def _write(self, records: Iterable[tuple[Key, Value | None]]) -> list[tuple[Key, Value | None]]:
        """Write records. Every change of the shard's records comes through here, for a snapshot under way
        must know of it. Return the values replaced, each with its key."""
        apply = self.shard.apply
        replaced = [(key, apply(key, value)) for key, value in records]
        self.repeats.written(replaced)
        self._note(replaced)
        return replaced

    def _note(self, replaced: list[tuple[Key, Value | None]]) -> None:
        for build in filter(None, (self._build, self._copy, *self._fed)):
            for key, value in replaced if build.is_walking else ():
                for single in self.shard.singles(key, value):
                    build.note(*single)

    def _take(self, result: Result) -> None:
        """Carry out a Result: apply and batch its records, park or release its replies, begin its work."""
        if result.records:
            self._decide(result.records)
        self._works.give(result.replies, self._park)
        if result.events:
            self.repeats.told(result.events)
            self._on_events(result.events)
        if result.work is not None:
            self._works.add(result.work)
        if self.watcher is not None:
            self.watcher.happened(result)

    def _decide(self, records: Sequence[Record]) -> None:
        """Apply the records of one Result, and add all of them to one entry."""
        pack = self._packer.pack
        entry = self._growing()
        if len(records) <= PACKED_AT_ONCE_MAX:
            # An array of records is a header and the records one behind the other.
            command = pack(records)[array_header_bytes(len(records)) :]
            if entry.size_bytes + len(command) <= RAFT_ENTRY_BYTES_MAX:
                self._add(entry, command, records)
                return
        for record in records:
            command = pack(record)
            if entry.size_bytes + len(command) > RAFT_ENTRY_BYTES_MAX:
                # Only a Result too big for any entry (a group of a million offsets deleted) is ever cut; its
                # replies wait for the last piece.
                entry = self._new_entry()
            self._add(entry, command, (record,))

    def _add(self, entry: Entry, command: bytes, records: Sequence[Record]) -> None:
        entry.packed.append(command)
        entry.size_bytes += len(command)
        entry.undo += self._write(records)
        group_id = None
        for key, _ in records:
            if key[1] != group_id:
                group_id = key[1]
                entry.groups.add(group_id)
                self._dirty[group_id] = entry

    def _growing(self) -> Entry:
        entry = self._uncommitted[-1] if len(self._uncommitted) > self._in_flight else None
        return self._new_entry() if entry is None or entry.size_bytes > RAFT_BATCH_BYTES_MAX else entry

    def _new_entry(self) -> Entry:
        assert self.log is not None
        entry = Entry(self._packer.pack((self.level.version, self.log.term)))
        self.level.logged = self.level.known
        self._uncommitted.append(entry)
        return entry

    def _park(self, reply: Reply | Push) -> None:
        group_id = reply.group_id
        if group_id is None:
            waits_for = self._uncommitted[-1] if self._uncommitted else None
        else:
            waits_for = self._dirty.get(group_id)
        if waits_for is not None:
            waits_for.replies.append(reply)
            return
        self._leaseless.append(reply)
        self._release_leaseless()

    def _is_clean(self, group_id: Any) -> bool:
        return self.is_committed if group_id is None else group_id not in self._dirty

    def _propose(self, entry: Entry) -> bool:
        """Give the entry to the log. Return False if it does not take it."""
        assert self.log is not None
        command = b"".join(entry.packed)
        entry.packed = [command]
        try:
            entry.index = self.log.propose(command)
        except NotLeader:
            self.on_fallen()
            return False
        except Busy:
            return False  # leadership is being handed over, or the bound is reached: tried again next turn
        entry.packed = []
        self._in_flight += 1
        return True

    def _commit(self, entry: Entry) -> None:
        self._in_flight -= 1
        for group_id in entry.groups:
            if self._dirty.get(group_id) is entry:
                del self._dirty[group_id]
        self._works.give(entry.replies, self._send)
        for batch in entry.batches:
            batch.committed()

    def _release_leaseless(self) -> None:
        assert self.log is not None
        if not self.log.has_lease():
            return
        replies, self._leaseless = self._leaseless, []
        for reply in replies:
            self._send(reply)

    def _send(self, reply: Reply | Push) -> None:
        if type(reply) is Push:
            self.push(reply)
        elif self._open.pop(reply.token, None) is not None:
            self._release(reply.token, reply.body)

    def _unpack(self, command: bytes) -> tuple[int, Iterable[tuple[Key, Value | None]]]:
        unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
        unpacker.feed(command)
        version, term = unpacker.unpack()
        self.level.read(version)
        return term, typed(self._layouts, unpacker)


def _nowhere(push: Push) -> None:
    """Drop a coordinator's request: nobody has registered where nothing sends."""
