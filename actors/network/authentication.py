"""SASL where the connections are: clients that were let in authenticate again. How they are let in says
`actors.network.early_authentication`.

A client's identity has no principal until it is authenticated. Afterwards the principal travels with the
connection; when `connections.max.reauth.ms` limits the authentication in time, whichever actor has the
connection by then can renew it, because every actor holds the credentials.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from actors.catalog.api_versions import Offer, Told
from actors.ground.clock import monotonic_ms
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings
from actors.network.connection import Connection
from actors.protocol.api_keys import SASL_AUTHENTICATE, SASL_HANDSHAKE
from actors.protocol.header import Header
from actors.security.sasl import Passwords, SaslExchange, SaslPolicy

IsTiers = Callable[[Header, bytes, int], bool]
"""A function that says whether a request (header, frame, offset of the body) comes from the tier's own
nodes."""
NONCE_BYTES: Final = 24


class Sasl:
    """The SASL of one actor. `is_wanted` says that clients must authenticate."""

    def __init__(self, settings: BrokerSettings, is_tiers: IsTiers | None = None) -> None:
        """Make SASL as the settings say. `is_tiers` recognizes requests of the tier's own nodes, which prove
        themselves one by one."""
        self._is_tiers = is_tiers or (lambda *_: False)
        self._told = Told(own_to_all=settings.group_own_apis_advertised)
        self.is_wanted = settings.has_sasl
        self._policy = SaslPolicy(
            settings.sasl_enabled_mechanisms,
            settings.connections_max_reauth_ms,
            new_nonce=lambda: secrets.token_urlsafe(NONCE_BYTES),
            passwords=Passwords(secrets.token_bytes(32)),
        )

    def take(self, image: MetadataImage, offer: Offer | None = None) -> None:
        """Take a newer image; `offer` is what a node tells that is a broker of a cluster upstream."""
        self._policy.credentials = image.credentials
        self._told = self._told._replace(features=image.features, offer=offer)

    def on_request(
        self, connection: Connection, header: Header, frame: bytes, body_offset: int
    ) -> bytes | None:
        """Return the answer to a request of SASL on a connection that was let in; None if the request is
        another's, or too late for SASL. Close the connection, with b"" as the answer, when its session is
        over."""
        identity = connection.identity
        if not identity.principal:
            if self._is_tiers(header, frame, body_offset):
                return None
            connection.close("a request between nodes that the tier has not signed")
            return b""
        if not identity.session_expires_ms:
            return None
        if header.api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            if monotonic_ms() < identity.session_expires_ms:
                return None
            connection.close("the session is over, and the client has not authenticated again")
            return b""
        if header.api_key == SASL_HANDSHAKE:
            connection.sasl = SaslExchange(self._policy, identity.principal)
        if connection.sasl is None:
            return None
        exchange: SaslExchange = connection.sasl
        step = exchange.on_request(header, frame, body_offset)
        if step.principal:
            connection.identity = self._known(identity, step.principal)
            connection.sasl = None
        if step.failure or exchange.expects_bare_token:
            connection.close(step.failure or "re-authentication needs SaslHandshake 1")
        return step.answer

    def _known(self, identity: ClientIdentity, principal: str) -> ClientIdentity:
        reauth_ms = self._policy.reauth_ms
        expires_ms = monotonic_ms() + reauth_ms if reauth_ms else 0
        return identity._replace(principal=principal, session_expires_ms=expires_ms)
