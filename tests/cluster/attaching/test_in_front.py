"""What `groupd up` makes of the Kafka cluster that a tier stands in front of, at its next starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.ground.spec import UpstreamSpec
from actors.upstream.controllers import words
from cluster import tier_file
from cluster.attaching.in_front import in_front
from cluster.cli import screen
from cluster.cli.tables import Console
from cluster.settings import Settings, load
from cluster.tier_file import TierError, TierFile
from tests.cluster.test_tier_file import TIER
from tests.polling import DEADLINE_S
from tests.upstream.fake_controller import CLUSTER, FakeController


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


class Start:
    """The start of a tier in a directory."""

    def __init__(self, data_dir: Path, tier: TierFile = TIER) -> None:
        self.data_dir = data_dir
        tier_file.write(data_dir, tier)

    def __call__(self, **given: Any) -> UpstreamSpec | None:
        """Return what the tier stands in front of; "_" stands for "." in names of settings."""
        return self.settings(**given).upstream

    def settings(self, **given: Any) -> Settings:
        """Return all that it is told."""
        named = {name.replace("_", "."): value for name, value in given.items()}
        return in_front(load({"data.dir": str(self.data_dir), **named}, environment={}))


def in_front_of(cluster_id: str, address: tuple[str, int]) -> TierFile:
    return replace(TIER, upstream=UpstreamSpec(cluster_id, (("b", 1),), (address,), 1_000))


def test_a_tier_of_its_own_stays_one(tmp_path: Path) -> None:
    start = Start(tmp_path)
    assert start() is None
    with pytest.raises(TierError, match="has groups of its own"):
        start(upstream_bootstrap_servers="b:1", upstream_controllers="c:1")


def test_a_tier_goes_on_with_the_cluster_that_it_was_made_for(tmp_path: Path) -> None:
    with controller() as address:
        again = Start(tmp_path, in_front_of(CLUSTER, address))()
        assert again == UpstreamSpec(CLUSTER, (("b", 1),), (address,), 1_000)
        start = Start(tmp_path, in_front_of(CLUSTER, ("gone", 1)))
        moved = start(upstream_bootstrap_servers="new:2", upstream_controllers=words(address))
        assert moved == UpstreamSpec(CLUSTER, (("new", 2),), (address,), 1_000)


def test_topics_are_created_for_clients_only_if_brokers_do_that(tmp_path: Path) -> None:
    with controller() as address:
        made = in_front_of(CLUSTER, address)
        assert made.upstream is not None
        of_a_strict_one = replace(made, upstream=made.upstream._replace(creates_topics=False))
        assert Start(tmp_path, made).settings().broker.auto_create_topics_enable
        start = Start(tmp_path, of_a_strict_one)
        assert not start.settings().broker.auto_create_topics_enable
        assert start.settings(auto_create_topics_enable=True).broker.auto_create_topics_enable


def test_another_cluster_is_refused_by_name(tmp_path: Path) -> None:
    with controller() as address:
        start = Start(tmp_path, in_front_of("mine", address))
        with pytest.raises(TierError, match=r"other-cluster: .*stands in front of mine"):
            start()


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with controller() as address:
        start = Start(tmp_path, in_front_of("mine", address))
    with pytest.raises(TierError, match="no controller of cluster mine can be asked"):
        start()


@pytest.mark.parametrize(
    "given",
    [{"upstream_first_broker_id": 5}, {"upstream_listener_name": "OTHER"}, {"upstream_other_port": 9_500}],
    ids=str,
)
def test_what_the_cluster_knows_the_nodes_by_cannot_change(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TierError, match="cannot change to"):
        Start(tmp_path, in_front_of("mine", ("c", 1)))(**given)


def test_a_second_port_needs_a_listener(tmp_path: Path) -> None:
    cluster = {"upstream.bootstrap.servers": "b:1", "upstream.controllers": "c:1"}
    settings = load({"data.dir": str(tmp_path), **cluster, "upstream.other.port": 9_500}, environment={})
    with pytest.raises(TierError, match=r"it needs upstream\.other\.listener\.names"):
        in_front(settings)


def test_status_says_what_the_nodes_are_to_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    tier = in_front_of("mine", ("c", 1))
    told = {"cluster_id": "mine", "broker_id": 1_001, "state": "running", "goal": 1, "problem": "it is away"}
    shown = screen.summary(tier, Path(), {"broker-1": {"upstream": told}})
    assert shown["upstream"] == {"cluster_id": "mine", "goal": "attached"}
    screen._show_upstream(Console(width=200), shown)
    out = capsys.readouterr().out
    assert "In front of mine: attached; node 1 as broker 1001 (running)" in out
    assert "node 1, upstream: it is away" in out
    silent = screen.summary(tier, Path(), {})
    assert silent["upstream"] == {"cluster_id": "mine", "goal": None}
    assert screen.summary(TIER, Path(), {})["upstream"] is None
