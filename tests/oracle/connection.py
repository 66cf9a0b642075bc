"""One socket to a server: whole frames, one after the other, with a deadline for each answer."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time


class Closed(Exception):
    """The server hung up instead of answering."""


class NoAnswer(Exception):
    """Nothing came within the deadline."""


class Connection:
    """Blocking. What arrived of a frame before a deadline is kept for the next try."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=10.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Send bytes. Raises Closed."""
        self._socket.settimeout(10.0)
        try:
            self._socket.sendall(data)
        except ConnectionError as error:
            raise Closed from error

    def receive(self, deadline_s: float) -> bytes:
        """The next frame without its length. Raises Closed, NoAnswer."""
        end = time.monotonic() + deadline_s
        while True:
            if len(self._buffer) >= 4:
                (size,) = struct.unpack_from(">i", self._buffer)
                if len(self._buffer) >= 4 + size:
                    frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
                    return frame
            self._fill(end - time.monotonic())

    def _fill(self, seconds: float) -> None:
        self._socket.settimeout(max(seconds, 0.001))
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            raise NoAnswer from None
        except ConnectionError as error:
            raise Closed from error
        if not data:
            raise Closed
        self._buffer += data

    def has_bytes(self) -> bool:
        """Whether something has come that was not read yet, an end included."""
        return bool(self._buffer) or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._socket.close()


def pause(seconds: float) -> None:
    """Let time pass: between two looks, or where a rule is about time."""
    threading.Event().wait(seconds)
