"""The live half of a push group: its consumers as their coordinator sees them, and its state machine.

TRANSITIONS is the law: a step that it does not have for a state is a bug. The states have Kafka's names, so
that Kafka's tools know them; in the words of the design (D8) a group's fetchers are being stopped in
PreparingRebalance and started in CompletingRebalance.
"""

from __future__ import annotations

import enum
from typing import Final

from actors.ground.contract import Token
from actors.ground.records import PushConsumerValue, PushOwnershipValue

PING_TIMER: Final = "push-ping"
"""When a consumer is pinged next."""
WATCH_TIMER: Final = "push-watch"
"""When a request to a consumer has to be answered: one for each consumer and API, as the design has three
purgatories (D6)."""
FAIL_TIMER: Final = "push-fail"
"""When a silent consumer has certainly stopped, so that it is removed."""
REBALANCE_TIMER: Final = "push-rebalance"
"""When a group rebalances, at once or after a back-off: what waits in a handler's queue in the design."""

PING_PARTS: Final = 3
"""A consumer is pinged once in so many parts of its session, and has two of them to answer (D4)."""
MARGIN_PARTS: Final = 10
"""A request leaves within one of so many parts of the session, or not at all; as long it may be under way."""


class PushState(enum.Enum):
    """A state of a push group, by Kafka's name."""

    EMPTY = "Empty"
    STOPPING = "PreparingRebalance"
    STARTING = "CompletingRebalance"
    STABLE = "Stable"


EMPTY, STOPPING, STARTING, STABLE = PushState


class Step(enum.Enum):
    """A step that a push group takes."""

    REBALANCE = "a rebalance is necessary"
    ALL_STOPPED = "all consumers have stopped their fetchers"
    ALL_STARTED = "all consumers have started their fetchers"
    FAILED = "an attempt has failed"
    LAST_GONE = "the last consumer has gone"


TRANSITIONS: Final = {
    (EMPTY, Step.REBALANCE): STOPPING,
    (STABLE, Step.REBALANCE): STOPPING,
    (STOPPING, Step.ALL_STOPPED): STARTING,
    (STOPPING, Step.FAILED): STOPPING,
    (STARTING, Step.FAILED): STOPPING,
    (STARTING, Step.ALL_STARTED): STABLE,
    (EMPTY, Step.LAST_GONE): EMPTY,
    (STABLE, Step.LAST_GONE): EMPTY,
    (STOPPING, Step.LAST_GONE): EMPTY,
    (STARTING, Step.LAST_GONE): EMPTY,
}


Basis = tuple[int, dict[str, PushConsumerValue], dict[str, PushOwnershipValue]]
"""All that says whether a rebalance is necessary: version of the image, consumers, ownership."""


class Consumer:
    """One registered consumer, as the leader knows it."""

    __slots__ = (
        "channel",
        "consumer_id",
        "is_closing",
        "is_leaving",
        "is_started",
        "may_read",
        "missed",
        "owed",
        "sent_ms",
        "value",
    )

    def __init__(self, consumer_id: str, value: PushConsumerValue, now_ms: int) -> None:
        self.consumer_id = consumer_id
        self.value = value
        self.channel: Token | None = None
        """The token of the RegisterConsumer on whose connection it can be reached; None: it cannot."""
        self.owed: dict[int, int] = {}
        """API key -> number of the request that it has not answered."""
        self.missed = 0
        """How many requests in a row it has not answered in time."""
        self.sent_ms = now_ms
        """When something was last sent to it, or may have been by an earlier leader."""
        self.is_started = False
        """Whether it has said, on this connection, that its fetchers run with what it owns."""
        self.may_read = False
        """Whether it was told to start, on this connection, and has not said since that it has stopped: the
        offsets that it tells count."""
        self.is_closing = False
        """Whether it has said that it is shutting down."""
        self.is_leaving = False
        """Whether it goes as soon as it has stopped, because somebody asked for that."""

    @property
    def session_ms(self) -> int:
        return self.value.session_timeout_ms

    @property
    def margin_ms(self) -> int:
        return self.session_ms // MARGIN_PARTS

    @property
    def silent_until_ms(self) -> int:
        """Return the time from which it has certainly stopped by itself if nothing more is sent to it (D10):
        what was sent last may have left and arrived late."""
        return self.sent_ms + self.session_ms + 2 * self.margin_ms


class PushGroup:
    """One group whose coordinator pushes."""

    __slots__ = (
        "attempts",
        "awaited",
        "cause",
        "consumers",
        "epoch",
        "found_settled",
        "group_id",
        "is_due",
        "since_ms",
        "state",
        "topics",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.epoch = 0
        self.since_ms = now_ms
        self.consumers: dict[str, Consumer] = {}
        self.awaited: dict[str, None] | None = None
        """The consumers that have yet to stop, or to start; None: no attempt is under way."""
        self.attempts = 0
        """How many attempts of this rebalance have failed."""
        self.is_due = False
        """The rebalance bit (D9): something has changed since it was last looked whether to rebalance."""
        self.cause: tuple[str, str, str | None] | None = None
        """What set the bit first: what happened, by which rule, and to which consumer."""
        self.found_settled: Basis | None = None
        """The case in which no rebalance was necessary when that was last looked at."""
        self.topics: dict[str, None] = {}
        """The topics that its consumers have named, since it began."""

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def size(self) -> int:
        return len(self.consumers)

    @property
    def is_moving(self) -> bool:
        """Whether a rebalance is under way."""
        return self.state in (STOPPING, STARTING)

    def move(self, step: Step, now_ms: int) -> None:
        self.state = TRANSITIONS[self.state, step]
        self.since_ms = now_ms
