"""The active controller is found, bounded in time, and found again; a node's registration runs on it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.upstream import connecting, controller_link, identity
from actors.upstream.controller_link import ControllerLink, ControllerNotFound, LinkLost
from actors.upstream.image import Endpoint
from actors.upstream.node import TierNode
from actors.upstream.registered import RegisteredNode, RegistrationRefused
from actors.upstream.registration import Facts, RegisteredBroker
from actors.upstream.requests import BrokerHeartbeat, HeartbeatAnswer
from actors.upstream.states import State
from cluster.ports import free_ports
from tests.polling import reached
from tests.upstream.fake_controller import CLUSTER, HOST, FakeController
from tests.upstream.kafka import connector

BEAT = BrokerHeartbeat(1001, 7, 100)
NODE = TierNode(CLUSTER, 1001, (Endpoint("PLAINTEXT", HOST, 9_092),))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes less, so that stories about silence end soon."""
    for name, seconds in (("REQUEST_TIMEOUT_S", 0.3), ("FIND_TIMEOUT_S", 1.0)):
        monkeypatch.setattr(controller_link, name, seconds)


def link_to(*addresses: tuple[str, int]) -> ControllerLink:
    return ControllerLink(connector(), addresses)


def alive(fields: dict[str, Any]) -> dict[str, Any]:
    """Answer a heartbeat as the controller of an unfenced broker."""
    shut = fields["want_shut_down"]
    answer = {"error_code": ErrorCode.none, "is_caught_up": True, "is_fenced": shut, "should_shut_down": shut}
    return {"throttle_time": 0, **answer}


def refused(fields: dict[str, Any]) -> dict[str, Any]:
    """Answer a heartbeat as a controller that is not active any more."""
    return {**alive(fields), "error_code": ErrorCode.not_controller}


async def not_found(link: ControllerLink) -> str:
    with pytest.raises(ControllerNotFound) as caught:
        await link.find()
    return str(caught.value)


def test_the_active_one_is_found_through_another() -> None:
    async def story() -> None:
        quorum: list[FakeController] = []
        async with FakeController(1, quorum) as active, FakeController(2, quorum) as other:
            active.answers["broker_heartbeat"] = alive
            link = link_to(other.address)
            controller = await link.find()
            assert controller.controller_ids == {1, 2}
            assert controller.finalized == {"metadata.version": 33}
            assert await link.call(BEAT) == HeartbeatAnswer(ErrorCode.none, True, False, False)
            assert [api for api, _ in other.asked] == ["api_versions", "describe_cluster", "describe_quorum"]
            await link.close()

    asyncio.run(story())


def test_another_one_is_found_when_the_active_one_is_gone() -> None:
    async def story() -> None:
        quorum: list[FakeController] = []
        async with FakeController(1, quorum) as first, FakeController(2, quorum) as second:
            second.answers["broker_heartbeat"] = alive
            link = link_to(first.address)
            await link.find()
            await first.__aexit__()
            with pytest.raises(LinkLost):
                await link.call(BEAT)
            second.active = 2
            await link.find()  # by an address that nobody gave
            assert await link.call(BEAT) == HeartbeatAnswer(ErrorCode.none, True, False, False)
            await link.close()

    asyncio.run(story())


def test_an_answer_is_not_waited_for_without_end() -> None:
    async def story() -> None:
        async with FakeController(1, []) as active:
            link = link_to(active.address)
            await link.find()
            active.is_mute = True
            active.answers["broker_heartbeat"] = alive
            with pytest.raises(LinkLost, match="TimeoutError"):
                await link.call(BEAT)
            with pytest.raises(LinkLost, match="no connection"):
                await link.call(BEAT)  # its answer might be the first one's

    asyncio.run(story())


def test_a_controller_that_is_frozen_is_asked_after_the_others() -> None:
    """Every second counts: a node's session runs out meanwhile."""

    async def story() -> None:
        quorum: list[FakeController] = []
        async with FakeController(1, quorum) as first, FakeController(2, quorum) as second:
            second.answers["broker_heartbeat"] = alive
            link = link_to(first.address, second.address)
            await link.find()
            first.is_mute = True
            with pytest.raises(LinkLost):
                await link.call(BEAT)
            second.active = 2
            async with asyncio.timeout(connecting.CONNECT_TIMEOUT_S / 2):
                await link.find()
            assert await link.call(BEAT) == HeartbeatAnswer(ErrorCode.none, True, False, False)
            await link.close()

    asyncio.run(story())


class Garbling(FakeController):
    """A controller whose answers to an API, if one is named, are too short by a byte."""

    garbles = ""

    def _answer(self, frame: bytes) -> bytes | None:
        answer = super()._answer(frame)
        if answer is None or self.asked[-1][0] != self.garbles:
            return answer
        return (len(answer) - 5).to_bytes(4, "big") + answer[4:-1]


def test_an_answer_that_cannot_be_read_is_none() -> None:
    async def story() -> None:
        async with Garbling(1, []) as active:
            active.answers["broker_heartbeat"] = alive
            link = link_to(active.address)
            await link.find()
            active.garbles = "broker_heartbeat"
            with pytest.raises(LinkLost, match="broker_heartbeat"):
                await link.call(BEAT)
            active.garbles = "api_versions"
            with pytest.raises(ControllerNotFound):
                await link.find()
            active.garbles = ""
            await link.find()
            assert await link.call(BEAT) == HeartbeatAnswer(ErrorCode.none, True, False, False)
            await link.close()

    asyncio.run(story())


def test_whoever_is_no_active_controller_is_named() -> None:
    async def story() -> str:
        async with FakeController(2, []) as electing:
            electing.active = -1
            return await not_found(link_to(electing.address, (HOST, free_ports(1))))

    told = asyncio.run(story())
    assert "it is not the active controller" in told
    assert "Connect call failed" in told


def register(controller: FakeController, epoch: int) -> None:
    """Have a controller take registrations and heartbeats."""
    controller.answers |= {
        "broker_registration": lambda fields: {
            "throttle_time": 0,
            "error_code": ErrorCode.none,
            "broker_epoch": epoch,
        },
        "broker_heartbeat": alive,
        "unregister_broker": lambda fields: {
            "throttle_time": 0,
            "error_code": ErrorCode.none,
            "error_message": None,
        },
    }


def test_an_epoch_is_on_disk_before_a_heartbeat_names_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeController(1, []) as active:
            register(active, 70)
            kept = []

            def heard(fields: dict[str, Any]) -> dict[str, Any]:
                kept.append(identity.read(tmp_path))
                return alive(fields)

            active.answers["broker_heartbeat"] = heard
            node = RegisteredNode(NODE, tmp_path, link_to(active.address), lambda: Facts(100))
            running = asyncio.create_task(node.run())
            await reached(lambda: node.state is State.RUNNING, "it runs")
            assert kept[0] is not None
            assert kept[0].broker_epoch == node.broker_epoch == 70
            node.leave(unregister=True)
            await running
            assert active.asked[-1] == ("unregister_broker", {"broker_id": 1001})

    asyncio.run(story())


def test_a_node_goes_on_with_the_next_controller(tmp_path: Path) -> None:
    async def story() -> None:
        quorum: list[FakeController] = []
        async with FakeController(1, quorum) as first, FakeController(2, quorum) as second:
            register(first, 70)
            node = RegisteredNode(NODE, tmp_path, link_to(first.address), lambda: Facts(100))
            running = asyncio.create_task(node.run())
            await reached(lambda: node.state is State.RUNNING, "it runs")
            second.answers["broker_heartbeat"] = alive
            first.active = second.active = 2
            first.answers["broker_heartbeat"] = refused
            await reached(
                lambda: "broker_heartbeat" in [api for api, _ in second.asked], "the next one is asked"
            )
            assert "broker_registration" not in [api for api, _ in second.asked]
            assert node.state is State.RUNNING
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(story())


def test_a_refusal_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeController(1, []) as active:
            node = RegisteredNode(
                NODE._replace(cluster_id="another"),
                tmp_path,
                link_to(active.address),
                Facts,
            )
            with pytest.raises(RegistrationRefused, match="this node belongs to cluster another"):
                await node.run()

    asyncio.run(story())


@pytest.mark.parametrize("is_over", [True, False])
def test_who_has_shut_down_in_a_controlled_way_is_another_incarnation(tmp_path: Path, is_over: bool) -> None:
    """The controller has nobody lead that asked to be relieved, and forgets that only with another one."""
    link = link_to((HOST, 1))
    RegisteredNode(NODE, tmp_path, link, lambda: Facts(100))
    kept = identity.read(tmp_path)
    assert kept is not None
    registered = RegisteredBroker(kept.incarnation_id, (), in_controlled_shutdown=is_over)
    RegisteredNode(NODE, tmp_path, link, lambda: Facts(100, registered=registered))
    assert (identity.read(tmp_path) != kept) == is_over
