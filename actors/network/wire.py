"""A raw Kafka client, which sends any API in any version, as plain dicts, over one socket.

Commands, benchmarks and tests use it that must send exactly what they mean to send. Fields are given and
returned under kio's names, except that durations are plain milliseconds and UUIDs and errors plain values.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import io
import math
import ssl
import struct
import types
import typing
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta, i64Timedelta

from actors.ground.limits import FRAME_BYTES_MAX
from actors.protocol.schema_classes import Kind, classes

CLOSE_TIMEOUT_S: Final = 1.0
"""How long, in seconds, the other end may take to say goodbye, as it has to by TLS: who is frozen or cut off
never does."""


class Closed(Exception):
    """Raised if the server closed the connection instead of answering, or if its answer is too large."""


FindClass = Callable[[str, int, Kind], Any]
"""A function that finds a message's class, as `message_class` does."""


@cache
def message_class(api: str, version: int, kind: Kind) -> Any:
    """Return the class of `api` ("join_group"): kio's, or one like kio's. Raises UnsupportedRequest."""
    name = "".join(part.capitalize() for part in api.split("_")) + kind.capitalize()
    return getattr(classes(api, version, kind), name)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def from_plain(cls: Any, fields: dict[str, Any]) -> Any:
    """Build kio's entity from plain values; names that the version lacks are an error."""
    hints = _hints(cls)
    unknown = set(fields) - {field.name for field in dataclasses.fields(cls)}
    if unknown:
        raise TypeError(f"{cls.__module__} has no field {sorted(unknown)}")
    return cls(**{name: _typed(hints[name], value) for name, value in fields.items()})


def _typed(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return tuple(_typed(item, each) for each in value)
    if dataclasses.is_dataclass(hint):
        return from_plain(hint, value)
    if hint in (i32Timedelta, i64Timedelta):
        return hint.parse(datetime.timedelta(milliseconds=value))
    return value


def to_plain(value: Any) -> Any:
    """Return an entity as plain values: dicts, lists, ints, strings, bytes."""
    if dataclasses.is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    return value


def request_frame(
    api: str, version: int, correlation_id: int, client_id: str, fields: dict[str, Any]
) -> bytes:
    """Return a whole request frame, length prefix included."""
    return frame_of(message_class(api, version, "request"), correlation_id, client_id, fields)


def frame_of(cls: Any, correlation_id: int, client_id: str, fields: dict[str, Any]) -> bytes:
    """Return a whole frame of a message of this class, length prefix included. An answer's header has the
    correlation id alone, so that `client_id` says nothing there."""
    header_class = cls.__header_schema__
    header = {"request_api_key": cls.__api_key__, "request_api_version": cls.__version__}
    header |= {"correlation_id": correlation_id, "client_id": client_id}
    known = {field.name for field in dataclasses.fields(header_class)}
    buffer = io.BytesIO()
    plain = {name: value for name, value in header.items() if name in known}
    entity_writer(header_class)(buffer, from_plain(header_class, plain))
    entity_writer(cls)(buffer, from_plain(cls, fields))
    body = buffer.getvalue()
    return struct.pack(">i", len(body)) + body


def parse_answer(api: str, version: int, payload: bytes) -> tuple[int, dict[str, Any]]:
    """Return the correlation id and the fields of an answer without its length prefix."""
    return parsed(message_class(api, version, "response"), payload)


def parsed(cls: Any, payload: bytes) -> tuple[int, dict[str, Any]]:
    """Return an answer of this class, as `parse_answer` does."""
    header, offset = entity_reader(cls.__header_schema__)(payload, 0)
    entity, _ = entity_reader(cls)(payload, offset)
    return header.correlation_id, to_plain(entity)


class Wire:
    """One connection, made by `await Wire.connect(host, port)`; then `await wire.call("heartbeat", 4,
    ...)`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0
        self.find: FindClass = message_class
        """What finds the classes of messages."""
        self._renew: Callable[[], Awaitable[None]] | None = None
        self._renew_at_s = math.inf

    @classmethod
    async def connect(
        cls, host: str, port: int, client_id: str = "wire", *, tls: ssl.SSLContext | None = None
    ) -> Wire:
        """Open a connection. Raises OSError."""
        return cls(*await asyncio.open_connection(host, port, ssl=tls), client_id)

    async def call(self, api: str, version: int, /, timeout_s: float = 30.0, **fields: Any) -> dict[str, Any]:
        """Send one request and return its answer's fields. Raises Closed, TimeoutError, and what `renewed`
        raises."""
        await self.renewed()
        self._correlation_id += 1
        frame = frame_of(self.find(api, version, "request"), self._correlation_id, self._client_id, fields)
        async with asyncio.timeout(timeout_s):  # wait_for of Python 3.11 may swallow a cancellation
            payload = await self._exchange(frame)
        correlation_id, answer = parsed(self.find(api, version, "response"), payload)
        assert correlation_id == self._correlation_id, "answers must come in order"
        return answer

    def renew_after(self, seconds: float, renew: Callable[[], Awaitable[None]]) -> None:
        """Have `renew` authenticate this connection again, before the first request after that time: a server
        hangs up at a request that comes after an authentication has expired (KIP-368)."""
        self._renew, self._renew_at_s = renew, asyncio.get_running_loop().time() + seconds

    async def renewed(self) -> None:
        """Authenticate again if that is due. Raises OSError if it is refused."""
        if self._renew is not None and asyncio.get_running_loop().time() >= self._renew_at_s:
            self._renew_at_s = math.inf
            await self._renew()

    @property
    def is_closed(self) -> bool:
        """Return whether the other end has closed the connection, and all that it sent is read."""
        return self._reader.at_eof()

    async def send_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read_frame(self) -> bytes:
        """Return the next answer without its length prefix."""
        try:
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            if not 0 <= size <= FRAME_BYTES_MAX:
                raise Closed(f"an answer of {size} bytes, which is not read")
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Closed from error

    async def _exchange(self, frame: bytes) -> bytes:
        try:
            await self.send_raw(frame)
        except ConnectionError as error:
            raise Closed from error
        return await self.read_frame()

    async def close(self) -> None:
        """Close the connection; one that is broken already is as good as closed, and so is one whose other
        end is silent."""
        self._writer.close()
        try:
            with contextlib.suppress(OSError):  # a TimeoutError is one
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._writer.wait_closed()
        finally:
            self._writer.transport.abort()
