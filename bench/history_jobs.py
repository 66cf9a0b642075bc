"""A made-up history to all tables: Spark's jobs beside hand-written DuckDB queries on the same Parquet.

`python -m bench.history_jobs --events 10000000`. Every run is a process of its own, so that each pays for its
own start, and the tables of both are compared: a fast wrong answer is none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from bench.history_duckdb import QUERIES, make, summary
from storage.history.generator.plan import plan
from storage.history.generator.spec import DAY_MS, Spec
from storage.history.generator.write import write
from storage.history.segments.folder import Folder

RUN_TIMEOUT_S: Final = 3_600
WATCH_S: Final = 0.2
PERIOD_DAYS: Final = 7


class Run(NamedTuple):
    """One engine over the whole history."""

    engine: str
    cores: int
    seconds: float
    """From the start of its process to its end."""
    working_s: float
    """Of that, after the engine had started."""
    cpu_s: float
    """Of the process and its children: on a machine that has other work, the fairer figure."""
    memory_mib: int
    """The most that the process and its children had in memory."""


def measure(events: int, folder: Path, memory: str, cores: Sequence[int]) -> list[Run]:
    """Make the history unless it is there, then run everybody. RuntimeError if tables differ."""
    history = folder / "history"
    if not history.exists():
        started = time.perf_counter()
        groups = max(40, min(2_000, events // 25_000))
        count = write(
            plan(Spec(seed=1, events=events, days=PERIOD_DAYS, groups=groups)), Folder(str(history))
        )
        _say(f"{count:,} events of {groups} groups written in {time.perf_counter() - started:.1f} s")
    runs = []
    for engine in ("duckdb", "spark"):
        for number in cores:
            runs.append(_run(engine, history, folder / f"duckdb-{number}", number, memory))
            _say(str(runs[-1]))
    _compare(history / "_tables", folder / f"duckdb-{cores[-1]}")
    return runs


def _run(engine: str, history: Path, out: Path, cores: int, memory: str) -> Run:
    command = [
        sys.executable,
        "-m",
        "bench.history_jobs",
        "--one",
        engine,
        str(history),
        str(out),
        str(cores),
    ]
    out.mkdir(exist_ok=True)
    started = time.perf_counter()
    running = subprocess.Popen(
        [*command, "--memory", memory], stdout=subprocess.PIPE, text=True, env=_environment(cores)
    )
    most, cpu_s = 0, 0.0
    while running.poll() is None:
        memory_bytes, used_s = _usage(running.pid)
        most, cpu_s = max(most, memory_bytes), max(cpu_s, used_s)
        if time.perf_counter() - started > RUN_TIMEOUT_S:
            running.kill()
        time.sleep(WATCH_S)
    seconds = time.perf_counter() - started
    said, _ = running.communicate()
    if running.returncode != 0:
        raise RuntimeError(f"{engine} on {cores} cores failed")
    return Run(engine, cores, seconds, json.loads(said.splitlines()[-1])["working_s"], cpu_s, most >> 20)


def _environment(cores: int) -> dict[str, str]:
    """The JVM takes as many threads for its own work as there are processors, unless told."""
    return {**os.environ, "JDK_JAVA_OPTIONS": f"-XX:ActiveProcessorCount={cores}"}


def _usage(pid: int) -> tuple[int, float]:
    """Memory in bytes and CPU in seconds of a process and its children; nothing if one just ended."""
    try:
        process = psutil.Process(pid)
        every = (process, *process.children(recursive=True))
        times = [each.cpu_times() for each in every]
        return sum(each.memory_info().rss for each in every), sum(each.user + each.system for each in times)
    except psutil.NoSuchProcess:
        return 0, 0.0


def one(engine: str, history: Path, out: Path, cores: int, memory: str) -> float:
    """What `_run` starts: seconds of work."""
    if engine == "duckdb":
        started = time.perf_counter()
        make(history, out, cores, memory)
        return time.perf_counter() - started
    from storage.history.jobs.events import Period
    from storage.history.jobs.run import run
    from storage.history.jobs.session import session

    spec = Spec(seed=1, events=0, days=PERIOD_DAYS)
    with session(f"local[{cores}]", memory) as spark:
        started = time.perf_counter()
        period = Period(spec.first_date, spec.date(spec.first_ms + PERIOD_DAYS * DAY_MS - 1))
        run(spark, Folder(str(history)), period, say=_timed(started))
        return time.perf_counter() - started


def _timed(started: float) -> Any:
    return lambda said: _say(f"{time.perf_counter() - started:6.1f} s  {said}")


def _compare(ours: Path, theirs: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        different = [
            f"{name}: {mine} and {other}"
            for name in QUERIES
            if (mine := summary(connection, ours, name)) != (other := summary(connection, theirs, name))
        ]
    if different:
        raise RuntimeError("tables differ: " + "; ".join(different))
    _say(f"{len(QUERIES)} tables are the same")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="Kept if given; else a temporary one.")
    parser.add_argument("--memory", default="2g", help="Of each engine.")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        engine, history, out, cores = asked.one
        print(json.dumps({"working_s": one(engine, Path(history), Path(out), int(cores), asked.memory)}))
        return
    with tempfile.TemporaryDirectory(prefix="groupd-history-") as temporary:
        runs = measure(asked.events, asked.folder or Path(temporary), asked.memory, asked.cores)
    print(json.dumps([run._asdict() for run in runs], indent=2))


if __name__ == "__main__":
    main()
