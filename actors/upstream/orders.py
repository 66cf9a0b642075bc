"""What the controller asks of the leader of an offsets partition about its twin at Kafka, and is answered.

An order says how things shall be, not what is to be done once: it comes again and again, and whoever leads
next gets the same one. So no order is remembered by the leader, and one that is fulfilled changes nothing.
"""

from typing import Final, NamedTuple

import msgpack

from actors.ground.image import NO_TOPIC_ID, TopicId

LOOK: Final = "look"
"""Only the answer is wanted. What was under way ends after a while if only this comes."""
FOLLOW: Final = "follow"
"""Fetch Kafka's log of the partition, as its replicas, and go on with it."""
SERVE: Final = "serve"
"""The upstream cluster's leader of the partition is a node of the tier: serve its groups."""
DROP: Final = "drop"
"""Follow no more, and remove what was taken."""
SEAL: Final = "seal"
"""Serve the groups no more, and change nothing of them: the brokers get the rest of the log."""
UNSEAL: Final = "unseal"
"""Serve the groups again: the brokers do not lead the partition."""
RETAKE: Final = "retake"
"""Serve the groups no more, though they were not given back: a broker leads the partition. What it writes is
to be taken on top of what is here."""
RELEASE: Final = "release"
"""The brokers have the whole log: note that, before one of them may lead."""
ORDERS: Final = frozenset({LOOK, FOLLOW, SERVE, DROP, SEAL, UNSEAL, RETAKE, RELEASE})

NOTHING: Final = "nothing"
"""Nothing was taken, or nothing is left of it."""
FOLLOWED: Final = "followed"
SERVED: Final = "served"
SEALED: Final = "sealed"
DROPPING: Final = "dropping"
RETAKEN: Final = "retaken"
"""Brokers lead what the tier alone had, and their log is followed on top of that."""
PHASES: Final = frozenset({NOTHING, FOLLOWED, SERVED, SEALED, DROPPING, RETAKEN})


class OrderUnreadable(ValueError):
    """Raised if an order or an answer is not what this release reads."""


class Source(NamedTuple):
    """The broker that leads the partition upstream, in which epoch, and where it listens for brokers."""

    broker_id: int
    host: str
    port: int
    leader_epoch: int


class Order(NamedTuple):
    """What the leader of an offsets partition shall do. Fields that an order has no use for are empty."""

    order: str
    topic_id: TopicId = NO_TOPIC_ID
    """The id of the upstream's `__consumer_offsets`."""
    source: Source | None = None
    """Whom to follow; None: nobody leads the partition now."""
    replicas: tuple[tuple[int, int], ...] = ()
    """Id and epoch of each broker of the upstream cluster that this partition's replicas are."""
    led_epoch: int = -1
    """The leader epoch in which one of them leads upstream, -1 if that does not matter."""

    def pack(self) -> bytes:
        """Return the order's bytes."""
        packed: bytes = msgpack.packb(self)
        return packed


class Standing(NamedTuple):
    """How an offsets partition stands to its twin at Kafka: the answer to every order."""

    phase: str = NOTHING
    next_offset: int = 0
    """The offset of Kafka's log from which on nothing is taken yet."""
    at_end: bool = False
    """Whether the last fetch found nothing behind what is taken."""
    records: int = 0
    """How many records this leader has taken."""
    problem: str | None = None
    """Why the order cannot be fulfilled now, in words."""
    leads: bool = True
    """Whether the replica that answers leads. If not, the rest of the answer means nothing."""
    released_epoch: int = -1
    """The leader epoch of a node of ours in which brokers have all that is sealed; -1: they have not."""

    def pack(self) -> bytes:
        """Return the answer's bytes."""
        packed: bytes = msgpack.packb(self)
        return packed


def unpack_order(packed: bytes) -> Order:
    """Return the order that was packed. Raises OrderUnreadable."""
    try:
        order = Order(*msgpack.unpackb(packed, use_list=False))
        source = None if order.source is None else Source(*order.source)
    except (TypeError, ValueError) as error:
        raise OrderUnreadable(f"an order cannot be read: {error}") from error
    if order.order not in ORDERS:
        raise OrderUnreadable(f"this release knows no order {order.order!r}")
    return order._replace(source=source)


def unpack_standing(packed: bytes) -> Standing:
    """Return the answer that was packed. Raises OrderUnreadable."""
    try:
        standing = Standing(*msgpack.unpackb(packed, use_list=False))
    except (TypeError, ValueError) as error:
        raise OrderUnreadable(f"an answer to an order cannot be read: {error}") from error
    if standing.phase not in PHASES:
        raise OrderUnreadable(f"this release knows no phase {standing.phase!r}")
    return standing
