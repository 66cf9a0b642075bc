"""Producer ids for transactional producers, given out by the offsets partition itself.

The partition's number is in the high bits, so no two partitions give out the same id, nor does the
controller, whose ids (for producers without transactions) begin at 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Key, Record, Value
from actors.ground.records import PRODUCER_ID_BLOCK, ProducerIdBlockKey, ProducerIdBlockValue

COUNTER_BITS = 40
_KEY = ProducerIdBlockKey(PRODUCER_ID_BLOCK, "")


def next_producer_id(state: ShardState, partition: int) -> tuple[int, Record]:
    """A producer id that was never given out, and the record that keeps it from being given out again."""
    last = state.producer_ids
    given_out = last.given_out if last is not None and last.partition == partition else _first(state)
    assert given_out < 1 << COUNTER_BITS
    value = ProducerIdBlockValue(partition, given_out + 1)
    return (partition + 1) << COUNTER_BITS | given_out, Record(_KEY, value)


def _first(state: ShardState) -> int:
    """The first number of a partition. One that a split has made begins high: a tier whose backup was
    restored here may have had a partition of this number, and its ids may be in use."""
    return 0 if state.arrival is None else 1 << COUNTER_BITS - 1


def apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    assert value is None or isinstance(value, ProducerIdBlockValue)
    replaced, state.producer_ids = state.producer_ids, value
    return replaced


def records(state: ShardState) -> Iterator[Record]:
    if state.producer_ids is not None:
        yield Record(_KEY, state.producer_ids)
