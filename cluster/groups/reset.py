"""Choose and carry out `groupd groups reset-offsets`: where a group's offsets go, by Kafka's scenarios (B10).

The new offsets are chosen first, from what is committed and where the logs begin and end. They are shown, and
written only with --execute. Their text (CSV) can be read back.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cluster.groups.connection import Kafka, NoSuchGroup
from cluster.groups.describe import INACTIVE, describe_group
from cluster.groups.requests import (
    EARLIEST,
    LATEST,
    Committed,
    TopicPartition,
    commit,
    committed_offsets,
    log_offsets,
    partitions_of,
)
from cluster.tier_file import TierError

CSV_COLUMNS: Final = (3, 4)
"""How many columns the CSV has: topic, partition, offset; with the group in front if there are
several."""
_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a reset is asked to do: one of these is given; the rest is None or False."""

    to_offset: int | None = None
    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    shift_by: int | None = None
    to_datetime_ms: int | None = None
    from_file: Mapping[str, Offsets] | None = None
    """Group id -> its new offsets, read from a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A group's new offsets, and a warning for each that lay beyond its log and was brought to its end."""

    group: str
    offsets: Offsets
    warnings: tuple[str, ...] = ()


async def plan_reset(kafka: Kafka, group_id: str, scenario: Scenario, scope: list[str] | None) -> Reset:
    """Offsets a group's reset. `scope` has topics as "topic" or "topic:0,1"; None is all that the group has
    committed offsets of.

    Raises TierError, also for a group with members and for partitions that do not exist.
    """
    await _refuse_active(kafka, group_id)
    committed = await committed_offsets(kafka, group_id)
    if scenario.from_file is not None:
        wanted = scenario.from_file.get(group_id)
        if wanted is None:
            raise TierError(f"the file has no offsets of group {group_id}")
        places = list(wanted)
    else:
        wanted = None
        places = list(committed) if scope is None else await places_of(kafka, scope)
    await _refuse_missing(kafka, places)
    if wanted is not None:
        return await _in_range(kafka, group_id, wanted)
    if scenario.to_offset is not None:
        return await _in_range(kafka, group_id, dict.fromkeys(places, scenario.to_offset))
    if scenario.shift_by is not None:
        if missing := [str(place) for place in places if place not in committed]:
            raise TierError(f"nothing is committed for {', '.join(missing)}: there is nothing to shift")
        shifted = {place: committed[place].offset + scenario.shift_by for place in places}
        return await _in_range(kafka, group_id, shifted)
    if scenario.to_current:
        kept = {place: committed[place].offset for place in places if place in committed}
        ends = await _known(kafka, [place for place in places if place not in committed], LATEST)
        return Reset(group=group_id, offsets=kept | ends)
    if scenario.to_datetime_ms is not None:
        return Reset(group=group_id, offsets=await _at(kafka, places, scenario.to_datetime_ms))
    return Reset(
        group=group_id, offsets=await _known(kafka, places, EARLIEST if scenario.to_earliest else LATEST)
    )


async def execute(kafka: Kafka, reset: Reset) -> None:
    """Commit the new offsets. Raises TierError."""
    await commit(kafka, reset.group, {place: Committed(offset) for place, offset in reset.offsets.items()})


async def _refuse_active(kafka: Kafka, group_id: str) -> None:
    try:
        state = (await describe_group(kafka, group_id)).state
    except NoSuchGroup:
        return  # a group may be given offsets before it begins
    if state not in INACTIVE:
        raise TierError(
            f"offsets can only be reset while group {group_id} is inactive; it is {state}: stop its members"
        )


async def places_of(kafka: Kafka, scope: list[str]) -> list[TopicPartition]:
    """Return the partitions that "topic" and "topic:0,1" name. Raises TierError."""
    places: list[TopicPartition] = []
    whole = []
    for text in scope:
        parsed = parse_topic(text)
        if isinstance(parsed, str):
            whole.append(parsed)
        else:
            places += parsed
    found = await partitions_of(kafka, whole)
    for topic in whole:
        if topic not in found:
            raise TierError(f"topic {topic} is not there")
        places += [TopicPartition(topic, partition) for partition in found[topic]]
    return list(dict.fromkeys(places))


def parse_topic(text: str) -> str | list[TopicPartition]:
    """Return "topic" as it is, or "topic:0,1" as its partitions. Raises TierError."""
    topic, colon, partitions = text.partition(":")
    if not colon:
        return topic
    if not all(number.strip().isdigit() for number in partitions.split(",")):
        raise TierError(f"--topic {text}: TOPIC or TOPIC:0,1,2 is expected")
    return [TopicPartition(topic, int(number)) for number in partitions.split(",")]


async def _refuse_missing(kafka: Kafka, places: Iterable[TopicPartition]) -> None:
    wanted = list(places)
    topics = await partitions_of(kafka, (place.topic for place in wanted))
    missing = [str(place) for place in wanted if place.partition not in topics.get(place.topic, {})]
    if missing:
        raise TierError(f"these partitions are not there: {', '.join(missing)}")
    leaderless = [str(place) for place in wanted if topics[place.topic][place.partition] is None]
    if leaderless:
        raise TierError(f"these partitions have no leader: {', '.join(leaderless)}")


async def _known(kafka: Kafka, places: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
    found = await log_offsets(kafka, places, timestamp_ms)
    offsets = {}
    for place, offset in found.items():
        if offset is None:
            raise TierError(f"the leader of {place} does not tell its offsets")
        offsets[place] = offset
    return offsets


async def _at(kafka: Kafka, places: list[TopicPartition], timestamp_ms: int) -> Offsets:
    """Return the offsets at a time; the end of the log if nothing is so late."""
    offsets = await _known(kafka, places, timestamp_ms)
    late = await _known(kafka, [place for place, offset in offsets.items() if offset < 0], LATEST)
    return offsets | late


async def _in_range(kafka: Kafka, group_id: str, wanted: Mapping[TopicPartition, int]) -> Reset:
    starts, ends = await _known(kafka, wanted, EARLIEST), await _known(kafka, wanted, LATEST)
    offsets, warnings = {}, []
    for place, offset in wanted.items():
        offsets[place] = min(max(offset, starts[place]), ends[place])
        if offsets[place] != offset:
            which = "earlier than the first" if offset < starts[place] else "later than the last"
            warnings.append(f"{place}: offset {offset} is {which}, {offsets[place]} is taken")
    return Reset(group=group_id, offsets=offsets, warnings=tuple(warnings))


# Texts.


def parse_datetime(text: str) -> int:
    """Return an ISO 8601 time as milliseconds since 1970; without a zone it is UTC. Raises TierError."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise TierError(f"--to-datetime {text}: YYYY-MM-DDThh:mm:ss.sss is expected") from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return round(parsed.timestamp() * 1000)


def parse_duration(text: str) -> timedelta:
    """Return an ISO 8601 duration, PnDTnHnMnS. Raises TierError."""
    found = _DURATION.fullmatch(text.upper())
    if found is None:
        raise TierError(f"--by-duration {text}: PnDTnHnMnS is expected, e.g. PT1H30M")
    return timedelta(**{unit: float(number) for unit, number in found.groupdict(default="0").items()})


def to_csv(resets: Iterable[Reset]) -> str:
    """Return new offsets as Kafka's --export prints them: topic,partition,offset; with the group in front if
    there are several."""
    resets = list(resets)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for reset in resets:
        head = [reset.group] if len(resets) > 1 else []
        for place, offset in sorted(reset.offsets.items()):
            writer.writerow([*head, place.topic, place.partition, offset])
    return text.getvalue()


def from_csv(text: str, group_ids: list[str]) -> dict[str, Offsets]:
    """Return the offsets that `to_csv` wrote, for one group or several. Raises TierError that names the
    line."""
    by_group: dict[str, Offsets] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row:
            continue
        if len(row) == CSV_COLUMNS[0] and len(group_ids) == 1:
            row = [group_ids[0], *row]
        if len(row) != CSV_COLUMNS[1] or not (row[2].strip().isdigit() and row[3].strip().isdigit()):
            form = "topic,partition,offset" if len(group_ids) == 1 else "group,topic,partition,offset"
            raise TierError(f"line {number} is {','.join(row)!r}: {form} is expected")
        group_id, topic, partition, offset = row
        by_group.setdefault(group_id, {})[TopicPartition(topic, int(partition))] = int(offset)
    return by_group
