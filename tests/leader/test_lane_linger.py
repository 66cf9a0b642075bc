"""Calm connections of the lane: heartbeats that come soon after each other gather, nothing else waits.

Nobody takes a turn here in between, as the other stories of the lane do: what is answered is answered by the
loop's own wake-ups. The replica's clock stands still, the loop's does not.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Any

from actors.leader.lane.compiled import CALM_EVENTS_MAX, CLASSIC
from actors.leader.lane.epolls import Epolls
from tests.leader.lane_pair import LINGER_MS, ClassicMember, Pair, Story
from tests.polling import passed, reached

SPACING_MS = 3_000
ITERATIONS = 5
"""How many iterations of the loop bring bytes to a reader that waits for nothing."""


async def joined(pair: Pair, count: int) -> list[ClassicMember]:
    """Return so many members of as many groups."""
    members = [ClassicMember(pair, f"group-{number}") for number in range(count)]
    for member in members:
        await member.join()
    return members


async def settled(pair: Pair, count: int) -> list[ClassicMember]:
    """Return so many members, who have sent heartbeats for a while."""
    members = await joined(pair, count)
    for _ in range(6):
        await pair.advance(SPACING_MS)
        for member in members:
            assert await member.beat() == 0
    return members


async def calmed(pair: Pair, count: int) -> list[ClassicMember]:
    """Return so many members whose connections are calm."""
    members = await settled(pair, count)
    assert [is_calm(pair, member) for member in members] == [True] * count
    await passed(3 * LINGER_MS / 1_000)
    await pair.advance(SPACING_MS)
    return members


def is_calm(pair: Pair, member: ClassicMember) -> bool:
    lent = pair.lane._lent[member.client.connections[0]]
    return pair.lane._tables.is_calm(lent.seat)


def is_lingering(pair: Pair) -> bool:
    return pair.lane._epolls is not None and pair.lane._epolls.is_lingering


def count_calls(pair: Pair) -> list[int]:
    """Return a list that grows by what each call of the compiled function has answered."""
    calls: list[int] = []
    repeat, lane = pair.lane._repeat, pair.lane
    assert repeat is not None

    def counted(*arguments: Any) -> None:
        repeat.look(*arguments)
        calls.append(int(arguments[0][CLASSIC]))

    lane._repeat = repeat._replace(look=counted)
    return calls


async def sent(member: ClassicMember, frame: bytes = b"") -> None:
    """Send a heartbeat, or `frame`, and give it the time to be read if nobody waits."""
    member.client.send(frame or member.beat_frame())
    for _ in range(ITERATIONS):
        await asyncio.sleep(0)


def test_heartbeats_of_calm_members_gather(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await calmed(pair, 6)
        calls = count_calls(pair)
        for member in members[:2]:
            await sent(member)
        for member in members[2:]:
            member.client.send(member.beat_frame())
        await reached(lambda: sum(calls) == len(members))
        assert [answered for answered in calls if answered] == [1, 1, 4]
        await pair.settle()
        assert all(member.client.take() for member in members)

    tell(story)


def test_the_first_after_a_silence_does_not_wait(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await calmed(pair, 3)
        calls = count_calls(pair)
        for member in members:
            await sent(member)
        assert is_lingering(pair)
        await reached(lambda: not is_lingering(pair))
        for server in pair.servers:
            server.now_ms += SPACING_MS
        before = len(calls)
        await sent(members[0])
        assert calls[before:] == [1]
        await pair.settle()
        assert all(member.client.take() for member in members)

    tell(story)


def test_who_asks_for_something_else_is_answered_at_once_next_time(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        talker, *others = await calmed(pair, 3)
        frame = talker.frame("offset_fetch", 5, group_id=talker.group_id, topics=None)
        talker.client.send(frame)
        await pair.settle()
        assert talker.client.take()
        assert [is_calm(pair, each) for each in (talker, *others)] == [False, True, True]
        for member in others:
            await sent(member)
        assert is_lingering(pair), "calm sockets have to wait now"
        before = pair.lane.answered
        await sent(talker)
        assert pair.lane.answered > before
        await pair.settle()
        assert all(member.client.take() for member in (talker, *others))

    tell(story)


def test_who_sends_as_soon_as_it_is_answered_is_not_calm(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        (member,) = await calmed(pair, 1)
        for _ in range(3):
            assert await member.beat() == 0
        assert not is_calm(pair, member)

    tell(story)


def test_the_end_of_a_calm_connection_is_noticed(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await calmed(pair, 3)
        for member in members[1:]:
            await sent(member)
        assert is_lingering(pair)
        members[0].client.close()
        await reached(lambda: len(pair.lane) == 2)

    tell(story)


def test_without_a_linger_nobody_is_calm(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        pair.lane._linger_ms = 0
        members = await settled(pair, 3)
        assert [is_calm(pair, member) for member in members] == [False] * 3

    tell(story)


def test_more_than_one_look_takes_does_not_wait_for_the_next_linger() -> None:
    """A closed loop over thousands of connections has as many calm ones: if each look waited for a linger, no
    more than one look takes would be answered in it."""
    full = [CALM_EVENTS_MAX] * 5

    async def story() -> None:
        ours, theirs = socket.socketpair()
        lingered: list[bool] = []

        def serve() -> int:
            lingered.append(epolls.is_lingering)
            if len(lingered) <= len(full):
                return full[len(lingered) - 1]
            return len(ours.recv(1))

        epolls = Epolls(LINGER_MS, lambda: 1, serve, serve)
        epolls._calm.register(ours.fileno(), select.EPOLLIN)
        theirs.send(b"?")
        await reached(lambda: epolls.is_lingering)
        assert lingered == [False] * (len(full) + 1)
        epolls.close()
        ours.close()
        theirs.close()

    asyncio.run(story())


def commit_frame(member: ClassicMember, offset: int) -> bytes:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    partition["committed_leader_epoch"] = -1
    topics = [{"name": "orders", "partitions": [partition]}]
    named = {**member.named, "generation_id_or_member_epoch": member.generation}
    del named["generation_id"]
    return member.frame("offset_commit", 6, **named, topics=topics)


async def committed(pair: Pair, member: ClassicMember, offset: int) -> None:
    member.client.send(commit_frame(member, offset))
    await pair.settle()
    assert member.client.take()


def test_rare_commits_of_a_calm_member_leave_it_calm(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        (member,) = await calmed(pair, 1)
        for offset in range(3):
            await pair.advance(SPACING_MS)
            await committed(pair, member, offset)
        assert is_calm(pair, member)
        await committed(pair, member, 3)
        assert not is_calm(pair, member), "it waits for each of them"

    tell(story)


def test_commits_of_members_without_heartbeats_gather_too(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = await joined(pair, 4)
        for offset in range(6):
            await pair.advance(SPACING_MS)
            for member in members:
                await committed(pair, member, offset)
        assert [is_calm(pair, member) for member in members] == [True] * 4
        await pair.advance(SPACING_MS)
        for member in members[:2]:
            await sent(member, commit_frame(member, 6))
        assert is_lingering(pair)
        await committed(pair, members[2], 6)
        await pair.settle()
        assert all(member.client.take() for member in members[:2])

    tell(story)
