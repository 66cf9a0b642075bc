"""What a replica process of the Raft bench runs: groupd's Raft or stock pysyncobj, both behind one
interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

RECORD_BYTES: Final = 100
OUTSTANDING_MAX: Final = 512
HEARTBEAT_S: Final = 0.05
ELECTION_MIN_S: Final = 0.25
ELECTION_MAX_S: Final = 0.5
"""The timeouts of groupd, and of stock pysyncobj when it is tuned: failovers are compared at equal ones."""

Done = Callable[[int], None]
"""Called with the number of records that were committed and applied; with 0 when their fate is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one replica process."""

    engine: str
    """The Raft to run, "groupd" or "stock"."""
    number: int
    ports: tuple[int, ...]
    """The ports of all replicas, on 127.0.0.1; this one's stands at `number`."""
    directory: str
    durable: bool = False
    """Whether an entry of groupd's counts only once it is synced. Stock has a journal file then, which it
    never syncs."""
    tuned: bool = True
    """Whether stock has its settings for latency instead of the default ones."""
    grouped: bool = True
    """Whether all records of one submission are one command of stock's, as they are in groupd."""
    compacts: bool = True
    """Snapshots are taken and the journal is shortened, as the settings say; else it only grows."""


def some_records() -> list[bytes]:
    """Make enough records for the biggest load. Each is an object of its own: pickle would send a repeated
    one as a reference of two bytes."""
    return [number.to_bytes(2, "big") * (RECORD_BYTES // 2) for number in range(OUTSTANDING_MAX)]


class Engine(Protocol):
    """One replica. `submit`, `status`, `transfer` and `when_leading` are called only through `call`."""

    def run(self, ready: Callable[[], None]) -> None:
        """Run the replica until `stop`, which blocks. `ready` is called when the replica can be asked."""

    def stop(self) -> None:
        """End `run`, from any thread."""

    def call(self, work: Callable[[], None]) -> None:
        """Run `work` in the thread that may call the rest, from any thread."""

    def submit(self, records: int, done: Done) -> None:
        """Propose that many records; `done` is called once or more, until all are accounted for."""

    def status(self) -> dict[str, Any]:
        """The replica's status: `leads`, `serving`, `follows` (it knows the leader), `applied` (index of the
        last applied entry), `journal_bytes`, `opened_s` (time to read the disk at start)."""

    def transfer(self) -> bool:
        """Hand leadership to a peer; False if that cannot begin now."""

    def when_leading(self, act: Callable[[], None]) -> None:
        """Call `act`, in the engine's thread, as soon as this replica leads and takes proposals."""
