"""Authenticate by SASL as a client: PLAIN (RFC 4616) and SCRAM (RFC 5802), over a raw connection (KIP-43,
KIP-84)."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Any

from actors.network.wire import Closed, Wire
from actors.security.scram import client_key, keys_of, salted_password, signature
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 1
NONCE_BYTES = 18
ITERATIONS_MAX = 1_000_000
"""How many iterations a server may make a client compute."""


async def authenticate(wire: Wire, properties: ClientProperties) -> None:
    """Authenticate the connection. Raises TierError that says who refused whom."""
    mechanism = properties.sasl_mechanism
    try:
        answer = await wire.call("sasl_handshake", HANDSHAKE_VERSION, mechanism=mechanism)
        if answer["error_code"]:
            enabled = ", ".join(answer["mechanisms"]) or "none"
            raise TierError(f"SASL mechanism {mechanism} is not enabled there: {enabled}")
        if mechanism == "PLAIN":
            text = f"\0{properties.sasl_username}\0{properties.sasl_password}"
            await _exchange(wire, text.encode(), properties)
        else:
            await _scram(wire, properties)
    except Closed:
        raise TierError("the broker hung up during SASL: is security.protocol right?") from None


async def _exchange(wire: Wire, content: bytes, properties: ClientProperties) -> bytes:
    answer = await wire.call("sasl_authenticate", AUTHENTICATE_VERSION, auth_bytes=content)
    if answer["error_code"]:
        reason = answer["error_message"] or answer["error_code"].name
        raise TierError(f"user {properties.sasl_username} is refused ({properties.sasl_mechanism}): {reason}")
    auth_bytes: bytes = answer["auth_bytes"]
    return auth_bytes


async def _scram(wire: Wire, properties: ClientProperties) -> None:
    mechanism = properties.sasl_mechanism
    name = properties.sasl_username.replace("=", "=3D").replace(",", "=2C")
    nonce = base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
    client_first = f"n={name},r={nonce}"
    server_first = (await _exchange(wire, f"n,,{client_first}".encode(), properties)).decode()
    told = _attributes(server_first)
    if not told.get("r", "").startswith(nonce):
        raise TierError("the broker answers another client's SCRAM: its nonce is not ours")
    try:
        salt, iterations = base64.b64decode(told["s"]), int(told["i"])
    except (KeyError, ValueError, binascii.Error):
        raise TierError(f"the broker's SCRAM message cannot be read: {server_first!r}") from None
    if not 0 < iterations <= ITERATIONS_MAX:
        raise TierError(f"the broker asks for {iterations} iterations of SCRAM")
    salted = salted_password(mechanism, properties.sasl_password, salt, iterations)
    stored_key, server_key = keys_of(mechanism, salted)
    final = f"c=biws,r={told['r']}"
    signed = f"{client_first},{server_first},{final}"
    masked = signature(mechanism, stored_key, signed)
    proof = bytes(a ^ b for a, b in zip(client_key(mechanism, salted), masked, strict=True))
    message = f"{final},p={base64.b64encode(proof).decode()}"
    server_final = _attributes((await _exchange(wire, message.encode(), properties)).decode())
    expected = signature(mechanism, server_key, signed)
    if server_final.get("v") != base64.b64encode(expected).decode():
        raise TierError("the broker does not know the password: it cannot prove itself (SCRAM)")


def _attributes(message: str) -> dict[str, Any]:
    return {part[:1]: part[2:] for part in message.split(",")}
