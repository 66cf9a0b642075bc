"""`groupd attach`: the tier coordinates the groups of the Kafka cluster that it stands in front of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, NoReturn

import typer

from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    EXIT_INTERRUPTED,
    EXIT_WRONG_SETTING,
    DataDirOption,
    JsonOption,
    console,
    errors,
    examples,
    fail,
    leave,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption
from cluster.cli.reach import reach
from cluster.cli.replicas import WaitOption
from cluster.cli.tables import Table
from cluster.tier_file import TierError, hint

if TYPE_CHECKING:
    from cluster.attaching.facts import Facts
    from cluster.attaching.plan import Plan
    from cluster.groups.connection import Kafka
    from cluster.taking_over import TakeOver

EXIT_BLOCKED: Final = 1
EXIT_NOT_SEEN: Final = EXIT_WRONG_SETTING
NOTHING_BEGUN: Final = "nothing is taken over: `groupd attach` begins that"
WIDE: Final = 120
"""How wide a terminal has to be for a table of obstacles; on a narrower one they stand below each other."""
_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://[^/]*:(\d{1,5})")
_ADDRESS: Final = re.compile(r"\S+:\d{1,5}")
_COLOURS: Final = {"blocks": "red", "warns": "yellow"}


commands = typer.Typer(
    rich_markup_mode="rich",
    epilog=examples(
        "groupd attach --plan --bootstrap kafka:9092 --controllers controller:9093",
        "groupd attach --plan --bootstrap kafka:9092 --controllers c1:9093,c2:9093 --first-id 2001",
        "groupd attach --plan --command-config admin.properties --controllers c1:9093 --json",
        "groupd attach",
        "groupd attach status",
    ),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="attach")


@commands.callback(invoke_without_command=True)
def attach(
    context: typer.Context,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", help="Brokers of the cluster.", metavar="HOST:PORT,...")
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option("--controllers", help="Controllers of the cluster.", metavar="HOST:PORT,..."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would happen, and change nothing.")] = False,
    first_id: Annotated[
        int, typer.Option("--first-id", help="The broker id of the tier's first node; the others follow it.")
    ] = 1001,
    nodes: Annotated[int, typer.Option("--nodes", help="How many nodes the tier has.", min=1, max=1000)] = 3,
    listeners: Annotated[
        list[str] | None,
        typer.Option(
            "--listeners",
            help="The listeners that the tier has; may be repeated. Default: one named PLAINTEXT.",
            metavar="NAME://HOST:PORT,...",
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    controllers_config: Annotated[
        Path | None,
        typer.Option(
            "--controllers-config",
            help="Client properties for the controllers, if they differ from --command-config.",
            metavar="FILE",
        ),
    ] = None,
    wait: WaitOption = True,
    despite_warnings: Annotated[
        bool, typer.Option("--despite-warnings", help="Begin though there are things to know.")
    ] = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Take over the groups of the Kafka cluster that the tier stands in front of, while they are served.

    It moves one offsets partition after the other; members go on with the generation or epoch that they
    have. The running tier knows its cluster (`groupd up --upstream`), and everything that stands in the way
    is looked for first. With --plan nothing is changed, and no tier is needed. Exit code 0: it is done, or
    nothing blocks; 1: something blocks; 2: the cluster could not be looked at.
    """
    if context.invoked_subcommand is not None:
        return
    if plan:
        cluster = _Cluster(bootstrap, controllers, command_config, controllers_config or command_config)
        _plan(cluster, range(first_id, first_id + nodes), listeners, as_json=as_json)
    with errors():
        from cluster.upstream_login import kept_files

        take_over = take_over_of(data_dir)
        kept = kept_files(data_dir)  # of the tier's own user: its rights are what is looked for
        configs = command_config or kept[0], controllers_config or command_config or kept[1]
        _begin(take_over, configs, despite=despite_warnings, as_json=as_json)
        _follow(take_over, data_dir, wait=wait, as_json=as_json)
    leave()


@commands.command(epilog=examples("groupd attach status", "groupd attach status --json"))
def status(data_dir: DataDirOption = DATA_DIR_DEFAULT, as_json: JsonOption = False) -> None:
    """Show how far every offsets partition is."""
    with errors():
        state = take_over_of(data_dir).state()
    if as_json:
        print_json(state.plain())
    else:
        from cluster.cli.attach_progress import show_state

        show_state(state)
    leave()


@commands.command(epilog=examples("groupd attach pause"))
def pause(
    wait: WaitOption = True, data_dir: DataDirOption = DATA_DIR_DEFAULT, as_json: JsonOption = False
) -> None:
    """Begin no further partition; what is under way is finished."""
    from actors.ground.upstream_goal import PAUSED

    change(PAUSED, NOTHING_BEGUN, data_dir, wait=wait, as_json=as_json)


@commands.command(epilog=examples("groupd attach resume"))
def resume(
    wait: WaitOption = True, data_dir: DataDirOption = DATA_DIR_DEFAULT, as_json: JsonOption = False
) -> None:
    """Go on after a pause or an abort, or take back what `groupd detach` has begun."""
    from actors.ground.upstream_goal import ATTACHED

    change(ATTACHED, NOTHING_BEGUN, data_dir, wait=wait, as_json=as_json)


@commands.command(epilog=examples("groupd attach abort"))
def abort(
    wait: WaitOption = True, data_dir: DataDirOption = DATA_DIR_DEFAULT, as_json: JsonOption = False
) -> None:
    """Give back what is under way. Partitions that the tier serves stay with it."""
    from actors.ground.upstream_goal import ABORTED

    change(ABORTED, NOTHING_BEGUN, data_dir, wait=wait, as_json=as_json)


def take_over_of(data_dir: Path) -> TakeOver:
    """Return the take-over of a running tier's cluster. Raises TierError."""
    from cluster.taking_over import TakeOver

    reached = reach(data_dir)
    return TakeOver(reached.tier, reached.data_dir)


def change(goal: int, if_detached: str, data_dir: Path, *, wait: bool, as_json: bool) -> None:
    """Have a tier pursue another goal, wait for that if it is wanted, and end the command. `if_detached` is
    what is said if the brokers coordinate all groups."""
    from actors.ground.upstream_goal import DETACHED

    with errors():
        take_over = take_over_of(data_dir)
        if take_over.state().goal == DETACHED:
            raise TierError(if_detached)
        take_over.want(goal)
        _follow(take_over, data_dir, wait=wait, as_json=as_json)
    leave()


class _Cluster(NamedTuple):
    """How a cluster is reached."""

    bootstrap: str | None
    controllers: str | None
    config: Path | None
    controllers_config: Path | None


def _begin(
    take_over: TakeOver, configs: tuple[Path | None, Path | None], *, despite: bool, as_json: bool
) -> None:
    """Begin the take-over, unless something stands in the way. Raises TierError."""
    from actors.ground.upstream_goal import ATTACHED
    from cluster.attaching.facts import Wishes
    from cluster.attaching.plan import plain, planned
    from cluster.taking_over import begins

    state = take_over.state()
    if not begins(state):
        return
    ids, upstream = sorted(state.nodes), state.upstream
    wishes = Wishes(
        ids[0],
        ids[-1] - ids[0] + 1,
        upstream.listeners,
        upstream.protocol,
        asks_for_rights=upstream.has_authorizer,
        apart=frozenset(upstream.apart),
    )
    made = planned(_looked(_Cluster(upstream.brokers, upstream.controllers, *configs)), wishes)
    if made.is_blocked or (made.obstacles and not despite):
        if as_json:
            print_json(plain(made))
        else:
            show(made)
            if not made.is_blocked:
                typer.echo("Nothing is changed: --despite-warnings begins all the same.")
        leave(EXIT_BLOCKED)
    take_over.want(ATTACHED)


def _follow(take_over: TakeOver, data_dir: Path, *, wait: bool, as_json: bool) -> None:
    """Wait until it is done, if that is wanted, and say how far it is."""
    from cluster.cli.attach_progress import progress

    try:
        if wait:
            with progress(silent=as_json) as told:
                take_over.wait_until_over(told)
    except KeyboardInterrupt:
        fail(
            "this command ends, and the tier goes on: "
            f"{hint('attach status', data_dir)} shows how far it is, {hint('attach pause', data_dir)} and "
            f"{hint('attach abort', data_dir)} end that",
            EXIT_INTERRUPTED,
        )
    state = take_over.state()
    if as_json:
        print_json(state.plain())
    else:
        typer.echo(state.in_words())


def _plan(cluster: _Cluster, ids: range, listeners: list[str] | None, *, as_json: bool) -> NoReturn:
    """Say what stands in the way, and end the command."""
    from cluster.attaching.facts import LISTENERS_DEFAULT, Wishes
    from cluster.attaching.obstacles import protocol_of
    from cluster.attaching.plan import plain, planned

    try:
        ports = _ports(listeners) if listeners else {name: {""} for name in LISTENERS_DEFAULT}
        facts = _looked(cluster)
    except TierError as error:
        fail(str(error), EXIT_NOT_SEEN)
    except KeyboardInterrupt:
        fail("interrupted", EXIT_INTERRUPTED)
    # The tier's port will speak what brokers speak at the first of them.
    first = next(iter(ports))
    apart = frozenset(name for name, each in ports.items() if each.isdisjoint(ports[first]))
    spoken = protocol_of(facts, first)
    made = planned(facts, Wishes(ids.start, len(ids), tuple(ports), spoken, apart=apart))
    if as_json:
        print_json(plain(made))
    else:
        show(made)
    raise typer.Exit(EXIT_BLOCKED if made.is_blocked else 0)


def _looked(cluster: _Cluster) -> Facts:
    """Return what can be seen of the cluster. Raises TierError."""
    from cluster.attaching.looking import look
    from cluster.groups.connection import run
    from cluster.groups.properties import names_bootstrap, properties

    bootstrap, controllers, config, controllers_config = cluster
    if bootstrap is None and not names_bootstrap(config):
        raise TierError("name brokers of the cluster with --bootstrap HOST:PORT")
    if controllers is None:
        raise TierError(
            "name its controllers with --controllers HOST:PORT (controller.quorum.voters has them)"
        )
    for address in controllers.split(","):
        if _ADDRESS.fullmatch(address.strip()) is None:
            raise TierError(f"--controllers {address.strip()}: host:port is expected")
    of_controllers = properties(controllers, controllers_config)

    async def work(kafka: Kafka) -> Facts:
        return await look(kafka, of_controllers)

    return run(properties(bootstrap, config), work)


def _ports(listeners: list[str]) -> dict[str, set[str]]:
    """Return the names of listeners, each with its ports. Raises TierError."""
    found: dict[str, set[str]] = {}
    for text in ",".join(listeners).split(","):
        listener = _LISTENER.fullmatch(text.strip())
        if listener is None:
            raise TierError(f"--listeners {text.strip()}: NAME://HOST:PORT is expected")
        found.setdefault(listener[1], set()).add(listener[2])
    return found


def show(plan: Plan) -> None:
    """Print a plan."""
    from cluster.attaching.plan import asked, features, moving, verdict

    _show_pairs(asked(plan.facts))
    if levels := features(plan.facts):
        console.print("\n[bold]Feature levels[/bold]")
        _show_pairs(levels)
    if plan.facts.brokers:
        console.print("\n[bold]What would move[/bold]")
        _show_pairs(moving(plan))
    if plan.obstacles:
        console.print("\n[bold]What stands in the way[/bold]")
        is_wide = console.width >= WIDE
        table = Table("", "name", "what", "what to do") if is_wide else Table(show_header=False)
        for each in plan.obstacles:
            cells = each if is_wide else (each.severity, f"{each.name}\n{each.what}\n{each.do}")
            table.add_row(*cells, style=_COLOURS[each.severity])
        console.print(table)
    console.print(f"\n{verdict(plan)}")


def _show_pairs(rows: list[tuple[str, str]]) -> None:
    table = Table(show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("how much")
    for row in rows:
        table.add_row(*row)
    console.print(table)
