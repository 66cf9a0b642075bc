"""`groupd up`: start a tier and keep it, here or in the background."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from actors import ray_host
from cluster import lifecycle
from cluster.cli import screen
from cluster.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    JsonOption,
    SettingsFileOption,
    console,
    errors,
    examples,
    fail,
    leave,
    print_json,
)
from cluster.settings import Settings, load, parse_assignments
from cluster.tier import StartInterruptedError, Tier, gather_status
from cluster.tier_file import TierError, TierFile, hint


def _whole_number(help_text: str) -> Any:
    """Make an option that is read as text and checked with the other settings, to be refused in the same
    words."""
    return typer.Option(metavar="<int>", help=help_text)


UpstreamOption = Annotated[
    str | None,
    typer.Option(
        help="Brokers of a Kafka cluster: the tier is to coordinate its groups.", metavar="HOST:PORT,..."
    ),
]
ControllersOption = Annotated[
    str | None, typer.Option(help="Controllers of that cluster.", metavar="HOST:PORT,...")
]
UpstreamConfigOption = Annotated[
    str | None,
    typer.Option(
        help="Client properties (librdkafka's names) with which the tier logs in at the brokers.",
        metavar="FILE",
    ),
]
ControllersConfigOption = Annotated[
    str | None,
    typer.Option(
        help="Client properties with which the tier logs in at controllers. Default: those for brokers.",
        metavar="FILE",
    ),
]


def register(app: typer.Typer) -> None:
    app.command(
        "up",
        epilog=examples(
            "groupd up",
            "groupd up --nodes 1 --replicas 1",
            "groupd up --detach --data-dir /var/lib/groupd --port 19092",
            "groupd up --upstream kafka:9092 --controllers controller:9093",
            "groupd up --set group.initial.rebalance.delay.ms=0 --set journal.sync=off",
        ),
    )(up)


def up(
    nodes: Annotated[str | None, _whole_number("How many nodes, each with a port. (default 3)")] = None,
    replicas: Annotated[str | None, _whole_number("Copies of each offsets partition. (default 3)")] = None,
    partitions: Annotated[str | None, _whole_number("How many offsets partitions. (default 4)")] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind and advertise.")] = None,
    port: Annotated[str | None, _whole_number("First node's port. (default 9092)")] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Directory of journals and snapshots. (default ./groupd-data)")
    ] = None,
    ray_address: Annotated[str | None, typer.Option(help="host:port of a Ray cluster to run in.")] = None,
    machine: Annotated[
        str | None, typer.Option(help="host:port of a machine of `groupd machine up`: the tier lives on all.")
    ] = None,
    upstream: UpstreamOption = None,
    controllers: ControllersOption = None,
    upstream_config: UpstreamConfigOption = None,
    controllers_config: ControllersConfigOption = None,
    config: SettingsFileOption = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of `groupd config`.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start in the background, return when ready.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start a tier on this machine (or in a Ray cluster) and keep it until Ctrl-C.

    The data directory keeps what the tier knows; `groupd up` on it again goes on where it stopped. A tier in
    front of a Kafka cluster serves no group until `groupd attach` has it coordinate the cluster's.
    """
    named = {
        "nodes": nodes,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": partitions,
        "host": host,
        "port": port,
        "data.dir": data_dir,
        "ray.address": ray_address,
        "machine.address": machine,
        "upstream.bootstrap.servers": upstream,
        "upstream.controllers": controllers,
        "upstream.config": upstream_config,
        "upstream.controllers.config": controllers_config,
    }
    with errors():
        flags: dict[str, Any] = parse_assignments(assignments or [])
        flags |= {name: value for name, value in named.items() if value is not None}
        settings = load(flags, config=config)
        _tell_ignored(settings)
        if detach and not (settings["ray.address"] or settings["machine.address"]):
            _up_in_background(settings, flags, config, as_json)
        else:
            _up_here(settings, as_json, stay=not detach)


def _tell_ignored(settings: Settings) -> None:
    """Say in one line which of Kafka's settings were given and have no effect, and why."""
    if settings.ignored:
        told = ", ".join(f"{each.name} ({each.why})" for each in settings.ignored)
        typer.echo(f"groupd: ignored: {told}", err=True)


def _up_here(settings: Settings, as_json: bool, *, stay: bool) -> None:
    show = _bar() if console.is_terminal and not as_json else _lines(as_json)

    def ready(tier: Tier, file: TierFile) -> None:
        show("", 0, 0)
        _show_ready(
            file, Path(settings["data.dir"]), tier.status(), as_json, "Ctrl-C stops it." if stay else ""
        )

    try:
        lifecycle.run(_in_front(settings), show, ready, stay=stay)
    except StartInterruptedError:
        show("", 0, 0)
        fail("stopped before the tier was ready", EXIT_INTERRUPTED)
    except TierError as error:
        show("", 0, 0)
        if ray_host.connected():  # to a Ray that died: its library crashes when the interpreter ends
            typer.echo(f"groupd: {error}", err=True)
            leave(EXIT_FAILED)
        raise
    except BaseException:
        show("", 0, 0)
        raise
    show("", 0, 0)
    if stay and not as_json:
        console.print("The tier is stopped; its data is kept.")


def _in_front(settings: Settings) -> Settings:
    """Return the settings with what is found of the Kafka cluster that the tier stands in front of."""
    from cluster.attaching.in_front import in_front  # here, because most tiers stand in front of nothing

    settings, _ = lifecycle.check(settings)
    return in_front(settings)


def _up_in_background(settings: Settings, flags: dict[str, Any], config: Path | None, as_json: bool) -> None:
    settings, _ = lifecycle.check(settings)
    data_dir = Path(settings["data.dir"])
    arguments = [f"--set={name}={value}" for name, value in flags.items()]
    if config is not None:
        arguments.append(f"--config={config}")
    if console.is_terminal and not as_json:
        with console.status("Starting the tier in the background ..."):
            file = lifecycle.run_detached(arguments, data_dir)
    else:
        file = lifecycle.run_detached(arguments, data_dir)
    assert file.running is not None
    lifecycle.attach_to(data_dir, file, file.running)
    spec = lifecycle.spec_of(file, data_dir, file.running)
    statuses = gather_status(file.namespace, [actor.name for actor in Tier(spec).actors])
    how_to_stop = f"It runs in the background; {hint('down', data_dir)} stops it."
    _show_ready(file, data_dir, statuses, as_json, how_to_stop)
    leave()


def _show_ready(
    file: TierFile, data_dir: Path, statuses: dict[str, dict[str, Any]], as_json: bool, how_to_stop: str
) -> None:
    if as_json:
        print_json(screen.summary(file, data_dir, statuses))
        sys.stdout.flush()
    else:
        screen.show_ready(console, file, data_dir, statuses, how_to_stop)


def _bar() -> Callable[[str, int, int], None]:
    """Return a function that shows a progress bar; called with no total, it takes the bar away."""
    bar = Progress(
        TextColumn("Starting: {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("Ray", total=None)
    bar.start()

    def show(what: str, done: int, total: int) -> None:
        if not total:
            bar.stop()
        elif what in ("actors", "leaders"):
            bar.update(task, description=what, completed=done, total=total)

    return show


def _lines(silent: bool) -> Callable[[str, int, int], None]:
    """Return a function that prints one line when something begins and one when it is complete, for logs and
    pipes."""
    said: set[tuple[str, bool]] = set()

    def show(what: str, done: int, total: int) -> None:
        line = (what, done == total)
        if total and not silent and line not in said:
            said.add(line)
            typer.echo(f"{what}: {done} of {total}")
            sys.stdout.flush()

    return show
