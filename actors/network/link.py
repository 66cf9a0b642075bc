"""The replica's side of its node's Unix socket, connected to the node's broker whenever there is one.

A broker may die and come back at any time; the replica goes on serving the connections it has adopted and
tries the socket again every 100 ms. Once connected it tells the broker what it last announced.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Any, Final, Protocol

from actors.ground.identity import ClientIdentity
from actors.network import greeting
from actors.network.channel import Answer, Channel, Kind, guarded

logger = logging.getLogger(__name__)

RECONNECT_S: Final = 0.1


class LinkHandlers(Protocol):
    """What a replica does with what its broker sends."""

    def on_connected(self) -> None:
        """Learn that the broker is there (again); the last announcement has been sent."""

    def on_disconnected(self) -> None:
        """Learn that the broker is gone; the link connects again by itself."""

    def on_handover(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> None:
        """Take a client's connection, which is this replica's now: adopt it, or hand it back."""

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        """Serve a frame of a client whose connection stays with the broker; call `answer` once."""

    def on_push(self, kind: str, payload: bytes) -> None:
        """Take something that every replica must know."""

    def addresses(self) -> Mapping[str, int]:
        """Return how many adopted connections each client address has (`ConnectionTable.addresses`)."""


class Link:
    """The link to the node's broker, connected again for ever. All calls are on the loop's thread."""

    def __init__(self, path: str, secret: bytes, partition: int, handlers: LinkHandlers) -> None:
        self._path = path
        self._secret = secret
        self._partition = partition
        self._handlers = handlers
        self._announced: tuple[int, int, bool] | None = None
        self._channel: Channel | None = None
        self._nonces: tuple[bytes, bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._refusal_logged = ""
        self._loop: asyncio.AbstractEventLoop

    @property
    def connected(self) -> bool:
        return self._channel is not None and self._channel.open

    def start(self) -> None:
        """Connect, at once if the broker is there."""
        self._loop = asyncio.get_running_loop()
        self._connect()

    def close(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._channel is not None:
            self._channel.close("the replica stops")

    def cut_off(self) -> None:
        """End the link from another thread than the loop's, which hangs: the broker is to hand over nobody
        more. It is made anew when the loop goes on."""
        channel = self._channel
        if channel is not None:
            channel.cut_off()

    def announce(self, leader_node_id: int, term: int, serving_here: bool) -> None:
        """Tell the broker who leads this partition (-1: nobody known), now and after each reconnection."""
        announced = (leader_node_id, term, serving_here)
        if announced != self._announced:
            self._announced = announced
            if self._channel is not None and self._channel.open:
                self._channel.send((Kind.LEADING, *announced))

    def gone(self, identity: ClientIdentity) -> None:
        """Tell the broker that an adopted connection has ended (the `on_gone` of the replica's
        ConnectionTable)."""
        if self._channel is not None and self._channel.open:
            self._channel.send((Kind.GONE, identity.address))

    def hand_back(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> bool:
        """Give a client's connection to the broker. Return False if the broker is not there, and the socket
        still the caller's."""
        if self._channel is None or not self._channel.open:
            return False
        return self._channel.hand_over(sock, identity, buffered)

    def ask(self, identity: ClientIdentity, frame: bytes, answer: Answer, timeout_s: float) -> None:
        """Have the broker serve a frame. `answer` is called exactly once: with the whole answer (b"" for
        none) or with None (no broker, lost, too slow): the client's connection is then to be closed."""
        if self._channel is None or not self._channel.open:
            answer(None)
        else:
            self._channel.relay(identity, frame, answer, timeout_s)

    async def relay(self, identity: ClientIdentity, frame: bytes, timeout_s: float) -> bytes | None:
        """Have the broker serve a frame, as `ask` does, and return what the answer is called with."""
        answered: asyncio.Future[bytes | None] = self._loop.create_future()

        def answer(given: bytes | None) -> None:
            if not answered.done():
                answered.set_result(given)

        self.ask(identity, frame, answer, timeout_s)
        return await answered

    # What the Channel calls.

    def on_message(self, message: list[Any]) -> None:
        kind = message[0]
        if kind == Kind.CHALLENGE and self._nonces is None:
            self._on_challenge(message)
        elif kind == Kind.WELCOME and self._nonces is not None and not self.connected:
            self._on_welcome(message)
        elif kind == Kind.PUSH and self.connected:
            guarded(self._handlers.on_push, str(message[1]), message[2])
        else:
            raise ValueError(f"a broker does not send {Kind(kind).name} now")

    def on_socket(self, sock: socket.socket | None, identity: ClientIdentity, buffered: bytes) -> None:
        if sock is None:
            logger.warning("lost the connection of %s: no descriptor is free", identity.peer)
            self.gone(identity)
            return
        self._handlers.on_handover(sock, identity, buffered)

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        self._handlers.on_relay(identity, frame, answer)

    def on_lost(self, reason: str) -> None:
        was_open = self.connected
        self._channel = None
        if self._timer is not None:
            self._timer.cancel()
        if was_open:
            logger.info("the link to the broker at %s is lost: %s", self._path, reason)
            guarded(self._handlers.on_disconnected)
        elif not self._stopped and reason != self._refusal_logged:
            self._refusal_logged = reason  # logged once, not at each attempt
            logger.warning("the broker at %s was refused: %s", self._path, reason)
        if not self._stopped:
            self._timer = self._loop.call_later(RECONNECT_S, self._connect)

    def _connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(self._path)
        except OSError:
            # There is no file, nobody listens, or the backlog is full: the usual case while a broker
            # restarts.
            sock.close()
            self._timer = self._loop.call_later(RECONNECT_S, self._connect)
            return
        self._nonces = None
        self._channel = Channel(self._loop, sock, self)
        self._timer = self._loop.call_later(
            greeting.GREETING_S_MAX, self._channel.close, "it did not prove itself in time"
        )

    def _on_challenge(self, message: list[Any]) -> None:
        _, version, broker_nonce = message
        greeting.check_version(version)
        assert self._channel is not None
        self._nonces = (greeting.check_nonce(broker_nonce), greeting.nonce())
        proof = greeting.proof(self._secret, b"replica", self._partition, self._nonces)
        self._channel.send((Kind.HELLO, greeting.LINK_VERSION, self._partition, self._nonces[1], proof))

    def _on_welcome(self, message: list[Any]) -> None:
        assert self._channel is not None
        assert self._nonces is not None
        expected = greeting.proof(self._secret, b"broker", self._partition, self._nonces)
        greeting.check_proof(message[1], expected)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._channel.opened()
        adopted = self._handlers.addresses()
        if adopted:
            self._channel.send((Kind.ADOPTED, dict(adopted)))
        if self._announced is not None:
            self._channel.send((Kind.LEADING, *self._announced))
        self._refusal_logged = ""
        guarded(self._handlers.on_connected)
