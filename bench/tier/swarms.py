"""Runs the same swarms on our tier and on Apache Kafka, each with three nodes and three replicas, one server
after the other.

Both have Kafka's defaults, but as many offsets partitions as nodes: a node of either leads one. A swarm that
is not counted comes first, because a JVM that has just been started is slow. In the last swarm the process
that coordinates most groups gets SIGKILL: a broker of Kafka's, a replica of ours.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from bench.chaos.availability import availability
from bench.peers.groupd import GroupdThree
from bench.peers.kafka import KafkaThree
from bench.peers.options import Options
from bench.peers.peer import Peer
from bench.swarm.counted.columns import spread
from bench.swarm.counted.figures import Figures
from bench.swarm.load.driver import Launch, run_swarm
from bench.swarm.load.watch import Watch
from bench.swarm.planning import scenario
from bench.swarm.planning.felt import FAULTS_FILE
from bench.swarm.planning.plan import Plan
from bench.swarm.planning.scenario import Changes
from bench.swarm.rows.second import Second
from bench.swarm.told import compare
from bench.swarm.told import report as reporting
from bench.swarm.told.comparison import Comparison
from bench.swarm.told.report import Addition
from bench.tier import swarms_table
from storage.history.call_files import CallWriter
from storage.history.calls import Fault, History

Say = Callable[[str], None]
SETTINGS: Final[Mapping[str, str]] = MappingProxyType({"offsets.topic.num.partitions": "3"})
JSON: Final = "swarms.json"
MARKDOWN: Final = "swarms.md"
KILL: Final = "kill-leader"
KILL_AT: Final = 0.5
"""When the leader is killed, as a share of the run."""
COMMIT_MS: Final = 500
"""The time between two commits of a member in that run: a member that is silent for seconds does not notice
an outage of one."""
QUICK_S: Final = 25.0
"""The length of a quick run: the first deploys of `rolling-deploy` come after 13 s."""


class Ours(GroupdThree):
    settings: ClassVar[Mapping[str, str]] = SETTINGS


class Kafka(KafkaThree):
    settings: ClassVar[Mapping[str, str]] = SETTINGS


SERVERS: Final[tuple[type[Peer], ...]] = (Ours, Kafka)
NAMES: Final = tuple(server_class.name for server_class in SERVERS)


class Step(NamedTuple):
    """A swarm that is run on each server."""

    name: str
    scenario: str
    seconds: float
    kills: bool = False


WARM_UP: Final = Step("warm-up", "join-storm", 30)
STEPS: Final = (
    Step("steady", "steady", 60),
    Step("rolling-deploy", "rolling-deploy", 120),
    Step("join-storm", "join-storm", 90),
    Step("steady, a leader killed", "steady", 75, kills=True),
)


class Wanted(NamedTuple):
    """What is run, and where the reports go."""

    seed: int
    out: Path
    machine: str
    quick: bool = False
    kafka_home: Path | None = None


class _Measured(NamedTuple):
    """The results so far."""

    software: dict[str, str]
    """The software of each server, by its name."""
    skipped: dict[str, str]
    """The servers that cannot run here, with the reason."""
    reports: dict[str, dict[str, dict[str, Any]]]
    """The report.json of each server, by step and server."""

    def compared(self) -> Comparison:
        return swarms_table.comparison(NAMES, self.software, self.skipped, self.reports)


def run(wanted: Wanted, say: Say) -> Comparison:
    """Run all swarms. The results so far are written after every swarm. Raises RuntimeError if a server does
    not start, and KeyboardInterrupt; servers that were started are stopped."""
    measured = _Measured({}, {}, {step.name: {} for step in STEPS})
    for server_class in SERVERS:
        server = server_class(Options(quick=wanted.quick, kafka_home=wanted.kafka_home))
        reason = server.missing()
        if reason:
            measured.skipped[server.name] = reason
            say(f"{server.name} skipped: {reason}")
            continue
        measured.software[server.name] = server.software()
        say(f"{server.name}: starts")
        try:
            server.start()
            server.wait_until_ready()
            for step in (WARM_UP, *STEPS):
                say(f"{server.name}: {step.name}")
                told = _swarm(server, step, wanted)
                if step is not WARM_UP:
                    measured.reports[step.name][server.name] = told
                    _write(measured.compared(), wanted)
        finally:
            server.stop()
    return measured.compared()


def _write(found: Comparison, wanted: Wanted) -> None:
    about = {
        "machine": wanted.machine,
        "command": shlex.join(["groupd", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "seed": wanted.seed,
        "quick": wanted.quick,
    }
    text = json.dumps(about | swarms_table.as_json(found), indent=2)
    (wanted.out / JSON).write_text(text + "\n", encoding="utf-8")
    head = f"{wanted.machine}. `{about['command']}`, {about['date']}.\n\n"
    (wanted.out / MARKDOWN).write_text(head + compare.markdown(found), encoding="utf-8")


def _swarm(server: Peer, step: Step, wanted: Wanted) -> dict[str, Any]:
    """Run one swarm and return its report.json."""
    chosen = scenario.load(step.scenario).changed(
        Changes(duration_s=QUICK_S if wanted.quick else step.seconds)
    )
    place = step.name.replace(", ", "-").replace(" ", "-")
    plan = chosen.plan(wanted.seed, prefix=f"{place}-")
    if step.kills:
        often = (member._replace(commit_interval_ms=COMMIT_MS) for member in plan.members)
        plan = plan._replace(members=tuple(often))
    directory = wanted.out / server.name / place
    bootstrap = ",".join(f"{host}:{port}" for host, port in server.bootstrap)
    killer = _Killer(server, plan, directory) if step.kills else None
    with Watch(directory, server.pids) as watch:

        def on_second(second: Second) -> None:
            watch(second)
            if killer is not None:
                killer(second)

        launch = Launch(software=server.software())
        run_swarm(plan, bootstrap, directory, launch, on_second=on_second)
    if reporting.was_stopped(reporting.read_run(directory)):
        raise KeyboardInterrupt  # Ctrl-C ended the swarm, and ends everything here
    reporting.report(directory, more=None if killer is None else killer.harm)
    return compare.read(directory / reporting.RESULTS)


class _Killer:
    """Kills a leader once, in the middle of a run."""

    def __init__(self, server: Peer, plan: Plan, directory: Path) -> None:
        self._server = server
        self._groups = sorted({member.group_id for member in plan.members})
        self._at_s = plan.duration_s * KILL_AT
        self._directory = directory
        self._hit: list[str] = []

    def __call__(self, second: Second) -> None:
        if self._hit or second.at_s < self._at_s:
            return
        killed_at, self._hit = self._server.kill_leader(self._groups)
        killed_us = int(killed_at * 1e6)
        run_id = str(reporting.read_run(self._directory)["run_id"])
        with CallWriter(self._directory / FAULTS_FILE, run_id) as writer:
            writer.write(Fault(KILL, self._server.name, killed_us, killed_us))
            writer.end(time.monotonic_ns() // 1_000)

    def harm(self, history: History, figures: Figures) -> Addition:
        """What the kill did to the groups."""
        harms = availability(history, figures).harms
        without = spread([harm.without_us for harm in harms if harm.without_us])
        told = {
            "groups": len(self._hit),
            "noticed": without.values,
            "without_p50_ms": without.p50_ms,
            "without_max_ms": without.max_ms,
            "members_lost": sum(harm.members_lost for harm in harms),
            "rebalances": sum(harm.rebalances for harm in harms),
            "refused": sum(harm.refused for harm in harms),
        }
        return Addition(plain={"kill": told})
