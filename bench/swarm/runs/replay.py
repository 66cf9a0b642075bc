"""`groupd swarm replay`: what a tier recorded, once more and on any coordinator."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bench.ground import run_names
from bench.ground.interrupts import terminable
from bench.swarm.counted.marks import BadMarks
from bench.swarm.load.target import Target, Where, target
from bench.swarm.planning.thresholds import BadThreshold
from bench.swarm.replay.planning import Replay, Wish, replay
from bench.swarm.runs import flags, reports
from bench.swarm.runs.reports import mendable
from bench.swarm.runs.running import DIRECTORY, SEEDS, How, new_directory, run_and_show
from bench.swarm.told.ci_files import Asked
from cluster.cli.common import JsonOption, console, examples, print_json
from cluster.cli.kafka import CommandConfigOption
from storage.history.judge.findings import LEAST_ANSWERED

if TYPE_CHECKING:
    from bench.swarm.replay.counts import Counts
    from bench.swarm.replay.told import Recording

TIMES_MAX: Final = 1_000
FASTER_MAX: Final = 1_000.0
MOMENT: Final = "15m, 1h, 7d, 4w, a date, or a time of UTC (2026-03-02T10:15)"

HistoryArgument = Annotated[
    str,
    typer.Argument(
        help="A tier's data directory, a folder of history, or any URL of one that fsspec knows.",
        metavar="HISTORY",
    ),
]
SinceOption = Annotated[
    str | None, typer.Option(help=f"Replay from then on: {MOMENT}. Default: ten minutes.", metavar="WHEN")
]
UntilOption = Annotated[
    str | None, typer.Option(help="Replay the history until then; default: its last event.", metavar="WHEN")
]
GroupOption = Annotated[str | None, typer.Option(help="Replay only this group.", metavar="GROUP")]
FasterOption = Annotated[
    float,
    typer.Option(help="Replay so many times as fast; timeouts stay as they were.", min=0.1, max=FASTER_MAX),
]
TimesOption = Annotated[int, typer.Option(help="Replay so many copies of each group.", min=1, max=TIMES_MAX)]
PlanOnlyOption = Annotated[
    bool, typer.Option("--plan-only", help="Write and show what would run, and run nothing.")
]


def register(app: typer.Typer) -> None:
    app.command(
        "replay",
        epilog=examples(
            "groupd swarm replay groupd-data --since 10m --tier 1",
            "groupd swarm replay s3://bucket/history --since 2026-03-02T10:00 --until 2026-03-02T10:10",
            "groupd swarm replay groupd-data --group billing --times 10 --bootstrap kafka-1:9092",
            "groupd swarm replay groupd-data --faster 4 --plan-only",
        ),
    )(replay_history)


def replay_history(
    history: HistoryArgument,
    since: SinceOption = None,
    until: UntilOption = None,
    group: GroupOption = None,
    faster: FasterOption = 1.0,
    times: TimesOption = 1,
    plan_only: PlanOnlyOption = False,
    bootstrap: flags.Bootstrap = None,
    data_dir: flags.DataDir = None,
    tier: flags.Tier = None,
    seed: flags.Seed = None,
    processes: flags.Processes = 1,
    members_per_connection: flags.MembersPerConnection = None,
    least_answered: flags.LeastAnswered = None,
    web: flags.Web = False,
    web_port: flags.WebPort = 8089,
    metrics_port: flags.MetricsPort = None,
    out: flags.Out = None,
    software: flags.Software = "",
    cleanup: flags.Cleanup = True,
    command_config: CommandConfigOption = None,
    judged: flags.Judged = True,
    threshold: flags.Thresholds = None,
    junit: flags.Junit = None,
    summary: flags.Summary = None,
    mark: flags.Mark = None,
    as_json: JsonOption = False,
) -> None:
    """Do recorded history once more, on any Kafka, and set side by side what happened then and now.

    Groups with their members, joins, leaves, crashes and commits are as they were, and come when they came;
    names are the run's own. What history does not record is told. Exit codes are those of `run`.
    """
    seed = SystemRandom().randrange(SEEDS) if seed is None else seed
    stamp = run_names.stamp()
    asked = Asked(tuple(threshold or ()), junit, summary, mark)
    share = LEAST_ANSWERED if least_answered is None else least_answered
    prefix = run_names.prefix(stamp)
    wish = Wish(faster, times, prefix, members_per_connection or 1, asked.thresholds, share)
    with mendable(BadThreshold, BadMarks):
        asked.check()
        directory = new_directory(out or DIRECTORY / f"replay-{stamp}")
        prepared = _prepare(history, (since, until, group), wish, seed)
        prepared.save(directory)
        if plan_only:
            _show_plan(prepared, directory, as_json=as_json)
            return
        if not as_json:
            typer.echo("\n".join(prepared.summary))
        with terminable(), target(Where(bootstrap, data_dir, tier), command_config) as aim:
            aim = aim._replace(software=software or aim.software)
            how = How(processes, web_port if web else None, metrics_port, as_json, cleanup)
            directory = run_and_show(prepared.replayed.plan, aim, directory, how)
            _add_history(prepared, aim, directory, quiet=as_json)
    if judged:
        reports.tell(directory, as_json=as_json, asked=asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A replay that is prepared, before anything runs."""

    url: str
    recording: Recording
    replayed: Replay
    then: Mapping[str, Counts]
    summary: list[str]

    def save(self, directory: Path) -> None:
        """Write the plan into the run's directory. Raises OSError."""
        from bench.swarm.replay import kept

        kept.save(directory, self.replayed, self.then, self.summary, {"history": self.url})


def _prepare(
    history: str, period: tuple[str | None, str | None, str | None], wish: Wish, seed: int
) -> Prepared:
    """Prepare a replay. `period` is since, until and group as the flags say them. Raises BadScenario,
    OSError."""
    from bench.swarm.replay import counts, reading
    from bench.swarm.replay.summary import summary

    since, until, group = period
    folder = reading.folder_of(history)
    span = reading.period(folder, since, until, time.time_ns() // 1_000_000)
    recording = reading.recording(folder, span, group)
    replayed = replay(recording, wish, seed)
    then = counts.of_recording(recording)
    return Prepared(
        url=folder.url,
        recording=recording,
        replayed=replayed,
        then=then,
        summary=summary(recording, replayed, list(then.values())),
    )


def _show_plan(prepared: Prepared, directory: Path, *, as_json: bool) -> None:
    from bench.swarm.planning import plan_file
    from bench.swarm.replay import kept

    plan = prepared.replayed.plan
    if as_json:
        about: dict[str, Any] = {"plan": str(directory / kept.PLAN), **plan_file.counts(plan)}
        print_json(about | {"words": prepared.replayed.words})
        return
    typer.echo("\n".join(prepared.summary))
    typer.echo(f"\nNothing was run. The plan: {directory / kept.PLAN}")


def _add_history(prepared: Prepared, aim: Target, directory: Path, *, quiet: bool) -> None:
    """Add what the target recorded of the run itself, if it is a tier whose history we can read: like is then
    compared with like. If that fails, the run is reported all the same. Raises OSError."""
    from bench.swarm.counted.wall import wall_of
    from bench.swarm.replay import kept, now, reading
    from bench.swarm.told.report import read_run
    from storage.history.period import Period

    run = read_run(directory)
    timeline = prepared.replayed.timeline
    began_us = wall_of(run, run.get("began_us", 0)).unix_us(run.get("began_us", 0))
    if aim.data_dir is None or began_us is None or not run.get("is_finished"):
        return
    since_ms = began_us // 1_000 + round(timeline.lead_s * 1_000)
    span = Period(since_ms, since_ms + round(timeline.length_s * 1_000))
    if not quiet:
        console.print("Waiting for the tier to write its own history of the run ...", style="dim")
    try:
        found = now.of_tier(reading.folder_of(str(aim.data_dir)), span, prepared.replayed.groups)
    except KeyboardInterrupt:
        kept.add_word(directory, "Nobody waited for the tier's own history.")
        return
    except OSError as error:
        kept.add_word(directory, f"The tier's own history could not be had: {error}.")
        return
    kept.add_history(directory, found)
