"""Write records of groups into a running tier, through the Raft logs of its offsets partitions."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgpack
from kio.schema.errors import ErrorCode

from actors import runtime
from actors.ground.contract import Record
from actors.ground.spec import partition_group
from actors.protocol.partitioning import partitioning_now
from cluster.group_leaders import GroupLeaders, NotNow
from cluster.tier_file import TierError

BATCH_BYTES: Final = 64 * 1024
"""The size of one Raft entry: below the size from which Ray would put an argument into its object store."""
CALL_TIMEOUT_S: Final = 15.0
NOT_NOW: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.broker_not_available,
    }
)


class Tally(NamedTuple):
    """A number of records and a checksum that tells two sets of them apart, in whatever order they come."""

    records: int = 0
    digest: int = 0

    def plus(self, record: Any) -> Tally:
        digest = int.from_bytes(blake2b(msgpack.packb(record), digest_size=8).digest(), "big")
        return Tally(self.records + 1, (self.digest + digest) % 2**64)


class _Batch:
    """The records that are on their way to one offsets partition."""

    __slots__ = ("records", "size_bytes", "tally")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size_bytes = 0
        self.tally = Tally()
        """The tally of all records that went to this partition."""


class GroupWriter:
    """The writer that sends records of groups to the offsets partition to which their group's id hashes.

    Its methods raise TierError that says why a partition refused; what was sent before is written.
    """

    def __init__(self, leaders: GroupLeaders, *, if_refused: str) -> None:
        """Write to the leaders' tier. `if_refused` tells the user what to do if a partition refuses."""
        self._leaders = leaders
        self._if_refused = if_refused
        self._batches = [_Batch() for _ in range(leaders.spec.offsets_partitions)]

    @property
    def tallies(self) -> list[Tally]:
        """Return the tally of what went to each partition."""
        return [batch.tally for batch in self._batches]

    def add(self, record: Record) -> None:
        """Send a record. It is on its way; after `flush` it is committed."""
        self.add_to(partitioning_now(self._leaders.spec).partition_of(record.key[1]), record)

    def add_to(self, partition: int, record: Record) -> None:
        """Send a record to an offsets partition, whatever its key hashes to."""
        batch = self._batches[partition]
        batch.records.append(record)
        batch.size_bytes += len(msgpack.packb(record))
        batch.tally = batch.tally.plus(record)
        if batch.size_bytes >= BATCH_BYTES:
            self._send(partition)

    def flush(self) -> None:
        for partition in range(len(self._batches)):
            self._send(partition)

    def _send(self, partition: int) -> None:
        batch = self._batches[partition]
        if not batch.records:
            return
        packed: bytes = msgpack.packb(batch.records)
        batch.records, batch.size_bytes = [], 0
        refused = self._leaders.ask(partition_group(partition), partial(_write, packed))
        if refused is not None:
            raise TierError(f"{refused}; {self._if_refused}")


def _write(packed: bytes, leader: runtime.Handle) -> str | None:
    """Write records. Return why they were refused, if they were."""
    error_code, message = runtime.await_call(leader, "restore", packed, timeout_s=CALL_TIMEOUT_S)
    if error_code == ErrorCode.none:
        return None
    reason = message or ErrorCode(error_code).name
    if error_code in NOT_NOW:
        raise NotNow(reason)
    return str(reason)
