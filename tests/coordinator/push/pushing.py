"""A coordinator of push groups and its consumers, joined by their bytes: what each sends the other reads at
once, unless a test cuts them off.

After every step no partition is read by two consumers, and no committed offset has gone back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from actors.coordinator.explain import explain
from actors.coordinator.push.state import push_groups, stored_of
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Push, Request, Token
from actors.ground.features import GROUPD_VERSION, PUSH_LEVEL, Features
from actors.ground.image import MetadataImage
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.push_codec import answer_id, read_answer, written_push
from actors.protocol.push_messages import (
    ChannelClosed,
    ConsumerAnswer,
    Hangup,
    Pushed,
    RegisterConsumerResponse,
    TopicCount,
)
from actors.replica.replica import Replica
from bench.member.push import PushMember, PushTerms
from tests.coordinator.alone import commit, lead, new_replica
from tests.coordinator.driver import START_MS, image_of
from tests.coordinator.shards import new_shard

SESSION_MS = 30_000
GROUP = "g"


class Channel:
    """The connection of one consumer."""

    def __init__(self, member: PushMember, session: Token) -> None:
        self.member = member
        self.session = session
        self.is_open = True
        self.pushed: list[Pushed] = []
        """What came on it."""


class Pushing:
    """A leader, its clock, and the consumers that have registered with it."""

    def __init__(self, image: MetadataImage | None = None, settings: GroupSettings | None = None) -> None:
        self.now_ms = START_MS
        self.settings = settings or GroupSettings()
        self.image = at_level(image or image_of(t=4))
        self.channels: dict[Token, Channel] = {}
        self.members: dict[str, PushMember] = {}
        self.events: list[Any] = []
        self.is_deaf: set[str] = set()
        """Consumers to which nothing gets through."""
        self.is_mute: set[str] = set()
        """Consumers that hear, and whose answers do not get through."""
        self.highest: dict[tuple[str, int], int] = {}
        """The highest offset that was ever committed of each partition."""
        self.released: dict[Token, Any] = {}
        self._tokens = count(1)
        self._inbox: deque[tuple[Channel, Pushed, bytes]] = deque()
        """Answers of consumers that are under way."""
        self.replica = self._new_replica()
        lead(self.replica)

    @property
    def shard(self) -> CoordinatorShard:
        shard = self.replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    @property
    def state_name(self) -> str:
        return push_groups(self.shard.state)[GROUP].state_name

    @property
    def epoch(self) -> int:
        return push_groups(self.shard.state)[GROUP].epoch

    # What clients do.

    def ask(self, api_key: int, body: Any, version: int = 0) -> Any:
        token = next(self._tokens)
        self.released[token] = self.replica.submit(
            Request(token, api_key, version, "client", "/127.0.0.1", body), self.now_ms
        )
        self.settle()
        return self.released[token]

    def member(self, consumer_id: str, *topics: str | TopicCount, **terms: Any) -> PushMember:
        counts = tuple(
            TopicCount(each, False, 1) if isinstance(each, str) else each for each in topics or ("t",)
        )
        terms.setdefault("session_timeout_ms", SESSION_MS)
        return PushMember(PushTerms(GROUP, counts, **terms), consumer_id)

    def register(self, consumer_id: str, *topics: str | TopicCount, **terms: Any) -> PushMember:
        """Register a new consumer, or one that is known under its id again."""
        member = self.members.get(consumer_id) or self.member(consumer_id, *topics, **terms)
        answer = self.try_register(member)
        assert answer.error_code == 0, answer
        return member

    def try_register(self, member: PushMember) -> RegisterConsumerResponse:
        token = next(self._tokens)
        self.channels[token] = Channel(member, token)
        body = member.register()
        request = Request(token, api_keys.REGISTER_CONSUMER, 0, "client", "/127.0.0.1", body)
        answer = self.replica.submit(request, self.now_ms)
        commit(self.replica)
        answer = self.released.get(token) if answer is None else answer
        if answer.error_code:
            del self.channels[token]
        else:
            self.members[member.consumer_id] = member
            member.registered(self.now_ms)
        self.settle()
        assert isinstance(answer, RegisterConsumerResponse)
        return answer

    def disconnect(self, consumer_id: str) -> None:
        """Close a consumer's connection, which both sides notice."""
        for channel in self.channels_of(consumer_id):
            self._close(channel)
            self.members[consumer_id].lose()
        self.settle()

    def channels_of(self, consumer_id: str) -> list[Channel]:
        return [
            each for each in self.channels.values() if each.is_open and each.member.consumer_id == consumer_id
        ]

    def read(self, consumer_id: str, records: int) -> None:
        """Let a consumer read so many records of each partition that it owns."""
        member = self.members[consumer_id]
        assert member.is_fetching
        for place, position in list(member.positions.items()):
            member.consumed(place, max(position, 0) + records)

    # Time and faults.

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing each timer when it is due."""
        until_ms = self.now_ms + by_ms
        while True:
            at_ms = min((*self._deadlines(), until_ms))
            self.now_ms = max(self.now_ms, at_ms)
            for member in self.members.values():
                if member.is_fetching and member.suspects(self.now_ms):
                    member.lose()
            self.replica.run_timers(self.now_ms)
            self.settle()
            if self.now_ms >= until_ms:
                return

    def _deadlines(self) -> list[int]:
        deadline_ms = self.replica.next_deadline_ms
        suspicions = [
            member.heard_ms + member.terms.session_timeout_ms
            for member in self.members.values()
            if member.is_fetching
        ]
        return suspicions if deadline_ms is None else [deadline_ms, *suspicions]

    def settle(self) -> None:
        """Let everything that is due now happen, and be committed."""
        while True:
            commit(self.replica)
            self.check()
            if self._inbox:
                self._answer(*self._inbox.popleft())
            elif (due_ms := self.replica.next_deadline_ms) is not None and due_ms <= self.now_ms:
                self.replica.run_timers(self.now_ms)
            else:
                return

    def set_topics(self, **partitions: int) -> None:
        self.image = at_level(image_of(self.image.version + 1, **partitions))
        self.replica.on_metadata(self.image, self.now_ms)
        self.settle()

    def fail_over(self) -> None:
        """Let the next leader take over, which has the committed records. Connections close."""
        records = list(self.shard.records())
        self.replica.on_fallen()
        for channel in self.channels.values():
            channel.is_open = False
            if channel.member.consumer_id not in self.is_deaf:
                channel.member.lose()
        self.channels.clear()
        self.replica = self._new_replica()
        for key, value in records:
            self.shard.apply(key, value)
        lead(self.replica)
        self.settle()

    # What is promised.

    def owners(self) -> dict[tuple[str, int], str]:
        """Return who reads which partition, as the consumers themselves have it."""
        found: dict[tuple[str, int], str] = {}
        for member in self.members.values():
            if member.is_fetching:
                for place in member.positions:
                    assert place not in found, f"{place} is read by {found[place]} and {member.consumer_id}"
                    found[place] = member.consumer_id
        return found

    def committed(self) -> dict[tuple[str, int], int]:
        kept = self.shard.state.offsets.get(GROUP)
        if kept is None:
            return {}
        return {(key[2], key[3]): value[0] for key, value in self._offset_records()}

    def _offset_records(self) -> Any:
        for key, value in self.shard.records():
            for single in self.shard.one_by_one(key, value) if value is not None else ():
                if single[0][0] == 1 and single[0][1] == GROUP:
                    yield single

    def check(self) -> None:
        self.owners()
        for place, offset in self.committed().items():
            assert offset >= self.highest.get(place, 0), f"{place} went back to {offset}"
            self.highest[place] = offset

    def shares(self) -> dict[str, int]:
        """Return how many partitions each consumer owns, as the records have it."""
        return {
            consumer_id: sum(len(packed) // 4 for thread in value.threads for _, packed in thread)
            for consumer_id, value in stored_of(self.shard.state, GROUP).ownership.items()
        }

    def says(self) -> str:
        found = explain(self.shard.state, GROUP, self.now_ms)
        assert found is not None
        return found.says

    # What the replica sends.

    def _push(self, push: Push) -> None:
        channel = self.channels.get(push.token)
        if channel is None or not channel.is_open:
            return
        if isinstance(push.body, Hangup):
            channel.is_open = False
            if channel.member.consumer_id not in self.is_deaf:
                channel.member.lose()
            return
        pushed: Pushed = push.body
        if self.now_ms > pushed.until_ms:
            return
        channel.pushed.append(pushed)
        member = channel.member
        if member.consumer_id in self.is_deaf:
            return
        answer = member.take(written_push(-5, pushed)[4:], self.now_ms)[4:]
        if member.consumer_id not in self.is_mute:
            self._inbox.append((channel, pushed, answer))

    def _answer(self, channel: Channel, pushed: Pushed, frame: bytes) -> None:
        if not channel.is_open:
            return
        assert answer_id(frame) == -5
        error_code, consumer_id, offsets, is_last = read_answer(pushed.api_key, frame)
        body = ConsumerAnswer(
            GROUP, consumer_id, channel.session, pushed.number, error_code, offsets, is_last
        )
        self.tell(pushed.api_key, body)
        if channel.member.is_done:
            self._close(channel)

    def tell(self, api_key: int, body: Any) -> None:
        request = Request(next(self._tokens), api_key, 0, "client", "/127.0.0.1", body)
        self.replica.tell(request, self.now_ms)

    def _close(self, channel: Channel) -> None:
        channel.is_open = False
        body = ChannelClosed(GROUP, channel.member.consumer_id, channel.session)
        self.tell(api_keys.CHANNEL_CLOSED, body)

    def _new_replica(self) -> Replica:
        release: Callable[[Token, Any], None] = self.released.__setitem__
        replica = new_replica(
            lambda: new_shard(self.settings, self.image),
            release,
            clock_ms=lambda: self.now_ms,
            on_events=self.events.extend,
        )
        replica.push = self._push
        return replica


def at_level(image: MetadataImage, level: int = PUSH_LEVEL) -> MetadataImage:
    image.features = Features(1, ((GROUPD_VERSION, level),))
    return image
