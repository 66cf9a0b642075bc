"""Records what one process of a swarm does: rows for the judge, statistics for locust, and the figures of the
last second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.swarm.counted.columns import HELD_APIS
from bench.swarm.rows.board import Turn
from bench.swarm.rows.tally import Counted
from bench.swarm.wire.clock import now_us
from bench.swarm.wire.errors import NEWS, error_name
from storage.history.call_files import SUFFIX, CallWriter
from storage.history.calls import ANSWERED, CLOSED, CONNECT, PRODUCE, TIMED_OUT, Call, Fault, Gone

Fire = Callable[[str, str, float, int, Exception | None], None]
"""A function that tells locust of a request: type, name, milliseconds, bytes, error."""

LOGGER: Final = "groupd.swarm"
KAFKA: Final = "kafka"
GROUP: Final = "group"
"""The request types of locust's statistics."""
POSITIONS: Final = (PRODUCE, "OffsetCommit")
TURNS_MAX: Final = 200_000
"""How many turns are kept for one pulse."""


def file_name(worker: int) -> str:
    """The name of a process' record in the run's directory."""
    return f"worker-{worker}{SUFFIX}"


class KafkaError(Exception):
    """An answer had an error code; locust groups failures by the text."""


class Recorder:
    """The record of one process. Rows are written until `close_record`; locust is told of everything."""

    def __init__(
        self, directory: Path, worker: int, run_id: str, fire: Fire, *, has_records: bool = False
    ) -> None:
        """`has_records` says that the swarm writes records, so that pulses tell what is produced and
        committed."""
        self.fire = fire
        self._has_records = has_records
        self._writer: CallWriter | None = CallWriter(directory / file_name(worker), run_id)
        self._on_their_way: dict[int, Call] = {}
        self._errors: dict[int, KafkaError] = {}
        self._next = 0
        self._pulse = Pulse(has_records)

    @property
    def is_open(self) -> bool:
        """Whether rows are still written."""
        return self._writer is not None

    def sent(self, call: Call) -> int:
        """Note a call that has just been sent and is under way until `ended`. Returns its token."""
        self._next += 1
        self._on_their_way[self._next] = call
        return self._next

    def ended(self, token: int, call: Call, size: int) -> None:
        """Write down a call with its outcome."""
        self._on_their_way.pop(token, None)
        if self._writer is not None:
            self._writer.write(call)
        took_ms = (call.ended_us - call.sent_us) / 1000
        self._pulse.add(call, took_ms)
        self.fire(KAFKA, call.api, took_ms, size, self._error(call))

    def gone(self, client: str) -> None:
        """Note a client that ended without leaving its group."""
        if self._writer is not None:
            self._writer.write(Gone(client, now_us()))

    def fault(self, kind: str, target: str, lasts_s: float) -> None:
        """Write down what the plan did to a member or its connections."""
        if self._writer is not None:
            began_us = now_us()
            self._writer.write(Fault(kind, target, began_us, began_us + int(lasts_s * 1e6)))

    def turn(self, group_id: str, member: str, epoch: int | None, gained: int = 0) -> None:
        """Note that a member is at rest at `epoch` and gained so many partitions. UNSETTLED: it is in a
        rebalance; KEEPS: it has no coordinator; None: it is gone."""
        if len(self._pulse.turns) < TURNS_MAX:
            self._pulse.turns.append((group_id, member, now_us(), epoch, gained))

    def flush(self) -> None:
        """Write what is buffered, so that a history that is cut short lacks little."""
        if self._writer is not None:
            self._writer.flush()

    def pulse(self) -> dict[str, Any]:
        """What happened since the last pulse."""
        pulse, self._pulse = self._pulse, Pulse(self._has_records)
        return pulse.plain()

    def close_record(self) -> None:
        """End the history: calls that are under way are written as open."""
        writer, self._writer = self._writer, None
        if writer is not None:
            for call in self._on_their_way.values():
                writer.write(call)
            writer.end(now_us())

    def _error(self, call: Call) -> Exception | None:
        if call.outcome != ANSWERED:
            return _LOST[call.outcome]
        if call.error_code == 0 or call.error_code in NEWS:
            return None
        if call.error_code not in self._errors:
            self._errors[call.error_code] = KafkaError(error_name(call.error_code))
        return self._errors[call.error_code]


_LOST: Final = {
    CLOSED: KafkaError("connection closed before the answer"),
    TIMED_OUT: KafkaError("no answer in time"),
}


class Pulse:
    """The sums of about a second, small enough to be sent to locust's master."""

    def __init__(self, has_records: bool = False) -> None:
        self._has_records = has_records
        self.requests = 0
        self.errors = 0
        self.commits = 0
        self.latencies: Counter[int] = Counter()
        self.turns: list[Turn] = []
        self.apis = Counted()
        self.positions: dict[tuple[str, str, int], int] = {}
        """Ends of partitions and committed offsets, as `behind` takes them."""

    def add(self, call: Call, took_ms: float) -> None:
        self.requests += 1
        is_fine = call.is_answered and (call.error_code == 0 or call.error_code in NEWS)
        self.errors += not is_fine
        self.commits += call.api == "OffsetCommit" and is_fine
        self.apis.add(call.api, took_ms, is_served=is_fine)
        if call.api not in HELD_APIS and call.api != CONNECT:
            self.latencies[_bucket(took_ms)] += 1
        if self._has_records and call.api in POSITIONS and call.is_answered:
            rows = [row for row in call.offsets if not row.error_code]
            self.positions |= {(call.group_id, row.topic, row.partition): row.offset for row in rows}

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for a message of locust's."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "commits": self.commits,
            "latencies": list(self.latencies.items()),
            "turns": self.turns,
            "apis": self.apis.plain(),
            "positions": [(*place, offset) for place, offset in self.positions.items()],
        }


def _bucket(took_ms: float) -> int:
    """The bucket of a latency: tenths of a millisecond; above 10 ms in steps of ten percent at most."""
    tenths = round(took_ms * 10)
    step = max(1, 10 ** (len(str(tenths)) - 2))
    return int(tenths // step * step)


def percentiles(latencies: Counter[int], *shares: float) -> Iterator[float]:
    """The milliseconds within which each share of the requests ended; 0 without any."""
    total = latencies.total()
    for share in shares:
        seen = 0
        value = 0
        for bucket in sorted(latencies):
            value = bucket
            seen += latencies[bucket]
            if seen >= share * total:
                break
        yield value / 10
