"""The table of lies: what the proxy does, what the swarm says of it, and what the server's history says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.lies.catalogue import LIES
from tests.lies.lie import title
from tests.lies.server_history import Said
from tests.lies.trial import Trial

MARKDOWN: Final = Path(__file__).with_name("LIES.md")
NOT_CAUGHT: Final = "NO"
COLUMNS: Final = ("lie", "what the proxy does", "the swarm's verdict", "the server's history", "caught")
WORDS_MAX: Final = 200
PREFACE: Final = """\
# Which lies a swarm sees through

Between a swarm and a tier stands a proxy (`proxy.py`) that reads Kafka's frames and tells one lie, to begin
with some seconds after the first join. Each row is a swarm of its own. The verdict names the promise that is
broken, or that is *not shown*, which is no green verdict either; the server's history holds what reached the
server, and must not accuse it of what the proxy did. A lie is caught if both say what is expected of them.
Written by `python -m tests.lies --table` on {date}; `pytest -m lies tests/lies` tells them all again.
"""


def row(trial: Trial, said: Said) -> tuple[str, ...]:
    """Return the row of one lie in the table."""
    is_caught = trial.is_caught and said.fits(LIES[trial.name].expected.server)
    verdict = f"**{trial.verdict.status}**: {trial.promise}"
    return (
        trial.name,
        title(LIES[trial.name]),
        _cut(verdict),
        _cut(said.words(LIES[trial.name].expected.server)),
        "yes" if is_caught else NOT_CAUGHT,
    )


def markdown(trials: Iterable[Trial], said: Mapping[str, Said], date: str) -> str:
    """The whole file; `date` is when they were told."""
    order = list(LIES)
    rows = [row(trial, said[trial.name]) for trial in sorted(trials, key=lambda t: order.index(t.name))]
    lines = [PREFACE.format(date=date)]
    lines += [f"| {' | '.join(cells)} |" for cells in (COLUMNS, ("---",) * len(COLUMNS), *rows)]
    return "\n".join(lines) + "\n"


def _cut(text: str) -> str:
    """The text cut so that it fits a cell."""
    text = " ".join(text.replace("|", "/").split())
    return text if len(text) <= WORDS_MAX else f"{text[: WORDS_MAX - 1]}…"
