"""Light connections for members that behave: requests as bytes, answers in order, one task a member.

What is asked in the thousands is packed by hand by `bench.member.requests`; `call` is for the rest.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from actors.network.wire import Closed, parse_answer, request_frame
from actors.protocol.wire import legacy_string
from bench.member.requests import Request, api_versions, find_coordinator

Address = tuple[str, int]

CONNECTING_MAX: Final = 10
"""How many connections are opened at once: servers listen with short queues."""
ANSWER_TIMEOUT_S: Final = 60.0
RETRY_S: Final = 0.1
NOT_YET: Final = frozenset({14, 15, 16})
"""The error codes of a coordinator that is loading, does not exist yet, or is another one."""
GROUPS_ASKED: Final = 40
"""How many groups are looked up, so that every offsets partition is among them."""
CORRELATION_ID: Final = 1
_HEADER: Final = struct.Struct(">ihhi")
_ERROR_AT: Final = 8
CLIENT_ID: Final = "bench"
CLIENT: Final = legacy_string(CLIENT_ID)


def framed(request: Request) -> bytes:
    """A whole frame; the correlation id is always the same: answers come in order."""
    head = CLIENT + b"\0" if request.is_flexible else CLIENT
    size = 8 + len(head) + len(request.body)
    return _HEADER.pack(size, request.api_key, request.version, CORRELATION_ID) + head + request.body


class Line(asyncio.Protocol):
    """A connection."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._buffer = b""
        self._asked: deque[asyncio.Future[bytes]] = deque()
        self._lost = asyncio.Event()
        self.requests = 0

    @classmethod
    async def open(cls, address: Address) -> Line:
        """Open a connection. Raises OSError."""
        _, line = await asyncio.get_running_loop().create_connection(lambda: cls(address), *address)
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._lost.clear()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        at = 0
        while len(buffer) - at >= 4:
            end = at + 4 + struct.unpack_from(">i", buffer, at)[0]
            if len(buffer) < end:
                break
            answer = self._asked.popleft()
            if not answer.done():
                answer.set_result(buffer[at + 4 : end])
            at = end
        self._buffer = buffer[at:]

    def connection_lost(self, error: Exception | None) -> None:
        self._lost.set()
        while self._asked:
            answer = self._asked.popleft()
            if not answer.done():
                answer.set_exception(Closed())
                answer.exception()  # the exception is retrieved: who no longer waits need not hear of it

    def ask(self, frame: bytes) -> asyncio.Future[bytes]:
        """Send a frame. Returns the answer without its length, which begins with the correlation id. Raises
        Closed."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._lost.is_set():
            answer.set_exception(Closed())
            return answer
        self._asked.append(answer)
        self.requests += 1
        self._transport.write(frame)
        return answer

    async def call(self, api: str, version: int, /, **fields: Any) -> dict[str, Any]:
        """Send any request, and return the answer, as plain dicts. Raises Closed, TimeoutError."""
        asked = self.ask(request_frame(api, version, CORRELATION_ID, CLIENT_ID, fields))
        return parse_answer(api, version, await asyncio.wait_for(asked, ANSWER_TIMEOUT_S))[1]

    async def follow(self, group_id: str) -> None:
        """Connect to the group's coordinator of now, which the old one tells. Raises Closed, OSError."""
        at = found_at(await self.ask(find_frame(group_id)))
        if isinstance(at, int) or at == self.address:
            return
        self._transport.abort()
        await self._lost.wait()
        self._buffer, self.address = b"", at
        await asyncio.get_running_loop().create_connection(lambda: self, *at)

    def close(self) -> None:
        self._transport.abort()


def find_frame(group_id: str) -> bytes:
    return framed(find_coordinator(group_id))


def found_at(answer: bytes) -> Address | int:
    """Read the answer to FindCoordinator v2: the coordinator's address, or the error."""
    error, message_bytes = struct.unpack_from(">hh", answer, _ERROR_AT)
    if error:
        return int(error)
    at = _ERROR_AT + 4 + max(message_bytes, 0) + 4
    (host_bytes,) = struct.unpack_from(">h", answer, at)
    host = answer[at + 2 : at + 2 + host_bytes].decode()
    return host, struct.unpack_from(">i", answer, at + 2 + host_bytes)[0]


async def coordinators(bootstrap: Address, groups: Iterable[str]) -> dict[str, Address]:
    """The address of each group's coordinator. Raises RuntimeError if there is none."""
    line = await Line.open(bootstrap)
    found = {}
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            asked = {group: line.ask(find_frame(group)) for group in groups}
            for group, answer in asked.items():
                at = found_at(await answer)
                if isinstance(at, int):
                    raise RuntimeError(f"no coordinator for {group}: error {at}")
                found[group] = at
    finally:
        line.close()
    return found


async def unready(nodes: Sequence[Address]) -> str:
    """What does not answer yet in a cluster of these nodes, in words; empty if every offsets partition
    answers. Kafka makes them when the first group is looked up."""
    lines: dict[Address, Line] = {}
    try:
        for address in nodes:
            lines[address] = await Line.open(address)
        for number in range(GROUPS_ASKED):
            asked = lines[nodes[number % len(nodes)]]
            found = await asked.call("find_coordinator", 2, key=f"ready-{number}", key_type=0)
            if found["error_code"] in NOT_YET:
                return f"FindCoordinator: error {found['error_code']}"
            node = (found["host"], found["port"])
            if node not in lines:
                lines[node] = await Line.open(node)
            fetched = await lines[node].call("offset_fetch", 5, group_id=f"ready-{number}", topics=None)
            if fetched["error_code"] in NOT_YET:
                return f"OffsetFetch: error {fetched['error_code']}"
    except (OSError, Closed, TimeoutError) as error:
        return f"{type(error).__name__} {error}"
    finally:
        for line in lines.values():
            line.close()
    return ""


async def open_all(addresses: Iterable[Address]) -> list[Line]:
    """Open a connection to each address, a few at once, and ask for ApiVersions on it as every client does: a
    server may refuse many silent ones."""
    lines: list[Line] = []
    waiting = list(addresses)
    for first in range(0, len(waiting), CONNECTING_MAX):
        some = waiting[first : first + CONNECTING_MAX]
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            opened = await asyncio.gather(*(Line.open(address) for address in some))
            await asyncio.gather(*(line.ask(framed(api_versions(0, None))) for line in opened))
        lines += opened
    return lines
