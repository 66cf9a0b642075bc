"""A consumer at the real actors (D6): what it answers that it was not asked closes its connection, with one
line in the log, and costs nobody else anything."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest

from actors.network.wire import parse_answer, request_frame
from actors.protocol import api_keys
from actors.protocol.java_hash import partition_for
from actors.protocol.push_codec import FIRST_ID, is_of_coordinator, read_push, written_answer
from tests.fuzz.stack import PARTITIONS, Stack
from tests.fuzz.stories import frames_of, play
from tests.fuzz.wrong_answers import CLOSING, OF_OFFSETS_CLOSING, PASSING, Wrong

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


def wrongly_answered(wrong: Wrong, api_key: int, caplog: pytest.LogCaptureFixture) -> tuple[bool, list[str]]:
    """Answer a start, or the first ping, with one thing wrong. Returns whether that closed the connection,
    and the lines of the log."""
    found: list[bool] = []

    async def story(stack: Stack) -> None:
        consumer, other = Consumer(stack, "a"), Consumer(stack, "b")
        [push] = await consumer.register()
        await other.register()
        if api_key == api_keys.PING:
            consumer.send(consumer.answer(push))
            await asyncio.sleep(3.4)
            push = next(each for each in await consumer.take() if read_push(each)[1] == api_keys.PING)
        with caplog.at_level(logging.WARNING, "actors.network.connection"):
            consumer.send(wrong(push))
            await stack.settle()
        assert not other.socket.closed
        found.append(consumer.socket.closed)

    play(story)
    return found[0], [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("api_key", [api_keys.START_FETCHER, api_keys.PING])
@pytest.mark.parametrize("name", CLOSING)
def test_a_wrong_answer_closes_its_connection_with_one_line(
    name: str, api_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    is_closed, [line] = wrongly_answered(CLOSING[name], api_key, caplog)
    assert is_closed
    assert any(words in line for words in ("consumer", "it sent none", "frame length"))


@pytest.mark.parametrize("name", OF_OFFSETS_CLOSING)
def test_offsets_that_cannot_be_read_close_the_connection(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_closed, [line] = wrongly_answered(OF_OFFSETS_CLOSING[name], api_keys.PING, caplog)
    assert is_closed
    assert "consumer's answer" in line


@pytest.mark.parametrize("name", PASSING)
def test_what_is_told_of_others_or_of_nothing_is_passed_over(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert wrongly_answered(PASSING[name], api_keys.PING, caplog) == (False, [])


def test_an_answer_where_nobody_has_registered_closes_the_connection() -> None:
    async def story(stack: Stack) -> None:
        consumer = Consumer(stack, "a")
        consumer.send(written_answer(-1, api_keys.PING, "a"))
        await stack.settle()
        assert consumer.socket.closed

    play(story)
