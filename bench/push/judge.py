"""The judge of consumers whose coordinator pushes: it sees what each of them is asked and answers. PURE.

    ownership  no partition is read by two consumers; one that has heard nothing for its session reads nothing
    offsets    a consumer is started where everybody before it is known to have committed, or behind it

What a consumer told with a ping is committed when the next ping comes that counts no missed one; what it told
with a stop, when it is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from actors.protocol.api_keys import PING, STOP_FETCHER
from actors.protocol.push_codec import read_answer
from actors.protocol.push_messages import (
    ConsumedOffsets,
    PingRequest,
    StartFetcherRequest,
    StopFetcherRequest,
)
from bench.consumers.ownership import OfGroup, two_owners
from bench.member.push import PushMember

PushRequest = PingRequest | StopFetcherRequest | StartFetcherRequest


class PushJudge:
    """What all consumers of a run know together. Methods that find something wrong yield it, in words."""

    def __init__(self, is_lasting: Callable[[str], bool] = bool) -> None:
        """`is_lasting`: whether offsets of a topic last, as they do of all that have a name; those of one
        that is deleted go with it."""
        self.members: dict[int, PushMember] = {}
        """The consumers that there are, by a number of their own."""
        self.floors: dict[OfGroup, int] = {}
        """The offset of each partition that is known to be committed."""
        self.starts = 0
        self._is_lasting = is_lasting
        self._told: dict[tuple[int, int], ConsumedOffsets] = {}
        """(consumer, API key) -> what it told with its last answer on this connection."""

    def joined(self, number: int, member: PushMember) -> None:
        """A consumer begins a new connection."""
        self.members[number] = member
        for api_key in (PING, STOP_FETCHER):
            self._told.pop((number, api_key), None)

    def left(self, number: int) -> None:
        """A consumer has gone, and does not read any more."""
        self.members.pop(number, None)

    def answered(
        self, number: int, api_key: int, request: PushRequest, answer: bytes, now_ms: int
    ) -> Iterator[str]:
        """Take a request of the coordinator with its answer (a frame without the length)."""
        group_id = request.group_id
        if isinstance(request, PingRequest) and request.retries == 0:
            self._committed(group_id, self._told.pop((number, PING), ()))
        if isinstance(request, StartFetcherRequest):
            self._committed(group_id, self._told.pop((number, STOP_FETCHER), ()))
            yield from self._started(number, request)
            yield from self.owners(now_ms)
        else:
            self._told[number, api_key] = read_answer(api_key, answer)[2]

    def owners(self, now_ms: int) -> Iterator[str]:
        """Look whether a partition is read by two."""
        owned = (
            (member.terms.group_id, member.consumer_id, member.positions)
            for member in self.members.values()
            if member.is_fetching and not member.suspects(now_ms)
        )
        return two_owners(owned, "read")

    def _started(self, number: int, request: StartFetcherRequest) -> Iterator[str]:
        self.starts += 1
        for owned in request.ownership:
            for topic, partition, offset in owned.partitions:
                floor = self.floors.get((request.group_id, topic, partition), 0)
                if max(offset, 0) < floor:
                    who = f"{request.consumer_id} of {request.group_id}"
                    yield f"offsets: {who} starts {topic}-{partition} at {offset}, after {floor}"

    def _committed(self, group_id: str, offsets: ConsumedOffsets) -> None:
        for topic, rows in offsets:
            if self._is_lasting(topic):
                for partition, offset in rows:
                    place = group_id, topic, partition
                    self.floors[place] = max(self.floors.get(place, 0), offset)
