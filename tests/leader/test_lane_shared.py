"""The lane where many members share a connection. A leader with the lane and one without have to say the
same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.ground.limits import REMEMBERED_HEARTBEATS_MAX
from tests.leader.lane_pair import (
    ALLOWED,
    JAVA,
    ClassicMember,
    Client,
    ConsumerMember,
    Member,
    Pair,
    Story,
    counts,
)

GROUP_AUTHORIZATION_FAILED = 30


async def gathered(pair: Pair, number: int, software: str = JAVA) -> tuple[Client, list[Member]]:
    """Return members that share a connection, half of them of each protocol, and that the lane answers."""
    client = pair.connect(software)
    members: list[Member] = [
        ClassicMember(pair, f"group-{each}", client)
        if each % 2
        else ConsumerMember(pair, f"group-{each}", f"m{each}", client)
        for each in range(number)
    ]
    first = [member for member in members if isinstance(member, ClassicMember)]
    for joining in (first, [member for member in members if member not in first]):
        for member in joining:
            await member.join()
        for _ in range(4):
            await round_of(pair, joining)
    return client, members


async def round_of(pair: Pair, members: list[Member]) -> int:
    """Let each member send a heartbeat, and return how many of them the lane has answered."""
    before = pair.lane.answered
    for member in members:
        assert await member.beat() == 0
    await pair.advance(1_000)
    return pair.lane.answered - before


@pytest.mark.parametrize("software", [JAVA, ""])
def test_every_member_of_a_connection_is_remembered(software: str, tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        _, members = await gathered(pair, 20, software)
        assert await round_of(pair, members) == len(members)
        assert counts(pair)[0] == counts(pair)[1]

    tell(story)


def test_a_connection_remembers_so_many_members_and_no_more(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        _, members = await gathered(pair, REMEMBERED_HEARTBEATS_MAX + 4)
        answered = await round_of(pair, members)
        assert 0.9 * REMEMBERED_HEARTBEATS_MAX < answered <= REMEMBERED_HEARTBEATS_MAX
        assert pair.lane._tables.places <= REMEMBERED_HEARTBEATS_MAX

    tell(story)


def test_what_one_member_asks_leaves_the_others_remembered(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        client, members = await gathered(pair, 6)
        before = pair.lane.answered
        beats = [member.beat_frame() for member in members]
        client.send(b"".join((*beats[:3], beats[5][:30])))
        await pair.settle()
        assert client.take().count(b"\x00\x00\x00") >= 3
        assert pair.lane.answered == before + 3, "several at once, and the beginning of another"
        client.send(beats[5][30:])
        await pair.settle()
        assert client.take()
        leaver = members[1]
        assert isinstance(leaver, ClassicMember)
        left = await leaver.ask("leave_group", 1, group_id=leaver.group_id, member_id=leaver.member_id)
        assert left["error_code"] == 0
        others = [member for member in members if member is not leaver]
        assert await round_of(pair, others) == len(others)
        assert await leaver.beat() == 25  # UNKNOWN_MEMBER_ID

    tell(story)


@pytest.mark.parametrize("software", [JAVA, ""])
def test_what_python_answers_behind_another_request_stays_remembered(
    software: str, tell: Callable[[Story], None]
) -> None:
    async def story(pair: Pair) -> None:
        client, members = await gathered(pair, 6, software)
        [lent] = pair.lane._lent.values()
        before, answered = list(lent.repetitions.values()), pair.lane.answered
        asking = members[0].frame("describe_groups", 5, groups=[], include_authorized_operations=False)
        client.send(asking + b"".join(member.beat_frame() for member in members))
        await pair.settle()
        assert client.take()
        assert pair.lane.answered == answered, "behind a request that the lane does not know"
        assert list(lent.repetitions.values()) == before
        assert await round_of(pair, members) == len(members)
        assert counts(pair)[0] == counts(pair)[1]

    tell(story)


def test_nothing_overtakes_an_answer_that_is_owed(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        client, members = await gathered(pair, 4)
        newcomer = ClassicMember(pair, "group-1", client)
        client.send(newcomer.join_frame(rebalance_timeout_ms=10_000))
        await pair.settle()
        for member in members:
            client.send(member.beat_frame())
            await pair.settle()
        assert client.take() == b"", "the join waits for the other member, and all wait for the join"
        await pair.advance(46_000)
        assert len(client.take()) > 100

    tell(story)


def test_rights_that_go_are_gone_for_every_member(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        _, members = await gathered(pair, 6)
        pair.push(())
        for member in members:
            assert await member.beat() == GROUP_AUTHORIZATION_FAILED
        pair.push(ALLOWED)
        for _ in range(3):
            await round_of(pair, members)
        assert await round_of(pair, members) == len(members)

    tell(story)


def test_a_client_of_many_that_does_not_read_gets_every_answer_later(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        client, members = await gathered(pair, 4)
        frames = [member.beat_frame() for member in members]
        before, rounds = pair.lane.answered, 200
        for _ in range(rounds):
            client.send(b"".join(frames))
            await pair.settle()
        assert pair.lane.answered > before
        taken = [b"", b""]
        for _ in range(100):
            await pair.settle()
            taken = [sum_ + more for sum_, more in zip(taken, client.take_any(), strict=True)]
        assert taken[0] == taken[1]
        assert [taken[0].count(frame[8:12]) >= rounds for frame in frames] == [True] * len(frames)

    tell(story)
