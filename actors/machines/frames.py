"""What machines say to each other, as bytes: a greeting in which both prove that they know the machines'
secret, then frames that each carry a proof of their own.

A frame carries a pickled value, as Ray's calls do: whoever has the secret may run code here. Nobody else gets
as far as a pickle: a frame is read only if its tag fits the session's key and its place in the session.
"""

from __future__ import annotations

import asyncio
import hmac
import pickle
import secrets
import struct
from typing import Any, Final

MAGIC: Final = b"groupd machine 1\n"
NONCE_BYTES: Final = 32
TAG_BYTES: Final = 32
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest value: what a backup's piece or a tier's metadata takes, many times over."""
GREETING_TIMEOUT_S: Final = 5.0
_LENGTH: Final = struct.Struct(">I")
_CLIENT, _SERVER = b"client", b"server"


class GreetingError(ConnectionError):
    """Raised if the other side does not have the secret, or is no machine of a tier."""


class Frames:
    """The two directions of a connection whose greeting is done."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes, *, is_client: bool
    ) -> None:
        self._reader, self._writer, self._key = reader, writer, key
        self._mine, self._theirs = (_CLIENT, _SERVER) if is_client else (_SERVER, _CLIENT)
        self._sent = self._received = 0

    def send(self, value: Any) -> None:
        """Write a value; it is not waited for. Raises ValueError if it is too large."""
        data = pickle.dumps(value)
        if len(data) > FRAME_BYTES_MAX:
            raise ValueError(f"{len(data)} bytes are more than a frame may have ({FRAME_BYTES_MAX})")
        self._writer.write(_LENGTH.pack(len(data)) + self._tag(self._mine, self._sent, data) + data)
        self._sent += 1

    async def receive(self) -> Any:
        """Return the next value. Raises ConnectionError, IncompleteReadError when the connection ends."""
        length = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))[0]
        if length > FRAME_BYTES_MAX:
            raise ConnectionError(f"a frame of {length} bytes is too large")
        tag = await self._reader.readexactly(TAG_BYTES)
        data = await self._reader.readexactly(length)
        if not hmac.compare_digest(tag, self._tag(self._theirs, self._received, data)):
            raise ConnectionError("a frame is not from who it says")
        self._received += 1
        return pickle.loads(data)  # noqa: S301 (its tag is right: it comes from who has the secret)

    def close(self) -> None:
        self._writer.close()

    def _tag(self, side: bytes, number: int, data: bytes) -> bytes:
        return hmac.digest(self._key, b"%b %d " % (side, number) + data, "sha256")


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes) -> Frames:
    """Begin a connection as the one who opened it. Raises GreetingError, TimeoutError."""
    async with asyncio.timeout(GREETING_TIMEOUT_S):
        nonce = secrets.token_bytes(NONCE_BYTES)
        writer.write(MAGIC + nonce)
        theirs = await _read(reader, len(MAGIC) + NONCE_BYTES + TAG_BYTES)
        if not theirs.startswith(MAGIC):
            raise GreetingError("what answers is no machine of a tier")
        other, proof = theirs[len(MAGIC) : -TAG_BYTES], theirs[-TAG_BYTES:]
        if not hmac.compare_digest(proof, _proof(secret, _SERVER, nonce, other)):
            raise GreetingError("it has another secret")
        writer.write(_proof(secret, _CLIENT, nonce, other))
        return Frames(reader, writer, _proof(secret, b"key", nonce, other), is_client=True)


async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes) -> Frames:
    """Begin a connection as the one who was called. Raises GreetingError, TimeoutError."""
    async with asyncio.timeout(GREETING_TIMEOUT_S):
        theirs = await _read(reader, len(MAGIC) + NONCE_BYTES)
        if not theirs.startswith(MAGIC):
            raise GreetingError("what calls is no machine of a tier")
        nonce, other = theirs[len(MAGIC) :], secrets.token_bytes(NONCE_BYTES)
        writer.write(MAGIC + other + _proof(secret, _SERVER, nonce, other))
        proof = await _read(reader, TAG_BYTES)
        if not hmac.compare_digest(proof, _proof(secret, _CLIENT, nonce, other)):
            raise GreetingError("it has another secret")
        return Frames(reader, writer, _proof(secret, b"key", nonce, other), is_client=False)


async def _read(reader: asyncio.StreamReader, count: int) -> bytes:
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError:
        raise GreetingError("it closed the connection: it may have another secret") from None


def _proof(secret: bytes, side: bytes, nonce: bytes, other: bytes) -> bytes:
    return hmac.digest(secret, b"%b %b%b" % (side, nonce, other), "sha256")
