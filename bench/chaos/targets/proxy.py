"""A TCP proxy before every node of a tier, which does to clients' connections what networks do.

It has one thread with one loop: asyncio's own, because uvloop's begins to read from a connection that was
told not to. Bytes are not interpreted. What was taken from one side and cannot be given to the other yet is
bounded by the transports' buffers: then no more is read.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

CALL_TIMEOUT_S: Final = 5.0
CONNECT_TIMEOUT_S: Final = 5.0
DELAYED_CHUNKS_MAX: Final = 64
"""How many chunks may be on their way in one direction of a connection: beyond that it is not read."""
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends a reset."""


class Weather(NamedTuple):
    """The state of the way between clients and one node."""

    delay_s: float = 0.0
    """The delay in each direction."""
    requests_pass: bool = True
    answers_pass: bool = True
    """Whether answers pass. Bytes that do not pass wait and are not lost, as TCP sends again what is not
    acknowledged."""


FAIR: Final = Weather()


class Way(NamedTuple):
    """The port to which clients connect, and the node's address."""

    host: str
    port: int
    target_port: int


class Proxy:
    """Listens before each node, in a thread; a context manager."""

    def __init__(self, ways: Sequence[Way]) -> None:
        """`ways` has one entry for each node, in order."""
        self._roads = {n: _Road(way) for n, way in enumerate(ways, 1)}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    @property
    def nodes(self) -> list[int]:
        return list(self._roads)

    def __enter__(self) -> Proxy:
        """Listen. Raises OSError if a port is taken."""
        self._thread.start()
        try:
            for road in self._roads.values():
                self._await(road.open)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for road in self._roads.values():
            self._await(road.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def set(self, weather: Weather, nodes: Sequence[int] | None = None) -> None:
        """Change the weather for connections that exist and for those to come; on all nodes if none is
        named."""
        for node in self.nodes if nodes is None else nodes:
            self._await(self._roads[node].set, weather)

    def reset(self, nodes: Sequence[int] | None = None) -> int:
        """End every connection with a reset at both ends. Returns how many there were."""
        return sum(self._await(self._roads[node].reset) for node in (self.nodes if nodes is None else nodes))

    def connections(self) -> int:
        """How many connections there are now."""
        return sum(self._await(road.count) for road in self._roads.values())

    def _await(self, work: Callable[..., Any], *args: Any) -> Any:
        """Have `work` done on the loop, to whose thread everything belongs."""

        async def on_loop() -> Any:
            outcome = work(*args)
            return await outcome if asyncio.iscoroutine(outcome) else outcome

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(CALL_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class _Road:
    """The way to one node."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._server: asyncio.Server | None = None
        self._weather = FAIR
        self._pairs: set[_Pair] = set()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._way.host, self._way.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()
        if self._server is not None:
            await self._server.wait_closed()
        # Of a closed connection we are told in the loop's next turn.
        while self._pairs:
            await asyncio.sleep(0)

    def set(self, weather: Weather) -> None:
        self._weather = weather
        for pair in self._pairs:
            pair.set(weather)

    def reset(self) -> int:
        count = len(self._pairs)
        for pair in tuple(self._pairs):
            pair.reset()
        return count

    def count(self) -> int:
        return len(self._pairs)

    def _accept(self) -> _Side:
        pair = _Pair(self._way.host, self._way.target_port, self._weather, self._pairs.discard)
        self._pairs.add(pair)
        return pair.client


class _Pair:
    """A client's connection and ours to the node."""

    def __init__(self, host: str, port: int, weather: Weather, gone: Callable[[_Pair], None]) -> None:
        self._host, self._port = host, port
        self.weather = weather
        self._gone = gone
        self.client = _Side(self, self._dial)
        self.node = _Side(self, self._joined)
        self._dialling: asyncio.Task[None] | None = None
        self.has_ended = False

    def other(self, side: _Side) -> _Side:
        return self.node if side is self.client else self.client

    def passes(self, side: _Side) -> bool:
        """Whether what comes from this side may go on."""
        return self.weather.requests_pass if side is self.client else self.weather.answers_pass

    def set(self, weather: Weather) -> None:
        self.weather = weather
        for side in (self.client, self.node):
            side.adjust()

    def reset(self) -> None:
        for side in (self.client, self.node):
            side.abort()
        self.end(None)

    def end(self, ended: _Side | None) -> None:
        """End the pair because one side is gone: the other one is closed when it has got what was for it."""
        if not self.has_ended:
            self.has_ended = True
            if self._dialling is not None:
                self._dialling.cancel()
            for side in (self.client, self.node):
                if side is not ended:
                    side.close()
        if self.client.is_gone and self.node.is_gone:
            self._gone(self)

    def _dial(self) -> None:
        self._dialling = asyncio.get_running_loop().create_task(self._connect())

    def _joined(self) -> None:
        for side in (self.client, self.node):
            side.adjust()

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: self.node, self._host, self._port)
        except (OSError, TimeoutError):
            # Nobody listens: to the client it is as if the connection had been refused a little late.
            self.reset()


class _Side(asyncio.Protocol):
    """One end of a pair: bytes come from it, and bytes of the other end go to it."""

    def __init__(self, pair: _Pair, made: Callable[[], None]) -> None:
        self._pair = pair
        self._made = made
        self._transport: asyncio.Transport | None = None
        self.is_gone = False
        self._may_write = True
        self._under_way = 0
        """How many chunks from this end are delayed now."""
        self._late_until = 0.0
        self._is_read = True

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._pair.has_ended:
            self.abort()
            return
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._made()
        self.adjust()

    def data_received(self, data: bytes) -> None:
        other, delay_s = self._pair.other(self), self._pair.weather.delay_s
        loop = asyncio.get_running_loop()
        now = loop.time()
        if delay_s <= 0 and self._late_until <= now:
            other.write(data)
            return
        # Timers have a resolution of a millisecond; closer ones might change places.
        self._late_until = max(now + delay_s, self._late_until + 0.002)
        self._under_way += 1
        loop.call_at(self._late_until, partial(self._arrive, data))
        self.adjust()

    def pause_writing(self) -> None:
        self._may_write = False
        self._pair.other(self).adjust()

    def resume_writing(self) -> None:
        self._may_write = True
        self._pair.other(self).adjust()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_gone = True
        self._pair.end(self)

    # Called by the pair.

    def adjust(self) -> None:
        """Read from here only what can be passed on."""
        transport, other = self._transport, self._pair.other(self)
        if transport is None or self.is_gone or transport.is_closing():
            return
        is_read = (
            self._pair.passes(self)
            and other.is_there
            and other._may_write
            and self._under_way < DELAYED_CHUNKS_MAX
        )
        if is_read != self._is_read:
            self._is_read = is_read
            (transport.resume_reading if is_read else transport.pause_reading)()

    @property
    def is_there(self) -> bool:
        return self._transport is not None and not self.is_gone

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is None:
            self.is_gone = True
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection with a reset, and without what was still to be sent."""
        if self._transport is None:
            self.is_gone = True
        elif not self.is_gone:
            connection: socket.socket = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self._transport.abort()

    def _arrive(self, data: bytes) -> None:
        self._under_way -= 1
        self._pair.other(self).write(data)
        self.adjust()
