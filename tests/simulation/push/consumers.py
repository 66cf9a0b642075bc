"""Consumers of a group whose coordinator pushes, under the eyes of the swarm's own judge, which says what is
promised to them (`bench.push.judge`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from actors.ground.records import OFFSET_COMMIT
from actors.protocol import api_keys
from actors.protocol.messages import LeaveGroupRequest, LeavingMember
from actors.protocol.push_codec import written_push
from actors.protocol.push_messages import Pushed, TopicCount
from bench.member.push import PushMember, PushTerms
from bench.push.judge import PushJudge
from tests.simulation.asked import Ask, Asked
from tests.simulation.checkers import Violation
from tests.simulation.clients import BACKOFF_S, Client, Script, Step
from tests.simulation.machines import FLEETING_TOPIC, TOPIC
from tests.simulation.parts import World
from tests.simulation.push.channels import Channel, Channels

GROUP = "push"
FOUND = "found-"
"""How the names of topics begin that nobody names."""
SESSION_MS = 800
STEP_S = 0.02
CORRELATION_ID = -9
REGISTER_TIMEOUT_S = 0.4


class Owners:
    """All consumers of a run, and their judge."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.consumers: list[PushConsumer] = []
        self.judge = PushJudge(lambda topic: topic != FLEETING_TOPIC)
        self.have_wildcards, self.name_fleeting = (world.chance.random() < 0.5 for _ in range(2))
        """Whether there are consumers that find topics by a wildcard, or name the one that comes and goes:
        groups are told of changes by what their consumers have named."""

    @property
    def now_ms(self) -> int:
        return int(self._world.now * 1_000)

    def check(self) -> None:
        """Check that no partition is read by two. Raises Violation."""
        for words in self.judge.owners(self.now_ms):
            raise Violation(words)

    def at_the_end(self) -> None:
        """Check that what was known to be committed still is. Raises Violation."""
        for (_, topic, partition), floor in self.judge.floors.items():
            writes = self._world.state.writes((OFFSET_COMMIT, GROUP, topic, partition))
            offset = writes[-1][1][0] if writes and writes[-1][1] is not None else -1
            if offset < floor:
                raise Violation(f"offsets: {topic}-{partition} is committed at {offset}, it was at {floor}")


class Remover(Client):
    """An administrator that removes consumers, which come back."""

    def script(self) -> Script:
        chance = self.world.chance
        while not self.world.is_healed:
            yield chance.uniform(0.2, 1.5)
            body = LeaveGroupRequest(GROUP, (LeavingMember(f"push-{chance.randrange(4)}"),))
            yield from self.once(Ask(api_keys.LEAVE_GROUP, 5, body))
        while True:
            yield 1.0

    def is_well(self, since: float) -> bool:
        return True


class PushConsumer(Client):
    """One consumer: it registers, reads, answers; now and then it goes away, with a word or without."""

    def __init__(self, world: World, name: str, owners: Owners, channels: Channels) -> None:
        self.group_id = GROUP
        self.owners = owners
        self._channels = channels
        self._channel: Channel | None = None
        self._registered: Asked | None = None
        """The request that was answered last."""
        self._at = len(owners.consumers)
        self.member = self._new_member(world, name)
        owners.consumers.append(self)
        super().__init__(world, name)

    def _new_member(self, world: World, name: str) -> PushMember:
        chance = world.chance
        topic = TopicCount(TOPIC, False, chance.choice((1, 1, 2)))
        wanted: list[tuple[TopicCount, ...]] = [(topic,)]
        if self.owners.name_fleeting:
            wanted.append((topic, TopicCount(FLEETING_TOPIC, False, 1)))
        if self.owners.have_wildcards:
            wanted.append((TopicCount(f"{TOPIC}|{FLEETING_TOPIC}|{FOUND}.*", True, 1),))
        return PushMember(PushTerms(GROUP, chance.choice(wanted), session_timeout_ms=SESSION_MS), name)

    def wanted(self, topics: Iterable[str]) -> list[str]:
        """Return those of the topics that the consumer is interested in."""
        return [
            topic
            for topic in topics
            for name, is_wildcard, _ in self.member.terms.topic_counts
            if (re.fullmatch(name, topic) if is_wildcard else name == topic)
        ]

    @property
    def now_ms(self) -> int:
        return int(self.world.now * 1_000)

    @property
    def reads(self) -> bool:
        """Whether its fetchers run: they do not when the coordinator is suspected (D10)."""
        return self.member.is_fetching and not self.member.suspects(self.now_ms)

    @property
    def is_settled(self) -> bool:
        return self.reads and self._channel is not None and self._channel.is_open

    def is_well(self, since: float) -> bool:
        return self.is_settled and self.well_at > since

    def script(self) -> Script:
        chance = self.world.chance
        while True:
            if not (yield from self._register()):
                self.member.lose()
                yield BACKOFF_S
                continue
            yield from self._consume()
            self.member.lose()
            self._close()
            if not self.world.is_healed and chance.random() < 0.3:
                yield chance.choice((0.1, 1.5))
            self.look_elsewhere(None)

    def _register(self) -> Step:
        """Register on a new connection. Returns whether that was done."""
        self.owners.judge.joined(self._at, self.member)
        ask = Ask(api_keys.REGISTER_CONSUMER, 0, self.member.register(), REGISTER_TIMEOUT_S)
        answer = yield from self.once(ask)
        return answer is not None and answer.error_code == ErrorCode.none

    def _consume(self) -> Step:
        """Read until the coordinator is gone, or is suspected, or the consumer goes by itself."""
        self.member.registered(self.now_ms)
        chance, channel = self.world.chance, self._channel
        assert channel is not None
        while channel.is_open and not self.member.suspects(self.now_ms) and not self.member.is_done:
            if self.reads:
                for place, position in list(self.member.positions.items()):
                    self.member.consumed(place, max(position, 0) + chance.randrange(3))
            if not self.world.is_healed and chance.random() < 0.004:
                break
            if not self.world.is_healed and chance.random() < 0.002:
                self.member.close()
            yield STEP_S
        if self.member.is_done:
            self.member = self._new_member(self.world, self.name)

    def _ask(self, ask: Ask) -> None:
        """Open the channel with the request by which it registers: it may be pushed before the answer."""
        super()._ask(ask)
        if self._asked is not None:
            self._channel = self._channels.open(self._asked, self)

    def answered(self, asked: Asked, body: Any | None) -> None:
        if body is None and asked is self._asked:
            self._close()
        super().answered(asked, body)

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def pushed(self, channel: Channel, pushed: Pushed) -> None:
        """Take a request of the coordinator. Raises Violation."""
        if channel is not self._channel or self.world.is_over:
            return
        self.well_at = self.world.now
        frame = self.member.take(written_push(CORRELATION_ID, pushed)[4:], self.now_ms)[4:]
        judge = self.owners.judge
        for words in judge.answered(self._at, pushed.api_key, pushed.request, frame, self.now_ms):
            raise Violation(words)
        channel.answer(pushed, frame)
