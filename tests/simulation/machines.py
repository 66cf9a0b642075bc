"""What a run replicates: the coordinator, the metadata, or a bare log; and the watch on what Raft applies.

The bare log proposes every request by itself, so that many entries are under way: it drives Raft harder
than `Replica`, which makes few big ones. It keeps committed offsets, in the coordinator's own records, so
that one set of checkers and clients serves all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgpack
from kio.schema.errors import ErrorCode

from actors.coordinator.consumer import target_arrays
from actors.coordinator.refusals import refusal
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import OFFSET_COMMIT, RECORD_TYPES
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings
from actors.metadata.shard import RECORD_TYPES as METADATA_RECORD_TYPES
from actors.metadata.shard import MetadataShard
from actors.protocol import api_keys
from actors.protocol.messages import (
    FetchedGroup,
    FetchedOffset,
    OffsetCommitResponse,
    OffsetFetchResponse,
)
from actors.replica.entry import RecordType
from storage.raft.errors import Busy, NotLeader
from tests.coordinator.arrays_check import check_arrays
from tests.coordinator.batches import Pair, one_by_one
from tests.simulation.parts import Process
from tests.simulation.plug_ins import ENTRY, TIMEOUT_MS

BUILD_RECORDS_A_STEP = 6
BUILD_STEP_S = 0.003
"""Few, and each takes its time, so that the state changes while a snapshot of it is made."""
TOPIC = "t"
PARTITIONS = 6
TOPIC_ID = b"topic-of-the-run"
SESSION_MS = 700
REBALANCE_MS = 800
"""The rebalance timeout of classic members."""
FLEETING_TOPIC = "fleeting"
"""Created and deleted as the run goes on, each time with another id."""
target_arrays.ARRAYS_FROM = 0
"""A leader keeps the assignors' arrays of the smallest group too, so that they can be looked at."""
GROUP_SETTINGS = GroupSettings(
    group_min_session_timeout_ms=100,
    group_initial_rebalance_delay_ms=40,
    group_consumer_session_timeout_ms=900,
    group_consumer_heartbeat_interval_ms=120,
    group_consumer_assignment_interval_ms=20,
    group_consumer_assignors=("uniform", "range", ENTRY),
    group_consumer_assignor_timeout_ms=TIMEOUT_MS,
    classic_new_member_join_timeout_ms=1_000,
    group_push_rebalance_backoff_ms=40,
)


def image_of(
    version: int, level: int = 1, *, offsets_leaders: tuple[int, ...] = (), unmoved: tuple[int, ...] = ()
) -> MetadataImage:
    """Make the image of a version: even ones have the fleeting topic. `level` is the level that is finalized;
    the rest is as in the image."""
    topics = [TopicImage(TOPIC_ID, TOPIC, (0,) * PARTITIONS)]
    if version % 2 == 0:
        topics.append(TopicImage(b"fleeting" + version.to_bytes(8, "big"), FLEETING_TOPIC, (0,) * PARTITIONS))
    features = Features(1, ((GROUPD_VERSION, level),))
    return MetadataImage(
        version=version,
        topics=tuple(topics),
        features=features,
        offsets_leaders=offsets_leaders,
        unmoved=unmoved,
    )


def decode(term: int, command: bytes) -> Iterable[Pair]:
    """The records of an entry; none if it was decided in another term than it was logged in."""
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(command)
    _, decided_in = unpacker.unpack()
    return one_by_one(unpacker) if decided_in == term else ()


def decode_snapshot(data: bytes) -> Iterable[Pair]:
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(data)
    unpacker.unpack()
    return one_by_one(unpacker)


class LogMachine:
    """A state machine as small as can be: committed offsets, one entry a request, no speculation."""

    next_deadline_ms = None
    awaits_log = False

    def __init__(self, process: Process) -> None:
        self.log: Any = None
        self.live: dict[Any, Any] = {}
        self.is_committed = True
        self._process = process
        self._waiting: dict[int, tuple[int, bytes, Request]] = {}
        """The term, command and request of each waiting entry, by index."""

    @property
    def owed(self) -> int:
        return len(self._waiting)

    def submit(self, request: Request, now_ms: int) -> Any:
        raft = self.log
        if request.api_key == api_keys.OFFSET_FETCH:
            return self._fetch(request) if raft.has_lease() else refusal(request, ErrorCode.not_coordinator)
        body = request.body
        [(topic, [(partition, offset, leader_epoch, text)])] = body.topics
        key = (OFFSET_COMMIT, body.group_id, topic, partition)
        value = (offset, leader_epoch, text, now_ms, -1, TOPIC_ID)
        command = msgpack.packb((1, raft.term)) + msgpack.packb((key, value))
        try:
            index = raft.propose(command)
        except NotLeader:
            return refusal(request, ErrorCode.not_coordinator)
        except Busy:
            return refusal(request, ErrorCode.coordinator_not_available)
        self._waiting[index] = (raft.term, command, request)
        return None

    def _fetch(self, request: Request) -> OffsetFetchResponse:
        [group] = request.body.groups
        topics = []
        for topic, partitions in group.topics:
            fetched = []
            for partition in partitions:
                value = self.live.get((OFFSET_COMMIT, group.group_id, topic, partition))
                fetched.append(
                    FetchedOffset(partition) if value is None else FetchedOffset(partition, *value[:3])
                )
            topics.append((topic, tuple(fetched)))
        return OffsetFetchResponse((FetchedGroup(group.group_id, tuple(topics)),))

    def run_timers(self, now_ms: int) -> None:
        pass

    def flush(self) -> None:
        pass

    def records(self) -> Iterable[Pair]:
        return self.live.items()

    # -- storage.raft.raft.StateMachine ------------------------------------------------------------------

    def apply(self, index: int, term: int, command: bytes) -> None:
        for key, value in decode(term, command):
            self.live[key] = value
        waiting = self._waiting.pop(index, None)
        if waiting is not None:
            assert waiting[:2] == (term, command), f"entry {index} is not what this leader proposed"
            request = waiting[2]
            [(topic, [(partition, *_)])] = request.body.topics
            body = OffsetCommitResponse(((topic, ((partition, ErrorCode.none),)),))
            self._process.release(request.token, body)

    def begin_snapshot(self) -> LogBuild:
        return LogBuild(self.live)

    def restore(self, data: bytes) -> None:
        self.live = dict(decode_snapshot(data))

    def on_leading(self, term: int) -> None:
        pass

    def on_fallen(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for _, _, request in waiting.values():
            self._process.release(request.token, refusal(request, ErrorCode.not_coordinator))


class LogBuild:
    """A snapshot's build that takes some records in each step."""

    def __init__(self, live: dict[Any, Any]) -> None:
        self._rest = list(live.items())
        self._data = msgpack.packb((1, 0))

    def step(self, records_max: int) -> bytes | None:
        for pair in self._rest[:records_max]:
            self._data += msgpack.packb(pair)
        del self._rest[:records_max]
        return None if self._rest else self._data


class Kind(NamedTuple):
    """The kind of shard that the replicas of a run hold."""

    name: str
    machine: Callable[[Process], Any]
    records: Callable[[Any], Iterable[Pair]]
    look: Callable[[Any], Any] = lambda machine: None
    """Check a leader's machine: AssertionError if what it derives from its records is not what it should
    be."""


def _replica(process: Process, new_shard: Callable[[], Any], types: dict[int, Any]) -> Any:
    return process.world.code.replica(
        new_shard=new_shard,
        record_types={kind: RecordType(*classes) for kind, classes in types.items()},
        release=process.connections.release,
        clock_ms=process.now_ms,
        on_events=process.plug_ins.on_events,
    )


def _coordinator(process: Process) -> Any:
    world = process.world
    image = world.image()

    def new_shard() -> CoordinatorShard:
        shard = world.code.shard(world.group_settings, world.new_id, image, home=world.home)
        assert isinstance(shard, CoordinatorShard)
        return shard

    replica = _replica(process, new_shard, RECORD_TYPES)
    process.connections.watch(replica)
    replica.on_metadata(image, process.now_ms())
    return replica


def _metadata(process: Process) -> Any:
    world = process.world

    def new_shard() -> MetadataShard:
        return MetadataShard(
            cluster_id="sim",
            offsets_partitions=4,
            settings=BrokerSettings(),
            new_id=lambda: world.new_id().encode().rjust(16, b"\0"),
        )

    return _replica(process, new_shard, METADATA_RECORD_TYPES)


COORDINATOR = Kind(
    "coordinator",
    _coordinator,
    lambda replica: one_by_one(replica.shard.records()),
    lambda replica: check_arrays(replica.shard.state),
)
METADATA = Kind("metadata", _metadata, lambda replica: replica.shard.records())
LOG = Kind("log", LogMachine, lambda machine: machine.records())


class Watch:
    """Between Raft and the state machine: tells the checkers what passes."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._machine = process.machine
        self._checks = process.world.checks
        self.index = 0
        """The index of the last entry that was applied in this life."""

    def apply(self, index: int, term: int, command: bytes) -> None:
        self._process.world.releases.reads(self._process, command)
        self._checks.applies(self._process, index, term, command)
        self._machine.apply(index, term, command)
        self.index = index
        self._checks.applied(self._process, index)

    def begin_snapshot(self) -> WatchedBuild:
        return WatchedBuild(self._process, self._machine.begin_snapshot())

    def restore(self, data: bytes) -> None:
        self._process.world.releases.reads(self._process, data)
        self._checks.restores(self._process, data)
        self._machine.restore(data)
        self._checks.restored(self._process, data)

    def on_leading(self, term: int) -> None:
        process = self._process
        self._checks.leads(process, term)
        process.world.note(process.name, f"leads term {term}")
        self._machine.on_leading(term)

    def on_fallen(self) -> None:
        process = self._process
        process.world.note(process.name, "no longer leads")
        self._machine.on_fallen()
        process.connections.fallen()
        process.world.answers.fallen(process)


class WatchedBuild:
    """A snapshot in the making; complete, it must be the committed state as of its beginning."""

    def __init__(self, process: Process, build: Any) -> None:
        self._process = process
        self._build = build
        self._digest = process.world.state.digest_at(process.raft.applied_index)

    def step(self) -> bytes | None:
        data: bytes | None = self._build.step(BUILD_RECORDS_A_STEP)
        host, now = self._process.host, self._process.world.now
        host.paused_until = max(host.paused_until, now + BUILD_STEP_S)
        if data is not None:
            self._process.world.checks.built(self._process, data, self._digest)
        return data
