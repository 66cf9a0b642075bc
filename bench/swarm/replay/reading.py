"""Takes what a replay needs out of a history's segments: a tier's data directory, a folder, or a URL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bench.swarm.planning.scenario import BadScenario
from bench.swarm.replay.told import KINDS, Committed, Recording, Told, in_order, overlap_ms
from cluster import tier_file
from storage.history.period import Period, PeriodError, parsed
from storage.history.report.words import moment
from storage.history.schema import MOVES
from storage.history.segments.folder import Folder
from storage.history.segments.names import DAY_MS
from storage.history.segments.reader import read, survey

MINUTES_DEFAULT: Final = 10
EVENTS_MAX: Final = 1_000_000
"""How many events are held one by one at most: 271,000 took a gigabyte of memory."""
_PLAIN: Final = tuple(name for name in Told._fields if name not in ("widths", "givers", "takers"))
_COMMITS: Final = ("group_id", "first_ms", "last_ms", "commits", "offsets")
_NAME: Final = ("offsets_partition", "term", "sequence")
_SAMPLES: Final = ("topic", "partition")
_EPOCH: Final = "1970-01-01"
_TOLD_LATE_MS: Final = 60_000
"""How late an event may tell of the first of its commits, which are summed up for some seconds."""


def folder_of(place: str) -> Folder:
    """Open the history of a tier's data directory, a folder of segments, or a URL. Raises BadScenario,
    OSError."""
    if "://" in place:
        return Folder(place)
    directory = Path(place).resolve()
    if not directory.is_dir():
        raise BadScenario(
            f"{place}: there is no such directory; a history, or a tier's data directory, is needed"
        )
    tier = tier_file.read(directory)
    if tier is not None:
        return Folder(tier.history_dir or str(directory / "history"))
    below = directory / "history"
    return Folder(str(below if below.is_dir() else directory))


def period(folder: Folder, since: str | None, until: str | None, now_ms: int) -> Period:
    """The period to replay: by default the last ten minutes until the last event. Raises BadScenario,
    OSError."""
    first_ms, last_ms = _ends_ms(folder)
    try:
        end_ms = last_ms + 1 if until is None else parsed(_EPOCH, until, now_ms).until_ms
        end_ms = min(end_ms, last_ms + 1)
        begin_ms = end_ms - MINUTES_DEFAULT * 60_000
        if since is not None:
            begin_ms = parsed(since, None, now_ms).since_ms
        begin_ms = max(begin_ms, first_ms)
    except PeriodError as error:
        raise BadScenario(str(error)) from None
    if begin_ms >= end_ms:
        raise BadScenario(
            f"--since {since}: nothing is recorded from then to {moment(end_ms)};"
            f" the last event is of {moment(last_ms)}"
        )
    return Period(begin_ms, end_ms)


def recording(folder: Folder, span: Period, group: str | None = None) -> Recording:
    """Read all that is known of the groups, or of one, at that time. Raises BadScenario, OSError."""
    seen = survey(folder, until_ms=span.until_ms + _TOLD_LATE_MS)
    skipped = list(seen.skipped)
    gathered = _Gathered(span)
    columns = [*_PLAIN, MOVES, *_COMMITS[1:], *_SAMPLES]
    for table in read(folder, seen.found, skipped, columns):
        gathered.take(_of_group(table, group))
    if gathered.first_ms is None:
        which = "" if group is None else f" of group {group}"
        raise BadScenario(f"nothing is recorded{which} in {folder.url} until {moment(span.until_ms)}")
    return Recording(
        span,
        gathered.first_ms,
        {group_id: in_order(events) for group_id, events in gathered.events.items()},
        gathered.commits(),
        {group_id: dict(topics) for group_id, topics in gathered.sampled.items()},
        gathered.summed_ms,
        tuple(f"Left out: {each.path}: {each.why}" for each in skipped),
    )


def _ends_ms(folder: Folder) -> tuple[int, int]:
    """The times of the first and the last event; the day of the last one is that of the last segment. Raises
    BadScenario, OSError."""
    found = survey(folder).found
    if not found:
        raise BadScenario(f"nothing is recorded in {folder.url}")
    from_ms = found[-1].segment.first_at_ms - DAY_MS
    latest = [each for each in found if each.segment.first_at_ms > from_ms]
    last_ms = max(int(pc.max(table["at_ms"]).as_py()) for table in read(folder, latest, [], ["at_ms"]))
    return min(each.segment.first_at_ms for each in found), last_ms


def _of_group(table: pa.Table, group: str | None) -> pa.Table:
    is_wanted = pc.is_valid(table["group_id"]) if group is None else pc.equal(table["group_id"], group)
    return table.filter(is_wanted)


class _Gathered:
    """Gathers what the segments say, piece by piece."""

    def __init__(self, span: Period) -> None:
        self._span = span
        self.first_ms: int | None = None
        self.events: dict[str, list[Told]] = defaultdict(list)
        self.sampled: dict[str, dict[str, int]] = defaultdict(dict)
        self.summed_ms: dict[str, int] = {}
        self._rows: dict[tuple[int, int, int], tuple[Any, ...]] = {}
        """The commits by the event's name: two segments may have the same event."""
        self._count = 0

    def take(self, table: pa.Table) -> None:
        """Take rows of groups, in any order. Raises BadScenario if they are too many."""
        table = table.filter(pc.less(table["at_ms"], self._span.until_ms + _TOLD_LATE_MS))
        if not table.num_rows:
            return
        first_ms = pc.min(table["at_ms"]).as_py()
        self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
        self._take_commits(table.filter(pc.equal(table["kind"], "commits")))
        table = table.filter(pc.less(table["at_ms"], self._span.until_ms))
        self._take_samples(table.filter(pc.equal(table["kind"], "lag")))
        self._take_events(table.filter(pc.is_in(table["kind"], pa.array(KINDS))))

    def commits(self) -> dict[str, Committed]:
        """The commits by group. Of a row that the period cuts, as much counts as lies within."""
        found: dict[str, Committed] = defaultdict(Committed)
        for group_id, first_ms, last_ms, commits, offsets in self._rows.values():
            share = overlap_ms(self._span, first_ms, last_ms + 1) / (last_ms + 1 - first_ms)
            if share:
                before = found[group_id]
                found[group_id] = Committed(
                    before.commits + share * commits, before.offsets + share * offsets
                )
        return dict(found)

    def _take_commits(self, table: pa.Table) -> None:
        latest = table.group_by("group_id").aggregate([("at_ms", "max")])
        for group_id, at_ms in _tuples(latest, ("group_id", "at_ms_max")):
            self.summed_ms[group_id] = max(at_ms, self.summed_ms.get(group_id, at_ms))
        since_ms, until_ms = self._span
        is_within = pc.and_(
            pc.greater_equal(table["last_ms"], since_ms), pc.less(table["first_ms"], until_ms)
        )
        table = table.filter(is_within)
        self._counted(table)
        self._rows.update(zip(_tuples(table, _NAME), _tuples(table, _COMMITS), strict=True))

    def _take_samples(self, table: pa.Table) -> None:
        highest = table.group_by(["group_id", "topic"]).aggregate([("partition", "max")])
        for group_id, topic, partition in _tuples(highest, ("group_id", "topic", "partition_max")):
            before = self.sampled[group_id].get(topic, 0)
            self.sampled[group_id][topic] = max(before, partition + 1)

    def _take_events(self, table: pa.Table) -> None:
        self._counted(table)
        moved = _moves(table[MOVES])
        for place, values in enumerate(_tuples(table, _PLAIN)):
            told = Told(**dict(zip(_PLAIN, values, strict=True)))
            told = told._replace(
                widths=tuple(moved.widths.get(place, ())),
                givers=tuple(moved.givers.get(place, ())),
                takers=tuple(moved.takers.get(place, ())),
            )
            self.events[told.group_id].append(told)

    def _counted(self, table: pa.Table) -> None:
        self._count += table.num_rows
        if self._count > EVENTS_MAX:
            raise BadScenario(f"more than {EVENTS_MAX:,} events are recorded until then: choose one --group")


def _tuples(table: pa.Table, names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


class _Moved(NamedTuple):
    """What `moves` say, by the row's place, as the fields of `Told` have it."""

    widths: dict[int, list[tuple[str, int]]]
    givers: dict[int, list[str]]
    takers: dict[int, list[str]]


def _moves(column: pa.ChunkedArray) -> _Moved:
    """Gather what the moves say of topics and members."""
    found = _Moved(defaultdict(list), defaultdict(list), defaultdict(list))
    moves = column.combine_chunks()
    if isinstance(moves, pa.ChunkedArray):  # there are no rows at all
        return found
    fields = ("topic", "partition", "from_member", "to_member")
    flat = dict(zip(fields, pc.list_flatten(moves).flatten(), strict=True))
    table = pa.table({"place": pc.list_parent_indices(moves), **flat})
    highest = table.group_by(["place", "topic"]).aggregate([("partition", "max")])
    for place, topic, partition in _tuples(highest, ("place", "topic", "partition_max")):
        found.widths[place].append((topic, partition + 1))
    taken = table.filter(pc.is_valid(table["to_member"]))
    given = taken.filter(pc.is_valid(taken["from_member"]))
    for rows, column_name, members in (
        (given, "from_member", found.givers),
        (taken, "to_member", found.takers),
    ):
        for place, member in _tuples(
            rows.group_by(["place", column_name]).aggregate([]), ("place", column_name)
        ):
            members[place].append(member)
    return found
