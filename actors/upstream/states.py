"""The states of a tier node that is a broker of the upstream cluster, in the words of Kafka's BrokerState,
and what leads from one to another."""

import enum
from collections.abc import Mapping
from typing import Final


class State(enum.Enum):
    """What a node is to the upstream cluster."""

    STARTING = "starting"
    """It is not registered yet, or not any more."""
    RECOVERY = "in recovery"
    """It is registered and fenced."""
    RUNNING = "running"
    """It is registered and unfenced: brokers and clients know it."""
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    """It has asked to be relieved of what it leads."""
    SHUTTING_DOWN = "shutting down"
    """It leads nothing any more."""
    NOT_RUNNING = "not running"
    """It is over: it has left, or was refused for good."""


class Event(enum.Enum):
    """What changes a node's state."""

    REGISTERED = enum.auto()
    UNFENCED = enum.auto()
    FENCED = enum.auto()
    FORGOTTEN = enum.auto()
    """The controller knows no such broker of this epoch."""
    ASKED_TO_LEAVE = enum.auto()
    RELIEVED = enum.auto()
    """The controller agrees that the node goes, or has had its time."""
    ENDED = enum.auto()


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.STARTING, Event.REGISTERED): State.RECOVERY,
    (State.STARTING, Event.ASKED_TO_LEAVE): State.SHUTTING_DOWN,
    (State.STARTING, Event.ENDED): State.NOT_RUNNING,
    # It says more of itself, and the controller leaves it what it was.
    (State.RECOVERY, Event.REGISTERED): State.RECOVERY,
    (State.RECOVERY, Event.UNFENCED): State.RUNNING,
    (State.RECOVERY, Event.FENCED): State.RECOVERY,
    (State.RECOVERY, Event.FORGOTTEN): State.STARTING,
    (State.RECOVERY, Event.ASKED_TO_LEAVE): State.SHUTTING_DOWN,
    (State.RUNNING, Event.REGISTERED): State.RUNNING,
    (State.RUNNING, Event.UNFENCED): State.RUNNING,
    (State.RUNNING, Event.FENCED): State.RECOVERY,
    (State.RUNNING, Event.FORGOTTEN): State.STARTING,
    (State.RUNNING, Event.ASKED_TO_LEAVE): State.PENDING_CONTROLLED_SHUTDOWN,
    (State.PENDING_CONTROLLED_SHUTDOWN, Event.UNFENCED): State.PENDING_CONTROLLED_SHUTDOWN,
    # A fenced broker leads nothing.
    (State.PENDING_CONTROLLED_SHUTDOWN, Event.FENCED): State.SHUTTING_DOWN,
    (State.PENDING_CONTROLLED_SHUTDOWN, Event.FORGOTTEN): State.SHUTTING_DOWN,
    (State.PENDING_CONTROLLED_SHUTDOWN, Event.RELIEVED): State.SHUTTING_DOWN,
    (State.SHUTTING_DOWN, Event.ENDED): State.NOT_RUNNING,
}
"""What comes of an event. What is not in the table cannot happen."""
