"""The lane and members that bring assignors (A4, A7): a heartbeat that says what was said before is repeated,
and so is one that says nothing; what asks for something goes to Python. A leader with the lane and one
without have to say the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from bench.client_assignors.wire import class_with_tags
from tests.leader.lane_pair import JAVA, TOPIC, Caller, ConsumerMember, Pair, Story

SPACING_MS = 5_000
CAPACITY = {
    "name": "capacity-weighted",
    "minimum_version": 0,
    "maximum_version": 0,
    "reason": 0,
    "metadata_version": 0,
    "metadata_bytes": b"\0\0\0\1",
}
ALL = {"topic_id": UUID(bytes=TOPIC.topic_id), "partitions": [0, 1, 2, 3]}


class Saying(ConsumerMember):
    """A member that brings an assignor, and says so with each heartbeat or with its first."""

    find = staticmethod(class_with_tags)

    def __init__(self, pair: Pair, member_id: str, *, always: bool, software: str = "") -> None:
        super().__init__(pair, "assigning", member_id, pair.connect(software))
        self.brings: dict[str, Any] = CAPACITY
        self._always = always
        self.told: dict[str, Any] = {}

    def _fields(self, **said: Any) -> dict[str, Any]:
        says = self._always or self.epoch == 0
        return super()._fields(client_assignors=[self.brings] if says else None, **said)

    async def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        self.told = await super().ask(api, version, **fields)
        return self.told

    async def compute(self) -> None:
        """Give the member itself everything, as it was asked to."""
        assert self.told["should_compute_assignment"]
        who = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch}
        asker = Caller(self.pair)
        prepared = await asker.ask("consumer_group_prepare_assignment", 0, **who)
        given = {"member_id": self.member_id, "error": 0, "topic_partitions": [ALL]}
        given |= {"metadata_version": -1, "metadata_bytes": b""}
        result = {
            "group_epoch": prepared["group_epoch"],
            "error": 0,
            "error_message": None,
            "members": [given],
        }
        answer = await asker.ask("consumer_group_install_assignment", 0, **who, **result)
        assert answer["error_code"] == 0
        assert await self.beat() == 0

    async def again(self) -> int:
        """Let a heartbeat come in its time. Returns how many of it the lane answered."""
        before = self.pair.lane.answered
        self.client.send(self.beat_frame())
        await self.pair.settle()
        await self.pair.advance(SPACING_MS)
        assert self.client.take()
        return self.pair.lane.answered - before


async def settled(pair: Pair, *, always: bool, software: str = "") -> Saying:
    member = Saying(pair, "m1", always=always, software=software)
    await member.join()
    await member.compute()
    for _ in range(4):
        await member.again()
    return member


@pytest.mark.parametrize("software", ["", JAVA], ids=["answered", "held"])
@pytest.mark.parametrize("always", [False, True], ids=["said once", "said always"])
def test_what_was_said_before_is_repeated(tell: Callable[[Story], None], always: bool, software: str) -> None:
    async def story(pair: Pair) -> None:
        member = await settled(pair, always=always, software=software)
        assert [await member.again() for _ in range(3)] == [1, 1, 1]

    tell(story)


@pytest.mark.parametrize(
    "change", [{"metadata_bytes": b"\0\0\0\2"}, {"reason": 7}], ids=["metadata", "reason"]
)
def test_what_asks_for_an_assignment_is_decided(
    tell: Callable[[Story], None], change: dict[str, Any]
) -> None:
    async def story(pair: Pair) -> None:
        member = await settled(pair, always=True)
        member.brings = CAPACITY | change
        assert await member.again() == 0
        assert await member.beat() == 0, "it is asked to compute, again and again"
        await member.compute()
        for _ in range(3):
            await member.again()
        assert await member.again() == 1

    tell(story)


def test_who_else_brings_assignors_ends_what_is_repeated(tell: Callable[[Story], None]) -> None:
    async def story(pair: Pair) -> None:
        member = await settled(pair, always=True)
        other = Saying(pair, "m2", always=True)
        await other.join()
        assert await member.again() == 0
        assert await other.beat() == 0
        assert other.told["should_compute_assignment"]

    tell(story)
