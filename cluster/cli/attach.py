"""`groupd attach`: stand in front of a Kafka cluster, whose groups the tier then coordinates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cluster.cli.common import EXIT_WRONG_SETTING, JsonOption, console, examples, fail, print_json
from cluster.cli.kafka import CommandConfigOption
from cluster.cli.tables import Table
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from cluster.attaching.facts import Facts
    from cluster.attaching.plan import Plan
    from cluster.groups.connection import Kafka

EXIT_BLOCKED: Final = 1
EXIT_NOT_SEEN: Final = EXIT_WRONG_SETTING
NOT_YET: Final = (
    "attach cannot move groups yet, in this release it only plans: add --plan, which touches nothing"
)
WIDE: Final = 120
"""How wide a terminal has to be for a table of obstacles; on a narrower one they stand below each other."""
_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://[^/]*:\d{1,5}")
_ADDRESS: Final = re.compile(r"\S+:\d{1,5}")
_COLOURS: Final = {"blocks": "red", "warns": "yellow"}


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "groupd attach --plan --bootstrap kafka:9092 --controllers controller:9093",
            "groupd attach --plan --bootstrap kafka:9092 --controllers c1:9093,c2:9093 --first-id 2001",
            "groupd attach --plan --command-config admin.properties --controllers c1:9093 --json",
        )
    )(attach)


def attach(
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
    as_json: JsonOption = False,
) -> None:
    """Say what stands in the way of coordinating a Kafka cluster's groups by this tier, with --plan.

    Without --plan it does nothing yet. Exit code 0: nothing blocks; 1: something does; 2: the cluster could
    not be looked at.
    """
    from cluster.attaching.facts import LISTENERS_DEFAULT, Wishes
    from cluster.attaching.plan import plain, planned

    if not plan:
        fail(NOT_YET, EXIT_NOT_SEEN)
    try:
        names = tuple(_names(listeners)) if listeners else LISTENERS_DEFAULT
        facts = _looked(bootstrap, controllers, command_config, controllers_config or command_config)
    except TierError as error:
        fail(str(error), EXIT_NOT_SEEN)
    except KeyboardInterrupt:
        fail("interrupted", 130)
    made = planned(facts, Wishes(first_id, nodes, names))
    if as_json:
        print_json(plain(made))
    else:
        show(made)
    raise typer.Exit(EXIT_BLOCKED if made.is_blocked else 0)


def _looked(
    bootstrap: str | None, controllers: str | None, config: Path | None, controllers_config: Path | None
) -> Facts:
    """Return what can be seen of the cluster. Raises TierError."""
    from cluster.attaching.looking import look
    from cluster.groups.connection import run
    from cluster.groups.properties import names_bootstrap, properties

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


def _names(listeners: list[str]) -> list[str]:
    """Return the names of listeners. Raises TierError."""
    found = []
    for text in ",".join(listeners).split(","):
        listener = _LISTENER.fullmatch(text.strip())
        if listener is None:
            raise TierError(f"--listeners {text.strip()}: NAME://HOST:PORT is expected")
        found.append(listener[1])
    return found


def show(plan: Plan) -> None:
    """Print a plan."""
    from cluster.attaching.plan import asked, moving, verdict

    _show_pairs(asked(plan.facts))
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
