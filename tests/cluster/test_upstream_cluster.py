"""What `groupd up` makes of the Kafka cluster that a tier stands in front of, at its next starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.ground.spec import UpstreamSpec
from cluster.cli import screen
from cluster.cli.tables import Console
from cluster.settings import Settings, load
from cluster.tier_file import TierError
from cluster.upstream_cluster import found
from tests.cluster.test_tier_file import TIER
from tests.polling import DEADLINE_S
from tests.upstream.fake_controller import CLUSTER, FakeController

WHERE = Path("data")


@contextmanager
def controller() -> Iterator[tuple[str, int]]:
    """The address of a controller that answers in a thread."""
    loop, listens = asyncio.new_event_loop(), threading.Event()
    fake, stop = FakeController(1, []), asyncio.Event()

    async def serve() -> None:
        async with fake:
            listens.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert listens.wait(DEADLINE_S)
    try:
        yield fake.address
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(DEADLINE_S)
        loop.close()


def settings(given: Mapping[str, Any]) -> Settings:
    return load(given, environment={})


def in_front_of(cluster_id: str, address: tuple[str, int]) -> Any:
    return replace(TIER, upstream=UpstreamSpec(cluster_id, (("b", 1),), (address,), 1_000))


def test_a_tier_of_its_own_stays_one() -> None:
    assert found(settings({}), TIER, WHERE) is None
    given = {"upstream.bootstrap.servers": "b:1", "upstream.controllers": "c:1"}
    with pytest.raises(TierError, match="has groups of its own"):
        found(settings(given), TIER, WHERE)


def test_a_tier_goes_on_with_the_cluster_that_it_was_made_for() -> None:
    with controller() as address:
        again = found(settings({}), in_front_of(CLUSTER, address), WHERE)
        assert again is not None
        assert (again.upstream.cluster_id, again.partitions) == (CLUSTER, 2)
        servers = f"{address[0]}:{address[1]}"
        given = {"upstream.bootstrap.servers": "new:2", "upstream.controllers": servers}
        moved = found(settings(given), in_front_of(CLUSTER, ("gone", 1)), WHERE)
        assert moved is not None
        assert (moved.upstream.brokers, moved.upstream.controllers) == ((("new", 2),), (address,))


def test_another_cluster_is_refused_by_name() -> None:
    with controller() as address, pytest.raises(TierError, match=r"other-cluster: .*stands in front of mine"):
        found(settings({}), in_front_of("mine", address), WHERE)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with controller() as address:
        pass
    with pytest.raises(TierError, match="no controller of cluster mine can be asked"):
        found(settings({}), in_front_of("mine", address), WHERE)


@pytest.mark.parametrize(
    "given", [{"upstream.first.broker.id": 5}, {"upstream.listener.name": "OTHER"}], ids=str
)
def test_what_the_cluster_knows_the_nodes_by_cannot_change(given: dict[str, Any]) -> None:
    with pytest.raises(TierError, match="cannot change to"):
        found(settings(given), in_front_of("mine", ("c", 1)), WHERE)


def test_status_says_what_the_nodes_are_to_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    tier = in_front_of("mine", ("c", 1))
    told = {"cluster_id": "mine", "broker_id": 1_001, "state": "running", "goal": 1, "problem": "it is away"}
    shown = screen.summary(tier, WHERE, {"broker-1": {"upstream": told}})
    assert shown["upstream"] == {"cluster_id": "mine", "goal": "attached"}
    screen._show_upstream(Console(width=200), shown)
    out = capsys.readouterr().out
    assert "In front of mine: attached; node 1 as broker 1001 (running)" in out
    assert "node 1, upstream: it is away" in out
    silent = screen.summary(tier, WHERE, {})
    assert silent["upstream"] == {"cluster_id": "mine", "goal": None}
    assert screen.summary(TIER, WHERE, {})["upstream"] is None
