"""When the leaders of our partitions are asked, and what they have answered. PURE.

An order is sent at once when it is another one, or to another leader, and again and again as long as it is
not fulfilled: so none is remembered by whoever gets it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from actors.upstream.orders import DROP, FOLLOW, LOOK, RELEASE, RETAKE, SEAL, SERVE, UNSEAL, Order, Standing
from actors.upstream.partitions import RaftLeader

UNANSWERED_MS: Final = 500
"""How often a leader is asked that has not answered."""
EVERY_MS: Final[Mapping[str, int]] = {
    SERVE: 50,
    SEAL: 50,
    RELEASE: 20,
    UNSEAL: 50,
    RETAKE: 50,
    DROP: 200,
    FOLLOW: 500,
    LOOK: 10_000,
}
"""How often a leader is told the same. An answer says how things stand, and not what comes of the order:
until a partition is served, or a sealed one is elsewhere, its clients wait."""


class Ask(NamedTuple):
    """An order to the leader of one of our partitions."""

    partition: int
    term: int
    order: Order


class _Asked:
    """The last order to a partition's leader."""

    def __init__(self) -> None:
        self.ask: Ask | None = None
        self.is_out = False
        self.is_answered = False
        self.at_ms = 0


class Asks:
    """All orders of one leader of the controller."""

    def __init__(self) -> None:
        self._asked: dict[int, _Asked] = {}
        self._told: dict[int, tuple[int, Standing]] = {}

    def last(self, partition: int) -> Standing:
        """Return what was told of a partition last, by whichever leader."""
        told = self._told.get(partition)
        return Standing() if told is None else told[1]

    def is_known(self, partition: int, leader: RaftLeader) -> bool:
        """Return whether its present leader has told of a partition."""
        told = self._told.get(partition)
        return told is not None and told[0] == leader.term

    def is_heard_of(self, partition: int) -> bool:
        """Return whether any leader has told of a partition since this leader of the controller began."""
        return partition in self._told

    def is_settled(self, partition: int) -> bool:
        """Return whether what was sent last of a partition is answered: then no earlier order is on
        its way."""
        asked = self._asked.get(partition)
        return asked is not None and asked.is_answered

    def due(
        self, orders: Mapping[int, Order], leaders: Mapping[int, RaftLeader], now_ms: int
    ) -> tuple[Ask, ...]:
        """Return what to ask now. Each is to be answered with `told`."""
        found = []
        for partition, order in orders.items():
            ask = Ask(partition, leaders[partition].term, order)
            asked = self._asked.setdefault(partition, _Asked())
            is_other = asked.ask is None or asked.ask.term != ask.term
            if asked.is_out and not is_other:
                continue
            every_ms = EVERY_MS[order.order] if asked.is_answered else UNANSWERED_MS
            if is_other or asked.ask != ask or now_ms - asked.at_ms >= every_ms:
                asked.ask, asked.is_out, asked.is_answered, asked.at_ms = ask, True, False, now_ms
                found.append(ask)
        return tuple(found)

    def told(self, ask: Ask, standing: Standing | None) -> None:
        """Take note of an answer; None: there was none."""
        asked = self._asked[ask.partition]
        if asked.ask != ask:
            return  # what an earlier order has led to may not be true any more
        asked.is_out, asked.is_answered = False, standing is not None and standing.leads
        known = self._told.get(ask.partition)
        if standing is not None and standing.leads and (known is None or known[0] <= ask.term):
            self._told[ask.partition] = ask.term, standing
