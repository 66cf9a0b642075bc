"""`groupd down`: stop the tier of a data directory."""

from __future__ import annotations

import typer

from cluster import lifecycle
from cluster.cli.common import DATA_DIR_DEFAULT, DataDirOption, JsonOption, errors, examples, print_json


def register(app: typer.Typer) -> None:
    app.command("down", epilog=examples("groupd down", "groupd down --data-dir /var/lib/groupd"))(down)


def down(data_dir: DataDirOption = DATA_DIR_DEFAULT, as_json: JsonOption = False) -> None:
    """Stop a tier cleanly and wait until it is gone. Its data is kept."""
    with errors():
        lifecycle.down(data_dir, lambda *_: None)
    if as_json:
        print_json({"stopped": str(data_dir.resolve())})
    else:
        typer.echo(f"The tier in {data_dir} is stopped; its data is kept.")
