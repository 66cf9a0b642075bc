"""`python -m cluster.cli` is the `groupd` command."""

from cluster.cli import app

app(prog_name="groupd")
