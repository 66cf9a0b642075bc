"""Swarms that nobody lies to: none may be told as broken.

On a tier in good health, and on three brokers of Kafka of which one is killed and started again meanwhile.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console

from bench.ground.throwaway import Tier
from bench.peers.options import Options
from bench.swarm.load.driver import run_swarm
from bench.swarm.planning import scenario
from bench.swarm.planning.plan import Plan
from bench.swarm.planning.scenario import Changes
from bench.swarm.told.report import machine, read_run, report
from bench.tier.swarms import Kafka
from storage.history.call_files import SUFFIX, CallWriter
from storage.history.calls import Fault
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN
from tests.lies import server_history
from tests.polling import until

MARKDOWN: Final = Path(__file__).with_name("CLEAN.md")
SECONDS: Final = 18.0
MEMBERS_MAX: Final = 60
"""The largest swarm that runs: several are served by few cores at once."""
STARTED_LATE_S: Final = 15.0
"""A scenario that begins to disturb its members later than half a run lasts so much longer."""
TIER: Final = "groupd, one node"
KAFKA: Final = "Kafka, 3 brokers"
RUNS: Final = "runs.jsonl"
"""The file below `--out` with the runs that were made; they are not made again."""
BEGUN_S: Final = 120.0
KILL_AT_S: Final = 15.0
DOWN_S: Final = 8.0
KAFKA_SECONDS: Final = 45.0
KAFKA_AT_ONCE: Final = 5
PREFACE: Final = """\
# False alarms

Swarms of the scenarios that come with groupd, in turn and with a seed of their own each, {jobs} at a time, at
most {members} members each. Nobody lies to them. On Kafka one broker of three gets SIGKILL after {kill:g} s
and is started again {down:g} s later; every second of those swarms is told of it (a fault in its record),
the others are not. A run may be *not shown*, with the reason below; none may be *broken*.
Written by `python -m tests.lies clean --runs {runs} --kafka {kafka} --table` on {date}; {machine}.
"""


class Run(NamedTuple):
    """The run of one swarm and its verdict."""

    server: str
    scenario: str
    seed: int
    status: str
    remark: str
    """The part of the verdict that says what was shown, why it was not, or what was broken."""
    requests: int
    accused: int = 0
    """Rows that the server's history has of broken invariants in its groups."""


def plans(seconds: float = SECONDS) -> Iterator[Plan]:
    """Yield plans of all scenarios in turn, without an end."""
    names = scenario.names()
    for seed in count(1):
        chosen = scenario.load(names[(seed - 1) % len(names)])
        begin_s = max(getattr(s, "begin_s", 0.0) for table in chosen.groups for s in table.shapes)
        lasts_s = max(seconds, begin_s + STARTED_LATE_S)
        if chosen.members > MEMBERS_MAX:
            chosen = chosen.scaled(members=MEMBERS_MAX)
        yield chosen.changed(Changes(duration_s=lasts_s)).plan(seed, prefix=f"clean-{seed}-")


def main(arguments: argparse.Namespace, out: Path, console: Console) -> int:
    """Run the command `python -m tests.lies clean`."""
    out.mkdir(parents=True, exist_ok=True)
    kept = out / RUNS
    runs = [Run(*json.loads(line)) for line in kept.read_text().splitlines()] if kept.exists() else []

    def say(run: Run) -> None:
        runs.append(run)
        with kept.open("a") as file:
            file.write(json.dumps(run) + "\n")
        console.print(f"{run.server}: {run.scenario} {run.seed}: {run.status}: {run.remark}", markup=False)

    by_server = Counter(run.server for run in runs)
    on_tier(range(by_server[TIER], arguments.runs), arguments.jobs, out / "tier", say)
    on_kafka(range(by_server[KAFKA], arguments.kafka), out / "kafka", say)
    alarms = [run for run in runs if run.status == BROKEN or run.accused]
    console.print(f"{len(runs)} clean runs, {len(alarms)} false alarms")
    if arguments.table:
        MARKDOWN.write_text(markdown(runs, arguments), encoding="utf-8")
    return 1 if alarms else 0


def on_tier(places: range, jobs: int, out: Path, say: Callable[[Run], None]) -> None:
    """Run these `plans` on a tier, several at once."""
    if not places:
        return
    flags = ("--set", f"history.segment.ms={server_history.SEGMENT_MS}")
    with Tier("--nodes", "1", "--replicas", "1", *flags, nodes=1) as tier, ThreadPoolExecutor(jobs) as pool:
        chosen = islice(plans(), places.start, places.stop)
        judged = list(pool.map(lambda plan: _judged(TIER, plan, tier.bootstrap, out), chosen))
        accused = server_history.accused(server_history.folder_of(tier.data_dir))
    for run in judged:
        rules = [rule for group_id, rule in accused if group_id.startswith(f"clean-{run.seed}-")]
        told = "".join(f"; the history: {rule}" for rule in sorted(set(rules)))
        say(run._replace(accused=len(rules), remark=run.remark + told))


def on_kafka(places: range, out: Path, say: Callable[[Run], None]) -> None:
    """Run these `plans` on Kafka, several at once; a broker is killed and started again midway."""
    if not places:
        return
    server = Kafka(Options(quick=True))
    reason = server.missing()
    if reason:
        raise RuntimeError(f"no Kafka here: {reason}")
    try:
        server.start()
        server.wait_until_ready()
        chosen = list(islice(plans(KAFKA_SECONDS), places.start, places.stop))
        for first in range(0, len(chosen), KAFKA_AT_ONCE):
            for run in _hurt(server, chosen[first : first + KAFKA_AT_ONCE], out):
                say(run)
    finally:
        server.stop()


def _hurt(server: Kafka, together: Sequence[Plan], out: Path) -> list[Run]:
    bootstrap = ",".join(f"{host}:{port}" for host, port in server.bootstrap)
    hurting = threading.Thread(target=_kill_and_start, args=(server, together, out))
    hurting.start()
    with ThreadPoolExecutor(len(together)) as pool:
        return list(pool.map(lambda plan: _judged(KAFKA, plan, bootstrap, out, hurting), together))


def _kill_and_start(server: Kafka, together: Sequence[Plan], out: Path) -> None:
    """Kill a broker and start it again; every second swarm is told."""
    directories = [_directory(plan, out) for plan in together]
    until(lambda: all(map(read_run, directories)), "all swarms have begun", BEGUN_S)
    pause = threading.Event()
    pause.wait(KILL_AT_S)
    killed_at, _ = server.kill_leader([member.group_id for plan in together for member in plan.members])
    pause.wait(DOWN_S)
    server.mend()
    spans = int(killed_at * 1e6), time.monotonic_ns() // 1_000
    for directory in directories[::2]:
        with CallWriter(directory / f"faults{SUFFIX}", str(read_run(directory)["run_id"])) as writer:
            writer.write(Fault("kill-broker", server.name, *spans))
            writer.end(spans[1])


def _judged(
    server: str, plan: Plan, bootstrap: str, out: Path, hurting: threading.Thread | None = None
) -> Run:
    directory = run_swarm(plan, bootstrap, _directory(plan, out))
    if hurting is not None:
        hurting.join()
    outcome = report(directory)
    verdict, requests = outcome.verdict, outcome.figures.totals.requests
    return Run(server, plan.scenario, plan.seed, verdict.status, verdict.because, requests)


def _directory(plan: Plan, out: Path) -> Path:
    return out / f"{plan.scenario}-{plan.seed}"


def markdown(runs: Iterable[Run], arguments: Any) -> str:
    """Counts by server and scenario, and every run that was not kept."""
    runs = list(runs)
    lines = [
        PREFACE.format(
            jobs=arguments.jobs,
            members=MEMBERS_MAX,
            kill=KILL_AT_S,
            down=DOWN_S,
            runs=arguments.runs,
            kafka=arguments.kafka,
            date=time.strftime("%Y-%m-%d"),
            machine=machine(),
        ),
        "| server | scenario | runs | requests | kept | not shown | broken | accused by its history |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for server, name in dict.fromkeys((run.server, run.scenario) for run in runs):
        those = [run for run in runs if (run.server, run.scenario) == (server, name)]
        lines.append(_counts((server, name), those))
    lines += [_counts(("all", ""), runs), ""]
    lines += [
        f"- {run.server}, {run.scenario}, seed {run.seed}: {run.status}: {run.remark}"
        for run in runs
        if run.status != KEPT or run.accused
    ]
    return "\n".join(lines) + "\n"


def _counts(names: tuple[str, str], runs: Sequence[Run]) -> str:
    by_status = Counter(run.status for run in runs)
    cells = (
        *names,
        len(runs),
        f"{sum(run.requests for run in runs):,}",
        *(by_status[status] for status in (KEPT, NOT_SHOWN, BROKEN)),
        sum(run.accused for run in runs),
    )
    return f"| {' | '.join(map(str, cells))} |"
