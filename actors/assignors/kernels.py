"""The assignors' inner loops: free functions on int32 arrays, written in what numba can compile.

They are plain Python here and give the same result either way; `run` compiles them with
`njit(cache=True, nogil=True)` when a group is big enough to be worth numba's memory and import time.
Members are numbered 0 to M-1; `owner[p]` is the member that has partition p, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]


def share_evenly(owner: Int32s, kept: Int32s, cap: Int32s) -> None:
    """Give every partition an owner, each member as many as any other or one more, moving as few as can be.

    owner: i4[P], in and out. kept: i4[M], zeros in, partitions a member out. cap: i4[M], scratch.
    Free partitions are given out in runs, as Kafka does: a member has few topics and its record is small.
    Members that have more than the quota are first to keep one more, so no partition moves in vain.
    """
    members = len(kept)
    partitions = len(owner)
    quota = partitions // members
    extra = partitions - quota * members
    for p in range(partitions):
        if owner[p] >= 0:
            kept[owner[p]] += 1
    for m in range(members):
        cap[m] = quota
        if kept[m] > quota and extra > 0:
            cap[m] += 1
            extra -= 1
        kept[m] = 0
    for m in range(members):
        if extra > 0 and cap[m] == quota:
            cap[m] += 1
            extra -= 1
    for p in range(partitions):
        m = owner[p]
        if m >= 0:
            if kept[m] < cap[m]:
                kept[m] += 1
            else:
                owner[p] = -1
    m = 0
    for p in range(partitions):
        if owner[p] >= 0:
            continue
        while kept[m] >= cap[m]:
            m = m + 1 if m + 1 < members else 0
        owner[p] = m
        kept[m] += 1


def fill_topic(owner: Int32s, load: Int32s, subscribers: Int32s) -> None:
    """Give the free partitions of one topic to its least loaded subscribers.

    owner: i4[partitions of the topic], in and out. load: i4[M], partitions a member has of all topics, in
    and out. subscribers: i4[S], ascending, not empty.
    """
    partitions = len(owner)
    p = 0
    while p < partitions and owner[p] >= 0:
        p += 1
    while p < partitions:
        low = load[subscribers[0]]
        for s in subscribers:
            low = min(low, load[s])
        for s in subscribers:
            if load[s] != low:
                continue
            owner[p] = s
            load[s] += 1
            while p < partitions and owner[p] >= 0:
                p += 1
            if p == partitions:
                break


def level_topic(owner: Int32s, before: Int32s, load: Int32s, subscribers: Int32s) -> int:
    """Move partitions of one topic from its most loaded owners to its least loaded subscribers, one each.

    owner: i4[partitions of the topic], in and out, none free. before: i4, who had the partition in the
    assignment to stick to: what has moved already is moved again first. load, subscribers: as in
    `fill_topic`. Returns the number of moves; 0 means that no single move of this topic's partitions
    makes the group more even. Each move brings two loads that differ by two or more nearer, so repeated
    calls come to an end.
    """
    low = load[subscribers[0]]
    for s in subscribers:
        low = min(low, load[s])
    high = low
    for m in owner:
        high = max(high, load[m])
    if high <= low + 1:
        return 0
    moves = 0
    r = 0
    for sticky in range(2):
        for p in range(len(owner)):
            giver = owner[p]
            if load[giver] != high or (before[p] == giver) != (sticky == 1):
                continue
            while r < len(subscribers) and load[subscribers[r]] != low:
                r += 1
            if r == len(subscribers):
                return moves
            owner[p] = subscribers[r]
            load[giver] -= 1
            load[subscribers[r]] += 1
            moves += 1
    return moves


COMPILED_FROM = 20_000
"""Elements (partitions, members, subscriptions of one group) from which a kernel is compiled: below, plain
Python takes less than numba's import."""

_compiled: dict[Any, Any] = {}


def run(kernel: Any, elements: int, *arguments: Any) -> Any:
    """Call a kernel, compiled if `elements` is at least COMPILED_FROM.

    numba's on-disk cache lies beside this file or where NUMBA_CACHE_DIR says (whoever starts the process
    sets it); where it cannot be written, the kernel is compiled for this process alone.
    """
    if elements < COMPILED_FROM:
        return kernel(*arguments)
    try:
        return _compile(kernel, cache=True)(*arguments)
    except (OSError, RuntimeError):
        # The compiler writes its cache before the first call runs: nothing has been changed yet.
        _compiled.pop(kernel, None)
        return _compile(kernel, cache=False)(*arguments)


def _compile(kernel: Any, *, cache: bool) -> Any:
    compiled = _compiled.get(kernel)
    if compiled is None:
        import numba

        compiled = _compiled[kernel] = numba.njit(cache=cache, nogil=True)(kernel)
    return compiled


def warm() -> None:
    """Compile every kernel, or load it from the on-disk cache: for a worker thread, ahead of big groups."""
    run(share_evenly, COMPILED_FROM, _int32s(0), _int32s(0), _int32s(0))
    run(fill_topic, COMPILED_FROM, _int32s(-1), _int32s(0), _int32s(0))
    run(level_topic, COMPILED_FROM, _int32s(0), _int32s(0), _int32s(1), _int32s(0))


def _int32s(value: int) -> Int32s:
    return np.array([value], dtype=np.int32)
