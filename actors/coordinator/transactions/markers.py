"""The last marker of each producer in this offsets partition: late and repeated ones change nothing.

Kafka keeps this in its log's producer state. A marker of an older coordinator term is a zombie's: by then the
producer may be in its next transaction, with the same epoch, and the marker would end that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets import pending as offsets
from actors.ground.contract import NOTHING, Key, Record, Result, Value
from actors.ground.records import PRODUCER_MARKER, ProducerMarkerKey, ProducerMarkerValue
from actors.ground.snapshot_build import live_items
from actors.protocol.errors import GroupError
from actors.protocol.transaction_messages import TxnMarker

TIMER = "producer"


def check_producer(state: ShardState, producer_id: int, producer_epoch: int) -> None:
    """Raise INVALID_PRODUCER_EPOCH for an epoch older than one that was seen here."""
    last = state.producer_markers.get(producer_id)
    opened = offsets.open_epoch(state, producer_id)
    if producer_epoch < max(-1 if last is None else last.producer_epoch, -1 if opened is None else opened):
        raise GroupError(ErrorCode.invalid_producer_epoch)


def check_marker(state: ShardState, marker: TxnMarker) -> None:
    """Raise GroupError for a marker of an older epoch or an older coordinator than was seen here."""
    if marker.producer_epoch < 0:
        raise GroupError(ErrorCode.unknown_server_error)
    check_producer(state, marker.producer_id, marker.producer_epoch)
    opened = offsets.open_epoch(state, marker.producer_id)
    if opened is not None and not marker.ends(opened):
        raise GroupError(ErrorCode.invalid_producer_epoch)
    last = state.producer_markers.get(marker.producer_id)
    if last is not None and marker.coordinator_epoch < last.coordinator_epoch:
        raise GroupError(ErrorCode.transaction_coordinator_fenced)


def written(state: ShardState, marker: TxnMarker, now_ms: int) -> Record:
    _schedule(state, marker.producer_id, now_ms)
    value = ProducerMarkerValue(marker.producer_epoch, marker.coordinator_epoch, now_ms)
    return Record(_key(marker.producer_id), value)


def _key(producer_id: int) -> ProducerMarkerKey:
    return ProducerMarkerKey(PRODUCER_MARKER, "", producer_id)


def _schedule(state: ShardState, producer_id: int, written_ms: int) -> None:
    expiration_ms = state.settings.producer_id_expiration_ms
    state.timers.schedule((TIMER, producer_id), written_ms + expiration_ms)


def expire(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """A producer that has done nothing for so long is forgotten (producer.id.expiration.ms)."""
    producer_id = key[1]
    assert isinstance(producer_id, int)
    if producer_id not in state.producer_markers:
        return NOTHING
    return Result((Record(_key(producer_id), None),))


def schedule_all(state: ShardState, now_ms: int) -> Result:
    for producer_id, last in state.producer_markers.items():
        _schedule(state, producer_id, last.timestamp_ms)
    return NOTHING


def apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    producer_id = key[2]
    if value is None:
        return state.producer_markers.pop(producer_id, None)
    assert isinstance(value, ProducerMarkerValue)
    replaced = state.producer_markers.get(producer_id)
    state.producer_markers[producer_id] = value
    return replaced


def records(state: ShardState) -> Iterator[Record]:
    for producer_id, last in live_items(state.producer_markers, list(state.producer_markers)):
        yield Record(_key(producer_id), last)
