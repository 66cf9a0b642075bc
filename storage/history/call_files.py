"""Histories on disk: each writer appends rows to a file of its own, msgpack values one after the other.

A file begins with its header. One that was cut short, because its writer was killed, is read up to the cut:
then the history is not whole, and nobody may be blamed for what it does not show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, NamedTuple

import msgpack

from storage.history.calls import (
    VERSION,
    Call,
    End,
    Fault,
    Gone,
    History,
    Offset,
    Row,
    Topic,
    history_of,
)

SUFFIX: Final = ".calls"
MAGIC: Final = "groupd calls"
ROW_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest row that is read: a larger one is taken for damage."""
_CALL: Final = "call"
_KINDS: Final[dict[str, type[Any]]] = {
    _CALL: Call,
    "gone": Gone,
    "fault": Fault,
    "topic": Topic,
    "end": End,
}
OnBytes = Callable[[int], None]
Share = Callable[[Any, Any], Any]
_OFFSETS: Final = Call._fields.index("offsets")
_SHARED: Final = tuple(
    Call._fields.index(name)
    for name in (
        *("client", "connection", "api", "outcome", "group_id", "protocol", "member_id"),
        *("group_instance_id", "subscribed", "owned", "assigned", "detail"),
    )
)
"""Places in a call of what other calls have as well."""
_CALL_DEFAULTS: Final = [Call._field_defaults.get(name) for name in Call._fields]
"""The values of fields that came later, for the calls of older files."""
_NAMES: Final = {row_class: name for name, row_class in _KINDS.items()}


class UnreadableFile(Exception):
    """A file holds no calls, or has a version that is not known here; the text says which file."""


class CallFile(NamedTuple):
    """The content of one file."""

    run_id: str
    rows: list[Row]
    cut_bytes: int
    """Bytes at the file's end that belong to a row which was not written whole."""


class CallWriter:
    """Appends rows to a new file. Use as a context manager; without `end` the file counts as cut short."""

    def __init__(self, path: Path, run_id: str) -> None:
        self._file = path.open("xb")
        self._pack = msgpack.Packer().pack
        self._end_us = 0
        self._file.write(self._pack([MAGIC, VERSION, run_id]))

    def write(self, row: Row) -> None:
        """Take a row into the buffer, which `flush` writes."""
        self._file.write(self._pack([_NAMES[type(row)], *row]))

    def flush(self) -> None:
        self._file.flush()

    def end(self, at_us: int, *, is_clean: bool = True) -> None:
        """The last row, and close; `is_clean`: every call that was sent has been written."""
        self.write(End(at_us, is_clean))
        self._file.close()

    def __enter__(self) -> CallWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class CallReader:
    """The rows of one file, one after the other: iterate over it once."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Create the file. Raises UnreadableFile, OSError."""
        self._size = path.stat().st_size
        self._unpacker = msgpack.Unpacker(file, use_list=False, max_buffer_size=ROW_BYTES_MAX)
        self.run_id = _run_id(path, self._unpacker)
        self.whole_bytes: int = self._unpacker.tell()
        """Read so far, of rows that were written whole."""

    def __iter__(self) -> Iterator[Row]:
        share: Share = {}.setdefault
        with contextlib.suppress(ValueError, TypeError, LookupError, msgpack.exceptions.UnpackException):
            for plain in self._unpacker:  # until the file ends, or a row that was not written whole
                row = _row(plain, share)
                self.whole_bytes = self._unpacker.tell()
                yield row

    @property
    def cut_bytes(self) -> int:
        """How many bytes follow the last whole row: those of a row that was not written whole."""
        return self._size - self.whole_bytes


def read_file(path: Path, on_bytes: OnBytes = lambda _: None) -> CallFile:
    """Read a whole file. Raises UnreadableFile, OSError."""
    with path.open("rb") as file:
        reader = CallReader(path, file)
        rows: list[Row] = []
        before = reader.whole_bytes
        for row in reader:
            rows.append(row)
            on_bytes(reader.whole_bytes - before)
            before = reader.whole_bytes
    return CallFile(reader.run_id, rows, reader.cut_bytes)


def _run_id(path: Path, unpacker: Any) -> str:
    try:
        magic, version, run_id = unpacker.unpack()
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise UnreadableFile(f"{path} is not a history: it has no header") from error
    if magic != MAGIC or not isinstance(version, int) or not 1 <= version <= VERSION:
        raise UnreadableFile(f"{path} is not a history of a known version: {magic!r} {version!r}")
    return str(run_id)


def read_history(directory: Path, on_bytes: OnBytes = lambda _: None) -> History:
    """All files of a run; `on_bytes` hears after each row how many more were read.

    Raises UnreadableFile, also if there is none or if they are of several runs.
    """
    paths = sorted(directory.glob(f"*{SUFFIX}"))
    if not paths:
        raise UnreadableFile(f"{directory} holds no file of calls (*{SUFFIX})")
    files = [read_file(path, on_bytes) for path in paths]
    runs = {file.run_id for file in files}
    if len(runs) > 1:
        raise UnreadableFile(f"{directory} holds the files of several runs: {', '.join(sorted(runs))}")
    is_whole = all(not file.cut_bytes and any(isinstance(row, End) for row in file.rows) for file in files)
    return history_of([row for file in files for row in file.rows], is_whole=is_whole)


def _row(plain: tuple[Any, ...], share: Share) -> Row:
    """`share` gives the first value that is equal: millions of calls are those of few clients of few groups,
    and their names would take more memory than all the rest."""
    kind, *fields = plain
    if kind == _CALL:
        fields += _CALL_DEFAULTS[len(fields) :]
        for place in _SHARED:
            if word := fields[place]:
                fields[place] = share(word, word)
        if offsets := fields[_OFFSETS]:
            fields[_OFFSETS] = tuple([Offset(share(each[0], each[0]), *each[1:]) for each in offsets])
    row: Row = _KINDS[kind](*fields)
    return row
