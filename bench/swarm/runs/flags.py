"""The flags of `groupd swarm run`, defined once. `replay` names those that it has; `repeat` and `search` take
them over with `has_flags_of`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

from bench.swarm.load.target import BOOTSTRAP_DEFAULT
from bench.swarm.planning.clients import CLIENTS
from bench.swarm.planning.plan import PROTOCOLS

OF_EACH_RUN: Final = ("out", "seed", "judged", "as_json", "junit", "summary", "mark")
"""The flags of `run` that a series sets for each of its runs."""
DAYS_MAX: Final = 7
SECONDS_LEAST: Final = 5

Scenario = Annotated[
    str, typer.Argument(help="A name of `groupd swarm list`, or a .toml file.", metavar="SCENARIO")
]
Bootstrap = Annotated[str | None, typer.Option(help=f"host:port of any Kafka (default {BOOTSTRAP_DEFAULT}).")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="The data directory of a running tier: its CPU and memory are recorded, too."),
]
Tier = Annotated[
    int | None,
    typer.Option(help="Start a throw-away tier of so many nodes, and record its CPU and memory.", min=1),
]
Seed = Annotated[
    int | None, typer.Option(help="The seed of the plan: the same one makes the same plan.", min=0)
]
Minutes = Annotated[
    float | None,
    typer.Option(help="The run's minutes, instead of the scenario's.", min=0.1, max=DAYS_MAX * 1_440),
]
Seconds = Annotated[
    float | None,
    typer.Option(help="The run's seconds, instead of --minutes.", min=SECONDS_LEAST, max=DAYS_MAX * 86_400),
]
Members = Annotated[int | None, typer.Option(help="How many members the scenario is scaled to.", min=1)]
Groups = Annotated[int | None, typer.Option(help="How many groups the scenario is scaled to.", min=1)]
CommitInterval = Annotated[
    int | None,
    typer.Option(
        help="The milliseconds between two commits of each member that commits.", min=1, max=3_600_000
    ),
]
Protocol = Annotated[
    str | None, typer.Option(help=f"The protocol of all members: {', '.join(PROTOCOLS)}.", show_default=False)
]
Client = Annotated[
    str | None,
    typer.Option(
        help=f"The client software that all members speak as: {', '.join(CLIENTS)}.", show_default=False
    ),
]
Processes = Annotated[int, typer.Option(help="How many processes the members live in.", min=1)]
MembersPerConnection = Annotated[
    int | None, typer.Option(help="How many members of a process share a connection.", min=1)
]
LeastAnswered = Annotated[
    float | None,
    typer.Option(help="Share of the planned requests that has to be answered (default 0.5).", min=0, max=1),
]
Web = Annotated[bool, typer.Option("--web", help="Serve locust's page, too.")]
WebPort = Annotated[int, typer.Option(help="The port of locust's page.", min=1, max=65_535)]
MetricsPort = Annotated[
    int | None,
    typer.Option(help="Serve live figures for Prometheus on this port of loopback.", min=1, max=65_535),
]
Out = Annotated[
    Path | None, typer.Option(help="A new directory for the run (default groupd-swarm/SCENARIO-TIME).")
]
Software = Annotated[str, typer.Option(help="The name of the server in the report.")]
Cleanup = Annotated[
    bool, typer.Option("--cleanup/--no-cleanup", help="Delete the run's groups and topics at its end.")
]
Judged = Annotated[
    bool, typer.Option("--report/--no-report", help="Judge the run at its end, or leave that for later.")
]
Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        help='A limit that has to hold, as "p99(OffsetCommit) < 50ms" or "errors < 1%"; may be repeated.',
        metavar="TEXT",
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(help="Write promises and thresholds into this file as JUnit's XML.", dir_okay=False),
]
Summary = Annotated[
    Path | None,
    typer.Option(
        help="Append a summary in Markdown to this file.",
        envvar="GITHUB_STEP_SUMMARY",
        dir_okay=False,
        metavar="FILE",
    ),
]
Mark = Annotated[
    Path | None,
    typer.Option(
        help="A file of faults from outside, a line each: TIME,TEXT or TIME,END,TEXT.", dir_okay=False
    ),
]


def has_flags_of(
    command: Callable[..., Any], *without: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function with `**flags` the parameters of another command, save its own and `without`."""

    def take_over(function: Callable[..., Any]) -> Callable[..., Any]:
        own = _parameters(function)
        taken = [
            parameter
            for parameter in _parameters(command)
            if parameter.name not in {*without, *(each.name for each in own)}
        ]

        @wraps(function)
        def called(**flags: Any) -> Any:
            return function(**flags)

        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in (*own, *taken)
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return take_over


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a command, with their types instead of the types' text."""
    hints = get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters.values()
    return [parameter.replace(annotation=hints[parameter.name]) for parameter in found]
