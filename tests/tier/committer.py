"""A member made of raw requests that commits rising offsets and remembers every acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from actors.network.wire import Closed, Wire
from bench.peers.members import Member, find_coordinator
from bench.peers.settling import settle_group
from tests.polling import DEADLINE_S, until

RETRY_S = 0.02
REQUEST_TIMEOUT_S = 3.0
NOT_NOW = {14, 15, 16}
"""Error codes after which the client asks again: the coordinator loads, is away or does not lead."""


class Committer:
    """Commits 1, 2, 3 ... for partition 0 of `topic` as `member`, through whatever happens."""

    def __init__(self, bootstraps: list[tuple[str, int]], member: Member, topic: str) -> None:
        self.member = member
        self.acknowledged = 0
        self.refusals: list[int] = []
        """Error codes that are no "ask again": a membership that was lost shows here."""
        self._bootstraps = bootstraps
        self._topic = topic
        self._wire: Wire | None = None

    async def run(self, halt: asyncio.Event) -> None:
        """Commit until `halt` is set or the member is refused."""
        offset = 0
        while not halt.is_set() and not self.refusals:
            if await self._commit(offset + 1):
                offset = self.acknowledged = offset + 1
        await self._hang_up()

    async def read_back(self) -> int:
        """The committed offset as a new coordinator tells it."""
        while True:
            wire = await self._connect()
            answer = await wire.call("offset_fetch", 7, group_id=self.member.group_id, topics=None)
            await wire.close()
            if answer["error_code"] == 0:
                ((partition,),) = (topic["partitions"] for topic in answer["topics"])
                return int(partition["committed_offset"])
            await asyncio.sleep(RETRY_S)

    async def heartbeat(self) -> int:
        """The error code of a heartbeat under the generation the member joined with."""
        while True:
            wire = await self._connect()
            member = self.member
            answer = await wire.call(
                "heartbeat",
                4,
                group_id=member.group_id,
                generation_id=member.generation_id,
                member_id=member.member_id,
            )
            await wire.close()
            if answer["error_code"] not in NOT_NOW:
                return int(answer["error_code"])
            await asyncio.sleep(RETRY_S)

    async def _commit(self, offset: int) -> bool:
        try:
            if self._wire is None:
                self._wire = await self._connect()
            answer = await self._wire.call(
                "offset_commit", 8, timeout_s=REQUEST_TIMEOUT_S, **self._request(offset)
            )
        except (OSError, Closed, TimeoutError):
            await self._hang_up()
            await asyncio.sleep(RETRY_S)
            return False
        error_code = answer["topics"][0]["partitions"][0]["error_code"]
        if error_code == 0:
            return True
        await self._hang_up()
        if error_code not in NOT_NOW:
            self.refusals.append(int(error_code))
        await asyncio.sleep(RETRY_S)
        return False

    async def _hang_up(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def _connect(self) -> Wire:
        for host, port in self._bootstraps:
            try:
                where = await find_coordinator(host, port, self.member.group_id)
                return await Wire.connect(*where)
            except (OSError, Closed):
                continue
        raise ConnectionError("no node can be reached")

    def _request(self, offset: int) -> dict[str, Any]:
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": "",
        }
        return {
            "group_id": self.member.group_id,
            "generation_id_or_member_epoch": self.member.generation_id,
            "member_id": self.member.member_id,
            "topics": [{"name": self._topic, "partitions": [partition]}],
        }


async def check(committers: Iterable[Committer]) -> None:
    """Memberships and commits are what they were promised to be."""
    for committer in committers:
        assert committer.refusals == []
        assert await committer.read_back() >= committer.acknowledged > 0
        assert await committer.heartbeat() == 0, "the member kept its generation"


def under_load(
    bootstraps: list[tuple[str, int]], group_ids: list[str], topic: str, change: Callable[[], None]
) -> None:
    """A member of each group commits without pause while `change` is made and some time after it; then the
    groups are as they were promised to be."""

    async def story() -> None:
        committers = []
        for group_id in group_ids:
            (member,) = await settle_group(bootstraps[0], group_id, 1)
            committers.append(Committer(bootstraps, member, topic))
        halt = asyncio.Event()
        running = [asyncio.create_task(committer.run(halt)) for committer in committers]
        try:
            await asyncio.to_thread(change)
            before = [committer.acknowledged for committer in committers]
            await asyncio.to_thread(
                until,
                lambda: all(
                    c.refusals or c.acknowledged > b for c, b in zip(committers, before, strict=True)
                ),
                "every group commits again",
            )
        finally:
            halt.set()
            await asyncio.wait_for(asyncio.gather(*running), DEADLINE_S)
        await check(committers)

    asyncio.run(story())
