"""What moves in a split, and what is elsewhere then: such requests are refused, nothing is decided for them.

From its seal on a parent has the groups that move only to be read by the child. Whatever is still under way
for them (a timer, a sweep of old offsets, long work) decides nothing: the child would not know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from actors.catalog.table import COORDINATED
from actors.coordinator.ground.state import ShardState
from actors.coordinator.split.inside import REQUESTS
from actors.coordinator.take_over.inside import REQUESTS as OF_TAKE_OVER
from actors.ground.contract import Key, Record, Request, Result
from actors.ground.records import PRODUCER_MARKER
from actors.protocol.errors import GroupError
from actors.protocol.java_hash import partition_for

ALWAYS = REQUESTS | OF_TAKE_OVER
"""The requests that a shard answers though it serves nobody."""


def moves(key: Key, child: int, partitions: int) -> bool:
    """Return whether a record moves when there will be so many partitions. All of a group's and of a
    transactional id's records do. The last markers of producers are copied, because a producer's groups may
    be in both halves. How many producer ids were given out stays: each partition has its own ids."""
    if key[0] == PRODUCER_MARKER:
        return True
    return key[1] != "" and partition_for(key[1], partitions) == child


def check(state: ShardState, request: Request) -> None:
    """Raise NOT_COORDINATOR for a request that is not to be served here."""
    if request.api_key not in ALWAYS and (state.is_closed or is_away(state, request)):
        raise GroupError(ErrorCode.not_coordinator)


def is_away(state: ShardState, request: Request) -> bool:
    """Whether a request is for a group, or a transactional id, that has moved."""
    return any(map(state.is_away, _named_by(request)))


def _named_by(request: Request) -> Iterable[str]:
    row = COORDINATED.get(request.api_key)
    if row is not None and row.batch is not None:
        return map(row.batch.asked_id, getattr(request.body, row.batch.asked))
    return (getattr(request.body, "group_id", ""),)


def is_timer_away(state: ShardState, key: tuple[Any, ...]) -> bool:
    """Whether a timer is one of a group that has moved. A timer's key is (kind, group id, ...)."""
    return len(key) > 1 and isinstance(key[1], str) and state.is_away(key[1])


def of_those_here(state: ShardState, result: Result) -> Result:
    """Return what is left of a decision without what it says of groups that have moved."""
    if result.work is not None:
        result = result._replace(work=_work_here(state, result.work))
    if not state.seals:
        return result
    return result._replace(
        records=[record for record in result.records if not _is_record_away(state, record)],
        replies=[
            reply for reply in result.replies if reply.group_id is None or not state.is_away(reply.group_id)
        ],
    )


def _is_record_away(state: ShardState, record: Record) -> bool:
    return state.is_away(record.key[1])


def _work_here(state: ShardState, work: Iterator[Result]) -> Iterator[Result]:
    """Yield what work decides until nobody is served any more: then what it began with is forgotten."""
    while not state.is_closed and (result := next(work, None)) is not None:
        yield of_those_here(state, result)
