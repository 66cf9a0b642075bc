"""`groupd config`: every setting, its value, and where that comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.cli.common import JsonOption, console, errors, examples, print_json
from cluster.cli.tables import Table
from cluster.settings import load, parse_assignments
from cluster.settings_table import SETTINGS, as_text


def register(app: typer.Typer) -> None:
    app.command(
        "config",
        epilog=examples(
            "groupd config", "groupd config --config tier.toml --json", "GROUPD_NODES=1 groupd config"
        ),
    )(config)


def config(
    file: Annotated[Path | None, typer.Option("--config", help="A TOML file of settings.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting to try.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List all settings as `groupd up` with the same options would take them, or the first error."""
    with errors():
        settings = load(parse_assignments(assignments or []), config=file)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "default": setting.default,
            "value": settings[name],
            "from": settings.origins[name],
            "allowed": setting.allowed,
            "meaning": setting.meaning,
        }
        for name, setting in SETTINGS.items()
    ]
    if as_json:
        print_json(rows)
        return
    table = Table("name", "default", "value", "from", "meaning")
    for row in rows:
        style = None if row["from"] == "default" else "bold"
        cells = (row["name"], as_text(row["default"]), as_text(row["value"]), row["from"], row["meaning"])
        table.add_row(*cells, style=style)
    console.print(table)
