"""Tells how far a measurement is."""

from __future__ import annotations

from collections.abc import Callable

from cluster.cli.common import console


def progress(update: Callable[[str], None]) -> Callable[[str], None]:
    """Return what shows progress: by one line that changes on a terminal, by a line each elsewhere."""
    return update if console.is_terminal else lambda what: console.print(f"[dim]·[/dim] {what}")
