"""How the memory of a replica rises over hours of constant load, in process and in simulated time.

A leader with its history ring, a follower, and groups of both protocols whose members heartbeat, commit,
leave or vanish, and come again as others: half an hour of theirs passes in seconds. Frames are decoded and
answers packed as in a tier; sockets, Raft and the journal are not there. What Python holds is counted, since
the size of a process also tells how much of what was freed its allocators keep.
"""

from __future__ import annotations

import ctypes
import gc
import heapq
import random
import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.catalog.headers import parse_header
from actors.coordinator.offsets import tallies
from actors.coordinator.shard import CoordinatorShard
from actors.ground import records
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.release import LEVEL_MAX
from actors.ground.settings import GroupSettings
from actors.leader.group_server import GroupServer, LastHeartbeat, Share
from actors.leader.history_ring import HistoryRing
from actors.leader.known_requests import KnownRequests
from actors.protocol.partitioning import Partitioning
from actors.replica.entry import RecordType
from actors.replica.replica import Replica
from bench.member.answers import answer_to
from bench.member.assigning import Alike
from bench.member.classic import ClassicMember, ClassicTerms
from bench.member.consumer import ConsumerMember, ConsumerTerms
from bench.member.member import NEVER, Member
from bench.member.reactions import Reaction
from bench.member.requests import Identity, Request, encoded, offset_commit
from cluster.cli.common import console
from cluster.cli.tables import Table

START_MS: Final = 1_700_000_000_000
MINUTE_MS: Final = 60_000
TOPIC: Final = "orders"
PARTITIONS: Final = 12
LOOK_MS: Final = 10_000
"""How often commits are told to history in sum, as `actors.leader.history` does."""
COMMIT_MS: Final = 5_000
AWAY_MS: Final = 2_000
LEAVING_SHARE: Final = 0.5
"""How many members leave at the end of their life; the others vanish."""
GROWN_MAX: Final = 15
COLUMNS: Final = (
    *("minutes", "requests", "members", "blocks", "heap KiB", "ring KiB", "log KiB", "RSS KiB"),
    "trimmed KiB",
)
HELD_BYTES: Final = sys.getsizeof((b"", 1, 0)) + sys.getsizeof(b"")
"""What an entry of a journal takes in memory beside its bytes: an `Entry` of `storage.raft.records`."""
_HEADER: Final = struct.Struct(">hhih")
_PAGE_KIB: Final = 4


class Load(NamedTuple):
    """The constant load."""

    groups: int = 8
    """Groups of each protocol."""
    members: int = 4
    """Members of each group."""
    life_ms: int = 20_000
    """How long a member lives, on average."""


LOAD: Final = Load()


class Sample(NamedTuple):
    """What there is after some time."""

    minutes: float
    requests: int
    members: int
    """Members that came so far."""
    blocks: int
    """Blocks of memory that Python's objects have."""
    heap_bytes: int
    """What is in use of the C library's heap: Python has pieces of more than 512 bytes there."""
    ring_bytes: int
    """What the leader's history ring takes itself to have."""
    log_bytes: int
    """What the entries so far would take in a journal, which has them in memory until a snapshot is made."""
    rss_kib: int
    trimmed_kib: int
    """The process's size after the C library gave back what is free."""


class Rise(NamedTuple):
    """What each member that came in the second half of the time left behind."""

    members: int
    """How many came in that half."""
    blocks: float
    heap_bytes: float
    rss_bytes: float


class Tier:
    """A leader, a follower, and their clock. What the leader proposes is committed at the end of the turn."""

    is_leader = True
    term = 1
    pending_bytes = 0

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.requests = 0
        self.ring = HistoryRing()
        self._sequence = count(1)
        self.log_bytes = 0
        self._entries: list[bytes] = []
        self._index = 0
        self.leader, self.follower = self._replica(self._told), self._replica(lambda _events: None)
        self.server = GroupServer(self.leader, Share(0, lambda: Partitioning(1)), lambda: self.now_ms)
        self.leader.log = self
        self.ring.begin(self.now_ms)
        self.leader.on_leading(self.term)
        self.turn()

    def _replica(self, on_events: Callable[[Any], None]) -> Replica:
        ids, image = count(1), _image()
        replica = Replica(
            new_shard=lambda: CoordinatorShard(GroupSettings(), lambda: f"{next(ids):036d}", image),
            record_types={kind: RecordType(*types) for kind, types in records.RECORD_TYPES.items()},
            release=lambda token, body: self.server.release(token, body),
            clock_ms=lambda: self.now_ms,
            on_events=on_events,
        )
        replica.on_metadata(image, self.now_ms)
        return replica

    def has_lease(self) -> bool:
        return True

    def propose(self, command: bytes) -> int:
        self._entries.append(command)
        return self._index + len(self._entries)

    def turn(self) -> None:
        """Run due timers, and commit on both replicas what was decided."""
        self.leader.run_timers(self.now_ms)
        self.leader.flush()
        entries, self._entries = self._entries, []
        for command in entries:
            self._index += 1
            self.log_bytes += HELD_BYTES + len(command)
            self.leader.apply(self._index, self.term, command)
            self.follower.apply(self._index, self.term, command)

    def look(self) -> None:
        """Tell history what groups committed."""
        assert isinstance(self.leader.shard, CoordinatorShard)
        self._told(list(tallies.taken(self.leader.shard.state, self.now_ms)))

    def _told(self, events: Sequence[Any]) -> None:
        for event in events:
            if hasattr(event.__class__, "kind"):
                self.ring.add(next(self._sequence), event)


class Calendar:
    """What is to happen when, in simulated time."""

    def __init__(self, tier: Tier, seed: int) -> None:
        self.tier = tier
        self.chance = random.Random(seed)
        self.members = 0
        self._order = count()
        self._due: list[tuple[int, int, Callable[[], Any]]] = []

    def after(self, delay_ms: float, call: Callable[[], Any]) -> None:
        heapq.heappush(self._due, (self.tier.now_ms + round(delay_ms), next(self._order), call))

    def run(self, for_ms: int) -> None:
        tier = self.tier
        end_ms = tier.now_ms + for_ms
        while tier.now_ms < end_ms:
            timer_ms = tier.leader.next_deadline_ms
            due_ms = self._due[0][0] if self._due else end_ms
            tier.now_ms = max(tier.now_ms, min(due_ms, end_ms if timer_ms is None else timer_ms, end_ms))
            while self._due and self._due[0][0] <= tier.now_ms:
                heapq.heappop(self._due)[2]()
            tier.turn()


class Life:
    """A process with one member and a connection, from its start to its end; then another takes its place."""

    holding = None

    def __init__(
        self, calendar: Calendar, make: Callable[[str], Member], group_id: str, life_ms: int
    ) -> None:
        number = calendar.members = calendar.members + 1
        self._calendar = calendar
        self._again = partial(Life, calendar, make, group_id, life_ms)
        self._group_id = group_id
        self._waiting: dict[bytes, Callable[[bytes], None]] = {}
        """Correlation id -> who takes the answer."""
        self._last: LastHeartbeat | None = None
        self.known: KnownRequests | None = None
        """What the server knows of this connection's requests."""
        self._offset = 0
        host = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self.identity = ClientIdentity(f"/{host}", f"{host}:{1024 + number % 60_000}")
        self._name = f"consumer-{number}".encode()
        self._member: Member | None = make(f"member-{number:028d}")
        calendar.after(calendar.chance.expovariate(1 / life_ms), self._end)
        calendar.after(COMMIT_MS, self._commit)
        self._go_on()

    def answer(self, frame: bytes) -> None:
        """Take an answer; called by the server for one that comes later."""
        self._waiting.pop(frame[4:8])(frame[4:])

    def _end(self) -> None:
        assert self._member is not None, "it lives once"
        asked = self._member.leave() if self._calendar.chance.random() < LEAVING_SHARE else None
        self._member = None
        if asked is not None:
            self._ask(encoded(asked), _unread)
        self._calendar.after(AWAY_MS, self._again)

    def _go_on(self) -> None:
        if self._member is None:
            return
        now_s = self._calendar.tier.now_ms / 1_000
        asked = self._member.next_request(now_s)
        if asked is not None:
            self._ask(encoded(asked), partial(self._answered, asked))
        elif self._member.next_deadline < NEVER:
            self._calendar.after(max((self._member.next_deadline - now_s) * 1_000, 1), self._go_on)

    def _answered(self, asked: Any, frame: bytes) -> None:
        if self._member is not None:
            reaction = self._member.received(answer_to(asked, frame))
            self._calendar.after(100 if reaction is Reaction.AGAIN else 1, self._go_on)

    def _commit(self) -> None:
        member = self._member
        if member is None:
            return
        if member.epoch > 0:
            self._offset += 10
            who = Identity(self._group_id, member.epoch, member.member_id, member.instance_id)
            version = 9 if isinstance(member, ConsumerMember) else 8
            offsets = {TOPIC: dict.fromkeys(range(4), self._offset)}
            self._ask(offset_commit(who, version, offsets), _unread)
        self._calendar.after(COMMIT_MS, self._commit)

    def _ask(self, request: Request, then: Callable[[bytes], None]) -> None:
        tier = self._calendar.tier
        tier.requests += 1
        head = _HEADER.pack(request.api_key, request.version, tier.requests & 0x7FFFFFFF, len(self._name))
        frame = head + self._name + (b"\0" if request.is_flexible else b"") + request.body
        self._waiting[frame[4:8]] = then
        last = self._last
        if last is not None and last.is_same(frame):
            found = tier.server.serve_again(last, frame, self.answer)
        elif self.known is not None and (known := self.known.find(frame, self.known.image)) is not None:
            found = tier.server.again(known, frame, self.answer)
        else:
            header, at = parse_header(frame)
            found, last = tier.server.serve(header, frame, at, self)
            self._last = last or self._last
        if found is not None:
            self.answer(found)


def _unread(frame: bytes) -> None:
    """Take an answer that nothing depends on."""


def soak(minutes: int, load: Load = LOAD, samples: int = 8, seed: int = 1) -> Iterator[Sample]:
    """Keep a load up for so many minutes of simulated time."""
    calendar = Calendar(Tier(), seed)
    _begin(calendar, load)
    for number in range(samples):
        calendar.run(minutes * MINUTE_MS // samples)
        yield _sample(calendar, minutes * (number + 1) / samples)


def rise(samples: Sequence[Sample]) -> Rise:
    """Compare the last sample with the one of half time: by then, what has a bound has reached it."""
    half, last = samples[len(samples) // 2 - 1], samples[-1]
    members = max(last.members - half.members, 1)
    return Rise(
        last.members - half.members,
        (last.blocks - half.blocks) / members,
        (last.heap_bytes - half.heap_bytes) / members,
        (last.trimmed_kib - half.trimmed_kib) * 1_024 / members,
    )


def grown(minutes: int, load: Load = LOAD, seed: int = 1) -> list[str]:
    """Return which lines allocated what is left of the second half of the time, most first. Takes three times
    as long as `soak`."""
    calendar = Calendar(Tier(), seed)
    _begin(calendar, load)
    calendar.run(minutes * MINUTE_MS // 2)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    calendar.run(minutes * MINUTE_MS // 2)
    gc.collect()
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    return [str(each) for each in after.compare_to(before, "lineno")[:GROWN_MAX]]


def show(samples: Sequence[Sample]) -> None:
    """Print the samples as a table, and what came of each member."""
    table = Table(title="A leader and a follower under constant load, in simulated time")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for each in samples:
        kib = (size >> 10 for size in (each.heap_bytes, each.ring_bytes, each.log_bytes))
        counts = each.requests, each.members, each.blocks, *kib, each.rss_kib, each.trimmed_kib
        table.add_row(f"{each.minutes:.1f}", *(f"{number:,}" for number in counts))
    console.print(table)
    found = rise(samples)
    console.print(
        f"Each of the {found.members:,} members that came in the second half left {found.blocks:.2f} blocks,"
        f" {found.heap_bytes:.0f} bytes of heap and {found.rss_bytes:.0f} bytes of the process."
    )


def _begin(calendar: Calendar, load: Load) -> None:
    for group in range(load.groups):
        for _ in range(load.members):
            for kind in (_classic, _consumer):
                group_id = f"{kind.__name__}-{group}"
                start = partial(Life, calendar, partial(kind, group_id), group_id, load.life_ms)
                calendar.after(calendar.chance.uniform(0, load.life_ms), start)
    calendar.after(LOOK_MS, partial(_look, calendar))


def _look(calendar: Calendar) -> None:
    calendar.tier.look()
    calendar.after(LOOK_MS, partial(_look, calendar))


def _classic(group_id: str, name: str) -> Member:
    return ClassicMember(ClassicTerms(group_id, Alike(), session_timeout_ms=10_000))


def _consumer(group_id: str, name: str) -> Member:
    return ConsumerMember(ConsumerTerms(group_id, (TOPIC,)), name)


def _image() -> MetadataImage:
    topics = (TopicImage(TOPIC.encode().rjust(16, b"-"), TOPIC, (0,) * PARTITIONS),)
    return MetadataImage(version=1, topics=topics, features=Features(1, ((GROUPD_VERSION, LEVEL_MAX),)))


def _sample(calendar: Calendar, minutes: float) -> Sample:
    gc.collect()
    tier = calendar.tier
    blocks, heap_bytes, rss_kib = sys.getallocatedblocks(), _heap_bytes(), _rss_kib()
    ctypes.CDLL(None).malloc_trim(0)
    so_far = minutes, tier.requests, calendar.members
    kept = tier.ring.size_bytes, tier.log_bytes
    return Sample(*so_far, blocks, heap_bytes, *kept, rss_kib, _rss_kib())


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple((f"field_{number}", ctypes.c_size_t) for number in range(10))


def _heap_bytes() -> int:
    """Return the bytes in use of all of the C library's arenas, and of what it has mapped by itself."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    told = mallinfo()
    return int(told.field_7) + int(told.field_4)


def _rss_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KIB
