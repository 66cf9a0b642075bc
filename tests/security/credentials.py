"""Credentials as a controller would hold them."""

from __future__ import annotations

from actors.ground.image import ScramCredential
from actors.security.scram import keys_of, salted_password


def make_credential(
    user: str, mechanism: str, password: str, salt: bytes, iterations: int
) -> ScramCredential:
    """Make the credential of a password that its owner has set."""
    stored_key, server_key = keys_of(mechanism, salted_password(mechanism, password, salt, iterations))
    return ScramCredential(user, mechanism, salt, stored_key, server_key, iterations)
