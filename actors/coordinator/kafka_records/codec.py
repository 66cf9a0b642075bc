"""Read and write the bytes of records of Kafka's internal topics by the tables in `schemas`.

Functions take the table of one topic, which is that of `__consumer_offsets` unless they are given another. In
memory a key or value is a dict of Kafka's names; UUIDs are 16 bytes.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from actors.coordinator.kafka_records.schemas import (
    INT8,
    INT16,
    INT32,
    INT64,
    SCHEMAS,
    STRING,
    STRING_BYTES_MAX,
    UUID,
    UUID_BYTES,
    Array,
    Field,
    Schema,
    Schemas,
    Struct,
)
from actors.protocol.wire import uvarint

_INT16: Final = struct.Struct(">h")
_NUMBERS: Final = {
    INT8: struct.Struct(">b"),
    INT16: _INT16,
    INT32: struct.Struct(">i"),
    INT64: struct.Struct(">q"),
}
_VARINT_BITS_MAX: Final = 35

NO_VERSION: Final = -1
"""The version of a tombstone."""

Plain = dict[str, Any]


class RecordError(ValueError):
    """Raised if a record is not what Kafka would write; the text says which field is wrong and how."""


class KafkaRecord(NamedTuple):
    """One record. A tombstone has the version -1 and the value None."""

    kind: int
    key: Plain
    version: int
    value: Plain | None


class RecordBytes(NamedTuple):
    """One record as Kafka keeps it."""

    key: bytes
    value: bytes | None


# Bytes.


def kind_of(key: bytes) -> int:
    """Return the type of a record, also of one that no table has. Raises RecordError."""
    if len(key) < _INT16.size:
        raise RecordError(f"its key has {len(key)} bytes, which is too short for a type")
    kind: int = _INT16.unpack_from(key)[0]
    return kind


def decode(key: bytes, value: bytes | None, schemas: Schemas = SCHEMAS) -> KafkaRecord:
    """Read a record of a kind in `schemas`. Raises RecordError."""
    kind = kind_of(key)
    schema = schema_of(kind, schemas)
    key_fields = _decode_whole(schema.key, key, 0, flexible=False, what=f"{schema.name} key")
    if value is None:
        return KafkaRecord(kind, key_fields, NO_VERSION, None)
    if len(value) < _INT16.size:
        raise RecordError(f"{schema.name} value: {len(value)} bytes are too short for a version")
    version: int = _INT16.unpack_from(value)[0]
    check_version(schema, version)
    what = f"{schema.name} value version {version}"
    flexible = schema.is_flexible(version)
    return KafkaRecord(
        kind,
        key_fields,
        version,
        _decode_whole(schema.value, value, version, flexible=flexible, what=what),
    )


def encode(record: KafkaRecord | RecordBytes, schemas: Schemas = SCHEMAS) -> tuple[bytes, bytes | None]:
    """Return the key and value that Kafka would keep; fields that are left out have their defaults. Raises
    RecordError."""
    if isinstance(record, RecordBytes):
        return record
    schema = schema_of(record.kind, schemas)
    key = _Writer(0, flexible=False)
    key.out += _INT16.pack(record.kind)
    key.write_struct(schema.key, record.key, f"{schema.name} key")
    if record.value is None:
        return bytes(key.out), None
    check_version(schema, record.version)
    value = _Writer(record.version, flexible=schema.is_flexible(record.version))
    value.out += _INT16.pack(record.version)
    value.write_struct(schema.value, record.value, f"{schema.name} value version {record.version}")
    return bytes(key.out), bytes(value.out)


def schema_of(kind: int, schemas: Schemas = SCHEMAS) -> Schema:
    """Return the schema of a type of record. Raises RecordError."""
    schema = schemas.get(kind)
    if schema is None:
        whose = "classic or consumer groups" if schemas is SCHEMAS else "transactions"
        raise RecordError(f"type {kind} is none of {whose}")
    return schema


def check_version(schema: Schema, version: int) -> None:
    """Check that a value's version can be read. Raises RecordError."""
    if not 0 <= version <= schema.version_max:
        raise RecordError(
            f"{schema.name} value version {version}: this groupd reads 0 to {schema.version_max}"
        )


def _decode_whole(kind: Struct, content: bytes, version: int, *, flexible: bool, what: str) -> Plain:
    reader = _Reader(content, _INT16.size, version, flexible=flexible)
    try:
        fields = reader.read_struct(kind)
    except (struct.error, IndexError, UnicodeDecodeError, RecordError) as error:
        raise RecordError(f"{what} cannot be read at byte {reader.at} of {len(content)}: {error}") from None
    if reader.at != len(content):
        raise RecordError(f"{what}: {len(content) - reader.at} bytes are left over")
    return fields


class _Reader:
    def __init__(self, content: bytes, at: int, version: int, *, flexible: bool) -> None:
        self._content = content
        self.at = at
        self._version = version
        self._flexible = flexible

    def read_struct(self, kind: Struct) -> Plain:
        fields = {field.name: field.default for field in kind.fields}
        tagged = {}
        for field in kind.fields:
            if field.is_in(self._version):
                if field.tag is None:
                    fields[field.name] = self._read(field)
                else:
                    tagged[field.tag] = field
        if self._flexible:
            self._read_tagged(tagged, fields)
        return fields

    def _read_tagged(self, tagged: dict[int, Field], fields: Plain) -> None:
        for _ in range(self._varint()):
            tag, size_bytes = self._varint(), self._varint()
            end = self.at + size_bytes
            field = tagged.get(tag)
            if field is None:
                self._take(size_bytes)  # the field is of a newer Kafka
                continue
            fields[field.name] = self._read(field)
            if self.at != end:
                raise RecordError(f"{field.name} does not end where its tag says")

    def _read(self, field: Field) -> Any:
        kind = field.type
        if isinstance(kind, Struct):
            # A tagged struct that may be null has a byte in front: 0 for null.
            if field.nullable and self._varint() == 0:
                return None
            return self.read_struct(kind)
        if isinstance(kind, Array):
            length = self._length(INT32)
            if length is None:
                return self._null(field)
            if length > len(self._content) - self.at:
                raise RecordError(f"{field.name} claims {length} items")
            return [self._item(kind.of) for _ in range(length)]
        if kind in _NUMBERS:
            return self._number(kind)
        value = self._scalar(kind)
        return self._null(field) if value is None else value

    def _item(self, kind: str | Struct) -> Any:
        if isinstance(kind, Struct):
            return self.read_struct(kind)
        return self._number(kind) if kind in _NUMBERS else self._scalar(kind)

    def _scalar(self, kind: str) -> str | bytes | None:
        if kind == UUID:
            return self._take(UUID_BYTES)
        length = self._length(INT16 if kind == STRING else INT32)
        if length is None:
            return None
        if kind == STRING and length > STRING_BYTES_MAX:
            raise RecordError(f"a text of {length} bytes")
        content = self._take(length)
        return content.decode() if kind == STRING else content

    def _null(self, field: Field) -> None:
        if not field.nullable:
            raise RecordError(f"{field.name} is null")

    def _length(self, fixed: str) -> int | None:
        """Read a length; None for null."""
        if self._flexible:
            length = self._varint() - 1
        elif fixed == INT32:
            length = self._number(INT32)
        else:
            length = _INT16.unpack_from(self._content, self.at)[0]
            self.at += _INT16.size
        return None if length < 0 else length

    def _number(self, kind: str) -> int:
        layout = _NUMBERS[kind]
        value: int = layout.unpack_from(self._content, self.at)[0]
        self.at += layout.size
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            octet = self._content[self.at]
            self.at += 1
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return value
            shift += 7
            if shift >= _VARINT_BITS_MAX:
                raise RecordError("a length takes too many bytes")

    def _take(self, size_bytes: int) -> bytes:
        content = self._content[self.at : self.at + size_bytes]
        if len(content) != size_bytes:
            raise RecordError(f"{size_bytes} bytes are claimed, {len(content)} are there")
        self.at += size_bytes
        return content


class _Writer:
    def __init__(self, version: int, *, flexible: bool) -> None:
        self.out = bytearray()
        self._version = version
        self._flexible = flexible

    def write_struct(self, kind: Struct, fields: Plain, what: str) -> None:
        known = {field.name for field in kind.fields}
        if unknown := set(fields) - known:
            raise RecordError(f"{what} has no field {sorted(unknown)}")
        tagged = []
        for field in kind.fields:
            value = fields.get(field.name, field.default)
            if not field.is_in(self._version):
                if value not in (field.default, None):
                    raise RecordError(f"{what} has no {field.name}")
            elif field.tag is None:
                self._write(field, value, what)
            elif value != field.default or field.is_always_written:
                tagged.append((field.tag, field, value))
        if self._flexible:
            self._varint(len(tagged))
            for tag, field, value in tagged:
                content = _Writer(self._version, flexible=True)
                content._write(field, value, what)
                self._varint(tag)
                self._varint(len(content.out))
                self.out += content.out

    def _write(self, field: Field, value: Any, what: str) -> None:
        kind = field.type
        if value is None and not field.nullable:
            raise RecordError(f"{what} needs {field.name}")
        if isinstance(kind, Struct):
            if field.nullable:
                self._varint(0 if value is None else 1)
            if value is not None:
                self.write_struct(kind, value, what)
        elif isinstance(kind, Array):
            self._length(INT32, None if value is None else len(value))
            for item in value or ():
                self._write_item(kind.of, item, what)
        else:
            self._scalar(kind, value, f"{what}, {field.name}")

    def _write_item(self, kind: str | Struct, value: Any, what: str) -> None:
        if isinstance(kind, Struct):
            self.write_struct(kind, value, what)
        else:
            self._scalar(kind, value, what)

    def _scalar(self, kind: str, value: Any, what: str) -> None:
        try:
            if kind in _NUMBERS:
                self.out += _NUMBERS[kind].pack(value)
            elif kind == UUID:
                assert len(value) == UUID_BYTES
                self.out += value
            else:
                content = value.encode() if isinstance(value, str) else value
                self._length(INT16 if kind == STRING else INT32, None if value is None else len(content))
                self.out += content or b""
        except (struct.error, UnicodeEncodeError) as error:
            raise RecordError(f"{what} = {value!r}: {error}") from None

    def _length(self, fixed: str, length: int | None) -> None:
        if self._flexible:
            self._varint(0 if length is None else length + 1)
        else:
            layout = _NUMBERS[INT32] if fixed == INT32 else _INT16
            self.out += layout.pack(-1 if length is None else length)

    def _varint(self, value: int) -> None:
        self.out += uvarint(value)
