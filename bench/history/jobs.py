"""Makes all tables of a made-up history: Spark beside DuckDB, from the same SQL and the same Parquet.

Every run is a process of its own (`python -m bench.history.jobs ENGINE ...`), so that each engine pays for
its own start. The engines take turns, so that what else the machine does meets both. The tables of both are
compared row by row, so that no wrong answer counts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import psutil
from rich.console import Console

from cluster.cli.tables import Table
from storage.history.generator.plan import plan
from storage.history.generator.spec import DAY_MS, Spec
from storage.history.generator.write import write
from storage.history.jobs import choice
from storage.history.jobs.run import run
from storage.history.jobs.store import tables_url
from storage.history.jobs.table import Table as Made
from storage.history.jobs.tables import MADE
from storage.history.period import Period, of_days
from storage.history.segments.folder import Folder

ENGINES: Final = ("duckdb", "spark")
RUN_TIMEOUT_S: Final = 3_600
WATCH_S: Final = 0.2
CPU_S_MIN: Final = 0.01
PERIOD_DAYS: Final = 7


class CannotRun(Exception):
    """Something needed is not installed, or an engine failed; the text says which."""


class Plan(NamedTuple):
    """What is measured."""

    events: int = 10_000_000
    memory: str = "2g"
    """The memory of each engine."""
    cores: tuple[int, ...] = (1, 2)
    skewed: bool = False
    """One group has most of all events, and half of the rebalances."""
    runs: int = 1
    """Runs of each engine on each number of cores."""


class Run(NamedTuple):
    """The figures of one engine over the whole history."""

    engine: str
    cores: int
    seconds: float
    """Seconds from the start of the engine's process to its end."""
    working_s: float
    """The seconds after the engine had started."""
    cpu_s: float
    """The CPU of the process and its children: the fairer figure on a machine that has other work."""
    memory_mib: int
    """The most that the process and its children had in memory."""


class Ratio(NamedTuple):
    """How many times as much as DuckDB Spark took on so many cores: the median of pairs of runs that followed
    each other."""

    cores: int
    seconds: float
    cpu: float
    memory: float


def require() -> None:
    """Check that both engines are here. Raises CannotRun."""
    from storage.history.jobs.session import SparkMissing, require_spark

    if importlib.util.find_spec("duckdb") is None:
        raise CannotRun("duckdb is not installed: pip install duckdb")
    try:
        require_spark()
    except SparkMissing as error:
        raise CannotRun(str(error)) from None


def measure(asked: Plan, folder: Path | None, say: Callable[[str], None]) -> list[Run]:
    """Make the history unless it is in `folder`, which is kept, then run both engines. Raises CannotRun."""
    require()
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="groupd-history-") as temporary:
            return _measure(asked, Path(temporary), say)
    folder.mkdir(parents=True, exist_ok=True)
    return _measure(asked, folder.resolve(), say)


def _measure(asked: Plan, folder: Path, say: Callable[[str], None]) -> list[Run]:
    history = folder / "history"
    if not history.exists():
        started = time.perf_counter()
        spec = _spec(asked)
        count = write(plan(spec), Folder(str(history)))
        say(f"{count:,} events of {spec.groups} groups written in {time.perf_counter() - started:.1f} s")
    runs = [
        _kept_run(asked, folder, engine, number, say)
        for _ in range(asked.runs)
        for number in asked.cores
        for engine in ENGINES
    ]
    _compare(*(folder / f"tables-{engine}" for engine in ENGINES))
    say(f"{len(MADE)} tables are the same")
    return runs


def _kept_run(asked: Plan, folder: Path, engine: str, cores: int, say: Callable[[str], None]) -> Run:
    """Run an engine and keep its tables."""
    say(f"{engine} on {cores} {'core' if cores == 1 else 'cores'}")
    history = folder / "history"
    measured = _run(engine, history, cores, asked.memory)
    kept = folder / f"tables-{engine}"
    shutil.rmtree(kept, ignore_errors=True)
    Path(tables_url(str(history))).rename(kept)
    return measured


def ratios(runs: Sequence[Run]) -> list[Ratio]:
    """What Spark took beside DuckDB, for each number of cores."""
    found = []
    for cores in dict.fromkeys(each.cores for each in runs):
        ours, theirs = (
            [each for each in runs if (each.engine, each.cores) == (engine, cores)]
            for engine in ("spark", "duckdb")
        )
        pairs = list(zip(ours, theirs, strict=True))
        found.append(
            Ratio(
                cores,
                median(one.seconds / other.seconds for one, other in pairs),
                median(one.cpu_s / max(other.cpu_s, CPU_S_MIN) for one, other in pairs),
                median(one.memory_mib / max(other.memory_mib, 1) for one, other in pairs),
            )
        )
    return found


def _spec(asked: Plan) -> Spec:
    if asked.skewed:
        return Spec(1, asked.events, PERIOD_DAYS, groups=20, hot_share=0.95, hot_restarts=20)
    return Spec(1, asked.events, PERIOD_DAYS, groups=max(40, min(2_000, asked.events // 25_000)))


def _run(engine: str, history: Path, cores: int, memory: str) -> Run:
    command = [sys.executable, "-m", "bench.history.jobs", engine, str(history), str(cores), memory]
    started = time.perf_counter()
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment(cores))
    most, cpu_s = 0, 0.0
    try:
        _hold_to(running.pid, cores)
        while running.poll() is None and time.perf_counter() - started < RUN_TIMEOUT_S:
            memory_bytes, used_s = _usage(running.pid)
            most, cpu_s = max(most, memory_bytes), max(cpu_s, used_s)
            time.sleep(WATCH_S)
    finally:
        running.kill()  # interrupted, or out of time; one that has ended takes no notice
    seconds = time.perf_counter() - started
    said, _ = running.communicate()
    if running.returncode != 0:
        raise CannotRun(f"{engine} on {cores} cores failed")
    return Run(engine, cores, seconds, json.loads(said.splitlines()[-1])["working_s"], cpu_s, most >> 20)


def _hold_to(pid: int, cores: int) -> None:
    """Hold a process to so many processors, where the system can: a JVM compiles beside its work."""
    process = psutil.Process(pid)
    if hasattr(process, "cpu_affinity"):
        process.cpu_affinity(process.cpu_affinity()[:cores])


def _environment(cores: int) -> dict[str, str]:
    """The environment of a run. A JVM has as many threads for its own work as there are processors, unless it
    is told otherwise."""
    return {**os.environ, "JDK_JAVA_OPTIONS": f"-XX:ActiveProcessorCount={cores}"}


def _usage(pid: int) -> tuple[int, float]:
    """The memory in bytes and the CPU in seconds of a process and its children; nothing if one just ended."""
    try:
        process = psutil.Process(pid)
        every = (process, *process.children(recursive=True))
        times = [each.cpu_times() for each in every]
        return sum(each.memory_info().rss for each in every), sum(each.user + each.system for each in times)
    except psutil.NoSuchProcess:
        return 0, 0.0


def one(engine: str, history: Path, cores: int, memory: str) -> float:
    """Run one engine in this process, which `_run` starts. Returns the seconds of work."""
    folder = Folder(str(history))
    size_bytes = sum(each.size_bytes for each in folder.segments().found)
    asked = choice.Asked(choice.Kind(engine), f"local[{cores}]", memory, threads=cores)
    with choice.engine(asked, folder, 0, size_bytes) as found:
        started = time.perf_counter()
        run(found, folder, whole(), say=lambda _: None)
        return time.perf_counter() - started


def whole() -> Period:
    """The period of all days of the history."""
    spec = Spec(seed=1, events=0, days=PERIOD_DAYS)
    return of_days(spec.first_date, spec.date(spec.first_ms + PERIOD_DAYS * DAY_MS - 1))


def _compare(ours: Path, theirs: Path) -> None:
    """Compare the tables row by row, floating point numbers to nine places."""
    import duckdb

    with duckdb.connect() as connection:
        different = [
            f"{table.name}: {count:,} rows"
            for table in MADE
            if (count := _differences(connection, ours / table.name, theirs / table.name, table))
        ]
    if different:
        raise CannotRun("tables differ: " + "; ".join(different))


def _differences(connection: Any, ours: Path, theirs: Path, table: Made) -> int:
    """How many rows only one of them has."""
    columns = ", ".join(
        f'round("{each.name}", 9)' if each.type == "double" else f'"{each.name}"' for each in table.whole
    )
    one, other = (
        f"SELECT {columns} FROM read_parquet('{each}/*/*.parquet', hive_partitioning=true)"  # noqa: S608
        for each in (ours, theirs)
    )
    parts = f"(({one}) EXCEPT ALL ({other})) UNION ALL (({other}) EXCEPT ALL ({one}))"
    return int(connection.execute(f"SELECT count(*) FROM ({parts})").fetchone()[0])  # noqa: S608


def show(console: Console, runs: Sequence[Run], machine: str) -> None:
    """Print them as a table."""
    table = Table(title=machine)
    for column in ("engine", "cores", "seconds", "working", "CPU seconds", "MiB"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    for each in runs:
        seconds = f"{each.seconds:.1f}", f"{each.working_s:.1f}", f"{each.cpu_s:.1f}"
        table.add_row(each.engine, str(each.cores), *seconds, f"{each.memory_mib:,}")
    console.print(table)
    for ratio in ratios(runs):
        where = f"on {ratio.cores} {'core' if ratio.cores == 1 else 'cores'}"
        took = (
            f"{ratio.seconds:.2f} times its seconds, {ratio.cpu:.2f} its CPU, {ratio.memory:.2f} its memory"
        )
        console.print(f"Spark beside DuckDB {where}: {took}")


if __name__ == "__main__":
    name, read_from, core_count, memory_each = sys.argv[1:]
    working_s = one(name, Path(read_from), int(core_count), memory_each)
    print(json.dumps({"working_s": working_s}))
