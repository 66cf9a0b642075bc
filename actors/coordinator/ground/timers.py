"""The timers of one shard: exact to the millisecond, and cheap for deadlines that move on and on.

A heartbeat only moves a deadline in a dict. The key stays filed under the slot of a deadline that it once
had, and is looked at when that slot is due: if its deadline has moved on it is filed anew, otherwise it waits
for its own millisecond. So n heartbeats of a member cost n dict stores and one re-filing per session timeout,
and members of one slot cost one wake-up together. A deadline that has moved far on is filed early, under the
second in which it lies: most of those move on again before, and all of a second are looked at together.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final

SLOT_MS: Final = 16
"""The width of a slot: keys whose deadlines are so close together are looked at together."""
FAR: Final = 64
"""How many slots make a second, about: what is further away than that is looked at where a second begins."""


class _Numbers(dict[Hashable, int]):
    """Numbers by key. A plain dict of plain values leaves the garbage collector's lists in a full
    collection and comes back as a young object with the next key, so that collections would go through all
    timers again and again instead of leaving them out (`actors.ground.collector`). One of another class
    stays where it is."""

    __slots__ = ()


class _Slot:
    """The keys that were filed under one slot."""

    __slots__ = ("due_ms", "keys", "number")

    def __init__(self, number: int, due_ms: int) -> None:
        self.number = number
        """The slot's number; all keys filed here share this one int."""
        self.due_ms = due_ms
        """The earliest deadline that a key had when it was filed here."""
        self.keys: list[Hashable] = []


class Timers:
    """Deadlines by key. A key has one deadline; scheduling it again replaces it."""

    def __init__(self) -> None:
        self.next_deadline_ms: int | None = None
        """When a key is to be looked at next, which may turn out to have moved on; None: none is set. Every
        turn asks for it several times, so it is kept and not computed."""
        self._deadlines = _Numbers()
        self._filed = _Numbers()
        """Key -> the number of the slot under which it was filed last."""
        self._slots: dict[int, _Slot] = {}
        self._order: list[int] = []
        """The numbers of all slots, as a heap."""
        self._near: dict[int, list[Hashable]] = {}
        """Millisecond -> the keys that were still due then when their slot was looked at."""
        self._near_order: list[int] = []
        """All milliseconds of `_near`, as a heap."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._deadlines

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        """Set or move `key`'s deadline. Moving it later costs one dict store."""
        number = deadline_ms // SLOT_MS
        filed = self._filed.get(key)
        if filed is None or number <= filed:
            before_ms = self._deadlines.get(key)
            if before_ms is None or deadline_ms < before_ms:  # else it is looked at in time
                self._file(key, number, deadline_ms)
        self._deadlines[key] = deadline_ms

    def schedule_late(self, key: Hashable, deadline_ms: int) -> None:
        """Set `key`'s deadline to the beginning of the first slot after `deadline_ms`. Keys that need no
        exact time share a wake-up by this, and slices of work have turns of others between them."""
        self.schedule(key, (deadline_ms // SLOT_MS + 1) * SLOT_MS)

    def schedule_early(self, key: Hashable, deadline_ms: int, now_ms: int) -> None:
        """Set `key`'s deadline to the beginning of the second in which `deadline_ms` lies, or to that itself
        if the second has begun. Keys that are likely to have moved on by then share a wake-up by this."""
        early_ms = deadline_ms - deadline_ms % (FAR * SLOT_MS)
        self.schedule(key, early_ms if early_ms > now_ms else deadline_ms)

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: Hashable) -> int | None:
        return self._deadlines.get(key)

    def pop_due(self, now_ms: int) -> Hashable | None:
        """Take one key whose deadline is over, or None. Keys come in the order of their deadlines, those of
        one millisecond newest first."""
        if self.next_deadline_ms is None or self.next_deadline_ms > now_ms:
            return None
        key = self._popped(now_ms)
        near_ms = self._near_order[0] if self._near_order else None
        self.next_deadline_ms = near_ms
        if self._order:
            slot_ms = self._slots[self._order[0]].due_ms
            self.next_deadline_ms = slot_ms if near_ms is None else min(near_ms, slot_ms)
        return key

    def _popped(self, now_ms: int) -> Hashable | None:
        while self._order and self._slots[self._order[0]].due_ms <= now_ms:
            self._look_at(self._slots.pop(heapq.heappop(self._order)))
        near = self._near
        while self._near_order and self._near_order[0] <= now_ms:
            at_ms = self._near_order[0]
            keys = near[at_ms]
            while keys:
                key = keys.pop()
                deadline_ms = self._deadlines.get(key)
                if self._filed.get(key) != at_ms // SLOT_MS:
                    continue  # it is filed elsewhere, or it has fired
                if deadline_ms is None or deadline_ms <= now_ms:
                    del self._filed[key]
                    if deadline_ms is not None:
                        del self._deadlines[key]
                        return key
                else:
                    self._file_again(key, at_ms // SLOT_MS, deadline_ms)
            heapq.heappop(self._near_order)
            del near[at_ms]
        return None

    def _look_at(self, slot: _Slot) -> None:
        """Let each key of a slot wait for its millisecond, if its deadline has not moved on."""
        for key in slot.keys:
            if self._filed.get(key) == slot.number:
                deadline_ms = self._deadlines.get(key)
                if deadline_ms is None:
                    del self._filed[key]
                else:
                    self._file_again(key, slot.number, deadline_ms)

    def _file_again(self, key: Hashable, number: int, deadline_ms: int) -> None:
        due = deadline_ms // SLOT_MS
        if due - number > FAR:
            due -= due % FAR
            self._file(key, due, due * SLOT_MS)
        elif due > number:
            self._file(key, due, deadline_ms)
        else:
            self._wait_near(key, deadline_ms)

    def _file(self, key: Hashable, number: int, deadline_ms: int) -> None:
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = _Slot(number, deadline_ms)
            heapq.heappush(self._order, number)
        elif deadline_ms < slot.due_ms:
            slot.due_ms = deadline_ms
        self._filed[key] = slot.number
        slot.keys.append(key)
        self._is_next(deadline_ms)

    def _wait_near(self, key: Hashable, at_ms: int) -> None:
        keys = self._near.get(at_ms)
        if keys is None:
            keys = self._near[at_ms] = []
            heapq.heappush(self._near_order, at_ms)
        keys.append(key)
        self._is_next(at_ms)

    def _is_next(self, at_ms: int) -> None:
        if self.next_deadline_ms is None or at_ms < self.next_deadline_ms:
            self.next_deadline_ms = at_ms
