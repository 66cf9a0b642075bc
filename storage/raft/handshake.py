"""How two members prove to each other who they are before the first Raft message.

    dialer   -> (magic, format version, tier, group, dialer id, listener id, dialer nonce)
    listener -> (magic, format version, listener nonce, listener proof)
    dialer   -> (dialer proof)

A proof is an HMAC-SHA256 under the group's secret over its side, the format version, tier, group, both ids
and both nonces: it fits no other tier, group, pair, side or connection. Messages that follow are neither
encrypted nor signed; TLS below the handshake does that where it is wanted.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgpack

from storage.raft.members import replica_of

MAGIC: Final = "groupd-raft"
FORMAT_VERSION: Final = 2
NONCE_BYTES: Final = 32
MEMBER_ID: Final = re.compile(r"(0|[1-9][0-9]{0,8})\.[1-9][0-9]{0,19}", re.ASCII)
"""The form of a member's id: what another process says its name is goes into sets and logs, so it has to look
like one."""
QUOTE_MAX: Final = 80
"""How many characters are quoted, at most, of what an unproven process said."""


class LinkIdentity(NamedTuple):
    """Who a replica is to its peers; `member_id` is "<replica>.<incarnation>" (storage/raft/members.py)."""

    tier_id: str
    group: str
    member_id: str


class Refused(Exception):
    """Raised if the other side is not who it should be; the text goes to the log, never to the other side."""


class Crossed(Refused):
    """Raised if nothing is wrong: both sides dialled at once, and another link stays."""


class Handshake:
    """One side of one handshake. `step` takes a message and gives the answer to send, if any; afterwards
    `peer_id` is set once the other side is proven. Raises Refused."""

    def __init__(
        self, own: LinkIdentity, secret: bytes, dial: str | None, admit: Callable[[str, bytes], None]
    ) -> None:
        """Begin a handshake. `dial` is the member that we called; None if we were called. `admit` is asked,
        with the peer's id and nonce, right before we prove ourselves; it may raise Refused."""
        self.peer_id: str | None = None
        self.claimed_id = dial
        self.dial: Final = dial
        self._own = own
        self._secret = secret
        self._admit = admit
        self._nonce = os.urandom(NONCE_BYTES)
        self._their_nonce: bytes | None = None

    def opening(self) -> Any:
        """Return what a dialer says first."""
        return (MAGIC, FORMAT_VERSION, *self._own, self.dial, self._nonce)

    def step(self, message: Any) -> Any | None:
        if not isinstance(message, tuple):
            raise Refused("it does not speak this protocol")
        if self.dial is not None:
            return self._challenged(message, self.dial)
        if self._their_nonce is None:
            return self._called(message)
        self._answered(message)
        return None

    def _called(self, message: tuple[Any, ...]) -> Any:
        _check_version(message, 7)
        _, _, tier_id, group, dialer_id, listener_id, nonce = message
        if not _is_member_id(dialer_id):
            raise Refused(f"it calls itself {_quoted(dialer_id)}, which is no <replica>.<incarnation>")
        self.claimed_id = dialer_id
        self._check_place(tier_id, group)
        self._check_called(dialer_id, listener_id)
        self._their_nonce = self._check_nonce(nonce)
        self._admit(dialer_id, self._their_nonce)
        return (MAGIC, FORMAT_VERSION, self._nonce, self._proof("listener"))

    def _challenged(self, message: tuple[Any, ...], dial: str) -> Any:
        _check_version(message, 4)
        _, _, nonce, proof = message
        self._their_nonce = self._check_nonce(nonce)
        self._check_proof("listener", proof)
        self._admit(dial, self._their_nonce)
        self.peer_id = dial
        return (self._proof("dialer"),)

    def _answered(self, message: tuple[Any, ...]) -> None:
        if len(message) != 1:
            raise Refused("it does not speak this protocol")
        self._check_proof("dialer", message[0])
        self.peer_id = self.claimed_id

    def _check_place(self, tier_id: Any, group: Any) -> None:
        own = self._own
        if tier_id != own.tier_id:
            raise Refused(f"it belongs to tier {_quoted(tier_id)}, this replica to tier {own.tier_id!r}")
        if group != own.group:
            raise Refused(f"it belongs to group {_quoted(group)}, this replica to group {own.group!r}")

    def _check_called(self, dialer_id: str, listener_id: Any) -> None:
        own_id = self._own.member_id
        if dialer_id == own_id:
            raise Refused(
                f"it says that it is {own_id}, as this replica is: "
                "addresses are mixed up, or one of the two runs on a copied directory"
            )
        if listener_id == own_id:
            return
        same_replica = _is_member_id(listener_id) and replica_of(listener_id) == replica_of(own_id)
        why = "its directory is another" if same_replica else "addresses are mixed up"
        raise Refused(f"it wanted to reach {_quoted(listener_id)}, this is {own_id}: {why}")

    def _check_nonce(self, nonce: Any) -> bytes:
        if not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
            raise Refused(f"its nonce is not one of {NONCE_BYTES} bytes")
        if nonce == self._nonce:
            raise Refused("its nonce is this replica's own, replayed")
        return nonce

    def _check_proof(self, side: str, proof: Any) -> None:
        if not isinstance(proof, bytes) or not hmac.compare_digest(proof, self._proof(side)):
            raise Refused("its proof is wrong: another secret, another identity, or a replayed handshake")

    def _proof(self, side: str) -> bytes:
        own = (self._own.member_id, self._nonce)
        other = (self.claimed_id, self._their_nonce)
        dialer, listener = (other, own) if self.dial is None else (own, other)
        covered = (side, FORMAT_VERSION, self._own.tier_id, self._own.group, *dialer, *listener)
        return hmac.digest(self._secret, msgpack.packb(covered), "sha256")


def _check_version(message: tuple[Any, ...], length: int) -> None:
    if len(message) < 2 or message[0] != MAGIC or type(message[1]) is not int:
        raise Refused("it does not speak this protocol")
    version = message[1]
    if version != FORMAT_VERSION:
        age = "older" if version < FORMAT_VERSION else "newer"
        raise Refused(f"it speaks the {age} format version {version}, this release {FORMAT_VERSION}")
    if len(message) != length:
        raise Refused(f"{len(message)} fields where format version {version} has {length}")


def _is_member_id(name: Any) -> bool:
    return isinstance(name, str) and MEMBER_ID.fullmatch(name) is not None


def _quoted(said: Any) -> str:
    return repr(said)[:QUOTE_MAX]
