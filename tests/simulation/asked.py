"""A request of a simulated client: what it wants, and what became of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from actors.ground.contract import Request
from tests.simulation.parts import Process


class Ask(NamedTuple):
    """A request that a client wants answered."""

    api_key: int
    version: int
    body: Any
    timeout_s: float = 0.4


class Asker(Protocol):
    name: str
    is_near: bool
    """Whether the client is on the replicas' side of what cuts clients off."""

    def answered(self, asked: Asked, body: Any | None) -> None:
        """Take an answer; `body` None says that the connection is gone, so that it is not known what became
        of the request."""


class Asked:
    """A request as one process got it; a client that sends it again makes another."""

    __slots__ = (
        "arrived_at",
        "client",
        "floors",
        "given_at",
        "heard",
        "heard_at",
        "is_abandoned",
        "is_answered",
        "process",
        "request",
        "sent_at",
    )

    def __init__(self, client: Asker, process: Process, request: Request, floors: dict[Any, int]) -> None:
        self.client = client
        self.process = process
        self.request = request
        self.floors = floors
        """What the answer must not fall behind, as it was when the request was sent; see Histories."""
        self.sent_at = process.world.now
        self.arrived_at = 0.0
        self.heard: Any = None
        """The answer that its client took, and when; None: it never came, or not in time."""
        self.heard_at = 0.0
        self.given_at: float | None = None
        """When the process answered well; None: it has not, or with an error."""
        self.is_answered = False
        self.is_abandoned = False
        """The client waits no longer and has closed the connection: it will not see the answer."""
