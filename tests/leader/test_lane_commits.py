"""Commits that compiled code takes: every story is told to a leader with the lane and to one without, which
have to say and to keep the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.coordinator.offsets import together
from actors.leader.lane import compiled
from tests.leader.lane_pair import ALLOWED, ClassicMember, Pair, Server, Story, check_noticed, committed

NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER = 25
TOPIC_FAILED = 29
PARTITIONS = 3


def commit_frame(member: ClassicMember, offset: int, text: str = "") -> bytes:
    partitions = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": 4,
            "committed_metadata": text,
        }
        for partition in range(PARTITIONS)
    ]
    named = {**member.named, "generation_id_or_member_epoch": member.generation, "group_instance_id": None}
    del named["generation_id"]
    return member.frame("offset_commit", 8, **named, topics=[{"name": "orders", "partitions": partitions}])


async def commit(pair: Pair, member: ClassicMember, offset: int, text: str = "") -> int:
    """Commit, and return the error code of the first partition."""
    member.client.send(commit_frame(member, offset, text))
    await pair.settle()
    check_alike(pair)
    return code_of(member.client.take())


def code_of(answer: bytes) -> int:
    assert len(answer) == 4 + int.from_bytes(answer[:4], "big"), answer
    at = answer.index(b"orders") + len(b"orders") + 1 + 4
    return int.from_bytes(answer[at : at + 2], "big")


def check_alike(pair: Pair) -> None:
    first, second = map(kept, pair.servers)
    assert first == second, "with the lane, without it"


def kept(server: Server) -> Any:
    """Return what a server has of offsets and commits, and when sessions end."""
    timers = server.replica.shard.state.timers  # type: ignore[attr-defined]
    return committed(server), {key: timers.deadline_ms(key) for key in timers._numbers}


async def steady(pair: Pair, member: ClassicMember, offset: int = 0) -> None:
    """Let the member join and commit until the lane takes its commits."""
    await member.join()
    for number in range(3):
        assert await commit(pair, member, offset + number) == 0
    before = pair.lane.taken
    assert await commit(pair, member, offset + 3) == 0
    assert pair.lane.taken == before + 1, "the lane takes it"


def hold_log(pair: Pair, held: bool) -> None:
    for server in pair.servers:
        server.is_stalled = held


async def waiting(pair: Pair) -> ClassicMember:
    """Return a member whose commit of offset 9 the lane has taken and the log has not."""
    member = ClassicMember(pair, "g")
    await steady(pair, member)
    hold_log(pair, True)
    member.client.send(commit_frame(member, 9))
    await pair.settle()
    return member


def test_many_are_taken_at_once_and_all_are_answered(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        members = [ClassicMember(pair, f"g{number}") for number in range(20)]
        for member in members:
            await steady(pair, member)
        before = pair.lane.taken
        for offset in (10, 11):
            for member in members:
                member.client.send(commit_frame(member, offset))
            await pair.settle()
            check_alike(pair)
            assert {code_of(member.client.take()) for member in members} == {0}
        assert pair.lane.taken == before + 2 * len(members)

    tell(story)


def test_an_answer_waits_for_the_log(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = await waiting(pair)
        assert member.client.take() == b""
        hold_log(pair, False)
        await pair.settle()
        assert code_of(member.client.take()) == 0

    tell(story)


def test_what_is_sent_behind_a_commit_waits_for_it(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = await waiting(pair)
        member.client.send(commit_frame(member, 10))
        await pair.settle()
        member.client.send(member.beat_frame())
        await pair.settle()
        assert member.client.take() == b""
        hold_log(pair, False)
        await pair.settle()
        assert member.client.take().count(b"orders") == 2
        check_alike(pair)
        assert await commit(pair, member, 11) == 0

    tell(story)


def test_who_hangs_up_meanwhile_has_committed(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        other = ClassicMember(pair, "h")
        await steady(pair, other)
        member = await waiting(pair)
        member.client.close()
        await pair.settle()
        hold_log(pair, False)
        await pair.settle()
        check_alike(pair)
        assert await commit(pair, other, 9) == 0

    tell(story)


def test_who_does_not_read_is_answered_when_there_is_room(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = ClassicMember(pair, "g")
        await steady(pair, member)
        lane, whole = pair.lane, pair.lane._commits._answering

        def short(ticket: int, taken: Any, answers: Any, seats: Any, sent: Any) -> int:
            """Act as a socket that takes nothing."""
            seats[compiled.OWES, taken[0, compiled.T_SEAT]] = 0
            sent[0] = 0
            return 1

        lane._commits._answering = short
        assert await commit(pair, member, 9) == 0
        lane._commits._answering = whole
        assert await commit(pair, member, 10) == 0

    tell(story)


def test_a_leader_that_falls_refuses_and_takes_it_back(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = await waiting(pair)
        for server in pair.servers:
            server.fall()
        await pair.settle()
        check_alike(pair)
        assert code_of(member.client.take()) == NOT_COORDINATOR
        hold_log(pair, False)
        for server in pair.servers:
            server.lead()
        assert await commit(pair, member, 5) == 0

    tell(story)


async def rebalanced(pair: Pair) -> None:
    """A member commits in a generation that is over."""
    member = ClassicMember(pair, "g")
    await steady(pair, member)
    before = member.generation
    another = ClassicMember(pair, "g", pair.connect())
    member.client.send(member.frame("leave_group", 1, group_id="g", member_id=member.member_id))
    await pair.settle()
    member.client.take()
    await another.join()
    assert another.generation != before
    assert await commit(pair, member, 9) in (ILLEGAL_GENERATION, UNKNOWN_MEMBER)


async def taken_back(pair: Pair) -> None:
    """Somebody else commits higher offsets of the same partitions in between."""
    member = ClassicMember(pair, "g")
    await steady(pair, member)
    other = ClassicMember(pair, "g", pair.connect())
    other.member_id, other.generation = member.member_id, member.generation
    assert await commit(pair, other, 90) == 0
    assert await commit(pair, member, 9) == 0


async def barred(pair: Pair) -> None:
    """The member's rights end."""
    member = ClassicMember(pair, "g")
    await steady(pair, member)
    pair.push(ALLOWED[:1])
    assert await commit(pair, member, 9) == TOPIC_FAILED
    pair.push(ALLOWED)
    for offset in (10, 11, 12, 13):
        assert await commit(pair, member, offset) == 0


async def gone_back(pair: Pair) -> None:
    """The member takes its own offsets back."""
    member = ClassicMember(pair, "g")
    await steady(pair, member)
    before = pair.lane.taken
    assert await commit(pair, member, 1) == 0
    assert pair.lane.taken == before, "Python tells of it"


@pytest.mark.parametrize("story", [rebalanced, taken_back, barred, gone_back])
def test_what_is_not_as_it_was_is_decided_by_python(tell: Callable[[Story], None], story: Story) -> None:
    tell(story)


def test_a_lane_that_asks_no_group_is_noticed(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_noticed(
        tell, lambda pair: monkeypatch.setattr(together, "check_commit", lambda *_: None), rebalanced
    )


def test_a_lane_that_overlooks_who_else_committed_is_noticed(tell: Callable[[Story], None]) -> None:
    def spoil(pair: Pair) -> None:
        shard: Any = pair.servers[0].replica.shard
        take = shard.commit_together

        def overlooking(commits: Any, packed: bytes, now_ms: int) -> Any:
            for steady in commits:
                steady.column.blocks = shard.state.offsets[steady.column.key[1]].blocks
            return take(commits, packed, now_ms)

        shard.commit_together = overlooking
        pair.lane._commits._read = lambda layout, frame: None  # type: ignore[method-assign]

    check_noticed(tell, spoil, taken_back)


def test_a_lane_that_keeps_commits_through_an_image_is_noticed(tell: Callable[[Story], None]) -> None:
    def spoil(pair: Pair) -> None:
        shard: Any = pair.servers[0].replica.shard
        take = shard.commit_together

        def of_any_image(commits: Any, packed: bytes, now_ms: int) -> Any:
            for steady in commits:
                steady.decided = steady.decided._replace(image=shard.state.image)
            return take(commits, packed, now_ms)

        shard.commit_together = of_any_image
        pair.lane.forget_commits = lambda: None  # type: ignore[method-assign]

    check_noticed(tell, spoil, barred)


def test_whatever_bit_is_another_python_answers(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = ClassicMember(pair, "g")
        await steady(pair, member)
        fixed = set(range(8)) | set(range(12, len(commit_frame(member, 9)) - 18 * PARTITIONS))
        for at in sorted(fixed)[4:]:
            frame = bytearray(commit_frame(member, 9))
            frame[at] ^= 1 << at % 8
            before = pair.lane.taken
            member.client.send(bytes(frame))
            await pair.settle()
            member.client.take()
            check_alike(pair)
            assert pair.lane.taken == before
            if member.client.is_closed:
                member.client = pair.connect()
                for offset in (9, 9, 9):
                    await commit(pair, member, offset)

    tell(story)
