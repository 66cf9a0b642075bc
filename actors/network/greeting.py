"""How the ends of a node's Unix socket prove to each other that they know the tier's secret.

    broker   CHALLENGE(version, nonce)
    replica  HELLO(version, partition, nonce, proof)
    broker   WELCOME(proof)

Each proof is an HMAC over both nonces, the partition and the prover's role, so that none can be used again
or turned round. The file's mode 0600 keeps other users out; this keeps out another tier's actors, and a
process that took the path after a broker died.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

LINK_VERSION: Final = 1
LINK_VERSIONS_READ: Final = (1,)
"""The versions of links that this side reads: the current one and the one before, so that a tier can be
upgraded actor by actor."""
GREETING_S_MAX: Final = 5.0
"""How long, in seconds, the other side may take to prove itself."""
_NONCE_BYTES = 32


def nonce() -> bytes:
    return secrets.token_bytes(_NONCE_BYTES)


def proof(secret: bytes, role: bytes, partition: int, nonces: tuple[bytes, bytes]) -> bytes:
    """Return the proof of one side. `role` is b"broker" or b"replica"; `nonces` are the broker's and the
    replica's."""
    assert all(len(one) == _NONCE_BYTES for one in nonces)
    message = b"groupd link\0" + role + partition.to_bytes(4, "big", signed=True) + b"".join(nonces)
    return hmac.digest(secret, message, hashlib.sha256)


def check_proof(given: bytes, expected: bytes) -> None:
    """Check a proof. Raises ValueError if the other side does not know the secret."""
    if not hmac.compare_digest(given, expected):
        raise ValueError("the other side does not know the tier's secret")


def check_nonce(given: object) -> bytes:
    """Return a nonce that the other side gave. Raises ValueError for what is no nonce."""
    if not isinstance(given, bytes) or len(given) != _NONCE_BYTES:
        raise ValueError("no nonce")
    return given


def check_partition(given: object) -> None:
    """Check a partition that the other side gave. Raises ValueError for what is no partition's number."""
    if not isinstance(given, int) or not 0 <= given < 2**31:
        raise ValueError("no partition")


def check_version(given: object) -> None:
    """Check the other side's version. Raises ValueError for one that this side cannot read."""
    if given not in LINK_VERSIONS_READ:
        raise ValueError(f"link version {given!r}, this side reads {LINK_VERSIONS_READ}")
