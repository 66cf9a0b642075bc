"""Held heartbeats as a client's connection sees them: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.network.wire import request_frame, to_plain
from actors.protocol.api_keys import HEARTBEAT
from tests.fuzz.bystanders import group_of
from tests.fuzz.client import Client
from tests.fuzz.leaping import LeapingLoop
from tests.fuzz.stack import Stack
from tests.leader.holding import JAVA

SPACING_S = 3.0
HOLD_S = 2.4
Story = Callable[[Stack], Coroutine[Any, Any, None]]


@pytest.fixture
def tell(tmp_path: Path) -> Iterator[Callable[[Story], None]]:
    """Run a story in a loop whose clock jumps to the next deadline."""
    loop = LeapingLoop()

    async def told(story: Story) -> None:
        stack = Stack(loop, str(tmp_path))
        await stack.start()
        await story(stack)

    yield lambda story: loop.run_until_complete(told(story))
    loop.close()


class Member:
    """The only member of a classic group; it sent one heartbeat SPACING_S ago."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.client = Client(stack, 0, JAVA)
        self._ids = itertools.count(1)
        self._group = {"group_id": group_of(0, "held")}

    @classmethod
    async def settled(cls, stack: Stack) -> Member:
        member = cls(stack)
        join = {
            **member._group,
            "session_timeout": 45_000,
            "rebalance_timeout": 45_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        member.send("join_group", 3, **join)
        await stack.leap(4, 40)
        ((_, joined),) = member.client.take()
        member._group |= {"generation_id": 1, "member_id": joined.member_id}
        mine = [{"member_id": joined.member_id, "assignment": b""}]
        member.send("sync_group", 2, **member._group, assignments=mine)
        await stack.settle()
        member.beat()
        await stack.leap(SPACING_S, 30)
        assert len(member.client.take()) == 2
        return member

    def frame(self, api: str, version: int, **fields: Any) -> bytes:
        return request_frame(api, version, next(self._ids), "java", fields)

    def beat_frame(self) -> bytes:
        return self.frame("heartbeat", 2, **self._group)

    def send(self, api: str, version: int, **fields: Any) -> None:
        self.client.send(self.frame(api, version, **fields))

    def beat(self) -> None:
        self.client.send(self.beat_frame())

    @property
    def taken(self) -> list[tuple[int, Any]]:
        """API key and answer of each frame that has come. It is checked that each answers the oldest
        request."""
        return [(asked.api_key, to_plain(answer)) for asked, answer in self.client.take()]


def test_a_held_heartbeat_is_answered_once_and_counted_once(tell: Callable[[Story], None]) -> None:
    async def story(stack: Stack) -> None:
        member = await Member.settled(stack)
        counts = stack.partitions[0]._server.counts.of(HEARTBEAT)
        before = counts.fine
        member.beat()
        await stack.leap(HOLD_S - 0.1, 20)
        assert (member.taken, counts.fine) == ([], before)
        await stack.leap(0.2, 10)
        ((api_key, answer),) = member.taken
        assert (api_key, answer["error_code"], counts.fine) == (HEARTBEAT, 0, before + 1)

    tell(story)


def test_a_further_request_is_answered_right_behind_the_held_heartbeat(
    tell: Callable[[Story], None],
) -> None:
    async def story(stack: Stack) -> None:
        member = await Member.settled(stack)
        member.beat()
        member.send("offset_fetch", 5, group_id="another", topics=[])
        await stack.settle()
        assert [api_key for api_key, _ in member.taken][:1] == [HEARTBEAT]

    tell(story)


def test_the_first_bytes_of_a_further_request_are_enough(tell: Callable[[Story], None]) -> None:
    async def story(stack: Stack) -> None:
        member = await Member.settled(stack)
        member.beat()
        frame = member.beat_frame()
        member.client.send(frame[:6])
        await stack.settle()
        assert len(member.taken) == 1
        member.client.send(frame[6:])
        await asyncio.sleep(HOLD_S)
        await stack.settle()
        assert len(member.taken) == 1

    tell(story)


def test_a_heartbeat_with_more_behind_it_is_not_held(tell: Callable[[Story], None]) -> None:
    async def story(stack: Stack) -> None:
        member = await Member.settled(stack)
        member.client.send(member.beat_frame() + member.frame("api_versions", 0))
        await stack.settle()
        assert len(member.taken) == 2
        assert len(stack.partitions[0]._clients.held) == 0

    tell(story)


def test_nothing_is_kept_of_a_heartbeat_whose_connection_closed(tell: Callable[[Story], None]) -> None:
    async def story(stack: Stack) -> None:
        member = await Member.settled(stack)
        member.beat()
        member.client.hang_up()
        leader = stack.partitions[0]
        assert (len(leader._clients.held), leader._server._owed) == (0, {})

    tell(story)
