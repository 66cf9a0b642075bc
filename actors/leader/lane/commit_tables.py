"""The arrays between Python and the compiled functions for commits: layouts, the columns of offsets, and what
was taken."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from actors.leader.lane import compiled

AT_FIRST: Final = 64
"""How many layouts and columns there are at first; they double when they are all taken."""


class CommitTables:
    def __init__(self) -> None:
        self.layouts: Any = np.zeros((0, compiled.LAYOUT_FACTS), np.int64)
        self.known: Any = np.zeros((0, 4, compiled.LAYOUT_BYTES_MAX), np.uint8)
        self.columns: Any = np.zeros((0, compiled.ROWS_OF_LAYOUT_MAX), np.int64)
        self.taken = np.zeros((compiled.ROWS_MAX, compiled.TAKEN_FACTS), np.int64)
        self.records = np.zeros(compiled.RECORDS_BYTES, np.uint8)
        self.answers = np.zeros(compiled.RECORDS_BYTES, np.uint8)
        self.sent = np.zeros((compiled.ROWS_MAX, 2), np.int64)
        self._free_layouts: list[int] = []
        self._free_columns: list[int] = []

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.layouts, self.known, self.columns, self.taken, self.records, self.answers

    @property
    def is_full(self) -> bool:
        """Return whether the next layout or column needs larger arrays."""
        return not (self._free_layouts and self._free_columns)

    def grow(self) -> None:
        """Double layouts and columns."""
        size = len(self.layouts)
        more = max(size, AT_FIRST)
        grown = (
            np.concatenate((array, np.zeros((more, *array.shape[1:]), array.dtype)))
            for array in (self.layouts, self.known, self.columns)
        )
        self.layouts, self.known, self.columns = grown
        self._free_layouts += range(size + more - 1, size - 1, -1)
        self._free_columns += range(size + more - 1, size - 1, -1)

    def take_layout(self) -> int:
        return self._free_layouts.pop()

    def take_column(self) -> int:
        return self._free_columns.pop()

    def free_layout(self, layout: int) -> None:
        self.layouts[layout] = 0
        self._free_layouts.append(layout)

    def free_column(self, column: int) -> None:
        self._free_columns.append(column)

    def write(self, layout: int, facts: tuple[int, ...], *frames: bytes) -> None:
        """Write what is known of a layout: its facts, and `frames` as `compiled` has them."""
        self.layouts[layout] = facts
        for row, frame in enumerate(frames):
            self.known[layout, row, : len(frame)] = np.frombuffer(frame, np.uint8)
