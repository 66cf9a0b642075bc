"""The record of the matrix: a run of a part is written into the last whole one."""

from __future__ import annotations

from tests.matrix.clients import CLIENTS, Client
from tests.matrix.page import BROKEN, Outcome, record, updated
from tests.matrix.stories import STORIES, Story

ONE, OTHER = CLIENTS[:2]
JOIN, SCALE = STORIES[:2]


def both(client: Client, story: Story, *broken: bool) -> list[Outcome]:
    """The two cells of a client and a story, the disturbed one first; `broken` says of which."""
    return [
        Outcome(client, story, fails_over, "x" * (fails_over in broken), 1.0) for fails_over in (True, False)
    ]


def test_a_cell_that_is_run_again_replaces_what_was_found_and_the_others_stay() -> None:
    whole = record(
        "2026-11-24", [ONE, OTHER], [*both(ONE, JOIN, True), *both(ONE, SCALE), *both(OTHER, JOIN)]
    )
    assert whole["clients"][ONE.title]["stories"] == {JOIN.name: ["✓", BROKEN], SCALE.name: ["✓", "⚡"]}
    again = updated(whole, record("2026-11-25", [ONE], both(ONE, JOIN)))
    assert again == record(
        "2026-11-24", [ONE, OTHER], [*both(ONE, JOIN), *both(ONE, SCALE), *both(OTHER, JOIN)]
    )
