"""The logs that brokers are given when groups go back to them: what a node's broker tells of those that it
has. PURE."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack


class GivenLog(NamedTuple):
    """The log of one offsets partition, and who follows it."""

    start_offset: int
    end_offset: int
    is_sealed: bool
    """Whether the log has ended: who has it up to `end_offset` has everything."""
    fetchers: Mapping[int, tuple[int, int]]
    """Broker id -> (broker epoch, offset): the broker has everything before that offset."""

    def at_end(self, broker_id: int) -> bool:
        """Return whether a broker has all that there is."""
        return self.fetchers.get(broker_id, (-1, -1))[1] == self.end_offset

    def lag(self, broker_id: int) -> int | None:
        """Return how many records a broker lacks; None if it has nothing of this log."""
        offset = self.fetchers.get(broker_id, (-1, -1))[1]
        return self.end_offset - offset if self.start_offset <= offset <= self.end_offset else None


def pack_given(logs: Mapping[int, GivenLog]) -> bytes:
    """Return the bytes of the logs of a node, by partition."""
    packed: bytes = msgpack.packb(dict(logs))
    return packed


def unpack_given(packed: bytes) -> dict[int, GivenLog]:
    """Return the logs that were packed."""
    logs: dict[int, Any] = msgpack.unpackb(packed, use_list=False, strict_map_key=False)
    return {partition: GivenLog(*fields) for partition, fields in logs.items()}
