"""One load generator: `python -m bench.peers.generator`, a process of its own around raw sockets and epoll.

A line of JSON comes in: {"targets": [[host, port, api, version, [frames, base64], [frames that open the
connection], [first, stride, count] of numbers in its frame that rise with each request, or null]], "rate": a
second, or null for a closed loop}. Every connection is made and its first answer
read whole and checked; then {"ready": true} goes out, {"from": s, "until": s} (CLOCK_MONOTONIC, which all
processes of a machine share) comes in, and the load runs at once until then. What is answered from `from` on
counts; the counts go out as a line of JSON, and the next load may come in.

It must never be the bottleneck: each further answer is compared with the first as bytes, and only one that
differs is decoded, to count the errors in it. It reports its own share of a core.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import resource
import select
import socket
import struct
import sys
import time
from collections import deque
from typing import Any, Final

from actors.network.wire import parse_answer

READ_BYTES: Final = 256 * 1024
CONNECTING_MAX: Final = 50
"""How many connections are opened at once: servers listen with short queues."""
ANSWER_TIMEOUT_S: Final = 30.0
LATENCY_EVERY: Final = 16
"""One request of so many has its latency kept in a closed loop, which has too many to keep all."""
LATENCIES_MAX: Final = 1_000_000


class Connection:
    """A connection that sends its frames again and again. `expected` is its first answer, length included."""

    __slots__ = (
        *("_api", "_buffer", "_frames", "_next", "_rising", "_version"),
        *("errors", "expected", "sent", "socket"),
    )

    def __init__(
        self, place: tuple[str, int], api: str, version: int, frames: list[str], rising: list[int] | None
    ) -> None:
        self.socket = socket.create_connection(place, ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._api = api
        self._version = version
        self._frames = [bytearray(base64.b64decode(frame)) for frame in frames]
        self._next = 0
        self._rising = () if rising is None else _columns(*rising)
        self._buffer = b""
        self.expected = b""
        self.sent: deque[float] = deque()
        """When each request that is under way was sent, or was due."""
        self.errors = 0

    def open(self, frames: list[str]) -> None:
        """Send frames whose answers nobody looks at."""
        for frame in frames:
            self.socket.sendall(base64.b64decode(frame))
            self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def send(self, at: float) -> None:
        frame = self._frames[self._next]
        self._next = (self._next + 1) % len(self._frames)
        if self._rising:
            # The clock is the same for all generators: whoever sends later sends more.
            for byte, (column, count) in zip(time.monotonic_ns().to_bytes(8), self._rising, strict=True):
                frame[column] = bytes((byte,)) * count
        self.sent.append(at)
        if self.socket.send(frame) != len(frame):
            raise OSError("the server does not read what it is sent")

    def prove(self) -> None:
        """Read the first answer and look for errors in it."""
        head = self._exactly(4)
        self.expected = head + self._exactly(struct.unpack(">i", head)[0])
        self.sent.popleft()
        codes = self._codes(self.expected)
        if codes:
            raise OSError(f"the first answer carries error {codes[0]}")
        self.socket.setblocking(False)

    def take(self, data: bytes) -> int:
        """Take bytes. Returns the answers that are whole now."""
        if data == self.expected:
            return 1
        if not data:
            raise OSError("the server hung up")
        self._buffer += data
        taken, size = 0, len(self.expected)
        while len(self._buffer) >= 4:
            if self._buffer.startswith(self.expected):
                self._buffer = self._buffer[size:]
            else:
                end = 4 + struct.unpack_from(">i", self._buffer)[0]
                if len(self._buffer) < end:
                    break
                self.errors += bool(self._codes(self._buffer[:end]))
                self._buffer = self._buffer[end:]
            taken += 1
        return taken

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise OSError("the server hung up")
            data += more
        return data

    def _codes(self, frame: bytes) -> list[int]:
        return error_codes(parse_answer(self._api, self._version, frame[4:])[1])


def _columns(first: int, stride: int, count: int) -> tuple[tuple[slice, int], ...]:
    """Return where the first bytes of all these numbers stand in their frame, the second ones, and so on."""
    end = first + stride * (count - 1) + 1
    return tuple((slice(first + place, end + place, stride), count) for place in range(8))


def error_codes(answer: Any) -> list[int]:
    """Every error code above or below zero, at any depth of an answer."""
    if isinstance(answer, dict):
        own = [int(answer["error_code"])] if answer.get("error_code") else []
        return own + [code for value in answer.values() for code in error_codes(value)]
    if isinstance(answer, list):
        return [code for value in answer for code in error_codes(value)]
    return []


class Load:
    """The counts of one run."""

    def __init__(self, connections: list[Connection], start: float, until: float) -> None:
        self.by_fd = {connection.socket.fileno(): connection for connection in connections}
        self.start = start
        self.until = until
        self.requests = 0
        self.sent = 0
        self.latencies_us: list[int] = []
        self.poll = select.epoll()
        for fd in self.by_fd:
            self.poll.register(fd, select.EPOLLIN)

    def read(self, fd: int, every: int) -> Connection | None:
        """Count what this connection has; returns it if that was at least one answer."""
        connection = self.by_fd[fd]
        try:
            data = connection.socket.recv(READ_BYTES)
        except BlockingIOError:
            return None
        taken = connection.take(data)
        if not taken:
            return None
        now = time.monotonic()
        counts = self.start <= now <= self.until
        for _ in range(taken):
            at = connection.sent.popleft()
            if not counts:
                continue
            self.requests += 1
            if self.requests % every == 0 and len(self.latencies_us) < LATENCIES_MAX:
                self.latencies_us.append(int((now - at) * 1e6))
        return connection

    def closed(self) -> None:
        """Run a closed loop: each connection has one request under way, and sends the next one at once."""
        for connection in self.by_fd.values():
            connection.send(time.monotonic())
        while (now := time.monotonic()) < self.until:
            for fd, _ in self.poll.poll(self.until - now):
                answered = self.read(fd, LATENCY_EVERY)
                if answered is not None:
                    answered.send(time.monotonic())

    def open(self, rate: float) -> None:
        """Run an open loop with a fixed rate over all connections in turn. Latency counts from when a request
        was due."""
        timer = _timer(rate)
        self.poll.register(timer, select.EPOLLIN)
        connections, began = list(self.by_fd.values()), time.monotonic()
        count = due = 0
        try:
            while (now := time.monotonic()) < self.until:
                for fd, _ in self.poll.poll(self.until - now):
                    if fd != timer:
                        self.read(fd, 1)
                        continue
                    os.read(timer, 8)
                    due = int((time.monotonic() - began) * rate)
                while count < due:
                    at = began + (count + 1) / rate
                    connections[count % len(connections)].send(at)
                    count += 1
                    self.sent += self.start <= at <= self.until
        finally:
            os.close(timer)


class _Interval(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


def _timer(rate: float) -> int:
    """Make a timerfd that is readable `rate` times per second: epoll's own time-outs are whole
    milliseconds."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    seconds, fraction = divmod(1 / rate, 1)
    every = _Interval(int(seconds), int(fraction * 1e9), int(seconds), int(fraction * 1e9))
    if fd < 0 or libc.timerfd_settime(fd, 0, ctypes.byref(every), None) != 0:
        raise OSError(ctypes.get_errno(), "no timerfd")
    return fd


def connect(targets: list[list[Any]], connections: list[Connection]) -> None:
    """Open all connections, a few at once, and check the first answer of each."""
    for first in range(0, len(targets), CONNECTING_MAX):
        some = []
        for host, port, api, version, frames, opening, rising in targets[first : first + CONNECTING_MAX]:
            connection = Connection((host, port), api, version, frames, rising)
            connections.append(connection)
            some.append(connection)
            connection.open(opening)
        for connection in some:
            connection.send(0.0)
        for connection in some:
            connection.prove()


def run(connections: list[Connection], rate: float | None, start: float, until: float) -> dict[str, Any]:
    """Drive the connections. Returns the counts."""
    load = Load(connections, start, until)
    began, cpu_before = time.monotonic(), _own_cpu_s()
    if rate is None:
        load.closed()
    else:
        load.open(rate)
    share = (_own_cpu_s() - cpu_before) / (time.monotonic() - began)
    return {
        "requests": load.requests,
        "sent": load.sent,
        "errors": sum(connection.errors for connection in connections),
        "share": share,
        "latencies_us": load.latencies_us,
    }


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def serve(spec: dict[str, Any]) -> dict[str, Any]:
    """Serve one load, from its first line to its counts."""
    connections: list[Connection] = []
    try:
        connect(spec["targets"], connections)
        print(json.dumps({"ready": True}), flush=True)
        times = json.loads(sys.stdin.readline())
        return run(connections, spec["rate"], times["from"], times["until"])
    except OSError as error:
        return {"failed": str(error) or type(error).__name__}
    finally:
        for connection in connections:
            connection.socket.close()


def main() -> None:
    """Serve loads until the input ends."""
    while line := sys.stdin.readline():
        print(json.dumps(serve(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
