"""The parent of a split: it seals what moves, and drops it once the child has all of it.

The seal is one record. All that was decided for the groups before it stands before it in the log, so once the
seal is committed their records are final: every copy of them is the same, whoever makes it and how often.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.slices import sliced
from actors.coordinator.ground.state import ShardState
from actors.coordinator.split.inside import (
    DROP,
    FORWARDED,
    SEAL,
    DropRequest,
    ForwardedRequest,
    MarkersToForward,
    SealRequest,
    SplitResponse,
    refused,
)
from actors.coordinator.split.place import moves
from actors.coordinator.transactions import offset_commit
from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.ground.records import PRODUCER_MARKER, SPLIT_SEAL, SplitSealKey, SplitSealValue
from actors.ground.snapshot_build import live_items
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import (
    TxnMarkerErrors,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def seal(state: ShardState, request: Request, now_ms: int) -> Result:
    """Serve the groups that move no more, from this decision on. The answer says that it is committed; a
    repeated request is answered in the same way."""
    body: SealRequest = request.body
    reply = Reply(request.token, SplitResponse(NO_ERROR))
    if state.is_closed:
        raise GroupError(ErrorCode.not_coordinator, "its own groups have not arrived yet")
    if body.child in state.seals:
        return Result((), (reply,))
    if body.child - body.partitions // 2 != state.home.partition:
        raise GroupError(ErrorCode.invalid_request, f"partition {body.child} is no child of this one")
    value = SplitSealValue(body.partitions, body.coordinator_epoch)
    for token, waiting in list(state.unverified.items()):
        if moves(("", waiting.request.body.group_id), body.child, body.partitions):
            del state.unverified[token]
    return Result((Record(_key(body.child), value),), work=_sealed(state, reply))


def _key(child: int) -> SplitSealKey:
    return SplitSealKey(SPLIT_SEAL, "", child)


def _sealed(state: ShardState, reply: Reply) -> Iterator[Result]:
    yield from let_go(state)
    yield Result((), (reply,))


def let_go(state: ShardState) -> Iterator[Result]:
    """Forget, in slices, what only a leader knows of the groups that have moved."""
    every_id = chain(*(groups for groups, _ in state.groups_by_kind), state.simple_groups, state.rebalances)
    for group_ids in sliced(list(every_id)):
        for group_id in group_ids:
            if state.is_away(group_id):
                state.drop_volatile_of(group_id)
        yield NOTHING


def drop(state: ShardState, request: Request, now_ms: int) -> Result:
    """Remove what has moved. The child must have all of it."""
    body: DropRequest = request.body
    found = state.seals.get(body.child)
    reply = Reply(request.token, SplitResponse(NO_ERROR))
    if found is None:
        raise GroupError(ErrorCode.invalid_request, f"nothing has moved to partition {body.child}")
    if found.is_dropped:
        return Result((), (reply,))
    return Result(work=_dropped(state, body.child, found, reply))


def _dropped(state: ShardState, child: int, found: SplitSealValue, reply: Reply) -> Iterator[Result]:
    keys = (key for key, _ in state.whole.records())
    gone = (key for key in keys if key[0] != PRODUCER_MARKER and moves(key, child, found.partitions))
    for slice_of in sliced(gone):
        yield Result([Record(key, None) for key in slice_of])
    yield Result((Record(_key(child), found._replace(is_dropped=1)),), (reply,))


# Markers.


def write_markers(state: ShardState, request: Request, now_ms: int) -> Result:
    """WriteTxnMarkers: a transaction that named this partition may have offsets of a group that has moved
    since. So the children get each marker first, whether its coordinator knows of them or not."""
    if not state.seals:
        return offset_commit.write_markers(state, request, now_ms)
    state.forwarded[request.token] = request
    return Result(events=(MarkersToForward(request.token, request.body, tuple(state.seals)),))


def forwarded(state: ShardState, request: Request, now_ms: int) -> Result:
    """Take the children's answers, and write the markers here that they have taken."""
    body: ForwardedRequest = request.body
    reply = Reply(request.token, SplitResponse(NO_ERROR))
    waiting = state.forwarded.pop(body.waiting, None)
    if waiting is None:
        return Result((), (reply,))
    asked: WriteTxnMarkersRequest = waiting.body
    taken = [marker for marker, error in zip(asked.markers, body.errors, strict=True) if error == NO_ERROR]
    part = waiting._replace(body=WriteTxnMarkersRequest(tuple(taken)))
    result = offset_commit.write_markers(state, part, now_ms)
    [written] = result.replies
    own = iter(written.body.markers)
    answers = tuple(
        next(own)
        if error == NO_ERROR
        else TxnMarkerErrors(marker.producer_id, offset_commit.marked(marker, error))
        for marker, error in zip(asked.markers, body.errors, strict=True)
    )
    return result._replace(replies=(written._replace(body=WriteTxnMarkersResponse(answers)), reply))


# State.


def _apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    replaced = state.seals.pop(key[2], None)
    if value is not None:
        assert isinstance(value, SplitSealValue)
        state.seals[key[2]] = value
    state.note_split()
    return replaced


def _records(state: ShardState) -> Iterator[Record]:
    for child, value in live_items(state.seals, sorted(state.seals)):
        yield Record(_key(child), value)


AREA = Area(
    handlers={SEAL: seal, DROP: drop, FORWARDED: forwarded, api_keys.WRITE_TXN_MARKERS: write_markers},
    refusals={SEAL: refused, DROP: refused, FORWARDED: refused},
    appliers={SPLIT_SEAL: _apply},
    records=_records,
)
