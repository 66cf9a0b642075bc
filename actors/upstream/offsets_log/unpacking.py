"""The records of a compressed batch, never more than a bound of them. PURE.

Kafka's brokers compress their internal topics with offsets.topic.compression.codec, which is none by default.
Libraries are loaded with the first batch that needs them.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from actors.ground.limits import UNPACKED_BYTES_MAX

_NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_GZIP_WINDOW: Final = 31
_XERIAL: Final = b"\x82SNAPPY\0"
"""How the frames begin in which Java's snappy streams put their blocks."""
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_LENGTH: Final = struct.Struct(">i")


class Unpackable(Exception):
    """Raised if records cannot be unpacked; the text says what is wrong with them."""


def unpack(packed: bytes, codec: int) -> bytes:
    """Return the records of a batch. Raises Unpackable."""
    name = _NAMES.get(codec)
    if name is None:
        raise Unpackable(
            f"they are compressed by codec {codec}, and this release reads {', '.join(_NAMES.values())}"
        )
    try:
        return _gzip(packed) if name == "gzip" else _by_arrow(packed, name)
    except (zlib.error, OSError, struct.error, IndexError) as error:
        raise Unpackable(f"their {name} compression is damaged: {error}") from None


def _gzip(packed: bytes) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    unpacked = stream.decompress(packed, UNPACKED_BYTES_MAX)
    if stream.unconsumed_tail:
        raise _too_large()
    if not stream.eof:
        raise Unpackable("their gzip compression ends early")
    return unpacked


def _by_arrow(packed: bytes, name: str) -> bytes:
    try:
        import pyarrow as arrow
    except ImportError:
        raise Unpackable(f"they are compressed by {name}, which needs pyarrow: install it") from None
    if not arrow.Codec.is_available(name):
        raise Unpackable(f"they are compressed by {name}, which this build of pyarrow does not know")
    if name == "snappy":
        return _snappy(packed, arrow.Codec(name))
    with arrow.input_stream(arrow.BufferReader(packed), compression=name) as stream:
        unpacked: bytes = stream.read(UNPACKED_BYTES_MAX + 1)
    if len(unpacked) > UNPACKED_BYTES_MAX:
        raise _too_large()
    return unpacked


def _snappy(packed: bytes, codec: object) -> bytes:
    """Snappy has no frames of its own: one block, or several as Java's streams frame them."""
    if not packed.startswith(_XERIAL):
        return _block(packed, codec, UNPACKED_BYTES_MAX)
    out = bytearray()
    at = _XERIAL_HEADER_BYTES
    while at < len(packed):
        (length,) = _BLOCK_LENGTH.unpack_from(packed, at)
        at += _BLOCK_LENGTH.size
        if not 0 <= length <= len(packed) - at:
            raise Unpackable(f"a snappy block of {length} bytes does not end within them")
        out += _block(packed[at : at + length], codec, UNPACKED_BYTES_MAX - len(out))
        at += length
    return bytes(out)


def _block(block: bytes, codec: object, bytes_max: int) -> bytes:
    """Unpack one block, which begins with its size."""
    size_bytes = shift = at = 0
    while True:
        octet = block[at]
        size_bytes |= (octet & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if octet < 0x80:
            break
    if size_bytes > bytes_max:
        raise _too_large()
    unpacked: bytes = codec.decompress(block, decompressed_size=size_bytes, asbytes=True)  # type: ignore[attr-defined]
    return unpacked


def _too_large() -> Unpackable:
    return Unpackable(f"they have more than {UNPACKED_BYTES_MAX} bytes, which is the most that is unpacked")
