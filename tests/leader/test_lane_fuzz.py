"""Whatever members do, and whatever happens to them: a leader with the lane answers as one without."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
import uvloop

from tests.leader.lane_pair import (
    ALLOWED,
    JAVA,
    ClassicMember,
    Client,
    ConsumerMember,
    Member,
    Pair,
    committed,
)

SEEDS = 3
STEPS = 200


class Mess:
    """What members do, and what happens to them, drawn from a seed. Time goes by whole seconds, so that a
    hold is over with the lane when it is over without it (`lane_pair.CONSUMER_INTERVAL_MS`)."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.chance = random.Random(seed)
        shared = [pair.connect(JAVA), pair.connect()]
        self.members: list[Member] = [ClassicMember(pair, f"classic-{number}") for number in range(2)]
        self.members += [ConsumerMember(pair, "consumer", f"m{number}") for number in range(3)]
        self.members += [ClassicMember(pair, f"held-{number}", pair.connect(JAVA)) for number in range(2)]
        self.members += [
            ConsumerMember(pair, "held", f"h{number}", pair.connect(JAVA)) for number in range(2)
        ]
        self.members += [ClassicMember(pair, f"shared-{number}", shared[number % 2]) for number in range(4)]
        self.members += [
            ConsumerMember(pair, "shared", f"s{number}", shared[number % 2]) for number in range(6)
        ]
        self.offset = 0
        self.frames: dict[Member, list[bytes]] = {}

    async def begin(self) -> None:
        for member in self.members:
            await member.join()

    async def step(self) -> None:
        member = self.chance.choice(self.members)
        happens = self.chance.choices(
            (
                *(self.beat, self.spoil, self.pieces, self.several, self.commit, self.rejoin, self.leave),
                *(self.hang_up, self.wait, self.silence, self.image, self.acls, self.lease, self.fall),
                *(self.day, self.progress, self.stall),
            ),
            (60, 3, 4, 4, 12, 2, 1, 2, 12, 1, 1, 1, 2, 1, 12, 20, 8),
        )[0]
        await happens(member)
        for each in self.members:
            if not each.client.is_closed:
                each.client.take()
            if each.client.is_closed:
                self.reconnect(each.client)

    def reconnect(self, client: Client) -> None:
        """Have all that shared a connection share another one."""
        client.close()
        another = self.pair.connect(client.software)
        for each in self.members:
            if each.client is client:
                each.client = another

    async def day(self, member: Member) -> None:
        """Let many members send a heartbeat each, again and again, and go on with the others' holds begun."""
        several = self.chance.sample(self.members, self.chance.randint(3, len(self.members)))
        spacing_s = self.chance.choice((2, 3, 5))
        for _ in range(self.chance.randint(3, 6)):
            for each in several:
                each.client.send(each.beat_frame())
                if self.chance.random() < 0.5:
                    await self.pair.settle()
            await self.pair.settle()
            await self.pair.advance(spacing_s * 1_000)
            for each in several:
                each.client.take()
        for each in several:
            await self.send(each, each.beat_frame())

    async def send(self, member: Member, data: bytes) -> None:
        member.client.send(data)
        await self.pair.settle()

    async def beat(self, member: Member) -> None:
        frame = member.beat_frame()
        for _ in range(self.chance.randint(1, 3)):
            await self.send(member, frame)

    async def spoil(self, member: Member) -> None:
        frame = bytearray(member.beat_frame())
        frame[self.chance.randrange(len(frame))] ^= 1 << self.chance.randrange(8)
        await self.send(member, bytes(frame))

    async def pieces(self, member: Member) -> None:
        frame = member.beat_frame()
        cut = self.chance.randrange(len(frame))
        await self.send(member, frame[:cut])
        if self.chance.random() < 0.8:
            await self.send(member, frame[cut:])
        else:
            await self.hang_up(member)

    async def several(self, member: Member) -> None:
        await self.send(member, member.beat_frame() * self.chance.randint(2, 4))

    async def commit(self, member: Member) -> None:
        epoch = member.generation if isinstance(member, ClassicMember) else member.epoch
        text = self.chance.choice((None, "", "", "", "here"))
        numbers = {"committed_offset": self.chance.randrange(9), "committed_leader_epoch": -1}
        committed = {**numbers, "committed_metadata": text}
        frame = member.frame(
            "offset_commit",
            8,
            group_id=member.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member.member_id,
            group_instance_id=None,
            topics=[{"name": "orders", "partitions": [{"partition_index": 0, **committed}]}],
        )
        await self.send(member, frame + member.beat_frame() * self.chance.randint(0, 1))

    def progress_frame(self, member: Member) -> bytes:
        """Return a commit of several partitions, like most that the member sends, with higher offsets but for
        some."""
        epoch = member.generation if isinstance(member, ClassicMember) else member.epoch
        self.offset += self.chance.choice((1, 1, 1, 1, 1, 0, -3))
        texts = ("",) * 40 + ("here",)
        partitions = [
            {
                "partition_index": partition,
                "committed_offset": self.offset,
                "committed_leader_epoch": self.chance.choice((-1, 4)),
                "committed_metadata": self.chance.choice(texts),
            }
            for partition in range(self.chance.choice((3, 3, 3, 3, 3, 3, 3, 1)))
        ]
        return member.frame(
            "offset_commit",
            9,
            group_id=member.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member.member_id,
            group_instance_id=None,
            topics=[{"name": "orders", "partitions": partitions}],
        )

    def several_groups(self) -> list[Member]:
        """Return some members of different groups, on different connections: in which order others come is
        open."""
        found: list[Member] = []
        for each in self.chance.sample(self.members, self.chance.randint(1, 8)):
            if all(each.group_id != other.group_id and each.client is not other.client for other in found):
                found.append(each)
        return found

    async def progress(self, member: Member) -> None:
        """Let several commit at once, again and again."""
        several = self.several_groups()
        for _ in range(self.chance.randint(3, 8)):
            for each in several:
                each.client.send(self.progress_frame(each))
            await self.pair.settle()
            for each in several:
                each.client.take()
        await self.odd_progress(member)

    async def odd_progress(self, member: Member) -> None:
        """Send a commit that is not like the others, or not alone."""
        frame = bytearray(self.progress_frame(member))
        kind = self.chance.randrange(6)
        if kind == 0:
            frame[self.chance.randrange(len(frame))] ^= 1 << self.chance.randrange(8)
        elif kind == 1:
            frame += self.progress_frame(member)
        elif kind == 2:
            frame += member.beat_frame()
        elif kind == 3:
            frame = bytearray(member.beat_frame()) + frame
        elif kind == 4:
            cut = self.chance.randrange(len(frame))
            await self.send(member, bytes(frame[:cut]))
            del frame[:cut]
        await self.send(member, bytes(frame))

    async def stall(self, member: Member) -> None:
        """Let members commit, and more happen, while nothing is committed to the log."""
        for server in self.pair.servers:
            server.is_stalled = True
        several = self.several_groups()
        for each in several:
            each.client.send(self.progress_frame(each))
        await self.pair.settle()
        happens = self.chance.choice((self.beat, self.hang_up, self.image, self.fall, self.odd_progress))
        for each in (*several, member):
            if self.chance.random() < 0.4 and not each.client.is_closed:
                await happens(each)
        for server in self.pair.servers:
            server.is_stalled = False
        await self.pair.settle()

    async def rejoin(self, member: Member) -> None:
        if self.pair.servers[0].replica.serving and self.pair.servers[0].log.leased:
            self.reconnect(member.client)
            self.pair.push(ALLOWED)
            if isinstance(member, ClassicMember):
                member.member_id = ""
                member.group_id += "'"
            await member.join()

    async def leave(self, member: Member) -> None:
        if isinstance(member, ClassicMember):
            frame = member.frame("leave_group", 1, group_id=member.group_id, member_id=member.member_id)
            await self.send(member, frame)
        else:
            epoch, member.epoch = member.epoch, -1
            await self.send(member, member.beat_frame())
            member.epoch = epoch

    async def hang_up(self, member: Member) -> None:
        if self.chance.random() < 0.5:
            member.client.send(member.beat_frame())
        member.client.close()
        await self.pair.settle()

    async def wait(self, member: Member) -> None:
        await self.pair.advance(self.chance.randint(1, 5) * 1_000)

    async def silence(self, member: Member) -> None:
        await self.pair.advance(self.chance.randint(20, 46) * 1_000)

    async def image(self, member: Member) -> None:
        self.pair.push(ALLOWED)
        await self.pair.settle()

    async def acls(self, member: Member) -> None:
        self.pair.push(ALLOWED[: self.chance.randint(0, 2)])
        await self.beat(member)
        self.pair.push(ALLOWED)

    async def lease(self, member: Member) -> None:
        for server in self.pair.servers:
            server.log.leased = False
        await self.beat(member)
        for server in self.pair.servers:
            server.log.leased = True
        await self.pair.settle()

    async def fall(self, member: Member) -> None:
        for server in self.pair.servers:
            server.fall()
        await self.beat(member)
        for server in self.pair.servers:
            server.lead()
        await self.pair.settle()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_both_answer_alike(seed: int, tmp_path: Path) -> None:
    async def story() -> None:
        pair = Pair(tmp_path)
        await pair.start()
        mess = Mess(pair, seed)
        try:
            await mess.begin()
            for _ in range(STEPS):
                await mess.step()
                first, second = (committed(server) for server in pair.servers)
                assert first == second, "with the lane, without it"
            assert pair.lane.answered > 5, "the lane took part"
            assert pair.lane.held > 5
            assert pair.lane.taken > 5
        finally:
            await pair.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())
