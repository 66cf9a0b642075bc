"""The addresses at which replicas listen: "unix:<path>" or "<host>:<port>"."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from typing import Any, Final

BACKLOG: Final = 128


async def resolve(loop: asyncio.AbstractEventLoop, address: str) -> tuple[int, Any]:
    """Return the socket family, and the address as the socket module wants it. Raises ValueError, OSError."""
    if address.startswith("unix:"):
        return socket.AF_UNIX, address.removeprefix("unix:")
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal():
        raise ValueError(f"address {address!r} is neither unix:<path> nor <host>:<port>")
    found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    return found[0][0], found[0][4]


def listen(family: int, address: Any) -> socket.socket:
    """Open a socket that listens at `address`. Raises OSError."""
    if family == socket.AF_UNIX:
        _remove_stale_socket(address)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_stale_socket(path: str) -> None:
    """Remove the socket file that a killed process left. Two live replicas cannot meet here: the journal's
    directory is locked."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
