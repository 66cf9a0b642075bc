"""Small segments become large ones. `plan` is pure; `merge` carries out one of its merges.

Of a day under way the first many are merged, of a past day all that follow one another, each time within one
offsets partition and one term: the new name then covers the old ones. What was replaced is not removed at
once, since a reader may be under way; readers pass it over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from storage.history.segments import parquet
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found, Segment

PARTS_MIN: Final = 60
"""Parts that a day must have before it is compacted while it is not over: half an hour with a segment
every thirty seconds."""
COMPACTED_BYTES_MAX: Final = 64 * 1024 * 1024
DAY_OVER_MS: Final = 600_000
"""The wait after midnight: the last segment of a day is published in the next."""


class Plan(NamedTuple):
    """What to do with one offsets partition's segments."""

    replaced: list[Segment]
    """The segments whose events are all in another one that is there."""
    merges: list[list[Segment]]


class DamagedPart(Exception):
    """A segment that cannot be merged: it stays as it is."""

    def __init__(self, segment: Segment, why: str) -> None:
        super().__init__(f"{segment.path}: {why}")
        self.segment = segment


def plan(found: Iterable[Found], now_ms: int, damaged: Set[Segment] = frozenset()) -> Plan:
    """Say what to do with the segments that were found; damaged ones are left alone."""
    of_term: dict[tuple[str, int], list[Found]] = defaultdict(list)
    for each in found:
        of_term[each.segment.folder, each.segment.term].append(each)
    replaced, merges = [], []
    for alike in of_term.values():
        alike.sort(key=lambda each: (each.segment.first_sequence, -each.segment.last_sequence))
        large = [each.segment for each in alike if each.segment.compacted and each.segment not in damaged]
        covered = {each.segment for each in alike if any(one.covers(each.segment) for one in large)}
        replaced += sorted(covered)
        is_over = alike[0].segment.day_ends_ms + DAY_OVER_MS <= now_ms
        left = (each for each in alike if each.segment not in covered)
        merges += [run for run in _runs(left, damaged, is_over) if len(run) >= (2 if is_over else PARTS_MIN)]
    return Plan(replaced, merges)


def _runs(found: Iterable[Found], damaged: Set[Segment], is_over: bool) -> Iterator[list[Segment]]:
    """Segments that follow one another and are small enough together."""
    run: list[Segment] = []
    run_bytes = 0
    for segment, size_bytes in found:
        is_apart = segment in damaged or (segment.compacted and not is_over)
        if is_apart or run_bytes + size_bytes > COMPACTED_BYTES_MAX:
            yield run
            run, run_bytes = [], 0
        if not is_apart:
            run.append(segment)
            run_bytes += size_bytes
    yield run


def merge(
    folder: Folder, parts: list[Segment], replaced: Iterable[Segment], between: Callable[[], None]
) -> Segment:
    """Publish one segment of the parts' rows. `replaced` are others that it covers and that are still there.
    `between` is called after each row group. Raises DamagedPart and OSError; then nothing has changed."""
    first, last = parts[0], parts[-1]
    merged = first._replace(last_sequence=last.last_sequence, compacted=True)
    names = [part.name for part in parts] + [each.name for each in replaced if merged.covers(each)]
    tier_ids = [_tier_id(folder, part) for part in parts]
    about = parquet.About(tier_ids[0], tuple(names))
    folder.publish(merged, lambda sink: parquet.write(sink, _row_groups(folder, parts, between), about))
    return merged


def _tier_id(folder: Folder, part: Segment) -> str:
    with _opened(folder, part) as (_, about):
        return about.tier_id


def _row_groups(folder: Folder, parts: list[Segment], between: Callable[[], None]) -> Iterator[pa.Table]:
    """The parts' rows, gathered into row groups of some size, what is BULK apart."""
    gathered: dict[bool, list[pa.Table]] = {False: [], True: []}
    for part in parts:
        with _opened(folder, part) as (file, _):
            for number in range(file.num_row_groups):
                for is_bulk, table in parquet.apart(parquet.row_group(file, number)).items():
                    gathered[is_bulk].append(table)
                between()
        for tables in gathered.values():
            if sum(table.num_rows for table in tables) >= parquet.ROW_GROUP_ROWS:
                yield pa.concat_tables(tables)
                tables.clear()
    yield from (pa.concat_tables(tables) for tables in gathered.values() if tables)


@contextmanager
def _opened(folder: Folder, part: Segment) -> Iterator[tuple[pq.ParquetFile, parquet.About]]:
    try:
        with parquet.opened(folder, part) as opened:
            yield opened
    except (parquet.UnreadableSegment, FileNotFoundError) as error:
        raise DamagedPart(part, str(error)) from None
