"""What a leader keeps of a consumer group's work that is under way: resolutions, jobs, joins that wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from actors.coordinator.ground import regex
from actors.coordinator.ground.state import ShardState
from actors.ground.acl import Operation, ResourceType
from actors.ground.contract import Request
from actors.ground.image import MetadataImage
from actors.ground.limits import REGEX_MATCHES_PER_TURN_MAX


class Asker:
    """The member whose heartbeat last asked what the group's regexes match."""

    __slots__ = ("client_host", "member_id", "principal")

    def __init__(self, member_id: str, request: Request) -> None:
        self.member_id = member_id
        self.principal = request.principal
        self.client_host = request.client_host


class Resolution:
    """One resolution under way: which topics are still to be looked at, and what matched so far."""

    __slots__ = ("_image", "_matches", "_names", "asker", "found")

    def __init__(self, patterns: Iterable[str], image: MetadataImage, asker: Asker) -> None:
        self.asker = asker
        self.found: dict[str, list[str]] = {pattern: [] for pattern in patterns}
        self._image = image
        self._matches = {pattern: regex.matches_of(pattern) for pattern in self.found}
        self._names: Iterator[str] = iter(image.topics)

    @property
    def image_version(self) -> int:
        return self._image.version

    def go_on(self) -> bool:
        """Look at some more topics. True: at all of them."""
        matches = self._matches.items()
        for _ in range(max(REGEX_MATCHES_PER_TURN_MAX // len(self._matches), 1)):
            name = next(self._names, None)
            if name is None:
                return True
            for pattern, is_match in matches:
                if is_match(name):
                    self.found[pattern].append(name)
        return False

    def visible(self, state: ShardState) -> dict[str, tuple[str, ...]]:
        """What matched and the asker may see, sorted."""
        hidden: set[str] = set()
        if state.gate.checks:
            access = state.gate.access(self.asker.principal, self.asker.client_host)
            every = {name for names in self.found.values() for name in names}
            hidden = {name for name in every if not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name)}
        return {
            pattern: tuple(sorted(name for name in names if name not in hidden))
            for pattern, names in self.found.items()
        }


class Job(NamedTuple):
    """What one group has asked for."""

    group_epoch: int
    until_ms: int
    """Nothing else is asked for the group before that, unless the answer comes."""


class Forming:
    """The joins of one group whose answers wait."""

    __slots__ = ("began_ms", "is_over", "joins")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.joins: list[Request] = []
        """The joins in the order in which they came, with the member ids they were given."""
        self.is_over = False
        """Nobody is waited for any more: the answers are on their way."""
