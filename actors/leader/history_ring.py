"""What a leader remembers of its groups' past, for `groupd explain` and `groupd top`.

Its groups, events and bytes are bounded; the group that has been quiet longest is forgotten first. A new
leader begins with nothing but the replicated state, and says since when it knows more: what was before is in
the segments.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.coordinator.told.events import RebalanceBegan, RebalanceEnded
from actors.ground.contract import new_tuple
from actors.ground.limits import HISTORY_BYTES_MAX, HISTORY_EVENTS_PER_GROUP_MAX, HISTORY_GROUPS_MAX
from storage.history.schema import LIVES

REBALANCES_MAX = 32
"""How many rebalances of a group are kept beside its other events: a big group's joins must not push them
out."""
_EVENT_BYTES = 400
_ITEM_BYTES = 120
"""How many bytes each move and each member in an event's lists takes, as measured and rounded up; all else of
an event takes _EVENT_BYTES."""


class Kept(NamedTuple):
    """An event with its sequence number among its leader's events."""

    sequence: int
    event: Any


class GroupPast:
    """The past of one group, since this leader began."""

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
        """The last rebalances that ended."""
        self.size_bytes = 0
        self.rebalances_ended = 0
        self.churn = 0
        """How many members came or went."""
        self.commits = 0
        self.last_commit_ms: int | None = None
        self.unstable_ms = 0
        """The time in ms that the group spent in rebalances that ended."""
        self.began_ms: int | None = None
        """When the rebalance under way began, in ms; None: there is none."""
        self.cause: str | None = None
        """Why the last rebalance began."""

    def since_ms(self, state: str) -> int | None:
        """Return when the last rebalance left the group in that state; None if it did not, or is not
        remembered."""
        if self.began_ms is not None or not self.rebalances:
            return None
        last = self.rebalances[-1].event
        return last.at_ms if last.state == state else None

    def counts(self, now_ms: int) -> dict[str, Any]:
        """Return the counts that `groupd top` compares; the rebalance under way is counted."""
        under_way_ms = 0 if self.began_ms is None else now_ms - self.began_ms
        return {
            "rebalances": self.rebalances_ended + (self.began_ms is not None),
            "churn": self.churn,
            "commits": self.commits,
            "unstable_ms": self.unstable_ms + under_way_ms,
            "cause": self.cause,
        }


class HistoryRing:
    """The pasts of one leader's groups, within a bound of memory."""

    def __init__(self) -> None:
        self.since_ms: int | None = None
        """When this leader began, in ms; None: this replica does not lead."""
        self.size_bytes = 0
        self._groups: OrderedDict[str, GroupPast] = OrderedDict()
        """Group id -> its past. The group that has been quiet longest is first."""

    def __len__(self) -> int:
        return len(self._groups)

    def begin(self, now_ms: int) -> None:
        """Forget everything, because a new term of leadership begins: what another leader did meanwhile is
        not known here."""
        self.since_ms = now_ms
        self.size_bytes = 0
        self._groups.clear()

    def add(self, sequence: int, event: Any) -> None:
        """Keep an event that is of a group."""
        group_id = getattr(event, "group_id", None)
        kind = event.kind
        if group_id is None or kind == "lag":
            return
        past = self._groups.get(group_id)
        if past is None:
            past = self._groups[group_id] = GroupPast()
        self._groups.move_to_end(group_id)
        _count(past, event, kind)
        if kind == "commits":
            return
        kept = past.rebalances if type(event) is RebalanceEnded else past.events
        longest = REBALANCES_MAX if kept is past.rebalances else HISTORY_EVENTS_PER_GROUP_MAX
        kept.append(new_tuple(Kept, (sequence, event)))
        self._resize(past, size_of(event))
        if len(kept) > longest:
            self._resize(past, -size_of(kept.popleft().event))
        if len(self._groups) > HISTORY_GROUPS_MAX or self.size_bytes > HISTORY_BYTES_MAX:
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
    """Return about how many bytes the event takes in memory."""
    items = len(getattr(event, "moves", None) or ()) + len(getattr(event, "waited_for", None) or ())
    return _EVENT_BYTES + _ITEM_BYTES * items


def _count(past: GroupPast, event: Any, kind: str) -> None:
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
