"""What a connection needs of those around it: of its table, and of who reads its socket in the place of its
transport; and how a socket is cut off by another thread."""

from __future__ import annotations

import _socket
import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any, Protocol

from actors.ground.identity import ClientIdentity
from actors.network.pace import Pace
from actors.network.quota import ConnectionLimits

Released = Callable[[socket.socket, bytes], object]
"""A function that takes over the socket (non-blocking) and the bytes that were read from it and not
served."""


class Table(Protocol):
    """What a connection needs of the `ConnectionTable` that it stands in."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def limits(self) -> ConnectionLimits: ...
    @property
    def pace(self) -> Pace: ...

    def forget(self, connection: Any) -> None:
        """Learn that the connection is no longer here."""

    def gone(self, identity: ClientIdentity) -> None:
        """Learn that the connection has ended."""


class Reader(Protocol):
    """What reads the socket of one connection in the place of the event loop, and may answer a frame that it
    knows. All calls are on the loop's thread."""

    def has_spoken(self) -> bool:
        """Return whether a frame was answered since this was asked last."""

    def is_ready(self) -> None:
        """Learn that the connection owes no answer any more. The last one may still be on its way."""

    def taken_back(self) -> None:
        """Leave the socket alone from now on. It is still open."""


class PlainSocket(socket.socket):
    """A socket whose family and type are plain numbers: the enumerations that the library makes of them,
    whenever somebody looks, cost as much as reading a request. One that listens looks for each client."""

    family = _socket.socket.family  # type: ignore[assignment]
    type = _socket.socket.type  # type: ignore[assignment]


def cut_off(sock: Any) -> None:
    """End a connection from another thread than the loop's, which hangs: both sides find its end. A socket
    that is gone already is left alone."""
    with contextlib.suppress(OSError), duplicate(sock) as own:
        own.shutdown(socket.SHUT_RDWR)


def duplicate(sock: Any) -> socket.socket:
    """Return a second descriptor of the same connection, non-blocking. uvloop's socket object cannot be used
    itself: it is closed with its transport. Raises OSError when the process has no descriptor left."""
    own = socket.socket(sock.family, sock.type, sock.proto, fileno=os.dup(sock.fileno()))
    own.setblocking(False)
    return own
