"""What a leader remembers of its groups' past: for `groupd explain` and `groupd top`.

Bounded in groups, events and bytes; whoever has been quiet longest is forgotten first. A new leader begins
with nothing but the replicated state, and says since when it knows more: what was before is in the segments.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.coordinator.told.events import RebalanceBegan, RebalanceEnded
from actors.ground.limits import HISTORY_BYTES_MAX, HISTORY_EVENTS_PER_GROUP_MAX, HISTORY_GROUPS_MAX
from storage.history.schema import LIVES

REBALANCES_MAX = 32
"""Of a group, kept beside its other events: a big group's joins must not push them out."""
_EVENT_BYTES = 400
_ITEM_BYTES = 120
"""Of an event, and of each of the moves and members in its lists: as measured, rounded up."""


_new: Any = tuple.__new__
"""Makes a NamedTuple in a third of the time its own constructor takes."""


class Kept(NamedTuple):
    """An event, and its place among its leader's."""

    sequence: int
    event: Any


class GroupPast:
    """Of one group, since this leader began."""

    __slots__ = (
        "began_ms",
        "cause",
        "churn",
        "commits",
        "events",
        "last_commit_ms",
        "rebalances",
        "rebalances_ended",
        "size_bytes",
        "unstable_ms",
    )

    def __init__(self) -> None:
        self.events: deque[Kept] = deque()
        self.rebalances: deque[Kept] = deque()
        """The last ones that ended."""
        self.size_bytes = 0
        self.rebalances_ended = 0
        self.churn = 0
        """Members that came or went."""
        self.commits = 0
        self.last_commit_ms: int | None = None
        self.unstable_ms = 0
        """In rebalances that ended."""
        self.began_ms: int | None = None
        """Of the rebalance under way."""
        self.cause: str | None = None
        """Of the last rebalance."""

    def since_ms(self, state: str) -> int | None:
        """When the last rebalance left the group in that state; None if it did not, or is not remembered."""
        if self.began_ms is not None or not self.rebalances:
            return None
        last = self.rebalances[-1].event
        return last.at_ms if last.state == state else None

    def counts(self, now_ms: int) -> dict[str, Any]:
        """What `groupd top` compares; the rebalance under way is one."""
        under_way_ms = 0 if self.began_ms is None else now_ms - self.began_ms
        return {
            "rebalances": self.rebalances_ended + (self.began_ms is not None),
            "churn": self.churn,
            "commits": self.commits,
            "unstable_ms": self.unstable_ms + under_way_ms,
            "cause": self.cause,
        }


class HistoryRing:
    """Of one leader."""

    def __init__(self) -> None:
        self.since_ms: int | None = None
        """When this leader began; None: it is none."""
        self.size_bytes = 0
        self._groups: OrderedDict[str, GroupPast] = OrderedDict()
        """Who was quiet longest is first."""

    def __len__(self) -> int:
        return len(self._groups)

    def begin(self, now_ms: int) -> None:
        """A new term of leadership: what another leader did meanwhile is not known here."""
        self.since_ms = now_ms
        self.size_bytes = 0
        self._groups.clear()

    def add(self, sequence: int, event: Any) -> None:
        """Keep an event of a group."""
        group_id = getattr(event, "group_id", None)
        if group_id is None or event.kind == "lag":
            return
        past = self._groups.get(group_id)
        if past is None:
            past = self._groups[group_id] = GroupPast()
        self._groups.move_to_end(group_id)
        _count(past, event)
        if event.kind == "commits":
            return
        kept = past.rebalances if type(event) is RebalanceEnded else past.events
        longest = REBALANCES_MAX if kept is past.rebalances else HISTORY_EVENTS_PER_GROUP_MAX
        kept.append(_new(Kept, (sequence, event)))
        self._resize(past, size_of(event))
        if len(kept) > longest:
            self._resize(past, -size_of(kept.popleft().event))
        self._shrink()

    def past(self, group_id: str) -> GroupPast | None:
        return self._groups.get(group_id)

    def groups(self) -> Iterable[tuple[str, GroupPast]]:
        return self._groups.items()

    def _shrink(self) -> None:
        while len(self._groups) > HISTORY_GROUPS_MAX or self.size_bytes > HISTORY_BYTES_MAX:
            _, past = self._groups.popitem(last=False)
            self.size_bytes -= past.size_bytes

    def _resize(self, past: GroupPast, by_bytes: int) -> None:
        past.size_bytes += by_bytes
        self.size_bytes += by_bytes


def size_of(event: Any) -> int:
    """About so many bytes."""
    lists = (getattr(event, "moves", None), getattr(event, "waited_for", None))
    return _EVENT_BYTES + _ITEM_BYTES * sum(len(each) for each in lists if each)


def _count(past: GroupPast, event: Any) -> None:
    kind = event.kind
    if kind == "commits":
        past.commits += event.commits
        past.last_commit_ms = event.last_ms
    elif kind in LIVES:
        past.churn += 1
    elif isinstance(event, RebalanceBegan):
        past.cause = event.cause
        if past.began_ms is None:
            past.began_ms = event.at_ms
    elif isinstance(event, RebalanceEnded):
        past.began_ms = None
        past.rebalances_ended += 1
        past.unstable_ms += event.duration_ms
