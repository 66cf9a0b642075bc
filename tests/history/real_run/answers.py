"""What an operator asks, answered from a tier's history alone: its Parquet files, read with pyarrow.

Who caused each rebalance, when partitions had no owner, which commits went back; and since when nobody knows,
because a leader took its last events with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from storage.history.jobs.rebalances import COOPERATIVE
from storage.history.segments.folder import Folder
from tests.history.read_back import read_all

Place = tuple[str, int]
"""A topic's name and a partition's number."""
Row = Mapping[str, Any]

COLUMNS: Final = (
    *("offsets_partition", "term", "sequence", "at_ms", "kind", "group_id", "group_type", "member_id"),
    *("cause", "assignor", "moves", "topic", "partition", "committed_offset", "end_offset"),
)


class Trigger(NamedTuple):
    """What began a rebalance, and when."""

    at_ms: int
    member_id: str | None
    cause: str | None


class Gap(NamedTuple):
    """A time in which a partition that had had an owner had none."""

    topic: str
    partition: int
    from_ms: int
    until_ms: int


class Back(NamedTuple):
    """A committed offset that went back."""

    group_id: str
    topic: str
    partition: int
    before: int
    after: int


class Span(NamedTuple):
    from_ms: int
    until_ms: int


class Answers(NamedTuple):
    """The answers by group, where there is more than one."""

    triggers: dict[str, list[Trigger]]
    """Triggers in order: that of the third rebalance is the third."""
    gaps: dict[str, list[Gap]]
    back: set[Back]
    partition_of: dict[str, int]
    """The number of the offsets partition that each group belongs to."""
    unknown: dict[int, list[Span]]
    """Spans by offsets partition that nobody told of: from the last word of a leader that was lost to the
    first of the next one."""


def answers(folder: Folder) -> Answers:
    """Find the answers in a history that is read whole."""
    table, skipped = read_all(folder, columns=list(COLUMNS))
    assert skipped == []
    order = [(name, "ascending") for name in ("offsets_partition", "term", "sequence")]
    groups: dict[str, _Group] = {}
    found = Answers({}, {}, set(), {}, defaultdict(list))
    last: Row = {"offsets_partition": None}
    for row in table.sort_by(order).to_pylist():
        partition = row["offsets_partition"]
        if partition == last["offsets_partition"] and row["term"] != last["term"] and not _is_farewell(last):
            found.unknown[partition].append(Span(last["at_ms"], row["at_ms"]))
            for group_id, known in found.partition_of.items():
                if known == partition:
                    groups[group_id].forget()
        last = row
        if row["kind"] == "commit_regressed":
            found.back.add(Back(*(row[name] for name in BACK)))
        if row["group_id"] is not None:
            found.partition_of[row["group_id"]] = partition
            groups.setdefault(row["group_id"], _Group()).take(row)
    return found._replace(
        triggers={group_id: group.triggers for group_id, group in groups.items()},
        gaps={group_id: group.gaps for group_id, group in groups.items()},
    )


def _is_farewell(row: Row) -> bool:
    """A leader's last event, after which it has none to tell."""
    return row["kind"] in ("coordinator_lost", "coordinator_moved")


BACK: Final = ("group_id", "topic", "partition", "end_offset", "committed_offset")


class _Group:
    """Follows one group's events."""

    def __init__(self) -> None:
        self.triggers: list[Trigger] = []
        self.gaps: list[Gap] = []
        self._began_ms: int | None = None
        """When the rebalance that is under way began."""
        self._owners: dict[Place, str] = {}
        self._targets: dict[Place, str] = {}
        """The member that is to own each partition, in a consumer group."""
        self._free: dict[Place, int] = {}
        """The time since which a partition has no owner."""

    def take(self, row: Row) -> None:
        handler = _HANDLERS.get(row["kind"])
        if handler is not None:
            handler(self, row)

    def forget(self) -> None:
        """Events may be lost: who has what is only known again when it moves."""
        self._owners.clear()
        self._targets.clear()
        self._free.clear()

    def began(self, row: Row) -> None:
        if self._began_ms is None:
            self._began_ms = row["at_ms"]
            self.triggers.append(Trigger(row["at_ms"], row["member_id"], row["cause"]))

    def ended(self, row: Row) -> None:
        began_ms, self._began_ms = self._began_ms, None
        if row["group_type"] == "classic":
            self._shared_out(row, row["at_ms"] if began_ms is None else began_ms)

    def _shared_out(self, row: Row, began_ms: int) -> None:
        """Eager members have nothing while they rebalance; cooperative ones keep what they keep (KIP-429)."""
        stops = COOPERATIVE not in (row["assignor"] or "")
        owners = dict(self._owners) if stops else {}
        for place in owners:
            self._release(place, began_ms)
        for move in row["moves"] or ():
            place = move["topic"], move["partition"]
            owners.pop(place, None)
            self._release(place, row["at_ms"] if move["to_member"] is None else began_ms)
            if move["to_member"] is not None:
                owners[place] = move["to_member"]
        for place, member_id in owners.items():
            self._gain(place, member_id, row["at_ms"])

    def assigned(self, row: Row) -> None:
        for move in row["moves"] or ():
            self._targets[move["topic"], move["partition"]] = move["to_member"]

    def reconciled(self, row: Row) -> None:
        """The member has what the target gives it, and nothing else."""
        member_id = row["member_id"]
        for place, target in self._targets.items():
            owner = self._owners.get(place)
            if owner == member_id != target or (target == member_id != owner):
                self._release(place, row["at_ms"])
            if target == member_id != owner:
                self._gain(place, member_id, row["at_ms"])

    def gone(self, row: Row) -> None:
        for place in [place for place, owner in self._owners.items() if owner == row["member_id"]]:
            self._release(place, row["at_ms"])

    def _release(self, place: Place, at_ms: int) -> None:
        if self._owners.pop(place, None) is not None:
            self._free.setdefault(place, at_ms)

    def _gain(self, place: Place, member_id: str, at_ms: int) -> None:
        self._owners[place] = member_id
        since_ms = self._free.pop(place, None)
        if since_ms is not None and since_ms < at_ms:
            self.gaps.append(Gap(*place, since_ms, at_ms))


_HANDLERS: Final = {
    "rebalance_began": _Group.began,
    "rebalance_ended": _Group.ended,
    "assigned": _Group.assigned,
    "member_reconciled": _Group.reconciled,
    "member_left": _Group.gone,
    "member_expired": _Group.gone,
}
