"""SCRAM (RFC 5802, RFC 7677), its arithmetic and the server's side: a password is proved, not sent or kept.

This module is pure: the server's nonce is an argument.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from typing import Final

from actors.ground.image import ScramCredential

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
MECHANISM_NAMES: Final = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""The mechanisms by their numbers in AlterUserScramCredentials and DescribeUserScramCredentials."""
MECHANISM_NUMBERS: Final = {name: number for number, name in MECHANISM_NAMES.items()}
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""The most iterations that a credential may have, as Kafka bounds them; ITERATIONS_MIN is the least."""

_HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
_CLIENT_FIRST: Final = re.compile(
    r"(?P<binding>[ny]),(?:a=(?P<authzid>[^,]*))?,(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,.*)?)"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<header>[^,]+),r=(?P<nonce>[^,]+)(?:,.*)?),p=(?P<proof>[^,]+)", re.DOTALL
)


class ScramError(Exception):
    """Raised if the client has not proved that it knows the password, or if what it sent is no SCRAM
    message."""


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password. This is the costly step: it takes milliseconds on purpose."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def client_key(mechanism: str, salted: bytes) -> bytes:
    """Return the key that only the client has: the server stores its hash."""
    return hmac.digest(salted, b"Client Key", _HASHES[mechanism])


def keys_of(mechanism: str, salted: bytes) -> tuple[bytes, bytes]:
    """Return the stored key and the server key of a salted password."""
    algorithm = _HASHES[mechanism]
    stored_key = hashlib.new(algorithm, client_key(mechanism, salted)).digest()
    return stored_key, hmac.digest(salted, b"Server Key", algorithm)


def signature(mechanism: str, key: bytes, signed: str) -> bytes:
    """Return the signature of an exchange's messages by a key."""
    return hmac.digest(key, signed.encode(), _HASHES[mechanism])


def is_password(credential: ScramCredential, password: str) -> bool:
    """Return whether the credential was made of this password, which is what mechanism PLAIN asks."""
    salted = salted_password(credential.mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(keys_of(credential.mechanism, salted)[0], credential.stored_key)


class ClientFirst:
    """The client's first message, read. Raises ScramError."""

    def __init__(self, message: bytes) -> None:
        found = _CLIENT_FIRST.fullmatch(_text(message))
        if found is None:
            raise ScramError("the first message is no client-first-message")
        self.user = _unescaped(found["user"])
        authzid = _unescaped(found["authzid"] or "")
        if authzid and authzid != self.user:
            raise ScramError("a client may act for its own user only")
        self.bare = found["bare"]
        self.nonce = found["nonce"]
        self.header = f"{found['binding']},{'' if found['authzid'] is None else 'a=' + found['authzid']},"


class ScramServer:
    """One exchange with a user whose credential is known: `first`, then `final`."""

    def __init__(self, credential: ScramCredential, client: ClientFirst, server_nonce: str) -> None:
        self._credential = credential
        self._client = client
        self._nonce = client.nonce + server_nonce
        salt = b64encode(credential.salt).decode()
        self.first = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        """The server's first message of the exchange."""

    def final(self, message: bytes) -> bytes:
        """Return the server's last message, to a client that knows the password. Raises ScramError."""
        found = _CLIENT_FINAL.fullmatch(_text(message))
        if found is None:
            raise ScramError("the last message is no client-final-message")
        if _decoded(found["header"]) != self._client.header.encode() or found["nonce"] != self._nonce:
            raise ScramError("the last message belongs to another exchange")
        mechanism, stored_key = self._credential.mechanism, self._credential.stored_key
        signed = f"{self._client.bare},{self.first.decode()},{found['without_proof']}"
        expected = signature(mechanism, stored_key, signed)
        proof = _decoded(found["proof"])
        if len(proof) != len(expected):
            raise ScramError("the proof has the wrong length")
        key = bytes(a ^ b for a, b in zip(proof, expected, strict=True))
        if not hmac.compare_digest(hashlib.new(_HASHES[mechanism], key).digest(), stored_key):
            raise ScramError("the password is wrong")
        return b"v=" + b64encode(signature(mechanism, self._credential.server_key, signed))


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("a message that is no UTF-8") from error


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise ScramError("a value that is no base64") from error


def _unescaped(name: str) -> str:
    """Return a name with "," and "=" in it, which stand as "=2C" and "=3D" (RFC 5802, section 5.1)."""
    if re.search("=(?!2C|3D)", name):
        raise ScramError("a name with an unknown escape")
    return name.replace("=2C", ",").replace("=3D", "=")
