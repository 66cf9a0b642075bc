"""The newest version of every client, through a tier in front of a real Kafka: members come and go while
every poll is committed, and the leader of their group is killed.

`python -m tests.matrix --attached` has every cell.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.matrix.attached import Attached, attached
from tests.matrix.cell import Cell
from tests.matrix.clients import CLIENTS, Client
from tests.matrix.stories import STORIES, live

pytestmark = [pytest.mark.slow, pytest.mark.kafka]

NEWEST = {(client.name, client.protocol): client for client in CLIENTS}
"""The clients that come last of their name and protocol."""
STORY = next(each for each in STORIES if each.name == "commit while rebalancing")


@pytest.fixture(scope="module")
def both() -> Iterator[Attached]:
    with attached() as running:
        yield running


@pytest.mark.timeout(400)
@pytest.mark.parametrize("fails_over", [False, True], ids=["undisturbed", "failover"])
@pytest.mark.parametrize(
    "client", NEWEST.values(), ids=[each.title.replace(" ", "-").replace(",", "") for each in NEWEST.values()]
)
def test_members_of_a_cluster_come_and_go(both: Attached, client: Client, fails_over: bool) -> None:
    if client.missing:
        pytest.skip(client.missing)
    with Cell(both, client, partition=0, fails_over=fails_over, settings=STORY.settings) as cell:
        live(cell, STORY)
