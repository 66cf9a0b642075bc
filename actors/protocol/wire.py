"""Read and write Kafka's primitive types on the wire, without trust in what is read.

A reader takes `(frame, at)` and returns the value and the offset after it. Every length is checked against
the frame before anything is allocated or looped over, as Kafka's generated readers do: a count of 2^31 in a
frame of ten bytes must cost nothing. A reader that runs off the end raises IndexError, struct.error or
MalformedRequest; whoever calls turns the first two into the third (`CUT_SHORT`).

Strings that are no UTF-8 are accepted, as Kafka does (W13): what cannot be read becomes U+FFFD.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from actors.protocol.errors import MalformedRequest

Reader = Callable[[bytes, int], tuple[Any, int]]

CUT_SHORT: Final = (IndexError, struct.error)
STRING_BYTES_MAX: Final = 0x7FFF
"""The most bytes of a string: Kafka refuses longer ones in compact form too, where the length could say
more."""
VARINT_BYTES_MAX: Final = 5
INT32_MAX: Final = 0x7FFF_FFFF

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


def read_uvarint(frame: bytes, at: int) -> tuple[int, int]:
    value = frame[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for place in range(1, VARINT_BYTES_MAX):
        byte = frame[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if value > INT32_MAX:
                raise MalformedRequest("a length above 2^31")
            return value, at + place + 1
    raise MalformedRequest("a varint of more than five bytes")


def uvarint(value: int) -> bytes:
    """Return the bytes of an unsigned varint, 0 to 2^31 - 1."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_compact_length(frame: bytes, at: int) -> tuple[int, int]:
    """Read a compact length; -1 stands for null."""
    value, at = read_uvarint(frame, at)
    return value - 1, at


def read_int16_length(frame: bytes, at: int) -> tuple[int, int]:
    return _INT16.unpack_from(frame, at)[0], at + 2


def read_int32_length(frame: bytes, at: int) -> tuple[int, int]:
    return _INT32.unpack_from(frame, at)[0], at + 4


def _text(raw: bytes) -> str:
    if len(raw) > STRING_BYTES_MAX:
        raise MalformedRequest("a string of more than 32767 bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
        # One bad byte becomes a character of three bytes: what could not be written back must not come in.
        if len(text.encode()) > STRING_BYTES_MAX:
            raise MalformedRequest("a string that is no UTF-8 and too long to repair") from None
        return text


def _sized(read_length: Reader, convert: Callable[[bytes], Any] | None, nullable: bool) -> Reader:
    def read(frame: bytes, at: int) -> tuple[Any, int]:
        length, at = read_length(frame, at)
        if length < 0:
            # Any negative length is null to Kafka, not only -1 (W13).
            if nullable:
                return None, at
            raise MalformedRequest("null where the schema allows none")
        end = at + length
        if end > len(frame):
            raise MalformedRequest("a length beyond the end of the frame")
        raw = frame[at:end]
        return (raw if convert is None else convert(raw)), end

    return read


def string_reader(flexible: bool, nullable: bool) -> Reader:
    return _sized(read_compact_length if flexible else read_int16_length, _text, nullable)


def bytes_reader(flexible: bool, nullable: bool) -> Reader:
    return _sized(read_compact_length if flexible else read_int32_length, None, nullable)


def read_count(frame: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Read an array's length, negative for null, never more than the bytes that are left."""
    count, at = (read_compact_length if flexible else read_int32_length)(frame, at)
    if count > len(frame) - at:
        raise MalformedRequest("an array longer than the rest of the frame")
    return count, at


def array_reader(read_element: Reader, flexible: bool, nullable: bool) -> Reader:
    def read(frame: bytes, at: int) -> tuple[Any, int]:
        count, at = read_count(frame, at, flexible)
        if count < 0:
            if nullable:
                return None, at
            raise MalformedRequest("null where the schema allows none")
        elements = []
        for _ in range(count):
            element, at = read_element(frame, at)
            elements.append(element)
        return tuple(elements), at

    return read


def int32_array_reader(flexible: bool, nullable: bool) -> Reader:
    def read(frame: bytes, at: int) -> tuple[Any, int]:
        count, at = read_count(frame, at, flexible)
        if count < 0:
            if nullable:
                return None, at
            raise MalformedRequest("null where the schema allows none")
        end = at + 4 * count
        if end > len(frame):
            raise MalformedRequest("an array longer than the rest of the frame")
        return struct.unpack(f">{count}i", frame[at:end]), end

    return read


def skip_tags(frame: bytes, at: int) -> int:
    """Return the offset after a tag section whose tags nobody knows (W13: unordered and repeated is fine)."""
    if frame[at] == 0:
        return at + 1
    count, at = read_uvarint(frame, at)
    for _ in range(count):
        _, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        at += size
        if at > len(frame):
            raise MalformedRequest("a tag longer than the rest of the frame")
    return at


def compact_string(text: str | None) -> bytes:
    """Return a nullable string of a flexible version."""
    if text is None:
        return b"\0"
    raw = text.encode()
    size = len(raw) + 1
    return (_ONE_BYTE[size] if size < 0x80 else uvarint(size)) + raw


def legacy_string(text: str | None) -> bytes:
    """Return a nullable string of a version that is not flexible. It may have 32,767 bytes at most; raises
    struct.error."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def compact_bytes(raw: bytes | None) -> bytes:
    return b"\0" if raw is None else uvarint(len(raw) + 1) + raw


def legacy_bytes(raw: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if raw is None else _INT32.pack(len(raw)) + raw


def compact_count(count: int) -> bytes:
    return uvarint(count + 1)


def legacy_count(count: int) -> bytes:
    return _INT32.pack(count)
