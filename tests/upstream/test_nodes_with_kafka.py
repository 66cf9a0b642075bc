"""Nodes of a tier become brokers of a real Kafka cluster, live with it and leave it: Kafka 4.4 and 4.3."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from actors.ground.image import MetadataImage
from actors.ground.spec import Copy, NodeSpec, TierSpec, UpstreamSpec
from actors.ground.upstream_goal import DETACHED
from actors.network.wire import Wire
from actors.node.passing_on import Rights
from actors.node.upstream import UpstreamNode
from actors.security.gate import Gate
from actors.upstream import controller_link, identity
from actors.upstream.controller_link import ControllerLink, ControllerNotFound
from actors.upstream.levels import FEATURES
from actors.upstream.registered import RegistrationRefused
from actors.upstream.states import State
from bench.peers.kafka_nodes import CLUSTER_ID, HOST, KafkaNodes
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, passed, reached
from tests.upstream.conftest import SESSION_MS
from tests.upstream.kafka import connector
from tests.upstream.site import Site, log_dir, running

SHUT_DOWN_MAX_S = 15.0
"""Kafka waits for 40 s and more if somebody has not read the metadata."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


async def told_brokers(site: Site, expected: set[int]) -> None:
    """Wait until clients are told of these brokers."""
    end = time.monotonic() + DEADLINE_S
    while (told := await _told(site.broker)) != expected:
        assert time.monotonic() < end, told


async def _told(broker: Wire) -> set[int]:
    answer = await broker.call("describe_cluster", 1, include_cluster_authorized_operations=False)
    return {row["broker_id"] for row in answer["brokers"]}


def test_three_nodes_register_are_given_nothing_and_leave(kafka: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            nodes = await site.start(1001, 1002, 1003)
            assert [node.state for node in nodes] == [State.RUNNING] * 3
            await told_brokers(site, {1, 1001, 1002, 1003})
            assert await site.place("eight", 8) == [[1]] * 8
            for node in nodes:
                node.leave(unregister=True)
            await reached(lambda: all(node.state is State.NOT_RUNNING for node in nodes), "all have left")
            await told_brokers(site, {1})
            assert not site.log.image().brokers.keys() & {1001, 1002, 1003}

    asyncio.run(story())


def test_a_process_that_starts_again_is_the_same_broker_at_once(kafka: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            (first,) = await site.start(1001)
            await site.kill(1001)
            began = time.monotonic()
            (second,) = await site.start(1001)
            await reached(lambda: second.state is State.RUNNING, "it is unfenced")
            assert time.monotonic() - began < SESSION_MS / 1000 / 2
            assert second.broker_epoch == first.broker_epoch
            await reached(
                lambda: site.log.image().brokers[1001].cordoned_log_dirs == (log_dir(1001),), "cordoned"
            )

    asyncio.run(story())


def test_another_incarnation_waits_for_the_session_to_end(kafka: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            (first,) = await site.start(1001)
            await site.kill(1001)
            (tmp_path / "1001" / identity.NAME).unlink()
            second = site.node(1001)
            async with running(second.run()):
                await reached(lambda: second.state is State.RUNNING, "it is registered anew")
                assert second.broker_epoch > first.broker_epoch
                kept = identity.read(tmp_path / "1001")
                assert kept is not None
                assert kept.broker_epoch == second.broker_epoch

    asyncio.run(story())


def refused(site: Site, *node: Any) -> Any:
    async def story() -> str:
        with pytest.raises(RegistrationRefused) as caught:
            await site.node(*node).run()
        return str(caught.value)

    return story()


def test_the_wrong_cluster_and_taken_ids_are_refused_by_name(kafka: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            assert "this node belongs to cluster another" in await refused(site, 1001, "a", "another")
            assert await refused(site, 1, "b") == "id 1 is a controller's: choose another id for this node"
            await site.start(1004)
            answer = await site.controller_call("broker_registration", 4, **_of_others(site, 1005))
            assert answer["error_code"].value == 0
            await site.until(lambda image: 1005 in image.brokers, "the other one is registered")
            beat = {
                "broker_id": 1005,
                "broker_epoch": answer["broker_epoch"],
                "current_metadata_offset": 2**40,
            }
            await site.controller_call("broker_heartbeat", 1, **beat, want_fence=False, want_shut_down=False)
            assert "id 1005 is another broker's, which is registered" in await refused(site, 1005, "c")
            site.tier.add(1005)

    asyncio.run(story())


def _of_others(site: Site, broker_id: int) -> dict[str, Any]:
    """A registration as another program makes it."""
    listener = {"name": "PLAINTEXT", "host": HOST, "port": 1, "security_protocol": 0}
    return {
        "broker_id": broker_id,
        "cluster_id": site.controller.cluster_id,
        "incarnation_id": uuid4(),
        "listeners": [listener],
        "features": [each._asdict() for each in FEATURES],
        "rack": None,
        "log_dirs": [uuid4()],
        "previous_broker_epoch": -1,
    }


def test_a_node_that_was_unregistered_by_hand_comes_back(kafka: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            (node,) = await site.start(1001)
            epoch = node.broker_epoch
            await site.controller_call("unregister_broker", 0, broker_id=1001)
            await reached(lambda: node.broker_epoch > epoch and node.state is State.RUNNING, "it is back")

    asyncio.run(story())


@pytest.mark.parametrize("is_itself", [True, False], ids=["this node", "a node of another tier"])
def test_a_node_that_was_away_when_its_tier_left_leaves_as_well(
    is_itself: bool, kafka: KafkaNodes, tmp_path: Path
) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            await site.start(1001)
            await site.kill(1001)
            if is_itself:
                (tmp_path / "1001").rename(tmp_path / "node-1")
            node = tier_node(site, tmp_path)
            await node.open()
            node.listens()
            node.take(MetadataImage(upstream_goal=DETACHED))
            if is_itself:
                await site.until(lambda image: 1001 not in image.brokers, "it is no broker any more")
            else:
                await passed(2.0)
                assert 1001 in site.log.image().brokers
            await node.close()

    asyncio.run(story())


def tier_node(site: Site, directory: Path) -> UpstreamNode:
    """The first node of a tier, which is broker 1001."""
    tier = TierSpec(
        tier_id="tier",
        secret="secret",
        data_dir=str(directory),
        run_dir="",
        nodes=(NodeSpec(node_id=1, host=HOST, port=1),),
        placement=((Copy(0, 1),),),
        controllers=(Copy(0, 1),),
        upstream=UpstreamSpec(CLUSTER_ID, (site.nodes.address(1),), tuple(site.controllers()), 1_000),
    )
    return UpstreamNode(tier, tier.nodes[0], lambda image: None, Rights(Gate(), lambda *request: b""))


def test_brokers_listeners_and_silence_are_told_from_controllers(
    kafka: KafkaNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> str:
        link = ControllerLink(connector(), [kafka.address(1), (HOST, free_ports(1))])
        with pytest.raises(ControllerNotFound) as caught:
            await link.find()
        return str(caught.value)

    monkeypatch.setattr(controller_link, "FIND_TIMEOUT_S", 1.0)
    told = asyncio.run(story())
    assert "name a listener of controller.listener.names" in told
    assert "Connect call failed" in told


def test_a_controlled_shutdown_of_a_broker_does_not_wait_for_us(three: KafkaNodes, tmp_path: Path) -> None:
    """It waits until the metadata that all brokers have read has its own part of it (lowestActiveOffset)."""

    async def story() -> None:
        async with Site(three, tmp_path) as site:
            nodes = await site.start(1001, 1002, 1003)
            await site.place("orders", 6, 3)
            active = await site.active()
            number = next(each for each in three.numbers if each not in (active, three.numbers[-1]))
            began = time.monotonic()
            os.kill(three.process(number).pid, signal.SIGTERM)
            await reached(lambda: not three.runs(number), "the broker is gone", 60.0)
            took_s = time.monotonic() - began
            print(f"\na broker shuts down in {took_s:.1f} s")
            assert took_s < SHUT_DOWN_MAX_S
            assert [node.state for node in nodes] == [State.RUNNING] * 3
            three.launch(number)
            await asyncio.to_thread(three.wait_until_it_listens, number)
            await site.until(lambda image: not image.brokers[number].fenced, "the broker is back")

    asyncio.run(story())


def test_nodes_outlive_the_active_controller(three: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Site(three, tmp_path) as site:
            nodes = await site.start(1001, 1002)
            epochs = [node.broker_epoch for node in nodes]
            active = await site.active()
            three.process(active).kill()
            await reached(lambda: not three.runs(active), "the controller is gone")
            await passed(2 * SESSION_MS / 1000)
            wire = await Wire.connect(*three.address(next(n for n in three.numbers if n != active)))
            assert {1001, 1002} <= await _told(wire)
            await wire.close()
            assert [node.broker_epoch for node in nodes] == epochs
            three.launch(active)
            await asyncio.to_thread(three.wait_until_it_listens, active)

    asyncio.run(story())
