"""What the commands of swarms with a judge of their own have in common: their options, the tier they run on,
and how they end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from bench.consumers.asking import GONE, Address, addresses
from bench.consumers.leader_kills import LeaderKills
from bench.ground.throwaway import Tier
from cluster.cli.common import console

EXIT_NOT_FINE: Final = 1
EXIT_NOT_RUN: Final = 2
NODES: Final = 3
Bootstrap = Annotated[
    str | None,
    typer.Option(help="A running tier, as host:port,host:port. (default a throw-away one)"),
]
Seconds = Annotated[float, typer.Option(help="How long consumers come and go.", min=1)]
Groups = Annotated[int, typer.Option(help="Groups, each with a topic of its own.", min=1)]
Members = Annotated[int, typer.Option(help="Consumers of a group.", min=1)]
Partitions = Annotated[int, typer.Option(help="Partitions of a topic.", min=1)]
KillEvery = Annotated[
    float,
    typer.Option(help="Seconds from one killed leader of a throw-away tier to the next; 0: none.", min=0),
]


@contextmanager
def attacked(
    bootstrap: str | None, kill_every_s: float, settings: Mapping[str, object]
) -> Iterator[tuple[list[Address], LeaderKills | None]]:
    """Yield the addresses of a tier, and what kills its leaders. It is the one that runs at `bootstrap`, of
    which nobody is killed, or a throw-away one with these settings. Raises typer.Exit, with a line that says
    why."""
    if bootstrap is None:
        flags = [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]
        with Tier(*flags, nodes=NODES) as tier, LeaderKills(tier, kill_every_s, console.print) as kills:
            own = ",".join(f"127.0.0.1:{tier.port + number}" for number in range(NODES))
            with _reaching(own) as found:
                yield found, kills
        return
    if kill_every_s:
        typer.echo("groupd: --kill-every kills leaders of a throw-away tier: leave --bootstrap out", err=True)
        raise typer.Exit(EXIT_NOT_RUN)
    with _reaching(bootstrap) as found:
        yield found, None


@contextmanager
def _reaching(bootstrap: str) -> Iterator[list[Address]]:
    """Yield the addresses of a running tier. Raises typer.Exit, with a line that says why, if the text names
    none or nobody answers there."""
    try:
        yield addresses(bootstrap)
    except (ValueError, *GONE) as error:
        typer.echo(f"groupd: --bootstrap {bootstrap}: {str(error) or 'no answer in time'}", err=True)
        raise typer.Exit(EXIT_NOT_RUN) from None


def tell(figures: str, findings: Sequence[str], kills: LeaderKills | None) -> None:
    """Print what became of a swarm. Raises typer.Exit if its judge found something wrong, or leaders that
    should have been killed were not."""
    console.print(figures)
    wrong = [*findings, *(() if kills is None else kills.findings)]
    for words in wrong:
        console.print(f"wrong: {words}", markup=False)
    console.print(f"{len(wrong)} findings" if wrong else "no promise was broken")
    if wrong:
        raise typer.Exit(EXIT_NOT_FINE)
