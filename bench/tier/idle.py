"""`groupd bench idle`: what a tier does when nobody asks it for anything, and who wakes whom.

It starts a throw-away tier, waits until it has settled, and counts for some seconds: how often the threads
of each process wake and what that costs (bench/ground/threads.py), how many turns each replica takes and how
often it hears from its peers. Whose a thread is says its name: ours are those of an actor's loop, and what
the loop has started; Ray names its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import psutil
from rich.console import Console

from actors.ground.threads import LOOP_NAME
from bench.ground.threads import Rate, Threads, rates, threads_of
from bench.ground.throwaway import Tier, pss_mib
from cluster.cli.tables import Table

DRIVER: Final = "groupd up"
OURS: Final = "ours"
RAY: Final = "Ray"
PYTHONS: Final = ("python", "groupd")
"""The names of a driver's own threads: that of its Python, and of what it has started."""
WAKERS: Final[Mapping[str, str]] = {
    LOOP_NAME: "its timers, peers, clients, and calls from other actors",
    "client.poll": "gRPC's answers, and a timer, 4 times a second each",
    "server.poll": "gRPC's calls, and a timer, 4 times a second each",
    "worker.io": "a timer, every 100 ms: objects to recover",
    "nexting_thread": "gRPC's own timer",
    "timer_manager": "gRPC's own timer",
    "grpc_global_tim": "gRPC's own timer",
    "event_engine": "gRPC's sockets",
    "ray::": "calls from other actors, and a timer, once a second",
    "raylet": "the raylet's timers",
    "gcs_server": "the directory's timers and its callers",
    "node_manager_io": "health checks",
    **dict.fromkeys(PYTHONS, "the driver's watch, twice a second"),
}
"""How the name of a thread begins -> who wakes it."""


class Plan(NamedTuple):
    """What is started and counted; `bound` is how many wake-ups a second a process of ours may have."""

    nodes: int
    copies: int
    settle_s: float
    seconds: float
    bound: float


class Process(NamedTuple):
    """A process of the tier while it idled."""

    pid: int
    role: str
    rates: tuple[Rate, ...]
    pss_mib: float
    turns: float | None = None
    """How many turns a replica took, a second; None: it is no replica."""
    heard: float | None = None
    """How often a replica took messages from its peers, a second."""

    @property
    def core(self) -> float:
        return sum(rate.core for rate in self.rates)

    @property
    def wakes(self) -> float:
        return sum(rate.wakes for rate in self.rates)

    def of(self, whose: str) -> Rate:
        """Return all threads of one owner together."""
        chosen = [rate for rate in self.rates if owner(rate.name, self.role) == whose]
        return Rate(
            whose,
            sum(rate.threads for rate in chosen),
            sum(rate.wakes for rate in chosen),
            sum(rate.core for rate in chosen),
        )


class Watched(NamedTuple):
    """The threads of each process, by its id, when watching began and when it ended."""

    before: Mapping[int, Threads]
    after: Mapping[int, Threads]
    seconds: float


class Asked(NamedTuple):
    """What replicas said of themselves, by their process ids, and when."""

    at: float
    replicas: Mapping[int, Mapping[str, Any]]


def owner(thread: str, role: str) -> str:
    """Return whose a thread is, by its name and what its process is."""
    is_driver = role == DRIVER and thread.startswith(PYTHONS)
    return OURS if is_driver or thread.startswith(LOOP_NAME) else RAY


def waker(thread: str) -> str:
    """Return who wakes a thread, in words; empty if that is not known."""
    return next((words for begin, words in WAKERS.items() if thread.startswith(begin)), "")


def too_lively(processes: Iterable[Process], bound: float) -> list[Process]:
    """Return the processes whose threads of ours wake more often than `bound` times a second."""
    return [process for process in processes if process.of(OURS).wakes > bound]


def measure(plan: Plan, say: Callable[[str], None]) -> list[Process]:
    """Start a tier, let it settle, count, and stop it. Return its processes."""
    say(f"a tier of {plan.nodes} {'node' if plan.nodes == 1 else 'nodes'} starts")
    flags = ("--nodes", str(plan.nodes), "--replicas", str(plan.copies))
    with Tier(*flags, nodes=plan.nodes) as tier:
        say(f"it settles for {plan.settle_s:g} s")
        time.sleep(plan.settle_s)
        processes = tier.processes()
        roles = roles_of(tier.status())
        # Replicas are asked before and after their threads are watched: to be asked wakes them, too.
        asked = _asked(tier)
        before, began_at = {each.pid: threads_of(each.pid) for each in processes}, time.monotonic()
        say(f"{len(processes)} processes are watched for {plan.seconds:g} s")
        time.sleep(plan.seconds)
        after, ended_at = {each.pid: threads_of(each.pid) for each in processes}, time.monotonic()
        watched = Watched(before, after, ended_at - began_at)
        memory = {process.pid: pss_mib([process]) for process in processes}
        return processes_of(_names(processes, roles), watched, (asked, _asked(tier)), memory)


def _asked(tier: Tier) -> Asked:
    """Ask the replicas how they are. The command answers as soon as they have."""
    status = tier.status()
    rows = [
        replica for group in (*status["partitions"], status["controller"]) for replica in group["replicas"]
    ]
    return Asked(time.monotonic(), {row["pid"]: row for row in rows if row["pid"]})


def roles_of(status: Mapping[str, Any]) -> dict[int, str]:
    """Return what each actor's process is, of what `groupd status` says: process id -> words."""
    roles = {node["pid"]: f"broker {node['node_id']}" for node in status["nodes"] if node["pid"]}
    groups = [(f"partition {row['partition']}", row["replicas"]) for row in status["partitions"]]
    for name, replicas in (*groups, ("controller", status["controller"]["replicas"])):
        for replica in replicas:
            if replica["pid"]:
                does = "leads" if replica["serving"] else "follows"
                roles[replica["pid"]] = f"{name}, {does}"
    return roles


def _names(processes: Sequence[psutil.Process], roles: Mapping[int, str]) -> dict[int, str]:
    """Return what each process is; the first one is the driver, and Ray's have names of their own."""
    first, *others = processes
    names = {first.pid: DRIVER}
    for process in others:
        try:
            names[process.pid] = roles.get(process.pid) or process.name()
        except psutil.Error:
            continue  # it has ended
    return names


def processes_of(
    names: Mapping[int, str], watched: Watched, asked: tuple[Asked, Asked], memory: Mapping[int, float]
) -> list[Process]:
    """Return the processes with what they did while they were watched, and between the two times at which
    replicas were asked; those that woke most first."""
    found = []
    asked_s = asked[1].at - asked[0].at
    for pid, role in names.items():
        done = rates(watched.before[pid], watched.after[pid], watched.seconds)
        told = [each.replicas.get(pid, {}) for each in asked]
        turns, heard = (
            (told[1][name] - told[0][name]) / asked_s
            if all(each.get(name) is not None for each in told)
            else None
            for name in ("turns", "heard")
        )
        found.append(Process(pid, role, tuple(done), memory[pid], turns, heard))
    return sorted(found, key=lambda process: -process.wakes)


def by_thread(processes: Sequence[Process]) -> list[tuple[str, Rate]]:
    """Return each name of threads with its owner, over all processes, those that woke most first."""
    found: dict[tuple[str, str], Rate] = {}
    for process in processes:
        for rate in process.rates:
            name = "ray::" if rate.name.startswith("ray::") else rate.name.rstrip("0123456789")
            key = owner(rate.name, process.role), name
            known = found.get(key, Rate(name, 0, 0.0, 0.0))
            found[key] = Rate(
                name, known.threads + rate.threads, known.wakes + rate.wakes, known.core + rate.core
            )
    return sorted(((whose, rate) for (whose, _), rate in found.items()), key=lambda row: -row[1].wakes)


# Shown.


def show(console: Console, processes: Sequence[Process], plan: Plan, machine: str) -> None:
    """Print the tables: what each process does, and who wakes its threads."""
    table = Table(title=machine)
    table.add_column("process")
    for heading in ("ours/s", "Ray/s", "turns/s", "heard/s", "core %", "MiB"):
        table.add_column(heading, justify="right")
    for process in processes:
        turns, heard = ("-" if each is None else f"{each:.1f}" for each in (process.turns, process.heard))
        ours, ray = (f"{process.of(whose).wakes:.1f}" for whose in (OURS, RAY))
        table.add_row(process.role, ours, ray, turns, heard, f"{process.core:.2f}", f"{process.pss_mib:.0f}")
    console.print(table)
    console.print()
    console.print(_threads_table(processes))
    console.print()
    for line in summary(processes, plan):
        console.print(line, markup=False)


def _threads_table(processes: Sequence[Process]) -> Table:
    table = Table("thread", "whose", spare=("woken by",))
    for heading in ("threads", "wakes/s", "core %"):
        table.add_column(heading, justify="right")
    table.add_column("woken by")
    for whose, rate in by_thread(processes):
        if rate.wakes >= 1:
            figures = f"{rate.threads}", f"{rate.wakes:.0f}", f"{rate.core:.2f}"
            table.add_row(rate.name, whose, *figures, waker(rate.name))
    return table


def summary(processes: Sequence[Process], plan: Plan) -> list[str]:
    """Return what it all comes to, and which processes of ours are too lively."""
    lines = []
    for whose in (OURS, RAY):
        all_of = [process.of(whose) for process in processes]
        wakes, core = sum(rate.wakes for rate in all_of), sum(rate.core for rate in all_of)
        lines.append(f"{whose}: {wakes:.0f} wake-ups a second, {core:.2f} % of a core")
    core, mib = sum(each.core for each in processes), sum(each.pss_mib for each in processes)
    lines.append(f"all: {core:.2f} % of a core, {mib:.0f} MiB")
    lively = too_lively(processes, plan.bound)
    lines += [
        f"{process.role}: {process.of(OURS).wakes:.1f} wake-ups a second, {plan.bound:g} are allowed"
        for process in lively
    ]
    if not lively:
        lines.append(f"no process of ours wakes more often than {plan.bound:g} times a second")
    return lines


def as_json(processes: Sequence[Process], plan: Plan) -> dict[str, Any]:
    """Return everything that was counted, with the name and the owner of each thread."""
    return {
        "plan": plan._asdict(),
        "processes": [
            {
                "role": process.role,
                "pid": process.pid,
                "core_percent": process.core,
                "pss_mib": process.pss_mib,
                "turns": process.turns,
                "heard": process.heard,
                "threads": [
                    {**rate._asdict(), "whose": owner(rate.name, process.role), "woken_by": waker(rate.name)}
                    for rate in process.rates
                ],
            }
            for process in processes
        ],
        "too_lively": [process.role for process in too_lively(processes, plan.bound)],
    }
