"""Clients that do not bear a held heartbeat, on a tier that holds: they join, read, commit, idle and close,
and never is one of their heartbeats held.

Asserted by counters; a client that is held and should not be would stall for seconds at each of these steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.ground.throwaway import Tier
from tests.matrix.cell import OFFSETS_PARTITIONS, Cell
from tests.matrix.clients import CLIENTS, Client
from tests.tier.scrape import scraped

NEVER_HELD = ("aiokafka", "kafkajs", "franz-go", "sarama")
HEARTBEATS = 6
"""How many heartbeats of an idle member prove that it is left alone."""
SPACING_MS = 1_200
"""Time between the clients' heartbeats: long enough that they would be held."""
APIS = {"classic": "heartbeat", "consumer": "consumer_group_heartbeat"}
FLAGS = (
    *("--nodes", "1", "--replicas", "1", "--partitions", str(OFFSETS_PARTITIONS)),
    *("--set", "metrics.port=0", "--set", "group.initial.rebalance.delay.ms=200"),
    *("--set", "group.consumer.min.heartbeat.interval.ms=1000"),
    *("--set", f"group.consumer.heartbeat.interval.ms={SPACING_MS}"),
)


@pytest.fixture(scope="module")
def holding() -> Iterator[Tier]:
    with Tier(*FLAGS, nodes=1) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(
            each, id=each.title.replace(", ", "-").replace(" ", "-"), marks=getattr(pytest.mark, each.marker)
        )
        for each in CLIENTS
        if each.name in NEVER_HELD
    ],
)
def test_a_client_that_does_not_bear_it_is_never_held(holding: Tier, client: Client) -> None:
    if client.missing:
        pytest.skip(client.missing)
    before = scraped(holding)
    settings = {"heartbeat_interval_ms": SPACING_MS}
    with Cell(holding, client, partition=0, fails_over=False, settings=settings) as cell:
        cell.produce()
        cell.start()
        cell.shared_out()
        cell.start()
        cell.shared_out()
        idle = scraped(holding)
        heartbeats = ("requests_total", (APIS[client.protocol],))
        cell.wait(
            lambda: scraped(holding)[heartbeats] >= idle.get(heartbeats, 0) + HEARTBEATS,
            "its heartbeats are answered",
        )
        cell.produce()
        cell.finish()
    held = ("heartbeat_holds_total", ())
    assert scraped(holding)[held] == before[held]
