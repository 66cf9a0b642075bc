"""What the commands of swarms with a judge of their own have in common: their options, and how they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from bench.consumers.asking import GONE, Address, addresses
from cluster.cli.common import console

EXIT_NOT_FINE: Final = 1
EXIT_NOT_RUN: Final = 2
Seconds = Annotated[float, typer.Option(help="How long consumers come and go.", min=1)]
Groups = Annotated[int, typer.Option(help="Groups, each with a topic of its own.", min=1)]
Members = Annotated[int, typer.Option(help="Consumers of a group.", min=1)]
Partitions = Annotated[int, typer.Option(help="Partitions of a topic.", min=1)]
KillEvery = Annotated[
    float,
    typer.Option(help="Seconds from one killed leader of a throw-away tier to the next; 0: none.", min=0),
]


@contextmanager
def reaching(bootstrap: str) -> Iterator[list[Address]]:
    """Yield the addresses of a running tier. Raises typer.Exit, with a line that says why, if the text names
    none or nobody answers there."""
    try:
        yield addresses(bootstrap)
    except (ValueError, *GONE) as error:
        typer.echo(f"groupd: --bootstrap {bootstrap}: {str(error) or 'no answer in time'}", err=True)
        raise typer.Exit(EXIT_NOT_RUN) from None


def tell(figures: str, findings: Sequence[str]) -> None:
    """Print what became of a swarm. Raises typer.Exit if its judge found something wrong."""
    console.print(figures)
    for words in findings:
        console.print(f"wrong: {words}", markup=False)
    console.print(f"{len(findings)} findings" if findings else "no promise was broken")
    if findings:
        raise typer.Exit(EXIT_NOT_FINE)
