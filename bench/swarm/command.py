"""`groupd swarm`: fake consumers in any number on any Kafka, and what a judge makes of it."""

from __future__ import annotations

from random import SystemRandom
from typing import Any

import typer

from bench.client_assignors import command as client_assignors_command
from bench.consumers import own_scenario
from bench.consumers.own_scenario import Asked as OwnAsked
from bench.consumers.own_scenario import OwnScenario
from bench.ground import run_names
from bench.ground.interrupts import terminable
from bench.push import command as push_command
from bench.swarm.counted.marks import BadMarks
from bench.swarm.load.target import Where, target
from bench.swarm.planning import scenario as scenarios
from bench.swarm.planning.scenario import BadScenario, Changes, Scenario
from bench.swarm.planning.thresholds import BadThreshold
from bench.swarm.runs import flags, repeating, reports, searching
from bench.swarm.runs import replay as replaying
from bench.swarm.runs.reports import mendable
from bench.swarm.runs.running import DIRECTORY, SEEDS, How, new_directory, run_and_show
from bench.swarm.told.ci_files import Asked
from cluster.cli.common import JsonOption, examples, print_json
from cluster.cli.kafka import CommandConfigOption, print_table

app = typer.Typer(
    no_args_is_help=True,
    help="Load any Kafka's group coordinator with swarms of fake consumers, and judge what it did.",
    rich_markup_mode="rich",
    epilog=examples("groupd swarm list", "groupd swarm run steady", "groupd swarm run mixed --web"),
)

client_assignors_command.register(app)
push_command.register(app)
WITH_OWN_JUDGE = (client_assignors_command.SCENARIO, push_command.SCENARIO)


@app.command(
    epilog=examples(
        "groupd swarm run",
        "groupd swarm run rolling-deploy --minutes 5 --members 500",
        "groupd swarm run ten-thousand --tier 1 --processes 2",
        "groupd swarm run join-storm --bootstrap kafka-1:9092 --protocol cooperative-sticky",
        "groupd swarm run my.toml --seed 7 --processes 2 --web",
        'groupd swarm run steady --threshold "p99(OffsetCommit) < 50ms" --junit swarm.xml',
    )
)
def run(
    scenario: flags.Scenario = "steady",
    bootstrap: flags.Bootstrap = None,
    data_dir: flags.DataDir = None,
    tier: flags.Tier = None,
    seed: flags.Seed = None,
    minutes: flags.Minutes = None,
    seconds: flags.Seconds = None,
    members: flags.Members = None,
    groups: flags.Groups = None,
    commit_interval_ms: flags.CommitInterval = None,
    protocol: flags.Protocol = None,
    client: flags.Client = None,
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
    """Run a swarm and judge it. Exit code 0: every promise and threshold was kept; 1: one was broken; 2: one
    was not shown, or the swarm could not run.

    Members join, heartbeat, commit and leave as the client software that --client names, and consume nothing
    unless the scenario has records. Ctrl-C ends a run early; what was done until then is judged likewise.
    """
    seed = SystemRandom().randrange(SEEDS) if seed is None else seed
    _run_what_has_its_own_judge(dict(locals()))
    stamp = run_names.stamp()
    asked = Asked(tuple(threshold or ()), junit, summary, mark)
    with mendable(BadThreshold, BadMarks):
        asked.check()
        changes = Changes(
            duration_s=_duration_s(minutes, seconds),
            protocol=protocol,
            client=client,
            members_per_connection=members_per_connection,
            commit_interval_ms=commit_interval_ms,
            least_answered=least_answered,
        )
        chosen = scenarios.load(scenario).scaled(groups=groups, members=members).changed(changes)
        plan = chosen.plan(seed, prefix=run_names.prefix(stamp))
        plan = plan._replace(thresholds=(*plan.thresholds, *asked.thresholds))
        directory = new_directory(out or DIRECTORY / f"{chosen.name}-{stamp}")
        with terminable(), target(Where(bootstrap, data_dir, tier), command_config) as aim:
            aim = aim._replace(software=software or aim.software)
            how = How(processes, web_port if web else None, metrics_port, as_json, cleanup)
            directory = run_and_show(plan, aim, directory, how)
    if judged:
        reports.tell(directory, as_json=as_json, asked=asked)


@app.command("list", epilog=examples("groupd swarm list", "groupd swarm list --json"))
def list_(as_json: JsonOption = False) -> None:
    """List the scenarios that come with groupd."""
    with mendable():
        known = [scenarios.load(name) for name in scenarios.names()]
    if as_json:
        print_json([*map(_summary, known), *map(_own_summary, WITH_OWN_JUDGE)])
        return
    rows = [
        (
            each.name,
            sum(table.count for table in each.groups),
            each.members,
            f"{each.duration_s:g} s",
            each.about,
        )
        for each in known
    ]
    rows += [
        (each.name, plan.groups, plan.groups * plan.members, f"{plan.seconds:g} s", each.about)
        for each in WITH_OWN_JUDGE
        for plan in (each.defaults,)
    ]
    print_table(("SCENARIO", "GROUPS", "MEMBERS", "TAKES", "WHAT"), rows)


@app.command(epilog=examples("groupd swarm show steady", "groupd swarm show steady > mine.toml"))
def show(scenario: flags.Scenario) -> None:
    """Print a scenario's file, to make another of it."""
    with mendable():
        if own_scenario.find(scenario, WITH_OWN_JUDGE) is not None:
            raise BadScenario(f"{scenario} has no file: it has consumers and a judge of its own")
        typer.echo(scenarios.read(scenario), nl=False)


def _run_what_has_its_own_judge(given: dict[str, Any]) -> None:
    """Run consumers that bring their own judge, if the scenario is one of these. Raises typer.Exit then.
    `given`: what `run` was given."""
    own = own_scenario.find(given["scenario"], WITH_OWN_JUDGE)
    if own is None:
        return
    with mendable():
        own_scenario.check(own, run, given)
        duration_s = _duration_s(given["minutes"], given["seconds"])
    own.run(OwnAsked(given["bootstrap"], duration_s, given["groups"], given["members"], given["seed"]))
    raise typer.Exit


def _duration_s(minutes: float | None, seconds: float | None) -> float | None:
    if minutes is not None and seconds is not None:
        raise BadScenario("one of --minutes and --seconds says how long, not both")
    return seconds if minutes is None else minutes * 60


def _summary(scenario: Scenario) -> dict[str, Any]:
    return scenario.model_dump(mode="json") | {"members": scenario.members}


def _own_summary(own: OwnScenario) -> dict[str, Any]:
    return {
        "name": own.name,
        "about": own.about,
        "duration_s": own.defaults.seconds,
        "members": own.defaults.groups * own.defaults.members,
    }


reports.register(app)
repeating.register(app, run)
searching.register(app, run)
replaying.register(app)
