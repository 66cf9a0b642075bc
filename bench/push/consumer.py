"""A consumer of a group whose coordinator pushes: it reads records, and does what it is told.

    python -m bench.push.consumer --bootstrap localhost:9092 --group g --topic t

It finds its coordinator, registers, and then only answers; when its coordinator is gone, or has been silent
for a session, it stops its fetchers and begins anew (D10). Ctrl-C closes it when its last offsets are
committed (D11).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final

from actors.protocol.push_messages import RESETS, SMALLEST, TopicCount
from bench.consumers.asking import GONE, RETRY_S, Address, addresses, coordinator_of
from bench.consumers.fetching import Fetcher
from bench.consumers.records import values
from bench.member.push import Place, PushMember, PushTerms
from bench.push.line import Line, fields_of
from bench.swarm.records import requests

LATEST: Final = -1
"""The timestamp by which ListOffsets means the end."""
OnRecord = Callable[[Place, int, bytes | None], None]


class Refused(Exception):
    """Raised if the coordinator does not take the consumer, with its words."""

    def __init__(self, error_code: int, message: str | None) -> None:
        super().__init__(f"error {error_code}: {message or 'no more is said'}")
        self.error_code = error_code


TRY_AGAIN: Final = frozenset({14, 15, 16, 111})
"""Errors that pass: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, and the id that
an old connection still has."""


class PushConsumer:
    """One consumer. `run` ends when it has been closed."""

    def __init__(self, bootstrap: Sequence[Address], member: PushMember, on_record: OnRecord) -> None:
        self._bootstrap = list(bootstrap)
        self._on_record = on_record
        self.member = member
        self._fetching: asyncio.Task[None] | None = None
        self._turn = 0
        self.on_change: Callable[[], None] = lambda: None
        """Called when the consumer has been stopped or started."""
        self.registrations = 0
        self.heard: Callable[[bytes, bytes], None] = _unheard
        """Called with each request of the coordinator and the answer to it, both without their length."""
        self.registering: Callable[[], None] = lambda: None
        """Called when the consumer begins to register."""

    async def run(self) -> None:
        """Consume until `member.close` was called and the last offsets are committed. Raises Refused."""
        try:
            while not self.member.is_done:
                with contextlib.suppress(*GONE):
                    await self._serve_coordinator()
                self.member.lose()
                self._halt()
                if not self.member.is_done:
                    await asyncio.sleep(RETRY_S)
        finally:
            self._halt()

    # The coordinator.

    async def _serve_coordinator(self) -> None:
        """Register, and do what the coordinator says until it is gone or silent. Raises what is in GONE,
        Refused."""
        line = await Line.connect(*await self._coordinator(), self.member.consumer_id)
        try:
            request = self.member.register()
            self.registering()
            answer = await line.call("register_consumer", 0, **fields_of(request))
            if answer["error_code"] in TRY_AGAIN:
                return
            if answer["error_code"]:
                raise Refused(answer["error_code"], answer["error_message"])
            self.registrations += 1
            self.member.registered(now_ms())
            while not self.member.is_done:
                await self._serve_one(line)
        finally:
            await line.close()

    async def _serve_one(self, line: Line) -> None:
        member = self.member
        silent_ms = member.heard_ms + member.terms.session_timeout_ms - now_ms()
        frame = await line.next_push(max(silent_ms, 1) / 1000)
        was_fetching, positions = member.is_fetching, member.positions
        answer = member.take(frame, now_ms())
        self.heard(frame, answer[4:])
        if member.positions is not positions or member.is_fetching != was_fetching:
            self._halt()
            if member.is_fetching:
                self._fetching = asyncio.create_task(self._fetch())
            self.on_change()
        line.send(answer)
        await line.drain()

    async def _coordinator(self) -> Address:
        """Ask the brokers in turn where the coordinator is. Raises what is in GONE."""
        self._turn += 1
        asked = self._bootstrap[self._turn % len(self._bootstrap)]
        return await coordinator_of(asked, self.member.terms.group_id)

    # The fetchers.

    def _halt(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None

    async def _fetch(self) -> None:
        """Fetch what the consumer owns."""
        member = self.member
        reset_to = requests.EARLIEST if member.terms.auto_offset_reset == SMALLEST else LATEST
        fetcher = Fetcher(self._bootstrap, member.consumer_id, member.positions, self._read, reset_to)
        await fetcher.run()

    def _read(self, place: Place, records: bytes | None) -> None:
        """Take the records of one partition. The position is behind what has been seen."""
        if not self.member.is_fetching:
            return
        for offset, value in values(records, self.member.positions[place]):
            self._on_record(place, offset, value)
            self.member.consumed(place, offset + 1)


def now_ms() -> int:
    """Return the time that consumers live by, in ms from any beginning."""
    return time.monotonic_ns() // 1_000_000


def _unheard(push: bytes, answer: bytes) -> None:
    """Let a request of the coordinator pass: nobody wants to know of it."""


# The program.


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A consumer of a group whose coordinator pushes.")
    parser.add_argument("--bootstrap", default="localhost:9092", help="host:port, several with commas")
    parser.add_argument("--group", required=True)
    parser.add_argument("--id", default=f"consumer-{os.getpid()}", help="unique in the group")
    parser.add_argument("--topic", action="append", default=[], help="a topic; may be given several times")
    parser.add_argument("--wildcard", action="append", default=[], help="a regular expression of topics")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--session-ms", type=int, default=10_000)
    parser.add_argument("--reset", choices=RESETS, default=SMALLEST)
    return parser.parse_args()


async def _main() -> None:
    given = _arguments()
    counts = [TopicCount(topic, False, given.streams) for topic in given.topic]
    counts += [TopicCount(pattern, True, given.streams) for pattern in given.wildcard]
    terms = PushTerms(given.group, tuple(counts), True, given.reset, given.session_ms)
    member = PushMember(terms, given.id)

    def show(place: Place, offset: int, value: bytes | None) -> None:
        text = "(null)" if value is None else value.decode(errors="replace")
        print(f"{place[0]}-{place[1]} @{offset}: {text}", flush=True)

    def changed() -> None:
        owned = ", ".join(f"{topic}-{number}" for topic, number in member.positions) or "nothing"
        print(f"{given.id} reads {owned}" if member.is_fetching else f"{given.id} has stopped", flush=True)

    consumer = PushConsumer(addresses(given.bootstrap), member, show)
    consumer.on_change = changed
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, member.close)
    await consumer.run()


if __name__ == "__main__":
    asyncio.run(_main())
