"""A snapshot made in slices, so that heartbeats are answered in between (Raft paper, section 7).

The live records are walked while requests go on changing them. What a write replaces is noted, so that the
walk and the notes together give the state exactly as it was when the build began: a record that was never
written since is met as it was; one that was written is taken from the notes, met or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import TypeVar

import msgpack

from actors.ground.contract import Key, Record, Value
from actors.ground.limits import MIB

RECORDS_PER_STEP_MAX = 2_000
BYTES_PER_STEP_MAX = 4 * MIB
"""How many bytes of records end a step, as RECORDS_PER_STEP_MAX records do: together about 5 ms, whether
records are small or large."""

Spread = Callable[[Key, Value], Iterable[tuple[Key, Value]]]
"""A function that returns the records in whose place one record stands."""
_K = TypeVar("_K")
_V = TypeVar("_V")


class SnapshotBuild:
    """The build of one snapshot, which implements storage.raft.contract.SnapshotBuild. The data is a packed
    `header`, then packed records: each key that had a value at the beginning, with that value; a key that is
    written after the walk met it may come twice. Which order they come in is not defined, as `Shard.apply`
    does not care."""

    __slots__ = ("_before", "_data", "_packer", "_records", "is_walking")

    def __init__(
        self,
        header: tuple[int, ...],
        records: Iterator[Record],
        before: dict[Key, Value | None],
        spread: Spread | None = None,
    ) -> None:
        """Build from `records`, which is `Shard.records()` not yet begun. `before` has the committed values
        of the keys whose live value is not committed; the build owns it from now on. With `spread`, what that
        makes of each record is written."""
        self._packer = msgpack.Packer()
        self._data: BytesIO | None = BytesIO()
        """The snapshot so far. It grows in place and gives its bytes away uncopied: a copy of 100 MB would be
        a pause by itself."""
        self._data.write(self._packer.pack(header))
        self._before = before
        self.is_walking = True
        """Whether writes are to be noted."""
        as_begun = self._as_begun(records)
        self._records = as_begun if spread is None else _spread(as_begun, spread)

    def note(self, key: Key, replaced: Value | None) -> None:
        """Note that a write of `key` replaced this value. It is to be called for every write while
        `is_walking`."""
        if self.is_walking:
            self._before.setdefault(key, replaced)

    def step(self, records_max: int = RECORDS_PER_STEP_MAX) -> bytes | None:
        """Go on for a bounded number of records and bytes. Return the whole snapshot once it is complete."""
        data = self._data
        assert data is not None, "this build is complete, or another one or a restore abandoned it"
        if self._go_on(data, records_max):
            return None
        self.close()
        return data.getvalue()

    def take(self, records_max: int = RECORDS_PER_STEP_MAX) -> bytes | None:
        """Go on as `step` does, and return only what that has given: so a state is passed on without ever
        being kept whole. None: all of it was taken, or the build is closed."""
        data = self._data
        if data is None:
            return None
        if self._go_on(data, records_max):
            self._data = BytesIO()
        else:
            self.close()
        return data.getvalue()

    def _go_on(self, data: BytesIO, records_max: int) -> bool:
        """Add a bounded number of records and bytes to `data`. Return whether there may be more."""
        pack = self._packer.pack
        records_left, bytes_left = records_max, BYTES_PER_STEP_MAX
        for key, value in self._records:
            if value is not None:
                bytes_left -= data.write(pack((key, value)))
            records_left -= 1
            if records_left <= 0 or bytes_left <= 0:
                return True
        return False

    def close(self) -> None:
        """End the build, complete or not, and keep nothing."""
        self.is_walking = False
        self._data = None
        self._before = {}
        self._records = iter(())

    def _as_begun(self, records: Iterable[Record]) -> Iterator[tuple[Key, Value | None]]:
        """Yield every record with its value as of the beginning; None if it had none, or was given
        already."""
        before = self._before
        for key, value in records:
            if key in before:
                value_then, before[key] = before[key], None
                yield key, value_then
            else:
                yield key, value
        # Whatever is written from now on was met by the walk, or is new.
        self.is_walking = False
        yield from before.items()


def _spread(
    records: Iterator[tuple[Key, Value | None]], spread: Spread
) -> Iterator[tuple[Key, Value | None]]:
    for key, value in records:
        if value is None:
            yield key, None
        else:
            yield from spread(key, value)


def live_items(values: Mapping[_K, _V], keys: Iterable[_K]) -> Iterator[tuple[_K, _V]]:
    """Yield the items of `keys`, a copy of the mapping's keys, that are still there when the walk gets to
    them: it may pause while the mapping changes. Keys are copied and not items, for 100,000 pairs made at
    once would set off the garbage collector."""
    for key in keys:
        value = values.get(key)
        if value is not None:
            yield key, value
