"""Two transports on a real loop: messages, reconnection, members that come and go, and bounds."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from storage.raft.link import FRAME_BYTES_MAX
from storage.raft.members import Member
from storage.raft.skeleton import Node
from storage.raft.transport import LEAVING_GRACE_S
from tests.polling import passed, reached
from tests.raft.transports import A, B, Stage, Wire, identity, members, play


@pytest.mark.parametrize("uv", [False, True])
def test_messages_arrive_in_order_in_both_directions(tmp_path: Path, uv: bool) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        a, b = await stage.start(A), await stage.start(B)
        await stage.connected()
        for number in range(1_000):
            assert a.send(Node(B), (number, b"x" * number))
            assert b.send(Node(A), (number, None, True, 1.5, ("t",)))
        await reached(lambda: len(stage.ears[A].heard) == len(stage.ears[B].heard) == 1_000)
        assert stage.ears[B].heard == [(number, b"x" * number) for number in range(1_000)]
        assert stage.ears[A].heard == [(number, None, True, 1.5, ("t",)) for number in range(1_000)]
        assert stage.activity < 1_000, "once for all that a read brought"
        await stage.close()

    play(scene, uv=uv)


def test_tcp_addresses_work_too(tmp_path: Path, unused_ports: list[int]) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        stage.addresses = {A: f"127.0.0.1:{unused_ports[0]}", B: f"127.0.0.1:{unused_ports[1]}"}
        await stage.start(A)
        b = await stage.start(B)
        await stage.connected()
        assert b.send(Node(A), ("over tcp",))
        await reached(lambda: stage.ears[A].heard == [("over tcp",)])
        await stage.close()

    play(scene)


@pytest.mark.parametrize("uv", [False, True])
def test_a_frame_of_32_mib_arrives_and_does_not_hold_up_what_follows(tmp_path: Path, uv: bool) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        a = await stage.start(A)
        await stage.start(B)
        await stage.connected()
        big = bytes(range(256)) * (32 * 4096)
        assert a.send(Node(B), (big,))
        assert a.send(Node(B), ("small",))
        await reached(lambda: len(stage.ears[B].heard) == 2)
        assert stage.ears[B].heard == [(big,), ("small",)]
        await stage.close()

    play(scene, uv=uv)


# -- who calls whom ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("knowing", "unknowing"), [(A, B), (B, A)])
def test_a_newcomer_who_knows_nobody_is_called(tmp_path: Path, knowing: str, unknowing: str) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(unknowing, knows=())
        await stage.start(knowing)
        await stage.connected()
        assert stage.ears[unknowing].story == [f"up {knowing}"], "Raft hears of who is no member, too"
        await stage.close()

    play(scene)


def test_a_member_that_is_added_later_is_called_at_its_address_of_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The member's node is not known at first: this is logged once, and the node is looked up again."""

    async def scene() -> None:
        nodes: dict[int, str] = {}

        def address_of(member: Member) -> str:
            if member.node_id not in nodes:
                raise LookupError(f"node {member.node_id} is unknown")
            return nodes[member.node_id]

        stage = Stage(tmp_path)
        await stage.start(A, knows=())
        b = await stage.start(B, knows=(), address_of=address_of)
        b.set_members((Member(A, 7, False), Member(B, 0, True)))
        await reached(lambda: f"link with {A} closed: it cannot be called: node 7 is unknown" in caplog.text)
        nodes[7] = stage.addresses[A]
        await stage.connected()
        assert len(caplog.records) == 1
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_member_that_left_keeps_its_link_for_a_grace_and_is_called_no_more(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A, knows=())
        b = await stage.start(B)
        await stage.connected()
        left_at = time.monotonic()
        b.set_members(members((B,)))
        assert b.send(Node(A), ("you are out",))
        await reached(lambda: stage.ears[B].connected_ids == ())
        assert time.monotonic() - left_at >= LEAVING_GRACE_S * 0.99
        await reached(lambda: stage.ears[A].story == [f"up {B}", f"down {B}", f"lost {B}"])
        assert stage.ears[A].heard == [("you are out",)]
        await passed(0.2)
        assert stage.ears[B].story == [f"up {A}", f"down {A}"], "it was not lost, and not called again"
        await stage.close()

    play(scene)


def test_a_removal_that_is_taken_back_costs_no_link(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        b = await stage.start(B)
        await stage.connected()
        b.set_members(members((B,)))
        b.set_members(members((A, B)))
        await passed(LEAVING_GRACE_S + 0.2)
        assert stage.ears[A].story == [f"up {B}"]
        assert stage.ears[B].story == [f"up {A}"]
        await stage.close()

    play(scene)


# -- links that end ---------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [A, B])
def test_a_restarted_replica_is_reconnected_within_100_ms(tmp_path: Path, restarted: str) -> None:
    """The bound is generous, for a loaded machine. What the survivor was told shows who hung up."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        await stage.start(B)
        await stage.connected()
        survivor = B if restarted == A else A
        await stage.transports[restarted].close()
        await reached(lambda: stage.ears[survivor].story[-1:] == [f"lost {restarted}"])
        before = time.monotonic()
        await stage.start(restarted)
        await stage.connected()
        assert time.monotonic() - before < 2.0
        up, down, lost = (f"{event} {restarted}" for event in ("up", "down", "lost"))
        await reached(lambda: stage.ears[survivor].story == [up, down, lost, up])
        await stage.close()

    play(scene)


def test_a_bad_message_closes_the_link_and_it_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        b = await stage.start(B)
        await stage.connected()
        assert b.send(Node(A), ("bad",))
        await reached(lambda: stage.ears[A].story == [f"up {B}", f"down {B}", f"up {B}"])
        assert stage.ears[B].story[:3] == [f"up {A}", f"down {A}", f"lost {A}"], "its host hung up on it"
        await stage.close()

    play(scene)


def test_raft_is_told_that_a_link_ends_before_the_peer_can_see_it(tmp_path: Path) -> None:
    """A leader must have forgotten what the peer granted when the peer takes itself to be free."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        a = await stage.start(A, knows=())
        wire = await Wire.call(stage, identity(B), A)
        assert await wire.answer()
        await reached(lambda: stage.ears[A].connected_ids == (B,))
        seen: list[bool] = []
        base: Any = a
        base.setOnNodeDisconnectedCallback(lambda node: seen.append(wire.is_hung_up()))
        wire.send(("bad",))
        assert await wire.read() is None
        assert (seen, wire.is_hung_up()) == ([False], True)
        await wire.close()
        await stage.close()

    play(scene)


def test_a_peer_that_does_not_read_loses_its_link(tmp_path: Path) -> None:
    """The bytes that wait for one peer are bounded: beyond 128 MiB they are dropped with the connection."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        a = await stage.start(A)
        await stage.start(B)
        await stage.connected()
        body = b"x" * (FRAME_BYTES_MAX // 2)
        sent = 0
        while a.send(Node(B), (body,)):  # this loop gives B no chance to read
            sent += 1
        assert 2 <= sent <= 4
        assert stage.ears[A].story == [f"up {B}", f"down {B}"]
        await stage.close()

    play(scene)


class _Faults:
    def __init__(self) -> None:
        self.plan: list[float | None] = [0.05, 0.0, None, 0.0]

    def delay_s(self, peer_id: str) -> float | None:
        return self.plan.pop(0) if self.plan else 0.0


def test_injected_faults_delay_in_order_and_drop(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        a = await stage.start(A, faults=_Faults())
        await stage.start(B)
        await stage.connected()
        for number in range(6):
            assert a.send(Node(B), (number,))
        await reached(lambda: len(stage.ears[B].heard) == 5)
        assert stage.ears[B].heard == [(0,), (1,), (3,), (4,), (5,)]
        await stage.close()

    play(scene)


def test_a_stale_socket_file_is_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        await stage.transports[A].close()
        assert (tmp_path / A).is_socket() or not (tmp_path / A).exists()
        await stage.start(A)
        await stage.start(B)
        await stage.connected()
        await stage.close()

    play(scene)


def test_a_transport_that_is_closed_leaves_no_task(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path, A, B, "2.1")
        await stage.start(A)
        b = await stage.start(B)
        await stage.connected()
        b.set_members(members((A, B)))
        await stage.close()
        b.set_members(members((A, B, "2.1")))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(scene)
