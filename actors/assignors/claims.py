"""Who has each partition, as an array that follows from the members' targets in whatever order they change.

For each partition, the sum of its claimants' slots + 1 is kept, less 1: a target taken back is subtracted, so
one put back after another (an undo) leaves no trace. If there is one claimant, as is right, that is its slot.
If there are several, counting tells: there are then more claims than partitions claimed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from actors.assignors.kernels import FREE
from actors.assignors.spec import TopicPartitions

Int32s = NDArray[np.int32]

_NUMBER = np.dtype(">i4")


class Claims:
    """The members' claims to partitions. Changes are collected, and counted all at once when somebody
    looks."""

    def __init__(self) -> None:
        self._places: dict[bytes, tuple[int, int]] = {}
        self.owner: Int32s = np.zeros(0, dtype=np.int32)
        """The slot that claims each partition (i4[P]), FREE if none does. It has no meaning to others while
        claims are disputed."""
        self._total = 0
        self.strays: dict[int, int] = {}
        """Slot -> how many of its claims are of topics or partitions that do not exist."""
        self._changed: dict[int, tuple[TopicPartitions, TopicPartitions]] = {}
        """Slot -> (the target of it that is counted, the target that is to be)."""
        self._expected: tuple[dict[int, TopicPartitions], Int32s] | None = None
        self.are_disputed = False
        """Whether two members claim the same partition, as of the last count."""

    def change(self, slot: int, target: TopicPartitions, before: TopicPartitions) -> None:
        counted = self._changed[slot][0] if slot in self._changed else before
        self._changed[slot] = counted, target

    def expect(self, changes: dict[int, TopicPartitions], owner: Int32s) -> None:
        """Expect these targets by slot, and everybody else's as they are: the claims then come to `owner`
        (i4[P], complete). If just these come, nothing need be counted."""
        self._expected = changes, owner.copy()

    def lay_out(
        self, topic_ids: list[bytes], starts: Int32s, targets: Iterable[tuple[int, TopicPartitions]]
    ) -> None:
        """Take over another numbering of partitions. `targets` has every member's, in case there are
        strays."""
        counts = np.diff(starts).tolist()
        begins = starts.tolist()
        places = {
            topic_id: (begin, count)
            for topic_id, begin, count in zip(topic_ids, begins, counts, strict=False)
        }
        if places == self._places:
            return
        shrinks = any(places.get(each, (0, 0))[1] < count for each, (_, count) in self._places.items())
        owner = np.full(int(starts[-1]), FREE, dtype=np.int32)
        if self.strays or shrinks or not self._places:
            self._changed = {slot: ((), target) for slot, target in targets}
            self.strays, self._total, self.are_disputed = {}, 0, False
        else:
            for topic_id, (begin, count) in self._places.items():
                to = places[topic_id][0]
                owner[to : to + count] = self.owner[begin : begin + count]
        self._places, self.owner, self._expected = places, owner, None

    def count_changes(self) -> None:
        """Count the changes that were collected."""
        self._take_expected()
        changed, self._changed = self._changed, {}
        packed: list[bytes] = []
        rows: list[tuple[int, int, int, int]] = []
        for slot, (counted, target) in changed.items():
            if counted is target:
                continue
            for sign, claims in ((-1, counted), (1, target)):
                for topic_id, claimed in claims:
                    packed.append(claimed)
                    rows.append((*self._places.get(topic_id, (0, 0)), sign, slot))
        if rows:
            self._count(packed, rows)

    def _take_expected(self) -> None:
        if self._expected is None or not self._changed:
            return
        (targets, owner), self._expected = self._expected, None
        nothing = None, None
        if all(self._changed.get(slot, nothing)[1] is target for slot, target in targets.items()):
            self.owner, self._total, self.strays, self.are_disputed = owner, len(owner), {}, False
            for slot in targets:
                del self._changed[slot]

    def _count(self, packed: list[bytes], rows: list[tuple[int, int, int, int]]) -> None:
        """Count claims. `packed` has the claims of one topic each, `rows` (where the topic begins, its
        partitions, sign, slot) for each."""
        lengths = [len(claimed) // 4 for claimed in packed]
        columns = np.repeat(np.array(rows, dtype=np.int32), lengths, axis=0)
        numbers = np.frombuffer(b"".join(packed), dtype=_NUMBER).astype(np.int32)
        exists = (numbers >= 0) & (numbers < columns[:, 1])
        there = columns[exists]
        np.add.at(self.owner, numbers[exists] + there[:, 0], there[:, 2] * (there[:, 3] + 1))
        self._total += int(there[:, 2].sum())
        self._count_strays(columns[~exists])
        self.are_disputed = self._total != np.count_nonzero(self.owner != FREE)

    def _count_strays(self, columns: Int32s) -> None:
        for sign, slot in columns[:, 2:].tolist():
            number = self.strays.get(slot, 0) + sign
            if number:
                self.strays[slot] = number
            else:
                del self.strays[slot]

    def last_owner(self, targets: Iterable[tuple[int, TopicPartitions]]) -> Int32s:
        """Return who has each partition (i4[P]) if claims are disputed: the slot whose target comes last."""
        owner = np.full(len(self.owner), FREE, dtype=np.int32)
        for slot, target in targets:
            for topic_id, packed in target:
                begin, count = self._places.get(topic_id, (0, 0))
                numbers = np.frombuffer(packed, dtype=_NUMBER)
                owner[begin + numbers[(numbers >= 0) & (numbers < count)]] = slot
        return owner
