"""Pass requests on to the upstream cluster's brokers, as the frames that they are, and bring back answers.

One request at a time is under way on a connection, as Kafka's brokers work them off anyway, so that its
answer is the next one that comes. There are few connections, and all that waits for one is bounded in number,
in bytes and in time. One broker is asked as long as it is there, so that what clients are told does not go
back in time; when it is lost another one is asked, again if the request changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from actors.ground.limits import FORWARDED_BYTES_MAX, FORWARDED_MAX, FORWARDING_CONNECTIONS_MAX
from actors.network.frames import with_length
from actors.network.wire import Closed, Wire
from actors.upstream.controllers import SOFTWARE, UNREADABLE, Address, Connect, Versions, version_of, words

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S: Final = 35.0
"""How long an answer is waited for: a little longer than Java's clients wait by default."""
IDLE_S: Final = 60.0
"""How long a connection is kept that nobody uses. Brokers close such ones after ten minutes."""
TRIES_MAX: Final = 3
_CORRELATION_ID: Final = slice(4, 8)
"""Where the correlation id stands in a request; in an answer it stands first."""
_LOST: Final = (OSError, Closed, *UNREADABLE)
"""What is raised when a broker is lost; a TimeoutError is an OSError."""


class Unreachable(Exception):
    """Raised if no broker takes a request; the text says why."""


class Offered(NamedTuple):
    """What a broker says of itself in ApiVersions."""

    versions: Versions
    supported: Sequence[Mapping[str, Any]]
    """The features that it supports, as rows of the answer."""


class _Line(NamedTuple):
    """A connection to a broker on which nothing is under way."""

    address: Address
    wire: Wire
    since_s: float
    """The time since which it is idle, by the loop's clock."""


class Forwarding:
    """The way to the cluster's brokers. `brokers` says where those are that may be asked now, at least one of
    them; `connect` connects to one."""

    def __init__(self, connect: Connect, brokers: Callable[[], Sequence[Address]]) -> None:
        self._connect = connect
        self._brokers = brokers
        self._asked: Address | None = None
        self._idle: list[_Line] = []
        self._free = asyncio.Semaphore(FORWARDING_CONNECTIONS_MAX)
        self._free_for_changes = asyncio.Semaphore(FORWARDING_CONNECTIONS_MAX // 2)
        """What changes something may take as long as its client says; who only asks is not to wait for it."""
        self._count = self._size_bytes = 0
        self.offered: Offered | None = None
        """What the broker that was connected to last says of itself."""
        self.problem: str | None = None
        """Why no broker can be reached, in words; None: one could, when it was last tried."""

    async def forward(self, frame: bytes, *, may_repeat: bool) -> bytes | None:
        """Return the answer to a request (a frame without its length), with its length; None if none can be
        had: then it may have been carried out all the same, unless it changes nothing."""
        if self._count >= FORWARDED_MAX or self._size_bytes + len(frame) > FORWARDED_BYTES_MAX:
            return None
        self._count += 1
        self._size_bytes += len(frame)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                if may_repeat:
                    return await self._in_turn(frame, TRIES_MAX)
                async with self._free_for_changes:
                    return await self._in_turn(frame, 1)
        except (TimeoutError, Unreachable) as error:
            if isinstance(error, TimeoutError):
                self._asked = None  # it may be frozen: whoever is asked next has to answer first
            log.info("a request of key %d has no answer: %s", int.from_bytes(frame[:2]), error or "too slow")
            return None
        finally:
            self._count -= 1
            self._size_bytes -= len(frame)

    async def greet(self) -> None:
        """Connect to a broker, so that `offered` is known. Raises Unreachable."""
        self._give_back(await self._line())

    async def close(self) -> None:
        """Close what is idle."""
        idle, self._idle = self._idle, []
        for line in idle:
            await line.wire.close()

    async def _in_turn(self, frame: bytes, tries: int) -> bytes:
        async with self._free:
            return with_length(await self._exchanged(frame, tries))

    async def _exchanged(self, frame: bytes, tries: int) -> bytes:
        for left in reversed(range(tries)):
            line = await self._line()
            is_answered = False
            try:
                await line.wire.renewed()
                await line.wire.send_raw(with_length(frame))
                answer = await line.wire.read_frame()
                if answer[:4] != frame[_CORRELATION_ID]:
                    raise Closed("an answer to another request")
                is_answered = True
                return answer
            except (OSError, Closed) as error:
                self.problem = f"{words(line.address)}: {error or 'it hung up'}"
                self._asked = None
                if not left:
                    raise Unreachable(self.problem) from error
            finally:
                if is_answered:
                    self._give_back(line)
                else:
                    await line.wire.close()
        raise AssertionError("the last try returns or raises")

    def _give_back(self, line: _Line) -> None:
        self._idle.append(line._replace(since_s=asyncio.get_running_loop().time()))

    async def _line(self) -> _Line:
        """Return a connection to the broker that is asked now, or to another one. Raises Unreachable."""
        known = self._brokers()
        if self._asked not in known:
            self._asked = None
        oldest_s = asyncio.get_running_loop().time() - IDLE_S
        while self._idle:
            line = self._idle.pop()
            if line.address == self._asked and line.since_s > oldest_s and not line.wire.is_closed:
                return line
            await line.wire.close()
        problems = []
        for address in sorted(known, key=lambda each: each != self._asked):
            try:
                wire = await self._connected(address)
            except _LOST as error:
                problems.append(f"{words(address)}: {error or 'no answer'}")
            else:
                self._asked, self.problem = address, None
                return _Line(address, wire, 0.0)
        self.problem = "; ".join(problems) or "no broker of the cluster is up"
        raise Unreachable(self.problem)

    async def _connected(self, address: Address) -> Wire:
        wire, versions = await self._connect(address)
        try:
            version = version_of("api_versions", versions, (4, 3))
            answer = {} if version is None else await wire.call("api_versions", version, **SOFTWARE)
        except BaseException:
            await wire.close()
            raise
        self.offered = Offered(versions, answer.get("supported_features", ()))
        return wire
