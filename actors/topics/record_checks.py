"""Refuse records that a topic does not take: without a key where it is compacted, and with a time that is too
far from the broker's (W39).

A batch is decided by its header wherever that is enough, because a walk through its records costs a hundred
times as much. The records of a compressed batch are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.limits import RECORD_ERRORS_MAX
from actors.topics.batch import BatchHeader, plain_records
from actors.topics.errors import LogError, RecordError

NO_TIMESTAMP: Final = -1
ANY_AGE_MS: Final = 2**63 - 1
"""The bound of a topic that takes records however old they are."""
_NO_KEY: Final = "A record of a compacted topic needs a key."
_NOT_THE_PRODUCERS: Final = "The time of a record's append is set by the broker and not by a producer."


class RecordRules(NamedTuple):
    """What a topic's configs say of its records."""

    log_append_time: bool = False
    """Whether records get the time of their append (message.timestamp.type)."""
    needs_keys: bool = False
    """Whether the topic is compacted (cleanup.policy)."""
    older_ms_max: int = ANY_AGE_MS
    """How much older than its append a record may be (message.timestamp.before.max.ms)."""
    newer_ms_max: int = 3_600_000
    """How much newer than its append a record may be (message.timestamp.after.max.ms)."""


def check_records(batch: bytes, header: BatchHeader, rules: RecordRules, now_ms: int) -> None:
    """Check the records of a batch whose header is as it should be (`batch.check_batch`).

    Raises LogError, which names the wrong records as far as they are known: INVALID_TIMESTAMP if one of them
    has a wrong time, else INVALID_RECORD.
    """
    if not rules.needs_keys and _is_well_timed(header, rules, now_ms):
        return
    earliest_ms, latest_ms = now_ms - rules.older_ms_max, now_ms + rules.newer_ms_max

    def time_problem(timestamp_ms: int) -> str | None:
        if rules.log_append_time or timestamp_ms == NO_TIMESTAMP:
            return _NOT_THE_PRODUCERS if header.has_append_time else None
        if earliest_ms <= timestamp_ms <= latest_ms:
            return None
        return f"Timestamp {timestamp_ms} is not within {earliest_ms} to {latest_ms}."

    errors: list[RecordError] = []
    # The header has the highest of the times, but does not say which record has it.
    wrong_time = header.compression > 0 and time_problem(header.max_timestamp_ms) is not None
    records = _told_by_header(header) if header.compression else plain_records(batch, header)
    for index, (timestamp_ms, has_key) in enumerate(records):
        problem = _NO_KEY if rules.needs_keys and not has_key else time_problem(timestamp_ms)
        if problem is not None:
            wrong_time = wrong_time or problem is not _NO_KEY
            if len(errors) < RECORD_ERRORS_MAX:
                errors.append(RecordError(index, problem))
    if errors or wrong_time:
        first = f": {errors[0].message}" if errors else "."
        raise LogError(
            ErrorCode.invalid_timestamp if wrong_time else ErrorCode.invalid_record,
            f"The batch has records that this topic does not take{first}",
            tuple(errors),
        )


def _is_well_timed(header: BatchHeader, rules: RecordRules, now_ms: int) -> bool:
    """Return whether the header alone shows that all records have a time that the topic takes."""
    if rules.log_append_time:
        return not header.has_append_time
    return header.max_timestamp_ms <= now_ms + rules.newer_ms_max and rules.older_ms_max == ANY_AGE_MS


def _told_by_header(header: BatchHeader) -> Iterator[tuple[int, bool]]:
    """Yield what the header tells of records, as `plain_records` does: the time of the first one, or that of
    all. No record counts as one without a key."""
    yield (header.max_timestamp_ms if header.has_append_time else header.base_timestamp_ms), True
    if header.has_append_time:
        for _ in range(1, min(header.record_count, RECORD_ERRORS_MAX)):
            yield header.max_timestamp_ms, True
