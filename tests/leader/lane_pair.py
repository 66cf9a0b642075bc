"""Two leaders that get the same bytes at the same time, one with the lane and one without, and clients that
compare what both answer.

Sockets are real, time is a number that stands still until a test moves it, and whatever is proposed is
committed with the next turn.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from actors.coordinator.shard import CoordinatorShard
from actors.ground.acl import Acl, Operation, PatternType, Permission, ResourceType
from actors.ground.contract import Request
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.release import LEVEL_MAX
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings, NodeSpec, TierSpec, copies
from actors.leader.lane.compiled import Repeat, compile_repeat
from actors.leader.lane.memory import Memory
from actors.leader.lane.sockets import Lane
from actors.leader.offsets_partition import OffsetsPartition, Outside
from actors.metadata.wire import pack_image
from actors.network.channel import Answer
from actors.network.connection import Connection
from actors.network.wire import FindClass, frame_of, message_class, parsed
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, OFFSET_COMMIT
from actors.replica.host import ReplicaHost
from actors.security.gate import ACLS
from bench.ground.steady_heartbeat import steady_heartbeat
from tests.coordinator.alone import Log, commit

EPOCH_MS = 1_700_000_000_000
STEP_MS = 100
JAVA = "apache-kafka-java"
"""Software whose heartbeats may be held."""
CONSUMER_INTERVAL_MS = 5_500
"""What KIP-848 members are told: they are held for 4,400 ms, or by the lane for a little less. Where time
goes by whole seconds, both are over with the same."""
HOLD_S_MAX = 5
"""How many seconds an answer is waited for."""
SESSION_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
LINGER_MS = 20
ROUNDS = 8
"""How many iterations of the loop bring every byte to where it goes."""
TOPIC = TopicImage(b"orders".rjust(16, b"-"), "orders", (0,) * 4)
LEVELS = Features(1, ((GROUPD_VERSION, LEVEL_MAX),))
ALLOWED = (
    Acl(
        *(ResourceType.GROUP, "*", PatternType.LITERAL, "User:ANONYMOUS", "*"),
        *(Operation.ALL, Permission.ALLOW),
    ),
    Acl(
        *(ResourceType.TOPIC, "*", PatternType.LITERAL, "User:ANONYMOUS", "*"),
        *(Operation.ALL, Permission.ALLOW),
    ),
)


@cache
def _repeat() -> Repeat:
    return compile_repeat()


class LeasedLog(Log):
    """A log whose lease a test ends and renews."""

    leased = True

    def has_lease(self) -> bool:
        return self.leased

    @property
    def lease_until(self) -> float:
        return inf if self.leased else -inf


class DeafTo:
    """A memory that some of what the replica tells does not reach: it forgets to forget."""

    def __init__(self, memory: Memory, *deaf: str) -> None:
        self._memory = memory
        self._deaf = deaf

    def __getattr__(self, name: str) -> Any:
        return (lambda _=None: None) if name in self._deaf else getattr(self._memory, name)


class EndlessLog(LeasedLog):
    """A log that tells the lane of a lease that never ends."""

    lease_until = inf  # type: ignore[assignment]


class _Host(ReplicaHost):
    """A replica's host whose turns the test makes."""

    def wake(self) -> None: ...

    def arm(self) -> None: ...


class _Partition(OffsetsPartition):
    async def _open(self) -> None:
        """Do nothing: the host needs no file here."""


class _Link:
    """A link to a broker that has no answer to anything."""

    def ask(self, identity: ClientIdentity, frame: bytes, answer: Answer, timeout_s: float) -> None:
        answer(None)

    def gone(self, identity: ClientIdentity) -> None: ...

    def close(self) -> None: ...


class Server:
    def __init__(self, data_dir: Path, *, lane_after: int) -> None:
        self.now_ms = EPOCH_MS
        self.is_stalled = False
        """Whether nothing of what is proposed is committed."""
        ids = itertools.count(1)
        groups = GroupSettings(
            group_initial_rebalance_delay_ms=0,
            group_rebalance_batch_max_ms=0,
            group_heartbeat_lane_after=lane_after,
            group_consumer_heartbeat_interval_ms=CONSUMER_INTERVAL_MS,
        )
        spec = TierSpec(
            tier_id="lane",
            secret="lane",
            data_dir=str(data_dir),
            run_dir=str(data_dir),
            nodes=(NodeSpec(node_id=1, host="127.0.0.1", port=9_091),),
            placement=(copies([1]),),
            controllers=copies([1]),
            formed=True,
            groups=groups,
            broker=BrokerSettings(authorizer=ACLS),
        )
        outside = Outside(
            new_host=partial(_Host, now_ms=lambda: self.now_ms),
            new_link=lambda *_: _Link(),  # type: ignore[arg-type,return-value]
            new_id=lambda: str(UUID(int=next(ids))),
        )
        self.partition = _Partition(spec, 0, 0, outside)
        self.replica = self.partition._host.replica
        self.clients = self.partition._clients
        if not lane_after:
            self.clients._server._learnt = _unknown  # type: ignore[method-assign]
        self.log = LeasedLog()
        self.lead()

    @property
    def lane(self) -> Lane | None:
        return self.clients.lane

    def lead(self) -> None:
        self.log = self.replica.log = LeasedLog()
        self.partition._host.raft = self.log  # type: ignore[assignment]
        self.replica.on_leading(Log.term)

    def fall(self) -> None:
        self.log.is_leader = False
        self.replica.on_fallen()

    def adopt(self, sock: socket.socket, number: int, software: str) -> Connection:
        identity = ClientIdentity("/127.0.0.1", f"127.0.0.1:{number}", software_name=software)
        self.clients.on_handover(sock, identity, b"")
        return next(each for each in self.clients.table.connections() if each.identity is identity)

    def turn(self) -> None:
        if self.lane is not None:
            self.lane.end_holds()
        if self.replica.serving:
            self.replica.run_timers(self.now_ms)
            if self.is_stalled:
                self.replica.flush()
            else:
                commit(self.replica)


class Client:
    """One client's connections, one to each server."""

    def __init__(self, pair: Pair, number: int, software: str) -> None:
        self._pair = pair
        self.software = software
        ours = [socket.socketpair() for _ in pair.servers]
        self.sockets = [mine for mine, _ in ours]
        for sock in itertools.chain.from_iterable(ours):
            sock.setblocking(False)
        self.connections = [
            server.adopt(theirs, number, software)
            for server, (_, theirs) in zip(pair.servers, ours, strict=True)
        ]
        self.is_closed = False

    def send(self, data: bytes) -> None:
        for sock in self.sockets:
            try:
                sent = sock.send(data)
            except (BrokenPipeError, ConnectionResetError):
                continue
            assert sent == len(data)

    def take_any(self) -> list[bytes]:
        """Return what each server has sent since the last time, however much that is."""
        return [self._read(sock)[0] for sock in self.sockets]

    def take(self) -> bytes:
        """Return what both servers have sent since the last time; it is checked that it is the same."""
        taken = [self._read(sock) for sock in self.sockets]
        assert taken[0] == taken[1], "with the lane, without it"
        data, self.is_closed = taken[0]
        return data

    def _read(self, sock: socket.socket) -> tuple[bytes, bool]:
        data = b""
        while True:
            try:
                more = sock.recv(1 << 20)
            except BlockingIOError:
                return data, False
            except ConnectionResetError:
                more = b""
            if not more:
                return data, True
            data += more

    def close(self) -> None:
        self.is_closed = True
        for sock in self.sockets:
            sock.close()


def _unknown(asker: Any, frame: bytes, body_offset: int, request: Request, finish: Any) -> Request:
    return request


class Pair:
    """The server with the lane, and the one without, which knows no requests either."""

    def __init__(self, directory: Path, *, lane_after: int = 5_000) -> None:
        self.servers = tuple(
            Server(directory / name, lane_after=after)
            for name, after in (("with", lane_after), ("without", 0))
        )
        self._version = 0
        self._numbers = itertools.count(1)
        self._clients: list[Client] = []

    async def start(self, *, has_loaded: bool = True) -> None:
        """Begin; `has_loaded`: the one with the lane has loaded it already."""
        with_lane = self.servers[0]
        host, clients = with_lane.partition._host, with_lane.clients
        if has_loaded:
            clients.lane = Lane(host, with_lane.partition._server, clients.held, LINGER_MS, _repeat())
        self.push(ALLOWED)
        await self.settle()

    @property
    def lane(self) -> Lane:
        lane = self.servers[0].lane
        assert lane is not None
        return lane

    def push(self, acls: Sequence[Acl]) -> None:
        """Bring a new image."""
        self._version += 1
        image = MetadataImage(
            version=self._version,
            topics=(TOPIC,),
            acls=tuple(acls),
            features=LEVELS,
            offsets_leaders=(1,),
        )
        for server in self.servers:
            server.clients.on_push("image", pack_image(image))

    def connect(self, software: str = "") -> Client:
        client = Client(self, next(self._numbers), software)
        self._clients.append(client)
        return client

    async def settle(self) -> None:
        """Bring every byte to where it goes, and commit what was decided."""
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
            for server in self.servers:
                server.turn()

    async def advance(self, milliseconds: int) -> None:
        """Let time go by, in steps so small that what is due in one of them is due at about the same time."""
        for begin_ms in range(0, milliseconds, STEP_MS):
            for server in self.servers:
                server.now_ms += min(STEP_MS, milliseconds - begin_ms)
                server.turn()
        await self.settle()

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
        for server in self.servers:
            server.clients.close()
        await self.settle()


class Caller:
    """A client that sends requests with correlation ids of its own, and waits for answers."""

    find: FindClass = staticmethod(message_class)
    """What finds the classes of messages."""

    def __init__(self, pair: Pair, client: Client | None = None) -> None:
        self.pair = pair
        self.client = client or pair.connect()
        self._ids = itertools.count(1)

    def frame(self, api: str, version: int, **fields: Any) -> bytes:
        return frame_of(self.find(api, version, "request"), next(self._ids), "lane", fields)

    async def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Return the only answer that comes, as plain values. One that is held is waited for."""
        self.client.send(self.frame(api, version, **fields))
        await self.pair.settle()
        data = self.client.take()
        for _ in range(HOLD_S_MAX):
            if not data:
                await self.pair.advance(1_000)
                data = self.client.take()
        assert len(data) == 4 + int.from_bytes(data[:4], "big"), data
        return parsed(self.find(api, version, "response"), data[4:])[1]


class ClassicMember(Caller):
    """The member of a classic group whose only member it is."""

    def __init__(self, pair: Pair, group_id: str, client: Client | None = None) -> None:
        super().__init__(pair, client)
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1

    async def join(self) -> None:
        joined = await self.ask("join_group", 3, **self._joining())
        self.member_id, self.generation = joined["member_id"], joined["generation_id"]
        mine = [{"member_id": self.member_id, "assignment": b"mine"}]
        synced = await self.ask("sync_group", 2, **self.named, assignments=mine)
        assert synced["error_code"] == 0

    def join_frame(self, rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS) -> bytes:
        return self.frame("join_group", 3, **self._joining(rebalance_timeout_ms))

    def _joining(self, rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS) -> dict[str, Any]:
        return {
            "group_id": self.group_id,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": rebalance_timeout_ms,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }

    @property
    def named(self) -> dict[str, Any]:
        return {"group_id": self.group_id, "generation_id": self.generation, "member_id": self.member_id}

    def beat_frame(self) -> bytes:
        return self.frame("heartbeat", 2, **self.named)

    async def beat(self) -> int:
        """Return the error code of the answer to a heartbeat."""
        return int((await self.ask("heartbeat", 2, **self.named))["error_code"])


class ConsumerMember(Caller):
    """A KIP-848 member."""

    def __init__(self, pair: Pair, group_id: str, member_id: str, client: Client | None = None) -> None:
        super().__init__(pair, client)
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0

    async def join(self) -> None:
        """Join, and acknowledge what is assigned."""
        self.epoch = 0
        await self.beat(rebalance_timeout=60_000, subscribed_topic_names=["orders"], topic_partitions=[])

    def _fields(self, **said: Any) -> dict[str, Any]:
        return steady_heartbeat(self.group_id, self.member_id, self.epoch, **said)

    def beat_frame(self) -> bytes:
        return self.frame("consumer_group_heartbeat", 1, **self._fields())

    async def beat(self, **fields: Any) -> int:
        """Return the error code; epochs are followed, and what is assigned is acknowledged at once."""
        answer = await self.ask("consumer_group_heartbeat", 1, **self._fields(**fields))
        code = int(answer["error_code"])
        while code == 0:
            self.epoch = answer["member_epoch"]
            if answer["assignment"] is None:
                break
            mine = answer["assignment"]["topic_partitions"]
            answer = await self.ask("consumer_group_heartbeat", 1, **self._fields(topic_partitions=mine))
            code = int(answer["error_code"])
        return code


def counts(pair: Pair) -> list[tuple[Any, ...]]:
    """Return what each server has counted."""
    found = []
    for server in pair.servers:
        holds, requests = server.clients.held.counts, server.partition._server.counts
        fine = [requests.of(api).fine for api in (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)]
        found.append((holds.began, dict(holds.ended), len(server.clients.held), *fine))
    return found


Member = ClassicMember | ConsumerMember
Story = Callable[[Pair], Coroutine[Any, Any, None]]


def deafen(pair: Pair, *deaf: str) -> None:
    """Have these calls of the replica not reach the lane's memory."""
    pair.servers[0].replica.repeats = DeafTo(pair.lane.memory, *deaf)


def lease_for_ever(pair: Pair) -> None:
    """Have the lane believe in a lease that never ends."""
    server = pair.servers[0]
    server.log = server.replica.log = EndlessLog()
    server.partition._host.raft = server.log  # type: ignore[assignment]


def check_noticed(tell: Callable[[Story], None], spoil: Callable[[Pair], None], story: Story) -> None:
    """Check that a story does not end well if the lane is spoilt before."""

    async def spoilt(pair: Pair) -> None:
        spoil(pair)
        await story(pair)

    with pytest.raises(AssertionError):
        tell(spoilt)


def committed(server: Server) -> Any:
    """Return what a server has of offsets, and what it tells of commits."""
    shard = server.replica.shard
    assert isinstance(shard, CoordinatorShard)
    state = shard.state
    offsets = {group_id: dict(each.pairs()) for group_id, each in state.offsets.items()}
    tallies = {group_id: list(tally) for group_id, tally in state.commit_tallies.items()}
    counted = server.partition._server.counts.of(OFFSET_COMMIT)
    return offsets, tallies, dict(state.offset_counts), counted.fine
