"""What worlds with a tier in front of a KRaft controller have in common: the virtual time, metadata that is
seen late, nodes that die and come back, and what brokers and administrators do."""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count
from typing import ClassVar

from actors.upstream.partitions import RaftLeader
from actors.upstream.requests import PREFERRED
from tests.simulation.upstream.kraft import Image, Kraft

TIER = (1001, 1002, 1003)
BROKERS = (1, 2, 3)
SESSION_MS = 9_000


class VirtualTier(ABC):
    """A tier and a controller at one virtual time."""

    step_ms: ClassVar[int]
    late_ms: ClassVar[tuple[int, ...]]
    """How late metadata may be seen."""

    def __init__(self, rng: random.Random, kraft: Kraft) -> None:
        self.random = rng
        self.now_ms = 0
        self.kraft = kraft
        self.can_cordon = True
        self.leaders: dict[int, RaftLeader] = {}
        self.dead: dict[int, int] = {}
        """Dead node -> when it died."""
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()
        self._seen: Image | None = None

    @abstractmethod
    def _turn(self) -> None:
        """Have the tier look at what is seen."""

    def _pass_time(self) -> None:
        """Go one step on, and do what is due. Who is dead for long is fenced."""
        self.now_ms += self.step_ms
        while self._due and self._due[0][0] <= self.now_ms:
            heapq.heappop(self._due)[2]()
        for node, died_ms in self.dead.items():
            if self.now_ms - died_ms >= SESSION_MS:
                self.kraft.fence(node)

    def _at(self, after_ms: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + after_ms, next(self._number), what))

    def _see(self) -> None:
        """Have the tier see the metadata as it is now, a little later; at once if it is the first."""
        image = self.kraft.image()
        if self._seen is None:
            self._seen = image
        else:
            self._at(self.random.choice(self.late_ms), lambda: self._show(image))

    def _show(self, image: Image) -> None:
        if self._seen is None or image.metadata_offset > self._seen.metadata_offset:
            self._seen = image
            self._turn()

    def _look(self) -> None:
        """Have the tier look now and then, and not only when there is news."""
        self._turn()
        self._at(100, self._look)

    def _alive(self) -> list[int]:
        return [node for node in TIER if node not in self.dead]

    def _elect(self, index: int) -> None:
        """Elect a leader in Raft."""
        self.leaders[index] = RaftLeader(
            self.random.choice(self._alive()), self.leaders[index].term + 1, TIER
        )

    def _elect_in_raft(self) -> None:
        self._elect(self.random.randrange(len(self.leaders)))

    def _die(self) -> None:
        if self.dead:
            return
        node = self.random.choice(TIER)
        self.dead[node] = self.now_ms
        for index, leader in self.leaders.items():
            if leader.broker_id == node:
                self._elect(index)

    def _revive_all(self) -> None:
        for node in list(self.dead):
            self._revive(node)

    def _revive(self, node: int) -> None:
        del self.dead[node]
        if self.random.random() < 0.5:
            self.kraft.register(node, log_dir(node), cordoned=self.can_cordon)
        else:
            self.kraft.unfence(node)
        self._see()

    def _balance(self) -> None:
        for key in list(self.kraft.partitions):
            self.kraft.elect(key, PREFERRED)

    def _restart_broker(self) -> None:
        broker = self.random.choice(BROKERS)
        self.kraft.fence(broker)
        self._at(self.random.choice((50, 2_000)), lambda: self.kraft.unfence(broker))


def log_dir(broker: int) -> bytes:
    """Return the id of a broker's directory."""
    return broker.to_bytes(16, "big")
