"""Every client lives through every story, and through a failover in the middle of it: each record is seen,
no partition has two owners at a time, what is committed is right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.ground.throwaway import Tier
from tests.matrix.cell import TIER_FLAGS, Cell
from tests.matrix.clients import CLIENTS, Client
from tests.matrix.stories import STORIES, Story, live

CELLS = [
    pytest.param(
        client,
        story,
        id=f"{client.title}-{story.name}".replace(" ", "-").replace(",", ""),
        marks=(getattr(pytest.mark, client.marker), pytest.mark.slow),
    )
    for client in CLIENTS
    for story in STORIES
    if not story.why_not(client)
]


@pytest.fixture(scope="module")
def tier() -> Iterator[Tier]:
    with Tier(*TIER_FLAGS) as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fails_over", [False, True], ids=["undisturbed", "failover"])
@pytest.mark.parametrize(("client", "story"), CELLS)
def test_cell(tier: Tier, client: Client, story: Story, fails_over: bool) -> None:
    if client.missing:
        pytest.skip(client.missing)
    with Cell(tier, client, partition=0, fails_over=fails_over, settings=story.settings) as cell:
        live(cell, story)
