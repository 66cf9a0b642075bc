"""`groupd demo`: two groups of real consumers, a killed leader, and an account of what was lost."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, run
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors import runtime
from actors.ground.spec import partition_name
from actors.protocol.partitioning import Partitioning
from actors.runtime import ActorCallError
from cluster import administrator, lifecycle, tier_file
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    EXIT_FAILED,
    DataDirOption,
    JsonOption,
    console,
    errors,
    examples,
    fail,
    leave,
    print_json,
)
from cluster.cli.tables import Table
from cluster.ports import free_ports
from cluster.tier import gather_status
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from cluster.demo import DemoReport

CALL_TIMEOUT_S = 2.0
NODES = 3


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=examples("groupd demo", "groupd demo --throw-away --json"))(demo)


def demo(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    throw_away: Annotated[bool, typer.Option(help="Start a tier for the demo, even if one runs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Kill the leader of a group under six real consumers and show that nothing is lost.

    Uses the tier of --data-dir if it runs, else a throw-away one. Exit code 1 if anything was lost.
    """
    with errors(), _a_tier(data_dir, throw_away, quiet=as_json) as used:
        report = _run(used, quiet=as_json)
    if as_json:
        print_json({**dataclasses.asdict(report), "problems": report.problems})
    else:
        _show(report)
    leave(EXIT_FAILED if report.problems else 0)


@contextmanager
def _a_tier(data_dir: Path, throw_away: bool, *, quiet: bool) -> Iterator[Path]:
    """Give the data directory of a tier that runs: the user's, or one that is gone afterwards."""
    if not throw_away and _runs(data_dir):
        yield data_dir
        return
    if not quiet:
        console.print("starting a throw-away tier of three nodes")
    temporary = Path(tempfile.mkdtemp(prefix="groupd-demo-"))
    groupd = [sys.executable, "-m", "cluster.cli"]
    where = ["--data-dir", str(temporary)]
    try:
        up = [*groupd, "up", "--detach", "--port", str(free_ports(NODES)), *where]
        started = run(up, capture_output=True, text=True, check=False)
        if started.returncode != 0:
            fail(f"the throw-away tier did not start:\n{started.stderr.strip()}")
        yield temporary
    finally:
        run([*groupd, "down", *where], stdout=DEVNULL, stderr=DEVNULL, check=False)
        shutil.rmtree(temporary, ignore_errors=True)


def _runs(data_dir: Path) -> bool:
    try:
        tier_file.require_running(data_dir)
    except TierError:
        return False
    return True


def _run(data_dir: Path, *, quiet: bool) -> DemoReport:
    from cluster.demo import Demo, DemoFailed  # librdkafka takes a moment to load

    tier, running = tier_file.require_running(data_dir)
    if administrator.properties_of(data_dir) is not None:
        raise TierError(
            "the demo's consumers neither log in nor speak TLS: `groupd demo --throw-away` suits them"
        )
    lifecycle.attach_to(data_dir, tier, running)
    names = [
        partition_name(partition, replica)
        for partition, row in enumerate(tier.placement)
        for replica, _ in row
    ]

    def statuses() -> list[dict[str, Any]]:
        return list(gather_status(tier.namespace, names).values())

    def describe(group_id: str) -> dict[str, Any]:
        for name in names:
            handle = runtime.find(name, tier.namespace)
            try:
                told = handle and runtime.await_call(handle, "group", group_id, timeout_s=CALL_TIMEOUT_S)
            except (ActorCallError, TimeoutError):
                continue
            if told:
                return dict(told)
        return {}

    def say(what: str) -> None:
        if not quiet:
            console.print(f"[dim]·[/dim] {what}")

    try:
        return Demo(
            running.bootstrap, Partitioning(len(tier.placement), tier.unmoved), statuses, describe, say
        ).run()
    except DemoFailed as failure:
        fail(str(failure))


def _show(report: DemoReport) -> None:
    table = Table(title="What happened")
    for column in ("", *(group.protocol for group in report.groups)):
        table.add_column(column, justify="left" if not column else "right")
    rows: list[tuple[str, list[Any]]] = [
        ("records seen by the group", [f"{g.records:,}" for g in report.groups]),
        ("  never seen", [g.lost_records for g in report.groups]),
        ("  seen more than once", [g.duplicates for g in report.groups]),
        ("commits acknowledged", [g.commits for g in report.groups]),
        ("  lost", [len(g.lost_commits) for g in report.groups]),
        ("  refused while nobody led", [g.refused_commits for g in report.groups]),
        ("before the kill", [_epochs(g.before) for g in report.groups]),
        ("after it", [_epochs(g.after) for g in report.groups]),
    ]
    for name, values in rows:
        table.add_row(name, *(str(value) for value in values))
    console.print()
    console.print(table)
    console.print(
        f"\n{report.groups[0].group_id} was without a coordinator for "
        f"[bold]{report.without_coordinator_ms:.0f} ms[/bold] "
        f"(node {report.killed_node} -> node {report.new_leader_node})"
    )
    for problem in report.problems:
        console.print(f"[bold red]LOST[/bold red] {problem}")
    if not report.problems:
        console.print("[bold green]Nothing was lost.[/bold green]")


def _epochs(told: dict[str, Any]) -> str:
    """Return what a group said of itself as in "generation 3, 3 members, Stable"."""
    if not told:
        return "not known"
    if "generation" in told:
        epochs = f"generation {told['generation']}"
    else:
        epochs = f"epoch {told['group_epoch']}/{told['assignment_epoch']}"
    return f"{epochs}, {told['members']} members, {told['state']}"
