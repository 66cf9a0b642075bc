"""The socket shell of a lie: a TCP proxy before every broker that reads Kafka's frames.

All traffic goes through it, because answers that name brokers (Metadata, FindCoordinator, DescribeCluster)
name the proxy's ports instead. What a lie has no business with passes byte for byte. Answers leave in the
order of their requests, as Kafka's do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

from actors.catalog import codec
from actors.protocol import api_keys
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from tests.lies.exchange import (
    GROUP_REQUESTS,
    Asked,
    HangUp,
    Pass,
    Silence,
    Tell,
    answer_frame,
    asked,
)
from tests.lies.lie import Lie

Address = tuple[str, int]
HOST: Final = "127.0.0.1"
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
CALL_TIMEOUT_S: Final = 10.0
NAMES_BROKERS: Final = frozenset({api_keys.METADATA, api_keys.FIND_COORDINATOR, api_keys.DESCRIBE_CLUSTER})


class LyingProxy:
    """Listens before each broker, in a thread. Use as a context manager; `bootstrap` is for the clients.
    The lie is told to groups whose names begin with `prefix`."""

    def __init__(self, brokers: Sequence[Address], lie: Lie, prefix: str) -> None:
        self.lie = lie
        self.prefix = prefix
        self.errors: list[str] = []
        """Errors of the proxy itself: a connection that ended because of one was none of the lie's doing."""
        self._brokers = brokers
        self._ports: dict[Address, int] = {}
        self._servers: list[asyncio.Server] = []
        self._pairs: set[_Pair] = set()
        self._count = 0
        self._began_at: float | None = None
        self._begins: asyncio.TimerHandle | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="lying-proxy", daemon=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self._ports[broker]}" for broker in self._brokers)

    def __enter__(self) -> LyingProxy:
        self._thread.start()
        for broker in self._brokers:
            self._await(self.port_to(broker))
        return self

    def __exit__(self, *exc: object) -> None:
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # Called on the loop.

    async def port_to(self, broker: Address) -> int:
        """Return the port at which a client reaches this broker through the proxy."""
        if broker not in self._ports:
            server = await asyncio.start_server(lambda *ends: self._accept(broker, *ends), HOST, 0)
            self._servers.append(server)
            self._ports[broker] = server.sockets[0].getsockname()[1]
        return self._ports[broker]

    def at_s(self, group_id: str, api_key: int) -> float:
        """Return the seconds since the first join of the swarm's groups."""
        now = self._loop.time()
        joins = api_key in (api_keys.JOIN_GROUP, api_keys.CONSUMER_GROUP_HEARTBEAT)
        if self._began_at is None and joins and group_id.startswith(self.prefix):
            self._began_at = now
            self._begins = self._loop.call_later(self.lie.from_s, self._begin)
        return 0.0 if self._began_at is None else now - self._began_at

    def forget(self, pair: _Pair) -> None:
        self._pairs.discard(pair)

    def _begin(self) -> None:
        if self.lie.refuses:
            for server in self._servers:
                server.close()
            self.lie.told["ports closed"] += len(self._servers)
        if self.lie.cuts:
            self.lie.told["connections cut"] += len(self._pairs)
            for pair in tuple(self._pairs):
                pair.end()

    async def _accept(
        self, broker: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._count += 1
        pair = _Pair(self, self._count, reader, writer)
        self._pairs.add(pair)
        await pair.work(broker)

    async def _close(self) -> None:
        if self._begins is not None:
            self._begins.cancel()
        for server in self._servers:
            server.close()
        for pair in tuple(self._pairs):
            pair.end()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others, timeout=CALL_TIMEOUT_S / 2) if others else None

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class _Pair:
    """A client's connection and the one to its broker."""

    def __init__(
        self, proxy: LyingProxy, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._lie = proxy.lie
        self._number = number
        self._client = reader, writer
        self._broker: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._waiting: deque[asyncio.Future[bytes] | None] = deque()
        """The answer to come of each request at the broker, in order; None if the answer will be dropped."""
        self._answers: asyncio.Queue[tuple[Asked, asyncio.Future[bytes]]] = asyncio.Queue()
        """Each request that the client waits for, in order, with its answer to come."""
        self._ended = asyncio.Event()

    async def work(self, broker: Address) -> None:
        """Connect to the broker and pass frames on until one of the two sides ends."""
        with contextlib.suppress(OSError):
            self._broker = await asyncio.open_connection(*broker)
            works = [self._take_requests, self._take_answers, self._give_answers, self._ended.wait]
            tasks = [asyncio.ensure_future(work()) for work in works]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self._proxy.errors.append(repr(outcome))
        for _, writer in filter(None, (self._client, self._broker)):
            writer.close()
        self._proxy.forget(self)

    def end(self) -> None:
        """End the connection with a reset, as the end of a process does."""
        connection: socket.socket = self._client[1].get_extra_info("socket")
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._ended.set()

    async def _take_requests(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, MalformedRequest, UnsupportedRequest):
            while True:
                request = asked(await _frame(self._client[0]), self._number)
                request = request._replace(at_s=self._proxy.at_s(request.group_id, request.api_key))
                if not self._take(request):
                    return

    def _take(self, request: Asked) -> bool:
        """Do with a request what the lie wants. Returns False if the connection has to end."""
        doing = self._lie.does(request) if self._is_lied_to(request) else Pass(request.frame)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        match doing:
            case HangUp():
                self._lie.told["hung up"] += 1
                return False
            case Silence():
                self._lie.told["swallowed"] += 1
            case Tell():
                self._lie.told["answered for the server"] += 1
                answer.set_result(answer_frame(request.header, doing.answer))
            case Pass():
                if doing.frame is not request.frame or doing.also:
                    self._lie.told["requests changed"] += 1
                self._forward(doing.frame, answer)
                for frame in doing.also:
                    self._forward(frame, None)
        self._answers.put_nowait((request, answer))
        return True

    def _is_lied_to(self, request: Asked) -> bool:
        return request.group_id.startswith(self._proxy.prefix) and self._lie.concerns(request)

    def _forward(self, frame: bytes, answer: asyncio.Future[bytes] | None) -> None:
        assert self._broker is not None, "connected"
        self._waiting.append(answer)
        self._broker[1].write(len(frame).to_bytes(4, "big") + frame)

    async def _take_answers(self) -> None:
        assert self._broker is not None, "connected"
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                frame = await _frame(self._broker[0])
                answer = self._waiting.popleft()
                if answer is not None:
                    answer.set_result(len(frame).to_bytes(4, "big") + frame)

    async def _give_answers(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                request, answer = await self._answers.get()
                for frame in await self._said(request, await answer):
                    self._client[1].write(frame)
                await self._client[1].drain()

    async def _said(self, request: Asked, frame: bytes) -> list[bytes]:
        """Return the frames that the client gets in place of one answer of the broker."""
        frame = await self._rewritten(request, frame)
        if not self._is_lied_to(request):
            return [frame]
        delay_s = self._lie.delay_s(request)
        if delay_s:
            self._lie.told["delayed"] += 1
            await asyncio.sleep(delay_s)
        frames = self._lie.sends(request, frame)
        if frames != [frame]:
            self._lie.told["frames changed"] += 1
        return frames

    async def _rewritten(self, request: Asked, frame: bytes) -> bytes:
        if request.api_key not in GROUP_REQUESTS and request.api_key not in NAMES_BROKERS:
            return frame
        answer = codec.decode_response(request.header, frame)
        if request.api_key in NAMES_BROKERS:
            here = await self._here(answer)
        else:
            here = answer
            self._lie.learns(request, answer)
        told = self._lie.tells(request, here) if self._is_lied_to(request) else here
        if told is not here:
            self._lie.told["answers changed"] += 1
        return frame if told is answer else answer_frame(request.header, told)

    async def _here(self, answer: Any) -> Any:
        """The answer with the proxy's ports in place of the brokers'."""
        if hasattr(answer, "brokers"):
            brokers = [await self._moved(broker) for broker in answer.brokers]
            return replace(answer, brokers=tuple(brokers))
        if hasattr(answer, "coordinators"):
            coordinators = [await self._moved(each) for each in answer.coordinators]
            return replace(answer, coordinators=tuple(coordinators))
        return await self._moved(answer)

    async def _moved(self, broker: Any) -> Any:
        if not broker.host:
            return broker
        return replace(broker, host=HOST, port=await self._proxy.port_to((broker.host, broker.port)))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)
