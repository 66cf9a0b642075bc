"""Bytes that no Kafka client should send, by what is wrong with them."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Mapping

from actors.network.wire import request_frame

METADATA = 3
HEARTBEAT = 12
API_VERSIONS = 18
CREATE_TOPICS = 19
FRAME_BYTES_MAX = 100 * 1024 * 1024
"""The largest frame that is taken: Kafka's default of socket.request.max.bytes."""
CORRELATION_ID = 7


def header(api_key: int, api_version: int, rest: bytes = b"") -> bytes:
    """A whole frame with request header 1 and `rest` for its body."""
    return framed(struct.pack(">hhih3s", api_key, api_version, CORRELATION_ID, 3, b"bad") + rest)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def cut(frame: bytes, count: int) -> bytes:
    """The frame without its last `count` bytes, with the length that then is right."""
    return framed(frame[4:-count])


def tls_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake without a server cannot end")


_HEARTBEAT = request_frame("heartbeat", 4, 1, "bad", {"group_id": "g", "generation_id": 1, "member_id": "m"})
_LIST_OFFSETS = request_frame(
    "list_offsets",
    1,
    1,
    "bad",
    {
        "replica_id": -1,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    },
)

FATAL: Mapping[str, bytes] = {
    "unknown API": header(9999, 0),
    "negative API": header(-1, 0),
    "version above the highest": header(METADATA, 99),
    "version below the lowest": header(CREATE_TOPICS, -1),
    "header alone": struct.pack(">ihhi", 8, METADATA, 1, CORRELATION_ID),
    "client id beyond the frame": framed(struct.pack(">hhih", METADATA, 1, CORRELATION_ID, 1000)),
    "group request cut short": cut(_HEARTBEAT, 4),
    "partition request cut short": cut(_LIST_OFFSETS, 6),
    "body missing": header(HEARTBEAT, 0),
    "array longer than the frame": header(METADATA, 1, struct.pack(">i", 2**31 - 1)),
    "string longer than the frame": header(HEARTBEAT, 0, struct.pack(">h", 2**15 - 1)),
    "null where none may be": header(HEARTBEAT, 0, struct.pack(">hih", -1, 1, -1)),
    "compact length that never ends": header(HEARTBEAT, 4, b"\x00" + b"\xff" * 12),
    "tags missing": cut(_HEARTBEAT, 1),
    "tags beyond the frame": header(HEARTBEAT, 4, b"\x01\x05\xff\xff\xff\xff\x07"),
    "length above the limit": struct.pack(">i", FRAME_BYTES_MAX + 1) + b"\0" * 64,
    "largest length": struct.pack(">i", 2**31 - 1),
    "negative length": struct.pack(">i", -1),
    "most negative length": struct.pack(">i", -(2**31)),
    "length zero": struct.pack(">i", 0) + _HEARTBEAT,
    "length below a header": struct.pack(">i", 7) + b"\0" * 7,
    "noise": b"\xa5" + random.Random(848).randbytes(4096),
    "TLS": tls_hello(),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}
"""Frames after each of which Kafka closes the connection without an answer (W13)."""
