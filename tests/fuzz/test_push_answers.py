"""A consumer at the real actors (D6): what it answers that it was not asked closes its connection, with one
line in the log, and costs nobody else anything."""

from __future__ import annotations

import asyncio
import itertools
import logging
import tempfile
from collections.abc import Awaitable, Callable

import pytest

from actors.protocol import api_keys
from actors.protocol.java_hash import partition_for
from actors.protocol.push_codec import FIRST_ID, is_of_coordinator, read_push, written_answer
from cluster.wire import parse_answer, request_frame
from tests.fuzz.leaping import LeapingLoop
from tests.fuzz.stack import PARTITIONS, Socket, Stack

GROUP = next(f"g{n}" for n in itertools.count() if partition_for(f"g{n}", PARTITIONS) == 0)
FIELDS = {
    "group_id": GROUP,
    "topic_counts": ({"topic": "t", "wildcard": False, "streams": 1},),
    "auto_commit": True,
    "auto_offset_reset": "smallest",
    "session_timeout": 10_000,
}


class Consumer:
    """A consumer's connection to the leader of its group."""

    def __init__(self, stack: Stack, consumer_id: str) -> None:
        self.stack = stack
        self.consumer_id = consumer_id
        self.connection, self.socket = stack.connect(0)
        self.frames: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    async def take(self) -> list[bytes]:
        """Take the frames that have come, without their length."""
        await self.stack.settle()
        return frames_of(self.socket)

    async def register(self) -> list[bytes]:
        """Register; what comes behind the answer is returned."""
        fields = {**FIELDS, "consumer_id": self.consumer_id}
        self.send(request_frame("register_consumer", 0, 7, "c", fields))
        answer, *pushed = await self.take()
        correlation_id, told = parse_answer("register_consumer", 0, answer)
        assert (correlation_id, told["error_code"]) == (7, 0), told
        return pushed

    def answer(self, frame: bytes) -> bytes:
        correlation_id, api_key, request = read_push(frame)
        return written_answer(correlation_id, api_key, request.consumer_id)


def frames_of(socket: Socket) -> list[bytes]:
    written, frames = bytes(socket.written), []
    socket.written.clear()
    while written:
        size = int.from_bytes(written[:4], "big")
        frames.append(written[4 : 4 + size])
        written = written[4 + size :]
    return frames


def play(story: Callable[[Stack], Awaitable[None]]) -> None:
    loop = LeapingLoop()

    async def told(data_dir: str) -> None:
        stack = Stack(loop, data_dir)
        await stack.start()
        await story(stack)
        stack.stop_working()
        await stack.stop()

    with tempfile.TemporaryDirectory(prefix="groupd-fuzz-") as data_dir:
        try:
            loop.run_until_complete(told(data_dir))
        finally:
            loop.close()


def test_a_consumer_registers_is_started_and_pinged_between_its_own_requests() -> None:
    async def story(stack: Stack) -> None:
        consumer = Consumer(stack, "a")
        [start] = await consumer.register()
        assert read_push(start)[:2] == (FIRST_ID, api_keys.START_FETCHER)
        beat = {"group_id": GROUP, "generation_id": 1, "member_id": "m"}
        consumer.send(consumer.answer(start) + request_frame("heartbeat", 4, 8, "c", beat))
        [answer] = await consumer.take()
        assert not is_of_coordinator(answer)
        await asyncio.sleep(3.4)
        [ping] = await consumer.take()
        assert read_push(ping)[1] == api_keys.PING

    play(story)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda right: written_answer(-77, api_keys.PING, "a"), "it sent none"),
        (lambda right: right + right, "it sent none"),
        (lambda right: right[:3] + bytes((right[3] - 1,)) + right[4:-1], "cut short"),
        (lambda right: written_answer(FIRST_ID, api_keys.START_FETCHER, "b"), "consumer b"),
    ],
    ids=["never asked", "given twice", "cut short", "of another consumer"],
)
def test_a_wrong_answer_closes_its_connection_with_one_line(
    made: Callable[[bytes], bytes], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stack: Stack) -> None:
        consumer, other = Consumer(stack, "a"), Consumer(stack, "b")
        [start] = await consumer.register()
        await other.register()
        with caplog.at_level(logging.WARNING, "actors.network.connection"):
            consumer.send(made(consumer.answer(start)))
            await stack.settle()
        assert consumer.socket.closed
        assert not other.socket.closed
        assert [says in record.getMessage() for record in caplog.records] == [True]

    play(story)


def test_an_answer_where_nobody_has_registered_closes_the_connection() -> None:
    async def story(stack: Stack) -> None:
        consumer = Consumer(stack, "a")
        consumer.send(written_answer(-1, api_keys.PING, "a"))
        await stack.settle()
        assert consumer.socket.closed

    play(story)
