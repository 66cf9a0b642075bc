"""Move committed offsets of groups as records, from any Kafka and into any, through the Kafka protocol alone.

OffsetFetch tells no commit time and no topic id: an exported offset was committed when it was exported.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from actors.coordinator.kafka_records.codec import KafkaRecord
from actors.coordinator.kafka_records.convert import OFFSET_COMMIT_KINDS, PackedRecord, to_kafka
from actors.coordinator.kafka_records.schemas import NO_ID
from actors.ground.records import NO_EXPIRY, OFFSET_COMMIT, OffsetCommitValue
from cluster.groups.connection import Kafka, NoSuchGroup
from cluster.groups.describe import INACTIVE, describe_group
from cluster.groups.requests import Committed, TopicPartition, commit, committed_offsets, partitions_of
from cluster.tier_file import TierError

PROBLEMS_SHOWN: Final = 20

Offsets = dict[str, dict[TopicPartition, Committed]]
"""Group id -> what it has committed."""


@dataclass(slots=True, kw_only=True)
class Imported:
    """What an import did, or would do."""

    groups: int = 0
    offsets: int = 0
    left_out: list[str] = field(default_factory=list)
    """What was named as missing and left out, in words."""


async def export_committed(kafka: Kafka, group_ids: Iterable[str]) -> list[KafkaRecord]:
    """Return the committed offsets of groups as records. Raises TierError, also for a group that does not
    exist."""
    now_ms = time.time_ns() // 1_000_000
    state: list[PackedRecord] = []
    for group_id in group_ids:
        await describe_group(kafka, group_id)
        for place, committed in (await committed_offsets(kafka, group_id)).items():
            value = OffsetCommitValue(
                committed.offset, committed.leader_epoch, committed.metadata, now_ms, NO_EXPIRY, NO_ID
            )
            state.append(((OFFSET_COMMIT, group_id, *place), value))
    return list(to_kafka(state, Counter()))


def committed_in(records: Iterable[KafkaRecord]) -> Offsets:
    """Return the committed offsets among records of which none replaces another."""
    offsets: Offsets = {}
    for record in records:
        if record.kind in OFFSET_COMMIT_KINDS and record.value is not None:
            place = TopicPartition(record.key["topic"], record.key["partition"])
            committed = Committed(
                record.value["offset"], record.value["leaderEpoch"], record.value["metadata"]
            )
            offsets.setdefault(record.key["group"], {})[place] = committed
    return offsets


def only(offsets: Offsets, group_ids: list[str] | None) -> Offsets:
    """Return the offsets of some groups; all if `group_ids` is None. Raises TierError for a group that has
    none."""
    if not group_ids:
        return offsets
    if missing := [group_id for group_id in group_ids if group_id not in offsets]:
        raise TierError(f"the file has no committed offsets of {', '.join(missing)}")
    return {group_id: offsets[group_id] for group_id in group_ids}


async def import_committed(
    kafka: Kafka, offsets: Offsets, *, skip_missing: bool, is_executed: bool
) -> Imported:
    """Commit everything, or raise TierError that names what is wrong before anything is written.

    `skip_missing` leaves out offsets of topics and partitions that do not exist.
    """
    report = Imported()
    topics = await partitions_of(kafka, {place.topic for each in offsets.values() for place in each})
    problems = []
    kept: Offsets = {}
    for group_id, committed in offsets.items():
        problems += await _use(kafka, group_id)
        for place, value in committed.items():
            wrong = _wrong(place, value, topics)
            if wrong is None:
                kept.setdefault(group_id, {})[place] = value
            elif wrong.is_missing and skip_missing:
                report.left_out.append(f"{group_id}: {wrong.text}")
            else:
                problems.append(f"{group_id}: {wrong.text}")
    raise_problems(problems)
    for group_id, committed in kept.items():
        if is_executed:
            await commit(kafka, group_id, committed)
        report.groups += 1
        report.offsets += len(committed)
    return report


def raise_problems(problems: list[str]) -> None:
    """Raise TierError if there are any problems."""
    if problems:
        more = len(problems) - PROBLEMS_SHOWN
        tail = f"; and {more} more" if more > 0 else ""
        raise TierError(f"nothing was imported: {'; '.join(problems[:PROBLEMS_SHOWN])}{tail}")


@dataclass(frozen=True, slots=True)
class _Wrong:
    text: str
    is_missing: bool = False


def _wrong(
    place: TopicPartition, committed: Committed, topics: dict[str, dict[int, tuple[str, int] | None]]
) -> _Wrong | None:
    if committed.offset < 0:
        return _Wrong(f"{place} has offset {committed.offset}")
    if place.topic not in topics:
        return _Wrong(f"topic {place.topic} is not there", is_missing=True)
    if place.partition not in topics[place.topic]:
        return _Wrong(f"partition {place} is not there", is_missing=True)
    return None


async def _use(kafka: Kafka, group_id: str) -> list[str]:
    """Return why offsets cannot be committed for a group: it has members."""
    try:
        state = (await describe_group(kafka, group_id)).state
    except NoSuchGroup:
        return []
    return [] if state in INACTIVE else [f"{group_id} is {state}: stop its members first"]
