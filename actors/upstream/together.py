"""Moves of many partitions in few requests."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.upstream.moves import Cancel, Elect, Move, ToIsr, ToReplicas
from actors.upstream.partitions import BrokerState
from actors.upstream.requests import (
    AlteredPartition,
    AlterPartition,
    AlterPartitionReassignments,
    ElectLeaders,
    PartitionErrors,
    PartitionsRequest,
    ReassignedPartition,
)

Key = tuple[str, int]
"""A partition by topic and index."""
GRANTED: Final = (ErrorCode.none, ErrorCode.election_not_needed, ErrorCode.new_leader_elected)
"""Answers that say that a move is done. AlterPartition says that its sender leads no more, if that is what
came of it."""


class Decided(NamedTuple):
    """A move of one partition, with what it was decided on."""

    key: Key
    topic_id: bytes
    version: int
    """The partition epoch."""
    leader: int
    leader_epoch: int
    move: Move
    rank: int
    """What goes first if there is no room for all: leaders, then what is missing beside them, then strays."""

    @property
    def target(self) -> tuple[int, ...]:
        """The brokers that a reassignment names."""
        return self.move.replicas if isinstance(self.move, ToReplicas) else ()


def requests_of(
    decided: Sequence[Decided], brokers: Mapping[int, BrokerState]
) -> Iterator[PartitionsRequest]:
    """Yield the requests that carry these moves: one for each kind, and one for each leader whose ISR is to
    be another one."""
    reassigned = tuple(
        ReassignedPartition(*each.key, each.target or None)
        for each in decided
        if isinstance(each.move, ToReplicas | Cancel)
    )
    if reassigned:
        yield AlterPartitionReassignments(reassigned)
    elections = sorted(
        (each.move.election_type, each.key) for each in decided if isinstance(each.move, Elect)
    )
    for election_type, rows in groupby(elections, key=lambda row: row[0]):
        yield ElectLeaders(election_type, tuple(key for _, key in rows))
    altered = sorted((each for each in decided if isinstance(each.move, ToIsr)), key=lambda each: each.leader)
    for leader, rows_of_leader in groupby(altered, key=lambda each: each.leader):
        partitions = tuple(
            _altered(each, each.move, brokers) for each in rows_of_leader if isinstance(each.move, ToIsr)
        )
        yield AlterPartition(leader, brokers[leader].broker_epoch, partitions)


def keys_of(request: PartitionsRequest) -> Iterator[tuple[Key, tuple[str | bytes, int]]]:
    """Yield every partition of a request, and how its answer calls it."""
    match request:
        case AlterPartition():
            for row in request.partitions:
                yield (row.topic, row.partition_index), (row.topic_id, row.partition_index)
        case AlterPartitionReassignments():
            for each in request.partitions:
                yield (each.topic, each.partition_index), (each.topic, each.partition_index)
        case ElectLeaders():
            for key in request.partitions:
                yield key, key


def errors_of(request: PartitionsRequest, answer: PartitionErrors) -> Iterator[tuple[Key, ErrorCode]]:
    """Yield every partition of a request, and what the answer says of it."""
    for key, wire_key in keys_of(request):
        error = answer.error_code
        if error is ErrorCode.none:
            error = answer.partitions.get(wire_key, ErrorCode.unknown_server_error)
        yield key, error


def _altered(decided: Decided, move: ToIsr, brokers: Mapping[int, BrokerState]) -> AlteredPartition:
    topic, index = decided.key
    isr = tuple((broker_id, brokers[broker_id].broker_epoch) for broker_id in move.isr)
    return AlteredPartition(decided.topic_id, index, decided.leader_epoch, decided.version, isr, topic)
