"""The lane where members live, alone on a connection that may be held. A leader with the lane and one without
have to say the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.leader.held_heartbeats import HoldEnd
from tests.leader.lane_pair import (
    ALLOWED,
    JAVA,
    ClassicMember,
    ConsumerMember,
    Member,
    Pair,
    Story,
    check_noticed,
    counts,
    deafen,
    lease_for_ever,
)
from tests.leader.test_lane_shared import gathered

SPACING_MS = 5_000
NOT_COORDINATOR, REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED = 16, 27, 30


async def held(pair: Pair) -> list[Member]:
    """Return members whose heartbeats the lane holds."""
    members: list[Member] = [
        ClassicMember(pair, "classic", pair.connect(JAVA)),
        ConsumerMember(pair, "consumer", "m1", pair.connect(JAVA)),
    ]
    for member in members:
        await member.join()
    for _ in range(4):
        await together(pair, members)
    before = pair.lane.answered
    await together(pair, members)
    assert pair.lane.answered == before + len(members), "the lane holds and answers"
    return members


async def together(pair: Pair, members: list[Member]) -> None:
    """Let all send a heartbeat, and then wait for the next one."""
    for member in members:
        member.client.send(member.beat_frame())
    await pair.settle()
    await pair.advance(SPACING_MS)
    assert all(member.client.take() for member in members)


async def begun(pair: Pair, member: Member) -> None:
    """Let a member send a heartbeat that the lane holds."""
    member.client.send(member.beat_frame())
    await pair.settle()
    assert member.client.take() == b""
    assert len(pair.servers[0].clients.held) >= 1
    assert not pair.servers[0].clients.held._groups, "the lane has it"


def error_of(member: Member, data: bytes) -> int:
    """Return the error code of the answer to a member's heartbeat."""
    assert data, "it is answered"
    begin = 12 if isinstance(member, ClassicMember) else 13
    return int.from_bytes(data[begin : begin + 2], "big")


def test_a_hold_ends_with_its_time(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await held(pair)
        for _ in range(15):
            await together(pair, members)
        assert counts(pair)[0] == counts(pair)[1]
        assert counts(pair)[0][1][HoldEnd.TIMEOUT] > 30
        await begun(pair, members[0])
        await pair.advance(3 * SPACING_MS)
        assert error_of(members[0], members[0].client.take()) == 0

    tell(story)


def test_further_bytes_end_a_hold_first(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        for member in await held(pair):
            for _ in range(4):
                await together(pair, [member])
            await begun(pair, member)
            frame = member.beat_frame()
            member.client.send(frame[:7])
            await pair.settle()
            assert error_of(member, member.client.take()) == 0
            member.client.send(frame[7:])
            await pair.settle()
            await pair.advance(SPACING_MS)
            assert error_of(member, member.client.take()) == 0
            member.client.send(frame * 3)
            await pair.settle()
            member.client.take()
            await pair.advance(SPACING_MS)
            member.client.take()
        assert counts(pair)[0] == counts(pair)[1]

    tell(story)


async def rebalanced(pair: Pair) -> None:
    classic, consumer = await held(pair)
    await begun(pair, classic)
    newcomer = ClassicMember(pair, "classic")
    newcomer.client.send(newcomer.join_frame())
    await pair.settle()
    assert error_of(classic, classic.client.take()) == REBALANCE_IN_PROGRESS
    await begun(pair, consumer)
    assert isinstance(consumer, ConsumerMember)
    another = ConsumerMember(pair, "consumer", "m2")
    await another.join()
    await pair.advance(2_000)
    answer = consumer.client.take()
    assert len(answer) > 30, "it is told its new assignment"
    assert counts(pair)[0] == counts(pair)[1]


def test_news_end_a_hold(tell: Callable[[Story], None]) -> None:
    tell(rebalanced)


async def forbidden(pair: Pair) -> None:
    members = await held(pair)
    for member in members:
        for _ in range(4):
            await together(pair, [member])
        await begun(pair, member)
        pair.push(())
        await pair.settle()
        assert error_of(member, member.client.take()) == 0, "what was asked while it was allowed"
        member.client.send(member.beat_frame())
        await pair.settle()
        assert error_of(member, member.client.take()) == GROUP_AUTHORIZATION_FAILED
        pair.push(ALLOWED)
        await pair.settle()


def test_rights_that_go_end_a_hold(tell: Callable[[Story], None]) -> None:
    tell(forbidden)


async def fallen(pair: Pair) -> None:
    members = await held(pair)
    for member in members:
        await begun_too(pair, member)
    for server in pair.servers:
        server.fall()
    await pair.settle()
    for member in members:
        assert error_of(member, member.client.take()) == NOT_COORDINATOR
    assert counts(pair)[0] == counts(pair)[1]


async def begun_too(pair: Pair, member: Member) -> None:
    member.client.send(member.beat_frame())
    await pair.settle()
    assert member.client.take() == b""


def test_who_leads_no_longer_says_so_to_those_who_are_held(tell: Callable[[Story], None]) -> None:
    tell(fallen)


async def leaseless(pair: Pair) -> None:
    members = await held(pair)
    for member in members:
        await begun_too(pair, member)
    for server in pair.servers:
        server.log.leased = False
    await pair.advance(SPACING_MS)
    assert [member.client.take() for member in members] == [b"", b""]
    for server in pair.servers:
        server.log.leased = True
    await pair.advance(1_000)
    assert [error_of(member, member.client.take()) for member in members] == [0, 0]


def test_a_hold_does_not_end_without_the_lease(tell: Callable[[Story], None]) -> None:
    tell(leaseless)


def test_a_new_image_that_says_nothing_lets_a_hold_go_on(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await held(pair)
        for member in members:
            await begun_too(pair, member)
        pair.push(ALLOWED)
        await pair.advance(1_000)
        assert [member.client.take() for member in members] == [b"", b""]
        assert len(pair.servers[0].clients.held._groups) == 2, "Python has them"
        await pair.advance(SPACING_MS - 1_000)
        assert [error_of(member, member.client.take()) for member in members] == [0, 0]
        assert counts(pair)[0] == counts(pair)[1]

    tell(story)


def test_a_connection_that_closes_ends_its_hold(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await held(pair)
        for member in members:
            await begun_too(pair, member)
            member.client.close()
        await pair.settle()
        assert counts(pair)[0] == counts(pair)[1]
        assert counts(pair)[0][2] == 0
        assert counts(pair)[0][1][HoldEnd.CLOSED] == 2
        assert len(pair.lane) == 0
        assert pair.lane._tables.places == 0

    tell(story)


def test_a_hold_of_a_member_ends_when_it_speaks_elsewhere(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        for member in await held(pair):
            await begun_too(pair, member)
            older, member.client = member.client, pair.connect(JAVA)
            member.client.send(member.beat_frame())
            await pair.settle()
            assert error_of(member, older.take()) == 0
            for _ in range(4):
                await together(pair, [member])
            older.send(member.beat_frame())
            await pair.settle()
            await pair.advance(SPACING_MS)
            assert error_of(member, older.take()) == 0
        assert counts(pair)[0] == counts(pair)[1]

    tell(story)


def test_a_session_ends_as_if_nobody_had_held(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await held(pair)
        for member in members:
            await begun_too(pair, member)
        await pair.advance(44_999)
        assert len(list(pair.servers[0].partition._shard.group_states())) == 2
        await pair.advance(2)
        for member in members:
            member.client.take()
            member.client.send(member.beat_frame())
        await pair.settle()
        assert [error_of(member, member.client.take()) for member in members] == [25, 25]

    tell(story)


def test_what_the_lane_is_told_of_a_hold_makes_no_session_longer(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        classic = ClassicMember(pair, "classic", pair.connect(JAVA))
        consumer = ConsumerMember(pair, "consumer", "m1", pair.connect(JAVA))
        for member, rounds in ((classic, 2), (consumer, 1)):
            await member.join()
            for _ in range(rounds):
                await together(pair, [member])
            assert pair.lane.memory._groups[member.group_id], (
                "Python's hold has ended, the lane is told of it"
            )
            await pair.advance(45_000 - SPACING_MS - 1)
            assert list(pair.servers[0].partition._shard.group_states()).count("Stable") == 1
            await pair.advance(2)
            member.client.send(member.beat_frame())
            await pair.settle()
            assert error_of(member, member.client.take()) == 25

    tell(story)


def test_another_spacing_is_pythons(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = (await held(pair))[0]
        before = pair.lane.answered
        await pair.advance(4_000)
        member.client.send(member.beat_frame())
        await pair.settle()
        assert member.client.take() == b""
        assert pair.servers[0].clients.held._groups, "Python holds it"
        await pair.advance(1_000)
        member.client.send(member.beat_frame())
        await pair.settle()
        member.client.take()
        assert pair.lane.answered == before
        await pair.advance(1_000)
        assert error_of(member, member.client.take()) == 0
        assert counts(pair)[0] == counts(pair)[1]

    tell(story)


def test_a_connection_that_is_given_away_answers_first(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = (await held(pair))[0]
        await begun_too(pair, member)
        gone: list[Any] = []
        for connection in member.client.connections:
            connection.release(lambda sock, rest: gone.append((sock, rest)))
        await pair.settle()
        assert gone == [], "an answer is owed"
        await pair.advance(SPACING_MS)
        assert error_of(member, member.client.take()) == 0
        assert [rest for _, rest in gone] == [b"", b""]
        for sock, _ in gone:
            sock.close()

    tell(story)


@pytest.mark.parametrize("is_held", [False, True], ids=("shared", "held"))
def test_a_frame_that_differs_by_one_bit_is_answered_as_without(
    is_held: bool, tell: Callable[[Story], None]
) -> None:
    async def story(pair: Pair) -> None:
        members = await held(pair) if is_held else (await gathered(pair, 4))[1]
        for bit in range(32, 8 * len(members[0].beat_frame()), 3):
            for member in members:
                frame = bytearray(member.beat_frame())
                member.client.send(bytes(frame))
                if is_held:
                    await pair.settle()
                frame[bit // 8 % len(frame)] ^= 1 << bit % 8
                member.client.send(bytes(frame))
                await pair.settle()
                member.client.take()
                if member.client.is_closed:
                    older, another = member.client, pair.connect(JAVA)
                    for each in members:
                        each.client = another if each.client is older else each.client
            await pair.advance(SPACING_MS if is_held else 1_000)
            for member in members:
                member.client.take()
        assert pair.lane.answered > 20

    tell(story)


# A lane that forgets to forget.


@pytest.mark.parametrize(
    ("deaf", "story"),
    [
        (("asked", "written", "told"), rebalanced),
        (("everything",), forbidden),
        (("everything",), fallen),
    ],
    ids=("generation", "rights", "role"),
)
def test_a_lane_that_holds_on_through_news_is_noticed(
    deaf: tuple[str, ...], story: Story, tell: Callable[[Story], None]
) -> None:
    check_noticed(tell, lambda pair: deafen(pair, *deaf), story)


def test_a_lane_that_ends_holds_without_a_lease_is_noticed(tell: Callable[[Story], None]) -> None:
    check_noticed(tell, lease_for_ever, leaseless)
