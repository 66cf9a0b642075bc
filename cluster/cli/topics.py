"""`groupd topics`: make, list and delete topics, of this tier or of any Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    BootstrapOption,
    DataDirOption,
    JsonOption,
    assignments,
    console,
    errors,
    examples,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption, reached
from cluster.cli.tables import Table

if TYPE_CHECKING:
    from cluster.kafka_admin import KafkaAdmin

commands = typer.Typer(
    no_args_is_help=True,
    help="Create, list and delete topics.",
    rich_markup_mode="rich",
    epilog=examples("groupd topics create orders --partitions 12", "groupd topics list"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="topics")


def admin_for(bootstrap: str | None, command_config: Path | None, data_dir: Path) -> KafkaAdmin:
    """Return an admin client for the named Kafka, or for the tier of a data directory. Raises TierError."""
    from cluster.kafka_admin import KafkaAdmin  # librdkafka takes a moment to load

    properties = reached(bootstrap, command_config, data_dir)
    return KafkaAdmin(properties.bootstrap, properties.librdkafka())


@commands.command(
    epilog=examples(
        "groupd topics create orders --partitions 12",
        "groupd topics create orders --config retention.ms=60000 --bootstrap kafka:9092",
    )
)
def create(
    name: Annotated[str, typer.Argument(help="The topic.")],
    partitions: Annotated[
        int, typer.Option(help="Number of partitions; -1 takes the tier's default.", min=-1)
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option(help="Copies of each; -1 takes the tier's default.", min=-1)
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A config of the topic.")
    ] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a topic."""
    with errors():
        configs = assignments("--config", config)
        admin_for(bootstrap, command_config, data_dir).create_topic(
            name, partitions, replication_factor, configs
        )
    if as_json:
        print_json({"created": name})
    else:
        typer.echo(f"Topic {name} is created.")


@commands.command("list", epilog=examples("groupd topics list", "groupd topics list --internal --json"))
def list_(
    internal: Annotated[bool, typer.Option("--internal", help="List Kafka's internal topics, too.")] = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List topics with their partitions."""
    with errors():
        topics = admin_for(bootstrap, command_config, data_dir).list_topics()
    topics = [topic for topic in topics if internal or not topic["internal"]]
    if as_json:
        print_json(topics)
        return
    if not topics:
        typer.echo("There are no topics.")
        return
    table = Table("topic", "partitions")
    for topic in topics:
        table.add_row(topic["name"], str(topic["partitions"]))
    console.print(table)


@commands.command(epilog=examples("groupd topics delete orders", "groupd topics delete orders payments"))
def delete(
    names: Annotated[list[str], typer.Argument(help="The topics.")],
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete topics, with everything in them and all offsets committed for them."""
    with errors():
        admin_for(bootstrap, command_config, data_dir).delete_topics(names)
    if as_json:
        print_json({"deleted": names})
    else:
        typer.echo(f"Deleted: {', '.join(names)}.")
