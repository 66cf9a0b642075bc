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

_SLOT_BITS: Final = 4
SLOT_MS: Final = 1 << _SLOT_BITS
"""The width of a slot: keys whose deadlines are so close together are looked at together."""
FAR: Final = 64
"""How many slots make a second, about: what is further away than that is looked at where a second begins."""
_FILED_BITS: Final = 44
_FILED: Final = (1 << _FILED_BITS) - 1
_CANCELLED: Final = 1


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
        self.due_ms = due_ms
        """The earliest deadline that a key had when it was filed here."""
        self.keys: list[Hashable] = []


class Timers:
    """Deadlines by key. A key has one deadline; scheduling it again replaces it.

    Of each key there is one number, for members are many: its deadline in the high bits, in the low ones the
    number of the slot under which it was filed last, never a later one than the deadline's, and in the lowest
    whether it was cancelled since. Two dicts would take twice as much memory.
    """

    def __init__(self) -> None:
        self.next_deadline_ms: int | None = None
        """When a key is to be looked at next, which may turn out to have moved on; None: none is set. Every
        turn asks for it several times, so it is kept and not computed."""
        self._numbers = _Numbers()
        self._cancelled = 0
        """How many of the keys are only still filed."""
        self._slots: dict[int, _Slot] = {}
        self._order: list[int] = []
        """The numbers of all slots, as a heap."""
        self._near: dict[int, list[Hashable]] = {}
        """Millisecond -> the keys that were still due then when their slot was looked at."""
        self._near_order: list[int] = []
        """All milliseconds of `_near`, as a heap."""

    def __len__(self) -> int:
        return len(self._numbers) - self._cancelled

    def __contains__(self, key: Hashable) -> bool:
        return self.deadline_ms(key) is not None

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        """Set or move `key`'s deadline. Moving it to a later slot costs one dict store."""
        number = self._numbers.get(key)
        if number is not None:
            filed = number & _FILED
            if not filed & _CANCELLED and filed >> 1 < deadline_ms >> _SLOT_BITS:
                self._numbers[key] = deadline_ms << _FILED_BITS | filed
                return
        self._schedule(key, deadline_ms, number)

    def _schedule(self, key: Hashable, deadline_ms: int, before: int | None) -> None:
        """Set the deadline of a key that may have to be filed anew."""
        slot = _slot_of(deadline_ms)
        filed = slot
        if before is None:
            self._file(key, slot, deadline_ms)
        else:
            filed = (before & _FILED) >> 1
            is_cancelled = before & _CANCELLED
            self._cancelled -= is_cancelled
            if slot <= filed and (is_cancelled or deadline_ms < before >> _FILED_BITS):
                self._file(key, slot, deadline_ms)  # else it is looked at in time
                filed = slot
        self._numbers[key] = deadline_ms << _FILED_BITS | filed << 1

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
        number = self._numbers.get(key)
        if number is not None and not number & _CANCELLED:
            self._numbers[key] = number | _CANCELLED
            self._cancelled += 1

    def deadline_ms(self, key: Hashable) -> int | None:
        number = self._numbers.get(key)
        return None if number is None or number & _CANCELLED else number >> _FILED_BITS

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
            keys, slot = near[at_ms], _slot_of(at_ms)
            while keys:
                key = keys.pop()
                deadline_ms = self._looked_at(key, slot)
                if deadline_ms is None:
                    continue
                if deadline_ms <= now_ms:
                    del self._numbers[key]
                    return key
                self._file_again(key, slot, deadline_ms)
            heapq.heappop(self._near_order)
            del near[at_ms]
        return None

    def _look_at(self, slot: _Slot) -> None:
        """Let each key of a slot wait for its millisecond, if its deadline has not moved on."""
        for key in slot.keys:
            deadline_ms = self._looked_at(key, slot.number)
            if deadline_ms is not None:
                self._file_again(key, slot.number, deadline_ms)

    def _looked_at(self, key: Hashable, slot: int) -> int | None:
        """Return the deadline of a key that was filed under this slot; None if it has none: it is filed
        elsewhere, has fired, or was cancelled, which ends here."""
        number = self._numbers.get(key)
        if number is None or (number & _FILED) >> 1 != slot:
            return None
        if number & _CANCELLED:
            del self._numbers[key]
            self._cancelled -= 1
            return None
        return number >> _FILED_BITS

    def _file_again(self, key: Hashable, slot: int, deadline_ms: int) -> None:
        later, due_ms = _slot_of(deadline_ms), deadline_ms
        if later - slot > FAR:
            later -= later % FAR
            due_ms = later << _SLOT_BITS
        if later > slot:
            self._file(key, later, due_ms)
            self._numbers[key] = deadline_ms << _FILED_BITS | later << 1
        else:
            self._wait_near(key, deadline_ms)

    def _file(self, key: Hashable, number: int, deadline_ms: int) -> None:
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = _Slot(number, deadline_ms)
            heapq.heappush(self._order, number)
        elif deadline_ms < slot.due_ms:
            slot.due_ms = deadline_ms
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


def _slot_of(at_ms: int) -> int:
    """Return the number of the slot of a time; what is before the epoch is in the first one."""
    return max(at_ms >> _SLOT_BITS, 0)
