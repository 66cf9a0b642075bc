"""Makes groups of fake members that join and settle once."""

from __future__ import annotations

import asyncio
from typing import Final

from bench.member.assigning import Alike
from bench.member.classic import ClassicTerms
from bench.peers.classic import Group, known, settled
from bench.peers.lines import open_all
from bench.peers.living import Living
from bench.peers.members import Member, find_coordinator

SESSION_TIMEOUT_MS: Final = 300_000
SETTLE_TIMEOUT_S: Final = 60.0


async def settle_group(bootstrap: tuple[str, int], group_id: str, size: int) -> list[Member]:
    """Let `size` members join a new classic group and get their (empty) assignments, though its coordinator
    may move meanwhile."""
    group = Group(ClassicTerms(group_id, Alike(), SESSION_TIMEOUT_MS), size)
    async with asyncio.timeout(SETTLE_TIMEOUT_S):
        return await _settle(bootstrap, group, size)


async def _settle(bootstrap: tuple[str, int], group: Group, size: int) -> list[Member]:
    address = await find_coordinator(*bootstrap, group.group_id)
    lines = await open_all([address] * size)
    members = [Living(line, group, group.new_member()) for line in lines]
    try:
        async with settled([group], members):
            pass
    finally:
        for line in lines:
            line.close()
    return [known(each) for each in members]
