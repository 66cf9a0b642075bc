"""Run the `groupd` command by `python -m cluster.cli`."""

from cluster.cli import app

app(prog_name="groupd")
