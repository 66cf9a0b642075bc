"""One stretch of fire at one stack, and what is judged of it.

* Nothing but an answer or a closed connection comes of a frame; whatever is logged as an error is a bug.
* Every answer decodes by its schema to the last byte, and answers come in the order of the requests.
* No connection stays without its answer once time has passed (a parked join, a fetch that waits).
* Nobody owes an answer in the end, and the bystanders notice nothing.

A campaign draws its frames, or plays a script of them first (`sweep`).
"""

from __future__ import annotations

import gc
import logging
import random
import tempfile
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.catalog.groups import GROUP_APIS
from actors.ground.logs import LOGGERS
from actors.protocol.entity_schema import field_names
from tests.fuzz.bystanders import Bystanders
from tests.fuzz.client import Client
from tests.fuzz.distortions import Distortion, distortions
from tests.fuzz.leaping import LeapingLoop
from tests.fuzz.mutations import framed, mutate
from tests.fuzz.plausible import TOPICS, Known, tagged_class
from tests.fuzz.stack import LED_HERE, Stack
from tests.protocol.random_entities import EVERY_VERSION

FRAMES_PER_BEAT = 500
SECONDS_PER_FRAME = 0.004
FRESH_SHARE = 0.25
"""Share of the frames that are made anew; the others are recent ones again, as a client's retry."""
DISTORTED_SHARE = 0.3
"""Share of the fresh frames that have one field made wrong."""
RECENT = 200
CLIENTS = 6
PARKED_MAX = 200
LONGEST_JOIN_S = 3_600.0
LONGEST_FETCH_S = 2.0**31 / 1_000
_WEIGHTS = [4 if key in GROUP_APIS else 1 for key, _ in EVERY_VERSION]


class Wanted(NamedTuple):
    """A frame of a script: right, or with one field made wrong."""

    api_key: int
    api_version: int
    distortion: Distortion | None = None

    def __str__(self) -> str:
        return f"API {self.api_key} version {self.api_version}, {self.distortion or 'right'}"


@dataclass
class Tally:
    """How many frames were sent, and how they were answered."""

    frames: int = 0
    answered: int = 0
    closed: int = 0
    unfinished: int = 0
    parked: int = 0
    mutations: Counter[str] = field(default_factory=Counter)
    errors: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(API key, error code) of answers with an error of their own."""
    answers: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Answers by (API key, version) of the request."""
    rights: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The same of answers that have no error anywhere."""


class Failure(Exception):
    """A frame made something go wrong; the text says what, and which frame it was."""


class Campaign:
    """Frames drawn from (`seed`, `number`) at a new stack, after those of a script."""

    def __init__(self, seed: int, number: int, script: Sequence[Wanted] = ()) -> None:
        self.tally = Tally()
        self._script = script
        self._rng = random.Random(f"{seed}/{number}")
        self._watch = _Watch()
        self._last: deque[tuple[int, str, bytes]] = deque(maxlen=3)
        self._recent: deque[tuple[Any, bytes]] = deque(maxlen=RECENT)
        self._clients: list[Client] = []
        self._parked: deque[Client] = deque()

    def run(self, frames: int) -> Tally:
        """Send this many frames. Raises Failure."""
        loop = LeapingLoop()
        with tempfile.TemporaryDirectory(prefix="groupd-fuzz-") as data_dir, self._watch:
            try:
                loop.run_until_complete(self._run(loop, data_dir, frames))
            except AssertionError as error:
                raise Failure(f"{error}\n{self._story()}") from error
            finally:
                loop.close()
                gc.unfreeze()  # actors freeze what they have loaded; here they come and go
        gc.collect()
        return self.tally

    async def _run(self, loop: LeapingLoop, data_dir: str, frames: int) -> None:
        stack = Stack(loop, data_dir)
        await stack.start()
        bystanders = Bystanders(stack)
        await bystanders.join()
        known = Known(self._rng, lambda: stack.topic_ids(TOPICS))
        self._clients = [self._client(stack) for _ in range(CLIENTS)]
        for number in range(frames):
            loop.advance(SECONDS_PER_FRAME)
            await self._fire(stack, known, number)
            if number % FRAMES_PER_BEAT == 0:
                await bystanders.beat()
        await bystanders.beat()
        await self._end(stack)
        self.tally.frames += frames

    async def _fire(self, stack: Stack, known: Known, number: int) -> None:
        """Send one frame on one connection, and take everything that comes of it."""
        rng = self._rng
        request, mutation, data = self._drawn(known, number)
        at = rng.randrange(CLIENTS)
        client = self._clients[at]
        self._last.append((client.place, mutation, data))
        if number >= len(self._script):
            self.tally.mutations[mutation] += 1
        pieces = [data] if rng.random() < 0.95 else [data[: len(data) // 2], data[len(data) // 2 :]]
        for piece in pieces:
            client.send(piece, request)
        await stack.settle(3 if client.waits else 1)
        for each in (client, *self._parked) if number % 16 == 0 else (client,):
            self._judge(each, known)
        self._clients[at] = self._next(stack, client)
        assert not self._watch.errors, self._watch.errors[0]

    def _drawn(self, known: Known, number: int) -> tuple[Any, str, bytes]:
        """A request, what was done to it, and the bytes to send."""
        if number < len(self._script):
            wanted = self._script[number]
            request, content = made(known, wanted, number + 1)
            return request, str(wanted), framed(content)
        request, content = self._pick(known, number)
        return request, *mutate(self._rng, content, self._recent)

    def _pick(self, known: Known, number: int) -> tuple[Any, bytes]:
        rng = self._rng
        if self._recent and rng.random() > FRESH_SHARE:
            return rng.choice(self._recent)
        ((api_key, api_version),) = rng.choices(EVERY_VERSION, _WEIGHTS)
        distortion = None
        if rng.random() < DISTORTED_SHARE:
            distortion = rng.choice(every_distortion(api_key, api_version) or (None,))
        picked = made(known, Wanted(api_key, api_version, distortion), number + 1)
        self._recent.append(picked)
        return picked

    def _judge(self, client: Client, known: Known) -> None:
        for asked, answer in client.take():
            self.tally.answered += 1
            version = asked.api_key, asked.api_version
            self.tally.answers[version] += 1
            self.tally.rights[version] += _is_right(answer)
            code = _error_of(answer)
            if code is not None:
                self.tally.errors[asked.api_key, code] += 1
            known.learn(asked.request, answer)

    def _client(self, stack: Stack) -> Client:
        return Client(stack, self._rng.choice((-1, *LED_HERE)))

    def _next(self, stack: Stack, client: Client) -> Client:
        """The connection that takes the place of this one, if it is of no more use."""
        if client.waits:
            self.tally.parked += 1
            self._parked.append(client)
            if len(self._parked) > PARKED_MAX:
                self._parked.popleft().hang_up()
            return self._client(stack)
        if client.closed or client.unfinished:
            self.tally.closed += client.closed
            self.tally.unfinished += not client.closed
            client.hang_up()
            return self._client(stack)
        return client

    async def _end(self, stack: Stack) -> None:
        """Time resolves whatever is parked; then nothing is owed to anybody."""
        await stack.leap(LONGEST_JOIN_S, 400)
        stack.stop_working()
        await stack.leap(LONGEST_FETCH_S, 20)
        known = Known(self._rng, lambda: stack.topic_ids(TOPICS))
        for client in (*self._parked, *self._clients):
            self._judge(client, known)
            assert not client.waits, f"a connection to {client.place} never had its answer"
            client.hang_up()
        owed = stack.owed()
        assert not any(owed.values()), f"answers are still owed: {owed}"
        await stack.stop()
        assert not self._watch.errors, self._watch.errors[0]

    def _story(self) -> str:
        sent = [
            f"{mutation}, to {'the broker' if place < 0 else f'leader {place}'}: {data.hex()}"
            for place, mutation, data in self._last
        ]
        return "\n".join(("last log lines", *self._watch.lines, "last frames", *sent))


@cache
def every_distortion(api_key: int, api_version: int) -> tuple[Distortion, ...]:
    return tuple(distortions(tagged_class(api_key, api_version)))


def made(known: Known, wanted: Wanted, correlation_id: int) -> tuple[Any, bytes]:
    """A request and its frame, without the length prefix."""
    key, version, distortion = wanted
    if distortion is None:
        return known.frame(key, version, correlation_id)
    return known.distorted_frame(key, version, correlation_id, distortion)


def _is_right(answer: Any) -> bool:
    """Whether an answer has no error, in no entity."""
    for name in field_names(type(answer)):
        value = getattr(answer, name)
        if isinstance(value, ErrorCode) and value != ErrorCode.none:
            return False
        parts = value if isinstance(value, tuple) else (value,)
        if not all(_is_right(part) for part in parts if is_dataclass(part)):
            return False
    return True


def _error_of(answer: Any) -> int | None:
    code = getattr(answer, "error_code", None)
    return None if code is None or code == ErrorCode.none else int(code)


class _Watch(logging.Handler):
    """Collects what the actors log as errors, tracebacks included, and keeps the rest from the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []
        self.lines: deque[str] = deque(maxlen=4)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        self.lines.append(line)
        if record.levelno >= logging.ERROR or record.exc_info:
            self.errors.append(line)

    def __enter__(self) -> _Watch:
        self._before = {name: logging.getLogger(name).propagate for name in (*LOGGERS, "asyncio")}
        for name in self._before:
            logger = logging.getLogger(name)
            logger.propagate = False
            logger.addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        for name, propagates in self._before.items():
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.propagate = propagates
