"""Frames over real sockets at a tier that runs: right ones, ones with a field made wrong, spoilt bytes.

Nothing is judged here but that answers come. Who calls looks at the tier's processes and logs.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from typing import Any
from uuid import UUID

from actors.network.wire import Closed, Wire
from actors.protocol.entities import response_class
from tests.fuzz.campaign import DISTORTED_SHARE, Tally, Wanted, every_distortion, made
from tests.fuzz.mutations import framed, mutate
from tests.fuzz.plausible import TOPICS, Known
from tests.protocol.answers import answer_reader
from tests.protocol.random_entities import EVERY_VERSION

ANSWER_TIMEOUT_S = 1.0
"""How long an answer is waited for; a request that rightly waits longer (a join, a fetch) is hung up on."""
MUTATED_SHARE = 0.5
RECENT = 40
TOPIC_IDS_EVERY = 50


class _Attacker:
    """One client: a new connection whenever it is cut off or not answered."""

    def __init__(self, host: str, port: int, seed: str, tally: Tally) -> None:
        self._host = host
        self._port = port
        self._rng = random.Random(seed)
        self._tally = tally
        self._topic_ids: list[UUID] = []
        self._known = Known(self._rng, lambda: self._topic_ids)
        self._recent: deque[tuple[Any, bytes]] = deque(maxlen=RECENT)
        self._script: list[tuple[int, int]] = []

    async def fire(self, frames: int, deadline: float) -> None:
        wire = await self._connect()
        for number in range(frames):
            if time.monotonic() > deadline:
                break
            if number % TOPIC_IDS_EVERY == 0:
                await self._look()
            key, version, request, data, is_right = self._drawn(number)
            self._tally.frames += 1
            try:
                await wire.send_raw(data)
                answer = await asyncio.wait_for(wire.read_frame(), ANSWER_TIMEOUT_S)
                while is_right and int.from_bytes(answer[:4], "big") != number + 1:
                    answer = await asyncio.wait_for(wire.read_frame(), ANSWER_TIMEOUT_S)  # a doubled frame's
            except (Closed, OSError, TimeoutError):
                self._tally.closed += 1
                await wire.close()
                wire = await self._connect()
                continue
            self._tally.answered += 1
            if is_right:
                self._tally.answers[key, version] += 1
                self._known.learn(request, answer_reader(response_class(key, version))(answer)[0])
        await wire.close()

    async def _connect(self) -> Wire:
        return await Wire.connect(self._host, self._port)

    async def _look(self) -> None:
        """Learn the ids of the topics, on a connection of its own."""
        wire = await self._connect()
        told = await wire.call(
            "metadata",
            12,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        self._topic_ids = [each["topic_id"] for each in told["topics"] if each["name"] in TOPICS]
        await wire.close()

    def _drawn(self, number: int) -> tuple[int, int, Any, bytes, bool]:
        """The API and version, the request, the bytes, and whether the answer is the request's own."""
        rng = self._rng
        if not self._script:
            self._script = rng.sample(EVERY_VERSION, len(EVERY_VERSION))
        key, version = self._script.pop()
        distortions = every_distortion(key, version)
        wrong = rng.choice(distortions) if distortions and rng.random() < DISTORTED_SHARE else None
        request, content = made(self._known, Wanted(key, version, wrong), number + 1)
        self._recent.append((request, content))
        if rng.random() < MUTATED_SHARE:
            return key, version, request, mutate(rng, content, self._recent)[1], False
        return key, version, request, framed(content), True


async def bombard(
    host: str, port: int, seed: int, clients: int, seconds: float, frames: int | None = None
) -> Tally:
    """Send frames from so many clients for so long, or until each has sent `frames`; what came of it."""
    tally, deadline = Tally(), time.monotonic() + seconds
    each = 2**62 if frames is None else frames
    attackers = [_Attacker(host, port, f"sockets/{seed}/{number}", tally) for number in range(clients)]
    await asyncio.gather(*(attacker.fire(each, deadline) for attacker in attackers))
    return tally
