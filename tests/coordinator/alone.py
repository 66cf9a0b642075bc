"""A replica that has no peers: what it decides is committed when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from actors.coordinator.shard import CoordinatorShard
from actors.ground.records import RECORD_TYPES
from actors.replica.entry import RecordType
from actors.replica.replica import Replica

TYPES = {kind: RecordType(*classes) for kind, classes in RECORD_TYPES.items()}


class Log:
    """The log of such a replica; it implements `actors.replica.replica.Log`."""

    term = 1
    pending_bytes = 0

    def __init__(self) -> None:
        self.is_leader = True
        self.last_index = self.committed_index = 0

    def propose(self, command: bytes) -> int:
        self.last_index += 1
        return self.last_index

    def has_lease(self) -> bool:
        return True

    def command(self, index: int) -> bytes:
        """The bytes of an entry, which nobody needs to apply what its own leader has decided."""
        return b""

    @property
    def lease_until(self) -> float:
        return inf

    def status(self) -> dict[str, Any]:
        """What Raft tells of itself for history: that nobody follows."""
        return {"peers": {}}


class KeptLog(Log):
    """A log that keeps its entries, for those who read what is committed."""

    def __init__(self, term: int = Log.term) -> None:
        super().__init__()
        self.term = term
        self.commands: list[bytes] = []

    def propose(self, command: bytes) -> int:
        self.commands.append(command)
        return super().propose(command)

    def command(self, index: int) -> bytes:
        return self.commands[index - 1]


def new_replica(
    new_shard: Callable[[], CoordinatorShard],
    release: Callable[[int, Any], object],
    *,
    clock_ms: Callable[[], int] = lambda: 0,
    on_events: Callable[[Sequence[Any]], None] = lambda events: None,
) -> Replica:
    """Make a coordinator's replica, the only one of its group; `lead` makes it serve."""
    return Replica(
        new_shard=new_shard, record_types=TYPES, release=release, clock_ms=clock_ms, on_events=on_events
    )


def lead(replica: Replica, log: Log | None = None) -> None:
    replica.log = log or Log()
    replica.on_leading(replica.log.term)


def log_of(replica: Replica) -> Log:
    log = replica.log
    assert isinstance(log, Log)
    return log


def commit(replica: Replica) -> None:
    """Commit all that was decided, also what does not fit the entries under way."""
    log = log_of(replica)
    replica.flush()
    while log.committed_index < log.last_index:
        log.committed_index += 1
        replica.apply(log.committed_index, log.term, log.command(log.committed_index))
        replica.flush()
