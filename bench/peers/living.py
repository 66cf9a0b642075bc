"""Lets fake members live on connections: a task for each sends its member's requests when they are due."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Generic, Protocol, TypeVar

from bench.member.answers import answer_to
from bench.member.member import Asked, Member
from bench.member.reactions import Reaction
from bench.member.requests import encoded
from bench.peers.lines import RETRY_S, Line, framed
from bench.peers.options import Failed

M = TypeVar("M", bound=Member)
M_contra = TypeVar("M_contra", bound=Member, contravariant=True)
AGAIN: Final = frozenset({Reaction.AGAIN, Reaction.FIND})
GIVES_UP: Final = frozenset({Reaction.GIVE_UP, Reaction.HELD_BY_ANOTHER})


class Group(Protocol[M_contra]):
    """What watches the members of one group."""

    group_id: str

    def heard(self, member: M_contra, reaction: Reaction) -> None:
        """Called when a member has taken an answer; it goes on at once or with its next heartbeat."""

    def left(self, member: M_contra) -> None:
        """Called when a member leaves."""


class Living(Generic[M]):
    """A member with its connection; `run` goes on until it is cancelled."""

    def __init__(self, line: Line, group: Group[M], member: M) -> None:
        self.line = line
        self.group = group
        self.member = member

    async def run(self) -> None:
        """Live. Raises Failed after an error after which no consumer goes on, and Closed and OSError."""
        member = self.member
        while True:
            asked = member.next_request(time.monotonic())
            if asked is None:
                await asyncio.sleep(member.next_deadline - time.monotonic())
            else:
                await self._ask(asked)

    async def leave(self) -> None:
        """Send the member's leave at once; its task has to be cancelled before."""
        answer = self.say_goodbye()
        if answer is not None:
            await answer

    def say_goodbye(self) -> asyncio.Future[bytes] | None:
        """Leave. Returns the coordinator's answer; None if it was no member."""
        self.group.left(self.member)
        asked = self.member.leave()
        return None if asked is None else self.line.ask(framed(encoded(asked)))

    async def _ask(self, asked: Asked) -> None:
        answer = answer_to(asked, await self.line.ask(framed(encoded(asked))))
        reaction = self.member.received(answer)
        if reaction in GIVES_UP:
            raise Failed(f"{self.group.group_id}: error {answer.error_code.value}")
        if reaction in AGAIN:
            await asyncio.sleep(RETRY_S)
            await self.line.follow(self.group.group_id)
        else:
            self.group.heard(self.member, reaction)
