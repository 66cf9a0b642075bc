"""`groupd bench million`: each of its members beats when it is due."""

from __future__ import annotations

import asyncio
import datetime
import io
import struct
import uuid

from kio.schema.consumer_group_heartbeat.v1 import request as requests
from kio.schema.consumer_group_heartbeat.v1 import response as responses
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from actors.coordinator.ground.partitions import count
from bench.peers.lines import Line
from bench.tier.million import Crowd

TOPIC_ID = uuid.UUID(int=7)
UNKNOWN_MEMBER_ID = 25


def read(frame: bytes) -> requests.ConsumerGroupHeartbeatRequest:
    _, size = entity_reader(requests.RequestHeader)(frame, 4)
    body, rest = entity_reader(requests.ConsumerGroupHeartbeatRequest)(frame, 4 + size)
    assert 4 + size + rest == len(frame)
    return body


def test_every_member_is_served_at_its_interval() -> None:
    """Two groups of two on one connection: all join, acknowledge, and beat; who is told that it is unknown is
    lost, and beats no more."""
    asyncio.run(_are_served())


async def _begin(reader: asyncio.StreamReader) -> bytes:
    """Read how a frame begins; b"" once the members have hung up."""
    try:
        return await reader.readexactly(4)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return b""


async def _are_served() -> None:
    heard: list[tuple[str, int, bool]] = []
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await _begin(reader):
            asked = read(size + await reader.readexactly(struct.unpack(">i", size)[0]))
            heard.append((asked.member_id, asked.member_epoch, asked.topic_partitions is None))
            lost = asked.member_epoch == 1 and asked.topic_partitions is None and asked.group_id == "b"
            writer.write(answer(asked, ErrorCode.unknown_member_id if lost else ErrorCode.none))
        writer.close()
        await writer.wait_closed()
        closed.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    line = await Line.open(server.sockets[0].getsockname())
    crowd = Crowd(line, ["a", "b"], 2)
    running = asyncio.create_task(crowd.run())
    async with asyncio.timeout(20):
        while sum(member.startswith("a") and steady for member, _, steady in heard) < 6:
            await asyncio.wait([running], timeout=0.02)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        line.close()
        await closed.wait()
    server.close()
    assert crowd.joined.is_set()
    assert dict(crowd.lost) == {UNKNOWN_MEMBER_ID: 2}
    assert sum(count(member.owned) for member in crowd.members) == 2, "who is lost has none"
    assert [epoch for member, epoch, _ in heard if member == "b-000000000001"] == [0, 1, 1]
    assert min(crowd.lates_s) >= 0


def answer(asked: requests.ConsumerGroupHeartbeatRequest, error: ErrorCode) -> bytes:
    """Answer a heartbeat: it assigns one partition and always names an interval of 200 ms."""
    assigned = responses.Assignment(
        topic_partitions=(responses.TopicPartitions(topic_id=TOPIC_ID, partitions=(0,)),)
    )
    body = responses.ConsumerGroupHeartbeatResponse(
        throttle_time=datetime.timedelta(),
        error_code=error,
        error_message=None,
        member_id=asked.member_id,
        member_epoch=1,
        heartbeat_interval=datetime.timedelta(milliseconds=200),
        assignment=assigned if asked.member_epoch == 0 else None,
    )
    packed = io.BytesIO()
    entity_writer(responses.ConsumerGroupHeartbeatResponse)(packed, body)
    head = struct.pack(">i", 1) + b"\0"
    return struct.pack(">i", len(head) + len(packed.getvalue())) + head + packed.getvalue()
