"""A consumer of a group whose coordinator pushes, as the design has it (D10, D11): it registers once, and
then answers what it is asked.

It has stopped its fetchers whenever it registers, and it stops them when it has heard nothing for its
session: the coordinator relies on both. PURE.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.protocol.api_keys import PING, START_FETCHER, STOP_FETCHER
from actors.protocol.push_codec import read_push, written_answer
from actors.protocol.push_messages import (
    BrokerPlace,
    ConsumedOffsets,
    RegisterConsumerRequest,
    Said,
    StartFetcherRequest,
    TopicCount,
)

NO_GENERATION = -1
Place = tuple[str, int]
"""A topic's name and a partition of it."""


class PushTerms(NamedTuple):
    """What the consumers of a group have in common."""

    group_id: str
    topic_counts: tuple[TopicCount, ...]
    auto_commit: bool = True
    auto_offset_reset: str = "smallest"
    session_timeout_ms: int = 30_000


class PushMember:
    """One consumer. Its shell tells it what came and how far it has read, and sends what it returns."""

    __slots__ = (
        "_has_told_last",
        "brokers",
        "consumer_id",
        "generation_id",
        "heard_ms",
        "is_closing",
        "is_done",
        "is_fetching",
        "positions",
        "terms",
    )

    def __init__(self, terms: PushTerms, consumer_id: str) -> None:
        self.terms = terms
        self.consumer_id = consumer_id
        self.positions: dict[Place, int] = {}
        """The next offset of each partition that the consumer owns; -1: it begins as it resets."""
        self.generation_id = NO_GENERATION
        self.brokers: tuple[BrokerPlace, ...] = ()
        self.is_fetching = False
        self.heard_ms = 0
        """When the coordinator was last heard."""
        self.is_closing = False
        self.is_done = False
        """Whether the consumer may close its connection: its last offsets are committed."""
        self._has_told_last = False

    def register(self) -> RegisterConsumerRequest:
        """Return the request by which the consumer comes, or comes again, with its fetchers stopped."""
        self.lose()
        terms = self.terms
        return RegisterConsumerRequest(
            terms.group_id,
            self.consumer_id,
            terms.topic_counts,
            terms.auto_commit,
            terms.auto_offset_reset,
            terms.session_timeout_ms,
        )

    def registered(self, now_ms: int) -> None:
        """Note that the coordinator has taken the consumer."""
        self.heard_ms = now_ms

    def lose(self) -> None:
        """Stop the fetchers: the coordinator is gone, or is suspected to be."""
        self._stop()
        self._has_told_last = False

    def suspects(self, now_ms: int) -> bool:
        """Whether the coordinator has been silent for a session (D10)."""
        return now_ms - self.heard_ms >= self.terms.session_timeout_ms

    def consumed(self, place: Place, next_offset: int) -> None:
        """Note how far a fetcher has read."""
        if place in self.positions:
            self.positions[place] = next_offset

    def close(self) -> None:
        """Stop for good; the next ping is told so (D11)."""
        self.is_closing = True
        self.is_fetching = False

    def take(self, frame: bytes, now_ms: int) -> bytes:
        """Take a coordinator's request (its frame without the length). Return the answer's frame. Raises
        MalformedRequest."""
        correlation_id, api_key, request = read_push(frame)
        self.heard_ms = now_ms
        if api_key == START_FETCHER:
            assert isinstance(request, StartFetcherRequest)
            self._start(request)
            return written_answer(correlation_id, api_key, self.consumer_id)
        offsets = self.offsets()
        is_last = api_key == PING and self.is_closing
        if api_key == STOP_FETCHER:
            self._stop()
        if is_last:
            self.is_done = self._has_told_last or not self.terms.auto_commit
            self._has_told_last = True
        said = Said(offsets=offsets, is_shutting_down=is_last)
        return written_answer(correlation_id, api_key, self.consumer_id, said)

    def offsets(self) -> ConsumedOffsets:
        """What the consumer tells with its answers: nothing unless it commits by them."""
        topics: dict[str, list[tuple[int, int]]] = {}
        if self.terms.auto_commit:
            for (topic, partition), offset in self.positions.items():
                if offset >= 0:
                    topics.setdefault(topic, []).append((partition, offset))
        return tuple((topic, tuple(offsets)) for topic, offsets in topics.items())

    def _start(self, request: StartFetcherRequest) -> None:
        self.positions = {
            (topic, partition): offset
            for owned in request.ownership
            for topic, partition, offset in owned.partitions
        }
        self.generation_id, self.brokers = request.generation_id, request.brokers
        self.is_fetching = not self.is_closing

    def _stop(self) -> None:
        self.is_fetching = False
        self.positions = {}
