"""What commands that work against any Kafka share: how it is named, and tables that programs can read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cluster import administrator, tier_file
from cluster.cli import tables
from cluster.cli.common import console

if TYPE_CHECKING:
    from cluster.groups.connection import Kafka
    from cluster.groups.properties import ClientProperties
    from cluster.kafka_security import KafkaSecurity

CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="Client properties (librdkafka's names: security.protocol, sasl.*, ssl.*).",
        metavar="FILE",
    ),
]
T = TypeVar("T")


def with_kafka(
    bootstrap: str | None,
    command_config: Path | None,
    data_dir: Path,
    work: Callable[[Kafka], Coroutine[Any, Any, T]],
) -> T:
    """Do `work` with the named Kafka, or with the tier of a data directory. Raises TierError."""
    from cluster.groups.connection import run  # kio takes a moment to load

    return run(reached(bootstrap, command_config, data_dir), work)


def reached(bootstrap: str | None, command_config: Path | None, data_dir: Path) -> ClientProperties:
    """Return how to reach the named Kafka, or the tier of a data directory, as its administrator if the tier
    wants clients to authenticate. Raises TierError."""
    from cluster.groups.properties import names_bootstrap, properties

    if bootstrap is None and not names_bootstrap(command_config):
        bootstrap = tier_file.require_running(data_dir)[1].bootstrap
        command_config = command_config or administrator.properties_of(data_dir)
    return properties(bootstrap, command_config)


def security_for(bootstrap: str | None, command_config: Path | None, data_dir: Path) -> KafkaSecurity:
    """Return what changes users and ACLs of the named Kafka. Raises TierError."""
    from cluster.kafka_security import KafkaSecurity  # librdkafka takes a moment to load

    properties = reached(bootstrap, command_config, data_dir)
    return KafkaSecurity(properties.bootstrap, properties.librdkafka())


def print_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a line of column names and a line for each row, as Kafka's tools do, with "-" for what is
    missing."""
    cells = [["-" if cell is None or cell == "" else str(cell) for cell in row] for row in rows]
    tables.print_table(console, names, cells)
