"""Heartbeats that compiled code answers: every story is told to a leader with the lane and to one without,
which have to say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from tests.leader.lane_pair import (
    ALLOWED,
    ClassicMember,
    ConsumerMember,
    Member,
    Pair,
    Story,
    check_noticed,
    deafen,
    lease_for_ever,
)
from tests.polling import reached

REBALANCE_IN_PROGRESS = 27
UNKNOWN_MEMBER = 25
GROUP_FAILED = 30
SPACING_MS = 3_000
SESSION_MS = 45_000


async def steady(pair: Pair, member: Member) -> None:
    """Let the member send heartbeats until the lane answers them."""
    for _ in range(3):
        assert await member.beat() == 0
    before = pair.lane.answered
    assert await member.beat() == 0
    assert pair.lane.answered == before + 1, "the lane answers"


async def settled(pair: Pair) -> list[Member]:
    members: list[Member] = [ClassicMember(pair, "classic"), ConsumerMember(pair, "consumer", "m1")]
    for member in members:
        await member.join()
        await steady(pair, member)
    return members


async def is_answered_by_python(pair: Pair, member: Member) -> int:
    """Return the error code of the next heartbeat, of which it is checked that Python answers it."""
    before = pair.lane.answered
    code = await member.beat()
    assert pair.lane.answered == before
    return code


def test_a_steady_heartbeat_is_answered_and_counted(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await settled(pair)
        for member in members:
            for _ in range(5):
                await pair.advance(SPACING_MS)
                assert await member.beat() == 0
        assert pair.lane.answered >= 10
        counts = [server.partition._server.counts for server in pair.servers]
        for api_key in (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT):
            assert counts[0].of(api_key).fine == counts[1].of(api_key).fine

    tell(story)


def test_a_member_that_only_the_lane_hears_stays(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await settled(pair)
        for _ in range(3 * SESSION_MS // SPACING_MS):
            await pair.advance(SPACING_MS)
            for member in members:
                assert await member.beat() == 0
        assert pair.lane.answered > 2 * SESSION_MS // SPACING_MS

    tell(story)


def test_what_the_lane_has_heard_outlives_its_memory(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await settled(pair)
        await pair.advance(SESSION_MS - 5_000)
        for member in members:
            assert await member.beat() == 0
        pair.push(ALLOWED)
        await pair.advance(20_000)
        for member in members:
            assert await is_answered_by_python(pair, member) == 0

    tell(story)


def test_a_member_that_falls_silent_is_out_at_the_same_time(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await settled(pair)
        await pair.advance(20_000)
        for member in members:
            assert await member.beat() == 0
        await pair.advance(SESSION_MS - 1)
        assert len(list(pair.servers[0].partition._shard.group_states())) == 2
        assert set(pair.lane.memory._groups) == {"classic", "consumer"}, "they are remembered still"
        await pair.advance(2)
        for member in members:
            assert await is_answered_by_python(pair, member) == UNKNOWN_MEMBER

    tell(story)


async def rebalanced(pair: Pair) -> None:
    classic, consumer = await settled(pair)
    assert isinstance(classic, ClassicMember)
    newcomer = ClassicMember(pair, "classic")
    newcomer.client.send(newcomer.join_frame())
    await pair.settle()
    assert await is_answered_by_python(pair, classic) == REBALANCE_IN_PROGRESS
    assert isinstance(consumer, ConsumerMember)
    another = ConsumerMember(pair, "consumer", "m2")
    await another.join()
    await pair.advance(2_000)
    epoch = consumer.epoch
    for _ in range(3):
        assert await consumer.beat() == 0
    assert consumer.epoch > epoch


def test_a_rebalance_is_told_with_the_next_heartbeat(tell: Callable[[Story], None]) -> None:
    tell(rebalanced)


async def leaseless(pair: Pair) -> None:
    members = await settled(pair)
    for server in pair.servers:
        server.log.leased = False
    for member in members:
        member.client.send(member.beat_frame())
    await pair.settle()
    assert [member.client.take() for member in members] == [b"", b""]
    for server in pair.servers:
        server.log.leased = True
    await pair.settle()
    assert all(member.client.take() for member in members)


def test_nothing_is_answered_without_the_lease(tell: Callable[[Story], None]) -> None:
    tell(leaseless)


async def fallen(pair: Pair) -> None:
    members = await settled(pair)
    for server in pair.servers:
        server.fall()
    for member in members:
        assert await is_answered_by_python(pair, member) == 16  # NOT_COORDINATOR
    for server in pair.servers:
        server.lead()
    for member in members:
        await steady(pair, member)


def test_who_leads_no_longer_says_so(tell: Callable[[Story], None]) -> None:
    tell(fallen)


async def forbidden(pair: Pair) -> None:
    members = await settled(pair)
    pair.push(())
    for member in members:
        member.client.send(member.beat_frame())
    await pair.settle()
    for member in members:
        data = member.client.take()
        assert GROUP_FAILED.to_bytes(2, "big") in data
    pair.push(ALLOWED)
    for member in members:
        await steady(pair, member)


def test_who_is_not_allowed_any_more_is_refused(tell: Callable[[Story], None]) -> None:
    tell(forbidden)


def test_a_frame_in_pieces_and_several_at_once(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        for member in await settled(pair):
            client, frame = member.client, member.beat_frame()
            for cut in range(1, len(frame)):
                client.send(frame[:cut])
                await pair.settle()
                assert client.take() == b""
                client.send(frame[cut:])
                await pair.settle()
                once = client.take()
                client.send(frame * 3)
                await pair.settle()
                assert client.take() == once * 3
                client.send(frame + frame[:cut])
                await pair.settle()
                assert client.take() == once
                client.send(frame[cut:])
                await pair.settle()
                assert client.take() == once
                await steady(pair, member)

    tell(story)


def test_a_frame_that_differs_by_one_bit_is_answered_as_without(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        for member in await settled(pair):
            frame = member.beat_frame()
            for bit in range(32, 8 * len(frame)):  # the length before it is another story
                other = bytearray(frame)
                other[bit // 8] ^= 1 << bit % 8
                member.client.send(bytes(other))
                await pair.settle()
                member.client.take()
                if member.client.is_closed:
                    member.client = pair.connect()
            member.client = pair.connect()
            member.group_id += "'"  # one of the bits made it leave
            if isinstance(member, ClassicMember):
                member.member_id = ""
            await member.join()
            await steady(pair, member)

    tell(story)


def test_a_client_that_does_not_read_gets_every_answer_later(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = (await settled(pair))[0]
        frame, sent = member.beat_frame(), 0
        before = pair.lane.answered
        for _ in range(600):  # twice as many as a socket keeps
            member.client.send(frame)
            sent += 1
            for _ in range(4):
                await asyncio.sleep(0)
        assert pair.lane.answered > before
        taken = [b"", b""]
        for _ in range(100):
            await pair.settle()
            taken = [sum_ + more for sum_, more in zip(taken, member.client.take_any(), strict=True)]
        assert taken[0] == taken[1]
        assert taken[0].count(frame[8:12]) == sent

    tell(story)


def test_a_socket_that_closes_leaves_nothing(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await settled(pair)
        assert len(pair.lane) == 2
        members[0].client.close()
        members[1].client.send(members[1].beat_frame())
        members[1].client.close()
        await pair.settle()
        assert len(pair.lane) == 0
        assert pair.lane._lent == {}
        for member in members:
            member.client = pair.connect()
            await steady(pair, member)

    tell(story)


def test_a_connection_that_is_given_away_takes_every_byte_with_it(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = (await settled(pair))[0]
        gone: list[tuple[Any, bytes]] = []
        for connection in member.client.connections:
            connection.release(lambda sock, rest: gone.append((sock, rest)))
        await pair.settle()
        assert [rest for _, rest in gone] == [b"", b""]
        frame = member.beat_frame()
        member.client.send(frame)
        await pair.settle()
        assert [sock.recv(2 * len(frame)) for sock, _ in gone] == [frame, frame], "nobody read it here"
        for sock, _ in gone:
            sock.close()

    tell(story)


def test_the_lane_is_loaded_when_it_pays(tmp_path: Path) -> None:
    async def story() -> None:
        pair = Pair(tmp_path, lane_after=5)
        await pair.start(has_loaded=False)
        clients = pair.servers[0].clients
        member = ClassicMember(pair, "classic")
        await member.join()
        for _ in range(3):
            await member.beat()
        await asyncio.sleep(0)
        assert not len(clients._tasks), "it does not pay yet"
        member.client.send(b"".join(member.beat_frame() for _ in range(10)))
        await pair.settle()
        member.client.take()
        assert len(clients._tasks) == 1, "one lane is loaded, though many beats in one read say that it pays"
        await reached(lambda: clients.lane is not None, "the lane is loaded", 100)
        await steady(pair, member)
        assert pair.servers[1].clients.lane is None, "it is turned off"
        await pair.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("deaf", "story"),
    [
        (("asked", "written", "told"), rebalanced),
        (("everything",), forbidden),
        (("everything",), fallen),
    ],
    ids=("generation", "rights", "role"),
)
def test_a_lane_that_forgets_to_forget_is_noticed(
    deaf: tuple[str, ...], story: Story, tell: Callable[[Story], None]
) -> None:
    check_noticed(tell, lambda pair: deafen(pair, *deaf), story)


def test_a_lane_that_does_not_see_the_lease_end_is_noticed(tell: Callable[[Story], None]) -> None:
    check_noticed(tell, lease_for_ever, leaseless)
