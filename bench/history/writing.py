"""What writing the history costs the leader: CPU per event, and the longest pause of its loop.

Each way is measured in a process of its own: a loop turns once a millisecond and hands over the events, once
to nobody and once to a `HistoryWriter`. The difference in the process's CPU time is what the history costs,
the difference in the longest turn is how long it holds the loop up. Then the same events go through the
writer's two halves, each alone.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from actors.coordinator.told.events import CLASSIC, Commits, MemberJoined, RebalanceEnded, StateChanged
from actors.ground.collector import keep_collections_short
from actors.ground.spec import HistorySettings
from actors.leader.history_writer import HistoryWriter
from actors.ray_host import LIBRARIES_ENV
from cluster.cli.tables import Table
from storage.history.schema import Move, Stretch

TURNS_PER_S = 1_000
GOAL_SHARE = 0.10
GROUPS = 2_000
PREPARED = 20_000
"""How many different events there are; they are given again and again."""
WARM_UP_S = 2.0
PARTITION, NODE, TERM = 0, 1, 5


class Plan(NamedTuple):
    """How many events are measured, and for how long."""

    per_s: int = 50_000
    seconds: float = 20.0


class Cost(NamedTuple):
    """What one run cost, or the halves of one."""

    cpu_s: float
    events: int
    dropped: int
    disk_bytes: int
    longest_ms: float
    p999_ms: float
    import_ms: float
    """The longest turn while pyarrow is imported, which a leader does once."""


class Parts(NamedTuple):
    """The microseconds of CPU that each half of the writer takes for an event."""

    columns_us: float
    publish_us: float


class Measured(NamedTuple):
    """The figures of all runs."""

    plan: Plan
    without: Cost
    with_history: Cost
    parts: Parts

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU that history alone takes for an event."""
        return (self.with_history.cpu_s - self.without.cpu_s) / self.with_history.events * 1e6

    @property
    def share(self) -> float:
        """Share of a core that history takes at the planned rate."""
        return self.cpu_us * self.plan.per_s / 1e6


def measure(plan: Plan, say: Callable[[str], None]) -> Measured:
    """Measure both ways, then the writer's halves."""
    spawn = multiprocessing.get_context("spawn")
    os.environ |= LIBRARIES_ENV  # as leaders have it
    with spawn.Pool(1, maxtasksperchild=1) as pool:
        say(f"{plan.per_s:,} events a second for {plan.seconds:.0f} s, written by nobody")
        without = pool.apply(_run, (plan, False))
        say("the same, written to segments")
        with_history = pool.apply(_run, (plan, True))
        say("the parts, one after the other")
        parts = pool.apply(_parts)
    return Measured(plan, without, with_history, parts)


def events() -> list[Any]:
    """Make events like those of classic groups: sums of commits, members that join, states, now and then a
    rebalance."""
    now_ms = time.time_ns() // 1_000_000
    return [_event(number, now_ms) for number in range(PREPARED)]


def _event(number: int, now_ms: int) -> Any:
    group_id, member_id = (
        f"group-{number % GROUPS}",
        f"consumer-{number}-3f1c9a70-6f0e-4d0e-8f12-9a3b6c7d8e9f",
    )
    match number % 20:
        case 0:
            moves = tuple(Move("orders", each, member_id, f"{member_id}-2") for each in range(5))
            return RebalanceEnded(
                now_ms, group_id, CLASSIC, number, "Stable", "member joined", "C12", member_id, None,
                150, 100, 50, None, 5, 30, 5, moves, (member_id,), "range",
            )  # fmt: skip
        case 1 | 2 | 3 | 4 | 5 | 6:
            host = f"/10.0.0.{number % 200}"
            return MemberJoined(
                now_ms, group_id, CLASSIC, number, member_id, None, "app", host, None, 5,
                "librdkafka 2.12", 45_000,
            )  # fmt: skip
        case 7 | 8 | 9:
            return StateChanged(now_ms, group_id, CLASSIC, number, "CompletingRebalance", "Stable", 5)
        case _:
            return Commits(now_ms, group_id, now_ms - 10_000, now_ms, number % 100, number % 1_000, 0)


def _stretches(prepared: list[Any], length: int) -> Iterator[Stretch]:
    coming = cycle(prepared)
    return (Stretch(TERM, first, list(islice(coming, length))) for first in count(1, length))


@contextmanager
def _directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="groupd-bench-history-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _run(plan: Plan, is_kept: bool) -> Cost:
    keep_collections_short()  # as leaders do
    with _directory() as directory:
        settings = HistorySettings(history_dir=str(directory), history_enable=is_kept)
        kept = HistoryWriter(settings, "", "bench", PARTITION, NODE)
        kept.start()
        coming = _stretches(events(), plan.per_s // TURNS_PER_S)
        warm = _turns(kept, coming, WARM_UP_S)
        cpu_s = time.process_time()
        turns = _turns(kept, coming, plan.seconds)
        cpu_s = time.process_time() - cpu_s
        kept.close()
        disk_bytes = sum(path.stat().st_size for path in directory.rglob("*.parquet"))
    p999 = statistics.quantiles(turns, n=1_000)[-1]
    taken = int(plan.per_s * plan.seconds)
    return Cost(cpu_s, taken, kept.dropped, disk_bytes, max(turns) * 1e3, p999 * 1e3, max(warm) * 1e3)


def _turns(kept: HistoryWriter, coming: Iterator[Stretch], seconds: float) -> list[float]:
    """How late each turn of the loop was, in seconds."""
    late = []
    began_at = time.perf_counter()
    for turn in range(int(seconds * TURNS_PER_S)):
        due_at = began_at + turn / TURNS_PER_S
        in_s = due_at - time.perf_counter()
        if in_s > 0:
            time.sleep(in_s)
        late.append(time.perf_counter() - due_at)
        kept.keep(next(coming))
    return late


def _parts() -> Parts:
    from storage.history.segments.folder import Folder
    from storage.history.segments.writer import SegmentWriter

    rounds, rows, at_once = 4, 200_000, 500
    columns_s, publish_s = [], []
    with _directory() as directory:
        segments = SegmentWriter(Folder(str(directory)), "bench", PARTITION, NODE, lambda: None)
        coming = _stretches(events(), at_once)
        for _ in range(rounds):
            pieces = list(islice(coming, rows // at_once))
            began_s = time.process_time()
            for piece in pieces:
                segments.add([piece])
            added_s = time.process_time()
            segments.publish()
            columns_s.append(added_s - began_s)
            publish_s.append(time.process_time() - added_s)
    return Parts(min(columns_s) / rows * 1e6, min(publish_s) / rows * 1e6)


def as_json(measured: Measured) -> dict[str, Any]:
    """The figures as plain values."""
    return {
        "cpu_us": measured.cpu_us,
        "share": measured.share,
        **{name: value._asdict() for name, value in measured._asdict().items()},
    }


def show(console: Console, measured: Measured, machine: str) -> None:
    """Print the figures as a table."""
    table = Table(title=machine)
    for column in ("what", "figure", "how"):
        table.add_column(column, justify="right" if column == "figure" else "left")
    plan, without, kept, parts = measured
    table.add_row("CPU of an event", f"{measured.cpu_us:.2f} us", "process with history, less without")
    goal = f"at {plan.per_s:,} events a second; goal {GOAL_SHARE:.0%}"
    table.add_row("share of a core", f"{measured.share:.1%}", goal)
    table.add_row("  to columns", f"{parts.columns_us:.2f} us", "alone, best of its rounds")
    table.add_row("  to a file", f"{parts.publish_us:.2f} us", "joining, Parquet, zstd, sync")
    table.add_row("dropped", f"{kept.dropped:,}", f"of {kept.events:,} events")
    size = kept.disk_bytes / (kept.events + plan.per_s * WARM_UP_S)
    table.add_row("on disk", f"{size:.1f} bytes", "an event")
    beside = f"p99.9 {kept.p999_ms:.1f} ms; without history {without.longest_ms:.1f}, {without.p999_ms:.1f}"
    table.add_row("longest pause", f"{kept.longest_ms:.1f} ms", beside)
    table.add_row("once, at first", f"{kept.import_ms:.1f} ms", "while pyarrow is imported")
    console.print(table)
