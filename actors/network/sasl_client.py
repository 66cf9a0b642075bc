"""Authenticate by SASL as a client: PLAIN (RFC 4616) and SCRAM (RFC 5802), over a raw connection (KIP-43,
KIP-84)."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Any, Final, Protocol

from actors.ground.login import Login
from actors.network.wire import Closed
from actors.security.scram import ITERATIONS_MIN, client_key, keys_of, salted_password, signature

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
NONCE_BYTES: Final = 18
ITERATIONS_MAX: Final = 1_000_000
"""How many iterations a server may make a client compute."""


class LoginRefused(ConnectionError):
    """Raised if the client is not let in, or the server cannot prove that it knows the client; the text says
    who refused whom."""


class Asking(Protocol):
    """What `authenticate` needs of a connection: the method of `actors.network.wire.Wire`."""

    async def call(self, api: str, version: int, /, **fields: Any) -> dict[str, Any]: ...


async def authenticate(wire: Asking, login: Login) -> int:
    """Authenticate a connection. Return for how long that holds, in ms; 0: as long as the connection. Raises
    LoginRefused."""
    try:
        answer = await wire.call("sasl_handshake", HANDSHAKE_VERSION, mechanism=login.mechanism)
        if answer["error_code"]:
            enabled = ", ".join(answer["mechanisms"]) or "none"
            raise LoginRefused(f"SASL mechanism {login.mechanism} is not enabled there: {enabled}")
        if login.mechanism == "PLAIN":
            answer = await _exchange(wire, f"\0{login.user}\0{login.password}".encode(), login)
        else:
            answer = await _scram(wire, login)
    except Closed:
        raise LoginRefused("the broker hung up during SASL: is security.protocol right?") from None
    return int(answer["session_lifetime"])


async def _exchange(wire: Asking, content: bytes, login: Login) -> dict[str, Any]:
    answer = await wire.call("sasl_authenticate", AUTHENTICATE_VERSION, auth_bytes=content)
    if answer["error_code"]:
        reason = answer["error_message"] or answer["error_code"].name
        raise LoginRefused(f"user {login.user} is refused ({login.mechanism}): {reason}")
    return answer


async def _scram(wire: Asking, login: Login) -> dict[str, Any]:
    mechanism = login.mechanism
    name = login.user.replace("=", "=3D").replace(",", "=2C")
    nonce = base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
    client_first = f"n={name},r={nonce}"
    server_first = _text(await _exchange(wire, f"n,,{client_first}".encode(), login))
    told = _attributes(server_first)
    if not told.get("r", "").startswith(nonce):
        raise LoginRefused("the broker answers another client's SCRAM: its nonce is not ours")
    try:
        salt, iterations = base64.b64decode(told["s"]), int(told["i"])
    except (KeyError, ValueError, binascii.Error):
        raise LoginRefused(f"the broker's SCRAM message cannot be read: {server_first!r}") from None
    # With fewer than Kafka allows, whoever reads the proof could guess the password at leisure.
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise LoginRefused(f"the broker asks for {iterations} iterations of SCRAM")
    salted = salted_password(mechanism, login.password, salt, iterations)
    stored_key, server_key = keys_of(mechanism, salted)
    final = f"c=biws,r={told['r']}"
    signed = f"{client_first},{server_first},{final}"
    masked = signature(mechanism, stored_key, signed)
    proof = bytes(a ^ b for a, b in zip(client_key(mechanism, salted), masked, strict=True))
    message = f"{final},p={base64.b64encode(proof).decode()}"
    answer = await _exchange(wire, message.encode(), login)
    expected = signature(mechanism, server_key, signed)
    if _attributes(_text(answer)).get("v") != base64.b64encode(expected).decode():
        raise LoginRefused("the broker does not know the password: it cannot prove itself (SCRAM)")
    return answer


def _text(answer: dict[str, Any]) -> str:
    auth_bytes: bytes = answer["auth_bytes"]
    return auth_bytes.decode(errors="replace")


def _attributes(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",")}
