"""Count what an actor does while it works: requests and errors, and the rare events of its groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from actors.coordinator.told.consumer_events import EpochBumped
from actors.coordinator.told.events import CLASSIC, CONSUMER, RebalanceEnded
from actors.protocol.messages import OffsetCommitResponse

COUNTED_EVENTS: Final[Mapping[tuple[type, str | None], str]] = MappingProxyType(
    {
        (RebalanceEnded, CLASSIC): "group_completed_rebalances",
        (EpochBumped, CONSUMER): "consumer_group_rebalances",
    }
)
"""(class of the event, type of its group) -> the metric that counts it."""


class ApiCounts:
    """The answers of one API: `fine` ones, and those with an error code of their own, by code. OffsetCommit
    has none: what refuses it as a whole stands on its first partition, as on all others."""

    __slots__ = ("errors", "fine")

    def __init__(self) -> None:
        self.fine = 0
        """How many answers were fine. Who answers raises it where a call would cost too much."""
        self.errors: Counter[int] = Counter()

    def count(self, answer: Any) -> None:
        is_commit = type(answer) is OffsetCommitResponse
        error_code = _of_commit(answer) if is_commit else getattr(answer, "error_code", 0)
        if error_code:
            self.errors[int(error_code)] += 1
        else:
            self.fine += 1


class RequestCounts:
    """The requests that were answered, by API key."""

    __slots__ = ("by_api",)

    def __init__(self) -> None:
        self.by_api: dict[int, ApiCounts] = {}

    @property
    def answered(self) -> int:
        """Return how many requests of all APIs were answered."""
        return sum(each.fine + each.errors.total() for each in self.by_api.values())

    def of(self, api_key: int) -> ApiCounts:
        counts = self.by_api.get(api_key)
        if counts is None:
            counts = self.by_api[api_key] = ApiCounts()
        return counts

    def count(self, api_key: int, answer: Any) -> None:
        counts = self.by_api.get(api_key) or self.of(api_key)
        counts.count(answer)


def _of_commit(answer: OffsetCommitResponse) -> int:
    for _, partitions in answer.topics:
        for _, error_code in partitions:
            return error_code
    return 0


def count_events(counter: Counter[str], events: Iterable[Any]) -> None:
    """Count those of a shard's events that are metrics, in `counter` by the metric's name."""
    for event in events:
        name = COUNTED_EVENTS.get((type(event), getattr(event, "group_type", None)))
        if name is not None:
            counter[name] += 1
