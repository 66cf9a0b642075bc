"""The child of a split: it takes the records that move to it, and serves nobody before it has them all.

They come in pieces, perhaps more than once and from more than one leader of the parent: as the parent's seal
has made them final, to write one again changes nothing. The end is one record, too. Before it the child is
nobody's coordinator, after it it is one like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.slices import SLICE_MAX, withheld
from actors.coordinator.ground.state import ShardState
from actors.coordinator.split.inside import (
    ARRIVE,
    ARRIVED,
    ArrivedRequest,
    ArriveRequest,
    SplitResponse,
    refused,
)
from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.ground.records import ARRIVAL, RECORD_TYPES, ArrivalKey, ArrivalValue
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR

_KEY = ArrivalKey(ARRIVAL, "")


def arrive(state: ShardState, request: Request, now_ms: int) -> Result:
    """Write some of the records that move. What comes late, after the end, is known already."""
    body: ArriveRequest = request.body
    reply = Reply(request.token, SplitResponse(NO_ERROR))
    _check_awaited(state)
    if state.arrival is not None:
        return Result((), (reply,))
    records = [
        Record(types[0](*key), types[1](*value))
        for key, value in body.records
        if (types := RECORD_TYPES.get(key[0])) is not None
    ]
    return Result(records, (reply,))


def _check_awaited(state: ShardState) -> None:
    if not state.home.awaits_groups and state.arrival is None:
        raise GroupError(ErrorCode.invalid_request, "this offsets partition awaits no groups")


def arrived(state: ShardState, request: Request, now_ms: int) -> Result:
    """Begin to serve if all records are there; the answer says that this is committed."""
    _check_awaited(state)
    return Result(work=_arrived(state, request, now_ms))


def _arrived(state: ShardState, request: Request, now_ms: int) -> Iterator[Result]:
    body: ArrivedRequest = request.body
    found = 0
    for _ in state.whole.records() if state.arrival is None else ():
        found += 1
        if found % SLICE_MAX == 0:
            yield NOTHING
    if state.arrival is None:
        if found != body.records:
            message = f"{found} records have arrived, {body.records} were to come"
            answer = SplitResponse(ErrorCode.invalid_request, message)
            yield Result((), (Reply(request.token, answer),))
            return
        yield Result((Record(_KEY, ArrivalValue(body.parent, body.partitions, body.coordinator_epoch)),))
        # What is begun asks again at once: nothing of it may leave before this shard serves.
        yield from withheld(state.whole.elected(now_ms))
    yield Result((), (Reply(request.token, SplitResponse(NO_ERROR)),))


# State.


def _apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    assert value is None or isinstance(value, ArrivalValue)
    replaced, state.arrival = state.arrival, value
    state.note_split()
    return replaced


def _records(state: ShardState) -> Iterator[Record]:
    if state.arrival is not None:
        yield Record(_KEY, state.arrival)


AREA = Area(
    handlers={ARRIVE: arrive, ARRIVED: arrived},
    refusals={ARRIVE: refused, ARRIVED: refused},
    appliers={ARRIVAL: _apply},
    records=_records,
)
