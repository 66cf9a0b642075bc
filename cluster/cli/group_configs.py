"""`groupd groups configs`: the dynamic configs of a group (KIP-848), shown and altered."""

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
    errors,
    examples,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption, print_table, with_kafka

if TYPE_CHECKING:
    from cluster.groups.connection import Kafka
    from cluster.groups.requests import Config


def register(groups: typer.Typer) -> None:
    groups.command(
        "configs",
        epilog=examples(
            "groupd groups configs billing",
            "groupd groups configs billing --set consumer.session.timeout.ms=60000",
            "groupd groups configs billing --delete consumer.session.timeout.ms",
        ),
    )(configs)


def configs(
    group: Annotated[str, typer.Argument(help="The group id; the group need not exist.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A config to set.")
    ] = None,
    deletions: Annotated[
        list[str] | None, typer.Option("--delete", metavar="NAME", help="A config to delete.")
    ] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the configs that hold for a group, and set or delete its own.

    They hold for groups of the consumer protocol, from the next heartbeat of each member on, and outlive
    the group.
    """
    with errors():
        assigned = assignments("--set", settings)
        shown = _altered(group, assigned, deletions or [], (bootstrap, command_config, data_dir))
    if as_json:
        print_json([config._asdict() for config in shown])
        return
    rows = [(config.name, config.value, "group" if config.is_dynamic else "default") for config in shown]
    print_table(("CONFIG", "VALUE", "FROM"), rows)


def _altered(
    group: str, assigned: dict[str, str], deleted: list[str], where: tuple[str | None, Path | None, Path]
) -> list[Config]:
    async def work(kafka: Kafka) -> list[Config]:
        from cluster.groups.requests import alter_group_configs, group_configs

        if assigned or deleted:
            await alter_group_configs(kafka, group, assigned, deleted)
        return await group_configs(kafka, group)

    bootstrap, command_config, data_dir = where
    return with_kafka(bootstrap, command_config, data_dir, work)
