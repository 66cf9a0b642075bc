"""How two replicas prove to each other who they are before the first Raft message.

    dialer   -> (magic, format version, dialer id, listener id, dialer nonce)
    listener -> (magic, format version, listener nonce, listener proof)
    dialer   -> (dialer proof)

A proof is an HMAC-SHA256 under the group's secret over its side, the format version, both ids and both
nonces: it fits no other pair, side or connection. Messages that follow are neither encrypted nor signed.
"""

from __future__ import annotations

import hmac
import os
from typing import Any, Final

import msgpack

MAGIC: Final = "groupd-raft"
FORMAT_VERSION: Final = 1
NONCE_BYTES: Final = 32


class Refused(Exception):
    """The other side is not who it should be; the text goes to the log, never to the other side."""


class Handshake:
    """One side of one handshake. `step` takes a message and gives the answer to send, if any; afterwards
    `peer_id` is set once the other side is proven. Raises Refused."""

    def __init__(self, self_id: str, secret: bytes, peer_ids: frozenset[str], dial: str | None) -> None:
        """`dial` is whom we called; None if we were called."""
        self.peer_id: str | None = None
        self.claimed_id = dial
        self.dials = dial is not None
        self._self_id = self_id
        self._secret = secret
        self._peer_ids = peer_ids
        self._dial = dial
        self._nonce = os.urandom(NONCE_BYTES)
        self._their_nonce: bytes | None = None

    def opening(self) -> Any:
        """What a dialer says first."""
        return (MAGIC, FORMAT_VERSION, self._self_id, self._dial, self._nonce)

    def step(self, message: Any) -> Any | None:
        if not isinstance(message, tuple):
            raise Refused("it does not speak this protocol")
        if self._dial is not None:
            return self._challenged(message)
        if self._their_nonce is None:
            return self._called(message)
        self._answered(message)
        return None

    def _called(self, message: tuple[Any, ...]) -> Any:
        self._check_version(message, 5)
        _, _, dialer_id, listener_id, nonce = message
        if dialer_id not in self._peer_ids:
            raise Refused(f"{dialer_id!r} is no peer of {self._self_id}")
        self.claimed_id = dialer_id
        if listener_id != self._self_id:
            raise Refused(f"it wanted to reach {listener_id!r}, this is {self._self_id}")
        self._their_nonce = self._check_nonce(nonce)
        return (MAGIC, FORMAT_VERSION, self._nonce, self._proof("listener"))

    def _challenged(self, message: tuple[Any, ...]) -> Any:
        self._check_version(message, 4)
        _, _, nonce, proof = message
        self._their_nonce = self._check_nonce(nonce)
        self._check_proof("listener", proof)
        self.peer_id = self._dial
        return (self._proof("dialer"),)

    def _answered(self, message: tuple[Any, ...]) -> None:
        if len(message) != 1:
            raise Refused("it does not speak this protocol")
        self._check_proof("dialer", message[0])
        self.peer_id = self.claimed_id

    def _check_version(self, message: tuple[Any, ...], length: int) -> None:
        if len(message) < 2 or message[0] != MAGIC:
            raise Refused("it does not speak this protocol")
        if message[1] != FORMAT_VERSION or len(message) != length:
            raise Refused(f"it speaks format version {message[1]!r}, this release {FORMAT_VERSION}")

    def _check_nonce(self, nonce: Any) -> bytes:
        if not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES or nonce == self._nonce:
            raise Refused("its nonce is not a fresh one of 32 bytes")
        return nonce

    def _check_proof(self, side: str, proof: Any) -> None:
        if not isinstance(proof, bytes) or not hmac.compare_digest(proof, self._proof(side)):
            raise Refused("its proof is wrong: another secret or another identity")

    def _proof(self, side: str) -> bytes:
        own = (self._self_id, self._nonce)
        other = (self.claimed_id, self._their_nonce)
        dialer, listener = (other, own) if self._dial is None else (own, other)
        return hmac.digest(self._secret, msgpack.packb((side, FORMAT_VERSION, *dialer, *listener)), "sha256")
