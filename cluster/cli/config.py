"""`groupd config`: every setting, its value, and where that comes from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from actors.ground.kafka_settings import allowed_values, kafka_settings
from cluster import kafka_names
from cluster.cli.common import JsonOption, SettingsFileOption, console, errors, examples, print_json
from cluster.cli.tables import UNLIMITED, Table
from cluster.kafka_names import Ignored
from cluster.settings import DEFAULT_ORIGIN, Settings, load, parse_assignments
from cluster.settings_table import SETTINGS, as_text

HIDDEN = "(hidden)"
"""What is shown instead of a password."""


def register(app: typer.Typer) -> None:
    app.command(
        "config",
        epilog=examples(
            "groupd config",
            "groupd config --config tier.toml --json",
            "groupd config --config server.properties --all",
            "GROUPD_NODES=1 groupd config",
        ),
    )(config)


def config(
    file: SettingsFileOption = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting to try.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show also the settings of Kafka's that the tier ignores, and why.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List all settings as `groupd up` with the same options would take them, or the first error.

    Settings of Kafka's that have no effect here are listed behind them if they are given, or with --all.
    """
    with errors():
        settings = load(parse_assignments(assignments or []), config=file)
    rows = [*_own(settings), *_others(settings, every)]
    if as_json:
        print_json(rows)
        return
    table = Table("name", "default", "value", "from", "meaning", spare=("default", "meaning"))
    for row in rows:
        style = None if row["from"] == DEFAULT_ORIGIN else "bold"
        values = map(_shown, (row["default"], row["value"]))
        table.add_row(row["name"], *values, row["from"], row["meaning"], style=style)
    console.print(table)


def _shown(value: Any) -> str:
    """Return a value as a user writes it. On a terminal a list has blanks between its entries, where a line
    may end."""
    between = ", " if console.width < UNLIMITED else ","
    return between.join(value) if isinstance(value, tuple) else as_text(value)


def _own(settings: Settings) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "default": setting.default,
            "value": HIDDEN if settings[name] and kafka_names.is_secret(name) else settings[name],
            "from": settings.origins[name],
            "allowed": setting.allowed,
            "meaning": setting.meaning,
        }
        for name, setting in SETTINGS.items()
    ]


def _others(settings: Settings, every: bool) -> list[dict[str, Any]]:
    """Return rows of Kafka's other settings: those that were given without effect, or all that Kafka has."""
    given = {each.name: each for each in settings.ignored if each.name not in SETTINGS}
    listed = sorted({*given, *(kafka_names.names() if every else ())})
    return [_other(name, given.get(name)) for name in listed]


def _other(name: str, given: Ignored | None) -> dict[str, Any]:
    kafka = kafka_settings().get(name)
    default = "" if kafka is None or kafka.default is None else kafka.default
    value = default if given is None else given.value
    return {
        "name": name,
        "default": default,
        "value": HIDDEN if given is not None and kafka_names.is_secret(name) else value,
        "from": DEFAULT_ORIGIN if given is None else given.origin,
        "allowed": "text" if kafka is None else allowed_values(kafka),
        "meaning": kafka_names.meaning(name),
    }
