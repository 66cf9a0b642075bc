"""Prints the figures of the Raft bench as tables, with the goals that they meet."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.text import Text

from bench.raft.measure import GROUPED, GROUPED_JOURNAL, OURS, TUNED, TUNED_JOURNAL, Figures, Result
from cluster.cli.tables import Table

BEST: Final = (TUNED, GROUPED)
BEST_JOURNAL: Final = (TUNED_JOURNAL, GROUPED_JOURNAL)
MET: Final = {True: Text("yes", "green"), False: Text("no", "red"), None: Text("-")}
FOREIGN_LOAD_MAX: Final = 0.05
"""If other programs have more than this share of the cores, the figures say as much about them as about
Raft."""


class Goal(NamedTuple):
    """A goal: groupd's figure, what it has to reach, and the figure of tuned stock pysyncobj, where there is
    one."""

    what: str
    unit: str
    ours: float | None
    limit: float
    at_least: bool
    stock: float | None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None: it was not measured."""
        if self.ours is None:
            return None
        return self.ours >= self.limit if self.at_least else self.ours <= self.limit

    @property
    def times_better(self) -> float | None:
        """How many times better our figure is than stock's."""
        if not self.ours or not self.stock:
            return None
        return self.ours / self.stock if self.at_least else self.stock / self.ours


def goals(result: Result) -> list[Goal]:
    """The goals with their figures, and stock's best: stock without a journal beside groupd without sync, and
    stock with its journal, which is never synced, beside groupd with sync."""
    ours, synced = (result.figures[variant.name] for variant in OURS)
    stock = [result.figures[variant.name] for variant in BEST if variant.name in result.figures]
    journal = [result.figures[variant.name] for variant in BEST_JOURNAL if variant.name in result.figures]
    figures = []
    for name, own, peers, limit in (("no sync", ours, stock, 0.15), ("sync", synced, journal, 0.6)):
        best = min(_known(peer.p50_ms for peer in peers), default=None)
        figures.append(Goal(f"commit, 1 outstanding, p50, {name}", "ms", own.p50_ms, limit, False, best))
    for name, own, peers, limit in (("no sync", ours, stock, 200_000), ("sync", synced, journal, 50_000)):
        best = max(_known(peer.per_s.get(32) for peer in peers), default=None)
        figures.append(Goal(f"32 outstanding, {name}", "records/s", own.per_s.get(32), limit, True, best))
    for name, own in (("no sync", ours), ("sync", synced)):
        what = f"follower's CPU / leader's, 32 outstanding, {name}"
        figures.append(Goal(what, "", _cpu_ratio(own), 0.5, False, None))
    recovered = min(_known(peer.recovery_s_per_gib for peer in journal), default=None)
    figures.append(Goal("recovery of a journal", "s/GiB", ours.recovery_s_per_gib, 20, False, recovered))
    tuned = result.figures.get(TUNED.name, Figures(TUNED.name))
    return figures + _succession_goals(synced, tuned)


def _succession_goals(ours: Figures, stock: Figures) -> list[Goal]:
    killed, transfer = "leader killed to first commit", "graceful transfer, p50"
    core = "% of a core"
    idle = {"idle leader": "idle_leader", "idle follower": "idle_follower"}
    parts = {what: (getattr(ours, name), getattr(stock, name)) for what, name in idle.items()}
    return [
        Goal(f"{killed}, p50", "ms", _p50(ours.failover_ms), 400, False, _p50(stock.failover_ms)),
        Goal(f"{killed}, max", "ms", _max(ours.failover_ms), 1000, False, _max(stock.failover_ms)),
        Goal(transfer, "ms", _p50(ours.transfer_ms), 10, False, _p50(stock.transfer_ms)),
        *(Goal(what, core, _percent(own), 0.5, False, _percent(peer)) for what, (own, peer) in parts.items()),
    ]


def as_json(result: Result, machine: str) -> dict[str, Any]:
    """Everything that was measured, in plain values."""
    names = Figures.__slots__
    return {
        "machine": machine,
        "seconds": result.seconds,
        "foreign_load": result.foreign_load,
        "variants": [{name: getattr(each, name) for name in names} for each in result.figures.values()],
        "goals": [
            {**goal._asdict(), "met": goal.met, "times_better": goal.times_better} for goal in goals(result)
        ],
    }


def show(console: Console, result: Result, machine: str) -> None:
    """Print three tables: loads, what was measured between them, and goals."""
    console.print(machine)
    console.print(
        f"[dim]{result.seconds:.0f} s; other programs had {result.foreign_load:.0%} of the processors"
        f"{': measure again on a quiet machine' if result.foreign_load > FOREIGN_LOAD_MAX else ''}[/dim]\n"
    )
    console.print(_loads(result.figures.values()))
    console.print(_lives(result.figures.values()))
    console.print(_goals(goals(result)))
    for figures in result.figures.values():
        if figures.leaders_lost:
            console.print(f"{figures.name}: {figures.leaders_lost} loads began anew, their leader was lost")
        for problem in figures.problems:
            console.print(f"[red]{figures.name}[/red]: {problem}", markup=True)


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title)
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _loads(all_figures: Iterable[Figures]) -> Table:
    table = _table(
        "100-byte records, 3 replicas: latency at 1 outstanding, records/s at 1, 32, 512, CPU at 32",
        "",
        "p50\nms",
        "p99\nms",
        "/s\n1",
        "/s\n32",
        "/s\n512",
        "leader\nus each",
        "follower\nus each",
    )
    for each in all_figures:
        table.add_row(
            each.name,
            _number(each.p50_ms, 2),
            _number(each.p99_ms, 2),
            *(_number(each.per_s.get(outstanding), 0) for outstanding in (1, 32, 512)),
            _number(each.leader_us.get(32), 1),
            _number(each.follower_us.get(32), 1),
        )
    return table


def _lives(all_figures: Iterable[Figures]) -> Table:
    table = _table(
        "\nSuccession (to the first commit of the new leader), idling, recovery",
        "",
        "killed\np50 ms",
        "\nmax ms",
        "\nn",
        "transfer\np50 ms",
        "\nmax ms",
        "idle\nleader %",
        "idle\nfollower %",
        "recover\ns/GiB",
    )
    for each in all_figures:
        if each.idle_leader is None and each.recovery_s_per_gib is None and not each.failover_ms:
            continue
        table.add_row(
            each.name,
            _number(_p50(each.failover_ms), 0),
            _number(_max(each.failover_ms), 0),
            str(len(each.failover_ms) or "-"),
            _number(_p50(each.transfer_ms), 1),
            _number(_max(each.transfer_ms), 1),
            _number(_percent(each.idle_leader), 2),
            _number(_percent(each.idle_follower), 2),
            _number(each.recovery_s_per_gib, 1),
        )
    return table


def _goals(all_goals: Iterable[Goal]) -> Table:
    table = _table(
        "\nGoals, beside the best of stock, tuned (with sync: beside its journal, which is never synced)",
        "",
        "groupd",
        "goal",
        "unit",
        "met",
        "stock",
        "times better",
    )
    for goal in all_goals:
        digits = 0 if goal.limit >= 100 else 2
        better = goal.times_better
        table.add_row(
            goal.what,
            _number(goal.ours, digits),
            f"{'>=' if goal.at_least else '<='} {goal.limit:,g}",
            goal.unit,
            MET[goal.met],
            _number(goal.stock, digits),
            "-" if better is None else f"{better:,.1f}",
        )
    return table


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _p50(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def _max(values: list[float]) -> float | None:
    return max(values, default=None)


def _percent(part: float | None) -> float | None:
    return None if part is None else part * 100


def _cpu_ratio(figures: Figures) -> float | None:
    leader, follower = figures.leader_us.get(32), figures.follower_us.get(32)
    return None if leader is None or follower is None else follower / leader
