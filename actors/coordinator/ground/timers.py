"""One coarse timer wheel per shard.

A heartbeat only moves a deadline in a dict; the key is looked at again when the slot it was filed under
comes due, and filed anew if its deadline has moved on. So n heartbeats of a member cost n dict stores and
one re-filing per session timeout.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable

SLOT_MS = 16
"""Timers fire up to this much late."""


class _Numbers(dict[Hashable, int]):
    """Numbers by key. A plain dict of plain values leaves the garbage collector's lists in a full
    collection and comes back as a young object with the next key, so that collections would go through all
    timers again and again instead of leaving them out (`actors.ground.collector`). One of another class
    stays where it is."""

    __slots__ = ()


class Timers:
    """Deadlines by key. A key has one deadline; scheduling it again replaces it."""

    def __init__(self) -> None:
        self._deadlines = _Numbers()
        self._filed = _Numbers()
        self._slots: dict[int, tuple[int, list[Hashable]]] = {}
        """Slot number -> the same number, so that all keys filed there share one int, and the keys."""
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._deadlines

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        """Set or move `key`'s deadline. Moving it later costs one dict store."""
        self._deadlines[key] = deadline_ms
        slot = deadline_ms // SLOT_MS + 1
        filed = self._filed.get(key)
        if filed is None or slot < filed:
            self._file(key, slot)

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: Hashable) -> int | None:
        return self._deadlines.get(key)

    @property
    def next_deadline_ms(self) -> int | None:
        """When the earliest slot comes due; its keys may turn out to have moved on."""
        return self._order[0] * SLOT_MS if self._order else None

    def pop_due(self, now_ms: int) -> Hashable | None:
        """Take one key whose deadline is over, or None. Keys of one slot come newest first."""
        while self._order and self._order[0] * SLOT_MS <= now_ms:
            slot = self._order[0]
            _, keys = self._slots[slot]
            while keys:
                key = keys.pop()
                if self._filed.get(key) != slot:
                    continue
                del self._filed[key]
                deadline_ms = self._deadlines.get(key)
                if deadline_ms is None:
                    continue
                if deadline_ms // SLOT_MS + 1 > slot:
                    self._file(key, deadline_ms // SLOT_MS + 1)
                    continue
                del self._deadlines[key]
                return key
            heapq.heappop(self._order)
            del self._slots[slot]
        return None

    def _file(self, key: Hashable, slot: int) -> None:
        filed = self._slots.get(slot)
        if filed is None:
            filed = self._slots[slot] = slot, []
            heapq.heappush(self._order, slot)
        self._filed[key], keys = filed
        keys.append(key)
