"""Taking Kafka's log of this offsets partition over, piece by piece, and the moment from which it serves.

What a piece means becomes records of ours, and beside them stands how far the log has been taken: one entry
of the log has both. So whoever leads next goes on where this one was, and a piece that comes twice changes
nothing. Raw batches in our log would have to be read again by every replica, and a batch that one release
reads and another does not would make their states differ.

Nobody is served before Kafka's whole log is here. That moment is one record, too; from then on everything is
as after an election: groups are as they were last written, and every member has a full session (C26, M26),
which is what Kafka's next coordinator would give it.

Groups that go back to Kafka's brokers are sealed. Brokers follow the log as it is made of what is committed
here, and may lead when they have all of it, so it has to end: the seal is one record, and all that was
decided before it stands before it. From the decision on requests are refused with NOT_COORDINATOR, timers
rest, and long work ends where it is, except the deletion of groups that are dying: Kafka has no such thing.
The seal holds until brokers lead, and everything here is removed, or until it is taken back; whoever leads
next goes on with it.

It may happen that brokers lead though nothing was given back to them: somebody had one elected while the tier
was away (an unclean election, which is Kafka's word for that its log lacks something). It acknowledges
commits from then on, and those that were acknowledged here before are here alone. Both have to survive: so
offsets stay, and what the brokers' own batches say is taken on top of them, as the later word. Members are
not kept. A broker that knew nothing of a group has begun it anew, and two halves of a group are none.

That is so while groups are served; and while they are sealed, unless it was noted here before brokers could
lead that they have everything, and they lead in the very next epoch; and while the log is followed, if the
leader's log turns out to lack what Kafka had acknowledged. In the logs that are given to brokers all batches
have the epoch in which the groups began to be served, or a lower one: what is of a higher one they have
written themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.kind import kinds_of
from actors.coordinator.ground.slices import sliced, withheld
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets.dying import tombstones
from actors.coordinator.take_over.inside import (
    DROP_TAKEN,
    RELEASE,
    REQUESTS,
    RETAKE,
    SEAL_SERVED,
    SERVE,
    TAKE,
    UNSEAL,
    DropTakenRequest,
    LogPiece,
    ReleaseRequest,
    RetakeRequest,
    ServeRequest,
    TakenResponse,
    TakeRequest,
    refused,
)
from actors.ground.contract import Key, Record, Reply, Request, Result, Value
from actors.ground.features import GROUPD_VERSION, TAKE_OVER_LEVEL
from actors.ground.records import (
    DROPPED,
    FOLLOWED,
    FOREIGN_RECORD,
    OFFSET_COMMIT,
    PENDING_TXN_OFFSET,
    PRODUCER_ID_BLOCK,
    PRODUCER_MARKER,
    SEALED,
    SERVED,
    TAKEN_LOG,
    ForeignRecordKey,
    ForeignRecordValue,
    TakenLogKey,
    TakenLogValue,
)
from actors.ground.snapshot_build import live_items
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR

_KEY = TakenLogKey(TAKEN_LOG, "")
NOTHING_TAKEN = TakenLogValue(bytes(16), 0, -1, FOLLOWED)
_KEPT = frozenset(
    {
        FOREIGN_RECORD,
        OFFSET_COMMIT,
        PENDING_TXN_OFFSET,
        PRODUCER_ID_BLOCK,
        PRODUCER_MARKER,
        TAKEN_LOG,
    }
)
"""The records that stay when brokers have begun groups anew."""


def take(state: ShardState, request: Request, now_ms: int) -> Result:
    """Take the next piece of the log. The answer says that it is committed; one that is known is answered in
    the same way."""
    from actors.coordinator.take_over.fold import fold  # here, because few replicas ever take anything over

    body: TakeRequest = request.body
    piece = body.piece
    taken = _followed(state, body.topic_id)
    if piece.next_offset <= taken.next_offset:
        return _answered(request, taken)
    if piece.first_offset > taken.next_offset:
        text = f"offsets {taken.next_offset} to {piece.first_offset - 1} of Kafka's log are missing"
        raise GroupError(ErrorCode.offset_out_of_range, text)
    after = taken._replace(
        next_offset=piece.next_offset,
        leader_epoch=piece.leader_epoch,
        acknowledged_offset=max(taken.acknowledged_offset, min(body.high_watermark, piece.next_offset)),
    )
    is_known = piece.leader_epoch < taken.kept_epoch
    records = [] if is_known else fold(state, _rest(piece, taken.next_offset))
    return _answered(request, after)._replace(records=[*records, Record(_KEY, after)])


def _followed(state: ShardState, topic_id: bytes) -> TakenLogValue:
    """Return how far the log is taken. Raises GroupError if no more of this log may be."""
    if not state.home.awaits_groups or state.arrival is not None:
        text = "this offsets partition has groups of its own: only an empty tier takes over from Kafka"
        raise GroupError(ErrorCode.invalid_request, text)
    if state.image.features.level(GROUPD_VERSION) < TAKE_OVER_LEVEL:
        text = f"to take over from Kafka, {GROUPD_VERSION} has to be finalized at {TAKE_OVER_LEVEL} or above"
        raise GroupError(ErrorCode.unsupported_version, text)
    taken = state.from_kafka.log
    if taken is None:
        return NOTHING_TAKEN._replace(topic_id=topic_id)
    if taken.phase in (SERVED, SEALED):
        raise GroupError(ErrorCode.invalid_request, "the groups of this offsets partition are served already")
    if taken.phase == DROPPED:
        text = "what was taken over is being removed: that has to end before anything is taken"
        raise GroupError(ErrorCode.invalid_request, text)
    if taken.topic_id != topic_id:
        text = "this is the log of another topic: what was taken over has to be removed first"
        raise GroupError(ErrorCode.inconsistent_topic_id, text)
    return taken


def _rest(piece: LogPiece, next_offset: int) -> LogPiece:
    """Return what is new in a piece that begins with something known."""
    if piece.first_offset == next_offset:
        return piece
    return piece._replace(records=tuple(each for each in piece.records if each.offset >= next_offset))


def _answered(request: Request, taken: TakenLogValue) -> Result:
    return Result((), (Reply(request.token, TakenResponse(NO_ERROR, None, taken.next_offset)),))


def serve(state: ShardState, request: Request, now_ms: int) -> Result:
    """Begin to serve the groups if all of the log is here. The answer says that this is committed."""
    body: ServeRequest = request.body
    if state.from_kafka.log is not None and state.from_kafka.log.phase == SERVED and not state.is_closed:
        return _answered(request, state.from_kafka.log)
    taken = _followed(state, body.topic_id)
    if taken.next_offset != body.next_offset:
        text = f"Kafka's log ends at {body.next_offset}, and it is taken up to {taken.next_offset}"
        raise GroupError(ErrorCode.offset_out_of_range, text)
    if taken.next_offset < taken.owed_offset:
        text = f"Kafka counts on all before {taken.owed_offset}, and it is taken up to {taken.next_offset}"
        raise GroupError(ErrorCode.offset_out_of_range, text)
    after = taken._replace(phase=SERVED, served_epoch=body.leader_epoch)
    return Result(work=_served(state, request, after, now_ms))


def _served(state: ShardState, request: Request, taken: TakenLogValue, now_ms: int) -> Iterator[Result]:
    yield Result((Record(_KEY, taken),))
    for kind in kinds_of(state):
        yield from kind.adopt(state)
    yield from withheld(state.whole.elected(now_ms))
    yield _answered(request, taken)


def drop(state: ShardState, request: Request, now_ms: int) -> Result:
    """Remove everything that was taken, or is sealed and led by brokers. Whoever leads next has to be asked
    again if it did not end."""
    taken = state.from_kafka.log
    if taken is None:
        return _answered(request, NOTHING_TAKEN)
    if taken.phase == SERVED:
        text = "the groups of this offsets partition are served here: nothing of them is removed"
        raise GroupError(ErrorCode.invalid_request, text)
    if taken.phase == SEALED and taken.released_epoch < 0:
        text = "it is not known that brokers have what is sealed here: nothing of it is removed"
        raise GroupError(ErrorCode.invalid_request, text)
    if taken.phase == FOLLOWED and taken.kept_epoch >= 0:
        # What is kept is nowhere else, so the log alone begins anew.
        anew = taken._replace(next_offset=0, leader_epoch=-1, owed_offset=_owed(taken, request.body))
        return _answered(request, anew)._replace(records=[Record(_KEY, anew)])
    owed = taken._replace(phase=DROPPED, owed_offset=_owed(taken, request.body))
    return Result(work=_dropped(state, request, owed))


def _owed(taken: TakenLogValue, body: DropTakenRequest) -> int:
    """Return the offset up to which Kafka counts on what is removed now. What was owed before and has not
    been taken again since is still owed."""
    if body.owed_offset is None:
        return 0
    is_owing = taken.phase == DROPPED or taken.next_offset < taken.owed_offset
    return max(body.owed_offset, taken.owed_offset) if is_owing else body.owed_offset


def _dropped(state: ShardState, request: Request, taken: TakenLogValue) -> Iterator[Result]:
    yield Result((Record(_KEY, taken),))
    # Rows go as they are kept: an offset that is taken out of its rows costs as much as all of them.
    keys = (key for key, _ in state.whole.kept())
    gone = (key for key in keys if key[0] not in (TAKEN_LOG, PRODUCER_ID_BLOCK))
    for some in sliced(gone):
        yield Result([Record(key, None) for key in some])
    left = None
    if taken.owed_offset > 0:
        left = NOTHING_TAKEN._replace(topic_id=taken.topic_id, owed_offset=taken.owed_offset)
    yield _answered(request, NOTHING_TAKEN)._replace(records=(Record(_KEY, left),))


# The way back.


def seal(state: ShardState, request: Request, now_ms: int) -> Result:
    """Serve nobody any more, from this decision on. The answer says that it is committed; a repeated request
    is answered in the same way."""
    taken = _served_log(state)
    if taken.phase == SEALED:
        return _answered(request, taken)
    if state.is_closed:
        raise GroupError(ErrorCode.coordinator_load_in_progress, "its groups are not served yet")
    state.drop_volatile()
    return Result(work=_sealed(state, request, taken._replace(phase=SEALED)))


def _sealed(state: ShardState, request: Request, taken: TakenLogValue) -> Iterator[Result]:
    yield from tombstones(state)
    yield _answered(request, taken)._replace(records=(Record(_KEY, taken),))


def release(state: ShardState, request: Request, now_ms: int) -> Result:
    """Note that brokers have all that is sealed. The answer says that this is committed."""
    body: ReleaseRequest = request.body
    taken = _served_log(state)
    if taken.phase != SEALED:
        raise GroupError(ErrorCode.invalid_request, "the groups are not sealed: nobody has all of their log")
    after = taken._replace(released_epoch=body.leader_epoch)
    return _answered(request, after)._replace(records=[Record(_KEY, after)])


def unseal(state: ShardState, request: Request, now_ms: int) -> Result:
    """Serve the groups again. The answer says that this is committed."""
    taken = _served_log(state)
    if taken.phase == SERVED and not state.is_closed:
        return _answered(request, taken)
    if taken.phase == SERVED:
        raise GroupError(ErrorCode.coordinator_load_in_progress, "its groups are being sealed, or served")
    after = taken._replace(phase=SERVED, released_epoch=-1)
    return Result(work=_unsealed(state, request, after, now_ms))


def _unsealed(state: ShardState, request: Request, taken: TakenLogValue, now_ms: int) -> Iterator[Result]:
    yield Result((Record(_KEY, taken),))
    yield from withheld(state.whole.elected(now_ms))
    yield _answered(request, taken)


# What brokers lead though it was not given back.


def retake(state: ShardState, request: Request, now_ms: int) -> Result:
    """Serve nobody any more, from this decision on, and keep what is to be kept. The answer says that it is
    committed; a repeated request is answered in the same way."""
    body: RetakeRequest = request.body
    taken = state.from_kafka.log
    if taken is not None and taken.phase == FOLLOWED and taken.kept_epoch >= 0:
        return _answered(request, taken)
    if taken is None or taken.phase == DROPPED:
        raise GroupError(ErrorCode.invalid_request, "no groups of Kafka's are here")
    known_epoch = taken.leader_epoch if taken.phase == FOLLOWED else taken.served_epoch
    if taken.topic_id != body.topic_id or body.leader_epoch <= known_epoch:
        text = f"that brokers lead is old news: what is here is of epoch {known_epoch}"
        raise GroupError(ErrorCode.fenced_leader_epoch, text)
    if state.is_closed and taken.phase == SERVED:
        raise GroupError(ErrorCode.coordinator_load_in_progress, "its groups are not served yet")
    state.drop_volatile()
    after = NOTHING_TAKEN._replace(topic_id=taken.topic_id, kept_epoch=known_epoch + 1)
    return Result(work=_retaken(state, request, after))


def _retaken(state: ShardState, request: Request, after: TakenLogValue) -> Iterator[Result]:
    yield from tombstones(state)
    gone = (key for key, _ in state.whole.records() if key[0] not in _KEPT)
    for some in sliced(gone):
        yield Result([Record(key, None) for key in some])
    yield _answered(request, after)._replace(records=(Record(_KEY, after),))


def _served_log(state: ShardState) -> TakenLogValue:
    """Return what is known of Kafka's log if its groups are here. Raises GroupError if they are not."""
    taken = state.from_kafka.log
    if taken is None or taken.phase not in (SERVED, SEALED):
        text = "no groups of Kafka's are served here: there is nothing to give back"
        raise GroupError(ErrorCode.invalid_request, text)
    return taken


# State.


def _apply_taken_log(state: ShardState, key: Key, value: Value | None) -> Value | None:
    assert value is None or isinstance(value, TakenLogValue)
    replaced, state.from_kafka.log = state.from_kafka.log, value
    return replaced


def _apply_foreign(state: ShardState, key: Key, value: Value | None) -> Value | None:
    foreign_key = key[2]
    replaced = state.from_kafka.foreign.pop(foreign_key, None)
    if replaced is not None:
        state.from_kafka.foreign_bytes -= len(foreign_key) + len(replaced.content)
    if value is not None:
        assert isinstance(value, ForeignRecordValue)
        state.from_kafka.foreign[foreign_key] = value
        state.from_kafka.foreign_bytes += len(foreign_key) + len(value.content)
    return replaced


def _records(state: ShardState) -> Iterator[Record]:
    for foreign_key, value in live_items(state.from_kafka.foreign, list(state.from_kafka.foreign)):
        yield Record(ForeignRecordKey(FOREIGN_RECORD, "", foreign_key), value)
    if state.from_kafka.log is not None:
        yield Record(_KEY, state.from_kafka.log)


AREA = Area(
    handlers={
        TAKE: take,
        SERVE: serve,
        DROP_TAKEN: drop,
        SEAL_SERVED: seal,
        UNSEAL: unseal,
        RETAKE: retake,
        RELEASE: release,
    },
    refusals=dict.fromkeys(REQUESTS, refused),
    appliers={TAKEN_LOG: _apply_taken_log, FOREIGN_RECORD: _apply_foreign},
    records=_records,
)
