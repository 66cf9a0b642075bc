"""The floor server: `python -m bench.peers.floor_server` prints its port and serves until its input ends.

Every frame is decoded by kio as a coordinator would, and answered without an error, whatever it holds.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import threading
from typing import Final, cast

import uvloop
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.offset_commit.v8.request import OffsetCommitRequest
from kio.serial import entity_reader

from actors.protocol.wire import compact_string, uvarint

HEARTBEAT: Final = 12
FRAME: Final = struct.Struct(">ihhih")
"""The beginning of a frame: length, API key and version, correlation id, length of the client id."""
_read_heartbeat = entity_reader(HeartbeatRequest)
_read_commit = entity_reader(OffsetCommitRequest)
_HEARTBEAT_ANSWER: Final = struct.Struct(">iiBihB")
_COMMIT_HEAD: Final = struct.Struct(">iiBi")
_PARTITION_ANSWER: Final = struct.Struct(">ihB")


class Connection(asyncio.Protocol):
    """A connection that answers Heartbeat v4 and OffsetCommit v8, and is closed at any other request."""

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        answers, at = [], 0
        while len(buffer) - at >= FRAME.size:
            length, api_key, version, correlation_id, client_bytes = FRAME.unpack_from(buffer, at)
            if len(buffer) - at < length + 4:
                break
            body = at + FRAME.size + max(client_bytes, 0) + 1
            if (api_key, version) == (HEARTBEAT, 4):
                _read_heartbeat(buffer, body)
                answers.append(_HEARTBEAT_ANSWER.pack(12, correlation_id, 0, 0, 0, 0))
            elif (api_key, version) == (8, 8):
                answers.append(_committed(correlation_id, _read_commit(buffer, body)[0]))
            else:
                self._transport.close()
                return
            at += length + 4
        self._buffer = buffer[at:]
        if answers:
            self._transport.write(b"".join(answers))


def _committed(correlation_id: int, request: OffsetCommitRequest) -> bytes:
    pieces = [uvarint(len(request.topics) + 1)]
    for topic in request.topics:
        pieces += [compact_string(topic.name), uvarint(len(topic.partitions) + 1)]
        pieces += [_PARTITION_ANSWER.pack(partition.partition_index, 0, 0) for partition in topic.partitions]
        pieces.append(b"\0")
    pieces.append(b"\0")
    body = b"".join(pieces)
    return _COMMIT_HEAD.pack(9 + len(body), correlation_id, 0, 0) + body


async def serve() -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    threading.Thread(target=wait_for_the_end, daemon=True).start()
    await ended.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
